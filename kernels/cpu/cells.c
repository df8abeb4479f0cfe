/* The cells, each with its formula, forward and backward. Their cost beside the products with the
   weight matrices is some hundred elementwise operations a unit: bound by arithmetic. */
#include <string.h>

#include "gates.h"
#include "matrix.h"
#include "network.h"
#include "vector.h"

/* A sum's row at a position, and the parameters of its normalization. */
struct sum {
    float *values;
    const float *gain, *shift;
    float *d_gain, *d_shift;
    struct norm_scale *scales;
};

INLINE struct sum sum_ih(const struct network *n, const struct network_layer *l, size_t position) {
    return (struct sum){
        l->summed_ih + position * l->rows,      n->parameters + l->at[TENSOR_GAIN_IH],
        n->parameters + l->at[TENSOR_SHIFT_IH], n->gradient + l->at[TENSOR_GAIN_IH],
        n->gradient + l->at[TENSOR_SHIFT_IH],   l->scales + position * NETWORK_NORMS,
    };
}

INLINE struct sum sum_hh(const struct network *n, const struct network_layer *l, size_t position) {
    return (struct sum){
        l->summed_hh + position * l->rows,
        n->parameters + l->at[TENSOR_GAIN_HH],
        n->parameters + l->at[TENSOR_SHIFT_HH],
        n->gradient + l->at[TENSOR_GAIN_HH],
        n->gradient + l->at[TENSOR_SHIFT_HH],
        l->scales + position * NETWORK_NORMS + NETWORK_GROUPS,
    };
}

static void normalize_groups(const struct network_layer *l, const struct sum *s) {
    for (size_t k = 0; k < l->group_count; k++) {
        const struct norm_group *g = &l->groups[k];
        s->scales[k] = normalize(s->values + g->first, l->mask + g->first, g->length, g->units);
    }
}

/* d (rows,), the gradient behind gain and shift, becomes dz, that of the sum. */
static void normalize_groups_backward(const struct network_layer *l, const struct sum *s,
                                      const float *d, float *dz) {
    for (size_t k = 0; k < l->group_count; k++) {
        const struct norm_group *g = &l->groups[k];
        size_t i = g->first;
        normalize_backward(d + i, s->values + i, s->gain + i, s->scales[k], l->mask + i, g->length,
                           g->units, dz + i, s->d_gain + i, s->d_shift + i);
    }
}

static void recurrent_sum(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, float *sum) {
    const float *bias = l->norm ? NULL : n->parameters + l->at[TENSOR_BIAS_HH];
    matrix_multiply(n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, bias, h, sum,
                    position % 2);
}

/* Both sums of a step of gru or lstm, normalized if the layer is; that of the inputs exists. */
INLINE void complete_sums(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, struct sum *ih, struct sum *hh) {
    *ih = sum_ih(n, l, position);
    *hh = sum_hh(n, l, position);
    recurrent_sum(n, l, position, h, hh->values);
    if (!l->norm)
        return;
    normalize_groups(l, ih);
    normalize_groups(l, hh);
}

/* out = ih + hh, both behind their normalizations. (length,) */
INLINE void join(const struct network_layer *l, const struct sum *ih, const struct sum *hh,
                 size_t length, float *restrict out) {
    const float *restrict a = ih->values, *restrict b = hh->values;
    const float *restrict ga = ih->gain, *restrict sa = ih->shift;
    const float *restrict gb = hh->gain, *restrict sb = hh->shift;
    if (!l->norm) {
#pragma omp simd aligned(a, b, out : 64)
        for (size_t i = 0; i < length; i++)
            out[i] = a[i] + b[i];
        return;
    }
#pragma omp simd aligned(a, b, ga, sa, gb, sb, out : 64)
    for (size_t i = 0; i < length; i++)
        out[i] = gates_norm(a[i], ga[i], sa[i]) + gates_norm(b[i], gb[i], sb[i]);
}

INLINE void sigmoid_all(float *restrict a, size_t length) {
#pragma omp simd aligned(a : 64)
    for (size_t i = 0; i < length; i++)
        a[i] = formula_sigmoid(a[i]);
}

INLINE void tanh_all(const float *restrict a, float *restrict out, size_t length) {
#pragma omp simd aligned(a, out : 64)
    for (size_t i = 0; i < length; i++)
        out[i] = formula_tanh(a[i]);
}

/* ---- dense: h = f(LN(W x + b)) ---- */

static void activate(enum activation activation, const float *restrict a, float *restrict h,
                     size_t length) {
    switch (activation) {
    case ACTIVATION_RELU:
#pragma omp simd aligned(a, h : 64)
        for (size_t i = 0; i < length; i++)
            h[i] = gates_relu(a[i]);
        break;
    case ACTIVATION_TANH:
        tanh_all(a, h, length);
        break;
    case ACTIVATION_IDENTITY:
        memcpy(h, a, length * sizeof(float));
        break;
    }
}

/* d, the gradient of h = f(a), becomes that of a. f' follows from h. */
static void activate_backward(enum activation activation, const float *restrict h,
                              float *restrict d, size_t length) {
    switch (activation) {
    case ACTIVATION_RELU:
#pragma omp simd aligned(h, d : 64)
        for (size_t i = 0; i < length; i++)
            d[i] = gates_relu_backward(h[i], d[i]);
        break;
    case ACTIVATION_TANH:
#pragma omp simd aligned(h, d : 64)
        for (size_t i = 0; i < length; i++)
            d[i] = gates_tanh_backward(h[i], d[i]);
        break;
    case ACTIVATION_IDENTITY:
        break;
    }
}

/* h = f(LN(sum)) at a position; the sum is kept normalized. */
static void single_forward(const struct network *n, const struct network_layer *l,
                           enum activation activation, size_t position) {
    struct sum s = sum_ih(n, l, position);
    float *restrict h = l->hidden + position * l->padded;
    if (!l->norm) {
        activate(activation, s.values, h, l->padded);
        return;
    }
    normalize_groups(l, &s);
    float *restrict a = n->d_gate; /* free during forward */
    const float *restrict x = s.values;
    const float *restrict gain = s.gain, *restrict shift = s.shift;
#pragma omp simd aligned(a, x, gain, shift : 64)
    for (size_t i = 0; i < l->padded; i++)
        a[i] = gates_norm(x[i], gain[i], shift[i]);
    activate(activation, a, h, l->padded);
}

static void single_backward(const struct network *n, const struct network_layer *l,
                            enum activation activation, size_t position, float *d, float *dz) {
    activate_backward(activation, l->hidden + position * l->padded, d, l->padded);
    struct sum s = sum_ih(n, l, position);
    if (l->norm)
        normalize_groups_backward(l, &s, d, dz);
    else
        memcpy(dz, d, l->rows * sizeof(float));
}

static void dense_forward(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, const float *c) {
    (void)h, (void)c;
    single_forward(n, l, l->activation, position);
}

static void dense_backward(const struct network *n, const struct network_layer *l, size_t position,
                           const float *h, const float *c, float *d, float *d_ih, float *d_hh) {
    (void)h, (void)c, (void)d_hh;
    single_backward(n, l, l->activation, position, d, d_ih);
}

const struct cell_kernels cell_dense = {dense_forward, dense_backward};

/* ---- rnn: h' = tanh(LN(W_ih x + b_ih + W_hh h)); without norm + b_hh ---- */

static void rnn_forward(const struct network *n, const struct network_layer *l, size_t position,
                        const float *h, const float *c) {
    (void)c;
    float *restrict a = l->summed_ih + position * l->rows;
    float *restrict b = l->summed_hh + position * l->rows;
    recurrent_sum(n, l, position, h, b);
#pragma omp simd aligned(a, b : 64)
    for (size_t i = 0; i < l->rows; i++)
        a[i] += b[i];
    single_forward(n, l, ACTIVATION_TANH, position);
}

static void rnn_backward(const struct network *n, const struct network_layer *l, size_t position,
                         const float *h, const float *c, float *d, float *d_ih, float *d_hh) {
    (void)h, (void)c;
    single_backward(n, l, ACTIVATION_TANH, position, d, d_ih);
    memcpy(d_hh, d_ih, l->rows * sizeof(float));
    memset(d, 0, l->padded * sizeof(float));
}

const struct cell_kernels cell_rnn = {rnn_forward, rnn_backward};

/* ---- gru: r,z = s(x_rz + h_rz); n = tanh(x_n + r h_n); h' = (1 - z) n + z h,
        x and h the sums behind their normalizations ---- */

static void gru_forward(const struct network *n, const struct network_layer *l, size_t position,
                        const float *h, const float *c) {
    (void)c;
    size_t p = l->padded;
    struct sum ih, hh;
    complete_sums(n, l, position, h, &ih, &hh);
    float *restrict gate = l->gate + position * l->rows;
    float *restrict r = gate, *restrict z = gate + p, *restrict candidate = gate + 2 * p;
    float *restrict hn = l->cell_state + position * p, *restrict out = l->hidden + position * p;
    join(l, &ih, &hh, 2 * p, gate);
    sigmoid_all(gate, 2 * p);

    const float *restrict a = ih.values + 2 * p, *restrict b = hh.values + 2 * p;
    const float *restrict ga = ih.gain + 2 * p, *restrict sa = ih.shift + 2 * p;
    const float *restrict gb = hh.gain + 2 * p, *restrict sb = hh.shift + 2 * p;
    if (l->norm) {
#pragma omp simd aligned(a, b, ga, sa, gb, sb, hn, candidate, r : 64)
        for (size_t i = 0; i < p; i++) {
            hn[i] = gates_norm(b[i], gb[i], sb[i]);
            candidate[i] = gates_gru_candidate(gates_norm(a[i], ga[i], sa[i]), r[i], hn[i]);
        }
    } else {
#pragma omp simd aligned(a, b, hn, candidate, r : 64)
        for (size_t i = 0; i < p; i++) {
            hn[i] = b[i];
            candidate[i] = gates_gru_candidate(a[i], r[i], hn[i]);
        }
    }
#pragma omp simd aligned(candidate, z, out, h : 64)
    for (size_t i = 0; i < p; i++) {
        candidate[i] = formula_tanh(candidate[i]);
        out[i] = gates_gru_hidden(z[i], candidate[i], h[i]);
    }
}

static void gru_backward(const struct network *n, const struct network_layer *l, size_t position,
                         const float *restrict h, const float *c, float *restrict d,
                         float *restrict d_ih, float *restrict d_hh) {
    (void)c;
    size_t p = l->padded;
    const float *restrict r = l->gate + position * l->rows, *restrict z = r + p,
                          *restrict candidate = z + p, *restrict hn = l->cell_state + position * p;
    float *restrict g = l->norm ? n->d_gate : d_ih;
    float *restrict dr = g, *restrict dz = g + p, *restrict dn = g + 2 * p;
#pragma omp simd aligned(h, d, r, z, candidate, hn, dr, dz, dn : 64)
    for (size_t i = 0; i < p; i++) {
        struct gates_gru k = gates_gru_backward(d[i], r[i], z[i], candidate[i], hn[i], h[i]);
        dn[i] = k.n;
        dr[i] = k.r;
        dz[i] = k.z;
        d[i] = k.h;
    }
    struct sum ih = sum_ih(n, l, position), hh = sum_hh(n, l, position);
    if (l->norm)
        normalize_groups_backward(l, &ih, g, d_ih);
    else
        memcpy(d_hh, d_ih, 2 * p * sizeof(float));
    float *restrict d_hn = l->norm ? dn : d_hh + 2 * p;
#pragma omp simd aligned(d_hn, dn, r : 64)
    for (size_t i = 0; i < p; i++)
        d_hn[i] = gates_gru_recurrent_backward(dn[i], r[i]);
    if (l->norm)
        normalize_groups_backward(l, &hh, g, d_hh);
}

const struct cell_kernels cell_gru = {gru_forward, gru_backward};

/* ---- lstm: i,f,g,o = the sums behind their normalizations; c' = s(f) c + s(i) tanh(g);
        h' = s(o) tanh(LN(c')). Supplement of Ba et al., eq. 20-22. ---- */

static void lstm_forward(const struct network *n, const struct network_layer *l, size_t position,
                         const float *h, const float *restrict c) {
    size_t p = l->padded;
    struct sum ih, hh;
    complete_sums(n, l, position, h, &ih, &hh);
    float *restrict gate = l->gate + position * l->rows;
    join(l, &ih, &hh, 4 * p, gate);
    float *restrict i = gate, *restrict f = gate + p, *restrict g = gate + 2 * p,
                    *restrict o = gate + 3 * p;
    float *restrict cell = l->cell_state + position * p;
    float *restrict squashed = l->cell_squashed + position * p;
    float *restrict out = l->hidden + position * p;
#pragma omp simd aligned(i, f, g, o, c, cell : 64)
    for (size_t k = 0; k < p; k++) {
        i[k] = formula_sigmoid(i[k]);
        f[k] = formula_sigmoid(f[k]);
        g[k] = formula_tanh(g[k]);
        o[k] = formula_sigmoid(o[k]);
        cell[k] = gates_lstm_cell(i[k], f[k], g[k], c[k]);
    }
    if (l->norm) {
        float *restrict x = l->cell_normal + position * p;
        const float *restrict gain = n->parameters + l->at[TENSOR_GAIN_C];
        const float *restrict shift = n->parameters + l->at[TENSOR_SHIFT_C];
        memcpy(x, cell, p * sizeof(float));
        l->scales[position * NETWORK_NORMS + NETWORK_NORM_C] = normalize(x, l->mask, p, l->size);
#pragma omp simd aligned(x, gain, shift, squashed : 64)
        for (size_t k = 0; k < p; k++)
            squashed[k] = formula_tanh(gates_norm(x[k], gain[k], shift[k]));
    } else {
        tanh_all(cell, squashed, p);
    }
#pragma omp simd aligned(o, squashed, out : 64)
    for (size_t k = 0; k < p; k++)
        out[k] = o[k] * squashed[k];
}

/* dc += the gradient of c that reaches it through h; d_o is the output gate's. */
static void lstm_cell_backward(const struct network *n, const struct network_layer *l,
                               size_t position, float *restrict d, float *restrict d_o) {
    size_t p = l->padded;
    const float *restrict o = l->gate + position * l->rows + 3 * p;
    const float *restrict squashed = l->cell_squashed + position * p;
    float *restrict dc = n->d_cell;
#pragma omp simd aligned(d, d_o, o, squashed : 64)
    for (size_t k = 0; k < p; k++) {
        d_o[k] = gates_lstm_output_backward(d[k], o[k], squashed[k]);
        d[k] = gates_lstm_squashed_backward(d[k], o[k], squashed[k]);
    }
    const float *restrict through = d;
    if (l->norm) {
        float *dz = n->d_state; /* free until the next step's products */
        normalize_backward(d, l->cell_normal + position * p, n->parameters + l->at[TENSOR_GAIN_C],
                           l->scales[position * NETWORK_NORMS + NETWORK_NORM_C], l->mask, p,
                           l->size, dz, n->gradient + l->at[TENSOR_GAIN_C],
                           n->gradient + l->at[TENSOR_SHIFT_C]);
        through = dz;
    }
#pragma omp simd aligned(dc, through : 64)
    for (size_t k = 0; k < p; k++)
        dc[k] += through[k];
}

static void lstm_backward(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, const float *restrict c, float *restrict d,
                          float *restrict d_ih, float *restrict d_hh) {
    (void)h;
    size_t p = l->padded;
    const float *restrict i = l->gate + position * l->rows, *restrict f = i + p,
                          *restrict g = i + 2 * p;
    float *restrict all = l->norm ? n->d_gate : d_ih;
    float *restrict dc = n->d_cell, *restrict di = all, *restrict df = all + p,
                    *restrict dg = all + 2 * p;
    lstm_cell_backward(n, l, position, d, all + 3 * p);
#pragma omp simd aligned(dc, i, f, g, c, di, df, dg : 64)
    for (size_t k = 0; k < p; k++) {
        struct gates_lstm s = gates_lstm_backward(dc[k], i[k], f[k], g[k], c[k]);
        di[k] = s.i;
        df[k] = s.f;
        dg[k] = s.g;
        dc[k] = s.c;
    }
    struct sum ih = sum_ih(n, l, position), hh = sum_hh(n, l, position);
    if (l->norm) {
        normalize_groups_backward(l, &ih, all, d_ih);
        normalize_groups_backward(l, &hh, all, d_hh);
    } else {
        memcpy(d_hh, d_ih, l->rows * sizeof(float));
    }
    memset(d, 0, p * sizeof(float));
}

const struct cell_kernels cell_lstm = {lstm_forward, lstm_backward};
