#include "second_form.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { UNITS = 32, SUMS = 4 * UNITS, GROUPS = 5, INNER = 4 };

static const double STEP = 1e-5, EPSILON = 1e-5;

/* Mean and deviation of each group of one step of a layer: ih 0 and 1, hh 2 and 3, inner 4. */
struct scales {
    double mean[GROUPS], deviation[GROUPS];
};

struct state {
    double h[UNITS], c[UNITS];
};

/* A stream's network. */
struct net {
    const struct model *model;
    double *parameters;
    struct state before[MODEL_LAYERS_MAX]; /* the current step */
};

static const double *tensor(const struct net *n, enum tensor_role role, size_t layer) {
    const struct tensor *found = model_find(n->model, role, layer);
    return found ? n->parameters + found->offset : NULL;
}

/* Sum of squares of row `i` of a matrix. */
static double row_squares(const double *w, size_t i, size_t columns) {
    double sum = 0;
    for (size_t c = 0; c < columns; c++)
        sum += w[i * columns + c] * w[i * columns + c];
    return sum;
}

/* The deviation of sum `i`, from its weights. */
static double row_deviation(const struct net *n, size_t k, int place, size_t i) {
    const struct layer *layer = &n->model->architecture.layers[k];
    const double *hh = tensor(n, TENSOR_WEIGHT_HH, k);
    bool together = layer->cell == CELL_rnn;
    double squares = place == PLACE_INNER ? 1 - EPSILON : 0;
    if (place == PLACE_IH)
        squares += row_squares(tensor(n, TENSOR_WEIGHT_IH, k), i, n->model->input_width[k]);
    if (place == PLACE_HH || (place == PLACE_IH && together))
        squares += row_squares(hh, i, layer->size);
    return sqrt(squares + EPSILON);
}

/* Sums first..end of a place become g (a - mean) / deviation + b. `hold`: with the stored
   scales, else with their own, which are stored. */
static void normalize(const struct net *n, size_t k, int place, size_t group, size_t first,
                      size_t end, struct scales *scales, bool hold, double *a) {
    enum norm norm = n->model->architecture.layers[k].norm;
    const double *gain = tensor(n, TENSOR_GAIN_IH + place, k);
    const double *bias = tensor(n, TENSOR_NORM_BIAS_IH + place, k);
    const double *means = tensor(n, TENSOR_MEAN_IH + place, k);
    const double *vars = tensor(n, TENSOR_VAR_IH + place, k);
    double mean = 0, squares = 0;
    for (size_t i = first; i < end && norm == NORM_layer; i++)
        mean += a[i] / (double)(end - first);
    for (size_t i = first; i < end; i++)
        squares += (a[i] - mean) * (a[i] - mean) / (double)(end - first);
    if (!hold) {
        scales->mean[group] = mean;
        scales->deviation[group] = sqrt(squares + EPSILON);
    }
    for (size_t i = first; i < end; i++) {
        double m = norm == NORM_batch ? means[i] : norm == NORM_weight ? 0 : scales->mean[group];
        double d = norm == NORM_batch    ? sqrt(vars[i] + EPSILON)
                   : norm == NORM_weight ? row_deviation(n, k, place, i)
                                         : scales->deviation[group];
        a[i] = gain[i] * (a[i] - m) / d + bias[i];
    }
}

static void normalize_sums(const struct net *n, size_t k, int place, struct scales *scales,
                           bool hold, double *a) {
    const struct layer *layer = &n->model->architecture.layers[k];
    size_t units = layer->size, first = place == PLACE_HH ? 2 : 0;
    if (layer->norm == NORM_none)
        return;
    if (layer->cell == CELL_gru) {
        normalize(n, k, place, first, 0, 2 * units, scales, hold, a);
        normalize(n, k, place, first + 1, 2 * units, 3 * units, scales, hold, a);
        return;
    }
    normalize(n, k, place, first, 0, (layer->cell == CELL_lstm ? 4 : 1) * units, scales, hold, a);
}

/* a (rows,) = W x + b; b may be NULL */
static void project(const double *w, const double *b, const double *x, size_t rows, size_t columns,
                    double *a) {
    for (size_t i = 0; i < rows; i++) {
        a[i] = b ? b[i] : 0;
        for (size_t c = 0; c < columns; c++)
            a[i] += w[i * columns + c] * x[c];
    }
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void lstm(const struct net *n, size_t k, const double *a, const double *b,
                 const struct state *before, struct scales *scales, bool hold,
                 struct state *after) {
    size_t units = n->model->architecture.layers[k].size;
    double inner[UNITS];
    for (size_t u = 0; u < units; u++) {
        double i = sigmoid(a[u] + b[u]), f = sigmoid(a[units + u] + b[units + u]);
        after->c[u] = f * before->c[u] + i * tanh(a[2 * units + u] + b[2 * units + u]);
        inner[u] = after->c[u];
    }
    if (n->model->architecture.layers[k].norm != NORM_none)
        normalize(n, k, PLACE_INNER, INNER, 0, units, scales, hold, inner);
    for (size_t u = 0; u < units; u++)
        after->h[u] = sigmoid(a[3 * units + u] + b[3 * units + u]) * tanh(inner[u]);
}

/* One step of a layer. */
static void step(const struct net *n, size_t k, const double *x, const struct state *before,
                 struct scales *scales, bool hold, struct state *after) {
    const struct layer *layer = &n->model->architecture.layers[k];
    size_t units = layer->size, inputs = n->model->input_width[k];
    size_t rows = cell_kind(layer->cell)->gates * units;
    double a[SUMS] = {0}, b[SUMS] = {0};
    project(tensor(n, TENSOR_WEIGHT_IH, k), tensor(n, TENSOR_BIAS_IH, k), x, rows, inputs, a);
    if (cell_kind(layer->cell)->states > 0)
        project(tensor(n, TENSOR_WEIGHT_HH, k), tensor(n, TENSOR_BIAS_HH, k), before->h, rows,
                units, b);
    for (size_t u = 0; u < units && layer->cell == CELL_rnn; u++)
        a[u] += b[u];
    normalize_sums(n, k, PLACE_IH, scales, hold, a);
    if (cell_kind(layer->cell)->apart)
        normalize_sums(n, k, PLACE_HH, scales, hold, b);
    if (layer->cell == CELL_lstm)
        lstm(n, k, a, b, before, scales, hold, after);
    for (size_t u = 0; u < units && layer->cell == CELL_gru; u++) {
        double r = sigmoid(a[u] + b[u]), z = sigmoid(a[units + u] + b[units + u]);
        double candidate = tanh(a[2 * units + u] + r * b[2 * units + u]);
        after->h[u] = (1 - z) * candidate + z * before->h[u];
    }
    for (size_t u = 0; u < units && (layer->cell == CELL_rnn || layer->cell == CELL_dense); u++)
        after->h[u] = tanh(a[u]);
}

/* The loss of the current step from layer `k` on, whose input is x. */
static double loss_from(const struct net *n, size_t k, const double *x, const union value *y) {
    const struct model *model = n->model;
    struct state after[MODEL_LAYERS_MAX];
    double output[ORACLE_OUTPUTS_MAX];
    for (; k < model->architecture.layer_count; k++, x = after[k - 1].h) {
        struct scales scales;
        step(n, k, x, &n->before[k], &scales, false, &after[k]);
    }
    project(tensor(n, TENSOR_OUTPUT_WEIGHT, 0), tensor(n, TENSOR_OUTPUT_BIAS, 0), x, model->outputs,
            model->architecture.layers[k - 1].size, output);
    return oracle_loss(model, output, y);
}

/* ---- Derivatives ---- */

static double loss_by_input(const struct net *n, size_t k, double *x, size_t u,
                            const union value *y) {
    double at = x[u];
    x[u] = at + STEP;
    double above = loss_from(n, k, x, y);
    x[u] = at - STEP;
    double below = loss_from(n, k, x, y);
    x[u] = at;
    return (above - below) / (2 * STEP);
}

static double loss_by_number(const struct net *n, size_t k, const double *x, double *number,
                             const union value *y) {
    double at = *number;
    *number = at + STEP;
    double above = loss_from(n, k, x, y);
    *number = at - STEP;
    double below = loss_from(n, k, x, y);
    *number = at;
    return (above - below) / (2 * STEP);
}

/* Derivative of the trace's state, of unit u of layer k, with constant scales of groups. */
static double state_by_number(const struct net *n, size_t k, const double *x, double *number,
                              size_t u, struct scales *scales, bool inner) {
    struct state above, below;
    double at = *number;
    *number = at + STEP;
    step(n, k, x, &n->before[k], scales, true, &above);
    *number = at - STEP;
    step(n, k, x, &n->before[k], scales, true, &below);
    *number = at;
    return ((inner ? above.c[u] : above.h[u]) - (inner ? below.c[u] : below.h[u])) / (2 * STEP);
}

static size_t unit_of(const struct tensor *t, size_t index, size_t units) {
    return (t->columns ? index / t->columns : index) % units;
}

/* gradient += coefficient e, then e advances, for all parameters of a recurrent layer. `after`
   is the state after the step; y NULL: nothing is learned. */
static void trace_layer(struct net *n, enum rule rule, size_t k, const double *x,
                        struct state *after, const union value *y, double *e, double *gradient) {
    size_t units = n->model->architecture.layers[k].size;
    bool inner = rule_kind(rule)->states > 1;
    struct scales scales;
    struct state same;
    double decay[UNITS], coefficient[UNITS] = {0};
    step(n, k, x, &n->before[k], &scales, false, &same);
    for (size_t u = 0; u < units; u++) {
        double *own = inner ? &n->before[k].c[u] : &n->before[k].h[u];
        decay[u] = state_by_number(n, k, x, own, u, &scales, inner);
        if (y)
            coefficient[u] = inner ? loss_by_number(n, k, x, own, y)
                                   : loss_by_input(n, k + 1, after->h, u, y) * decay[u];
    }
    for (size_t i = 0; i < n->model->learned_count; i++) {
        const struct tensor *t = &n->model->tensors[i];
        bool output = t->role >= TENSOR_OUTPUT_WEIGHT && t->role <= TENSOR_OUTPUT_SKIP;
        for (size_t p = 0; p < tensor_size(t) && !output && t->layer == k; p++) {
            size_t at = t->offset + p, u = unit_of(t, p, units);
            gradient[at] += coefficient[u] * e[at];
            e[at] =
                decay[u] * e[at] + state_by_number(n, k, x, n->parameters + at, u, &scales, inner);
        }
    }
}

void second_form(const struct model *model, enum rule rule, double *parameters,
                 const union value *x, const union value *y, const bool *learned, size_t steps,
                 size_t closed, double *gradient) {
    struct net n = {.model = model, .parameters = parameters};
    size_t layers = model->architecture.layer_count, terms = 0;
    double *e = calloc(model->parameters, sizeof *e);
    memset(gradient, 0, model->learned * sizeof *gradient);
    for (size_t t = 0; t < steps; t++) {
        bool counts = t + closed >= steps && learned[t];
        const union value *target = counts ? y + t * model->target_size : NULL;
        double input[ORACLE_WIDTH_MAX];
        struct state after[MODEL_LAYERS_MAX];
        for (size_t i = 0; i < model->features; i++)
            input[i] = (double)x[t * model->features + i].real;
        for (size_t k = 0; k < layers; k++) {
            struct scales scales;
            assert(model->architecture.layers[k].size <= UNITS);
            step(&n, k, k ? after[k - 1].h : input, &n.before[k], &scales, false, &after[k]);
        }
        for (size_t p = 0; p < model->learned && counts; p++)
            gradient[p] += loss_by_number(&n, 0, input, &parameters[p], target);
        for (size_t k = 0; k < layers; k++)
            if (cell_kind(model->architecture.layers[k].cell)->states > 0)
                trace_layer(&n, rule, k, k ? after[k - 1].h : input, &after[k], target, e,
                            gradient);
        memcpy(n.before, after, layers * sizeof *after);
        terms += counts;
    }
    for (size_t p = 0; p < model->learned; p++)
        gradient[p] /= (double)terms;
    free(e);
}
