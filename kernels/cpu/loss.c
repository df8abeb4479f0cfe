/* The loss of one step: sums over the output's K numbers in double, in order. Bound by its
   transcendental functions, which are few beside a layer's. */
#include "losses.h"

#include <string.h>

#include "network.h"
#include "vector.h"

/* Which of the n losses to compute; slopes go to d (K,), already divided by what is observed. */
struct loss_context {
    const struct output *output;
    const float *a;
    const union value *y;
    double scale;
    float *d; /* NULL when only the loss is asked for */
};

static void put(const struct loss_context *s, size_t k, double slope) {
    if (s->d)
        s->d[k] = (float)slope;
}

static size_t observed(const union value *y, size_t size) {
    size_t count = 0;
    for (size_t k = 0; k < size; k++)
        count += !isnan(y[k].real);
    return count;
}

/* squared, gaussian, bernoulli: mean over the observed numbers of the target. */
static double elementwise(const struct loss_context *s) {
    size_t size = s->output->size;
    double count = (double)observed(s->y, size), factor = s->scale / count, total = 0;
    for (size_t k = 0; k < size; k++) {
        float y = s->y[k].real;
        if (isnan(y))
            continue; /* its slopes stay 0 */
        double slope = 0, slope_logvar = 0;
        switch (s->output->loss) {
        case LOSS_GAUSSIAN:
            total += loss_gaussian(s->a[k], s->a[size + k], y, &slope, &slope_logvar);
            put(s, size + k, slope_logvar * factor);
            break;
        case LOSS_BERNOULLI:
            total += loss_bernoulli(s->a[k], y, &slope);
            break;
        default:
            total += loss_squared(s->a[k], y, &slope);
        }
        put(s, k, slope * factor);
    }
    return total / count;
}

/* -log softmax(a)_y = log sum_k e^(a_k - m) + m - a_y with m = max a */
static double softmax(const struct loss_context *s) {
    enum { BLOCK = 256 }; /* summed in float, the blocks' sums in double */
    const float *restrict a = s->a;
    float *restrict d = s->d;
    size_t size = s->output->size;
    float most = a[0];
    for (size_t k = 1; k < size; k++)
        most = a[k] > most ? a[k] : most;
    double total = 0;
    for (size_t first = 0; first < size; first += BLOCK) {
        size_t last = first + BLOCK < size ? first + BLOCK : size;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t k = first; k < last; k++)
            sum += formula_exp(a[k] - most);
        total += (double)sum;
    }
    if (d) {
        float factor = (float)(s->scale / total);
#pragma omp simd
        for (size_t k = 0; k < size; k++)
            d[k] = formula_exp(a[k] - most) * factor;
        d[s->y->id] -= (float)s->scale;
    }
    return log(total) + ((double)most - (double)a[s->y->id]);
}

/* log sum_j e^v_j, and v_j becomes its share e^v_j / sum. */
static double log_sum_exp(double *v, size_t n) {
    double most = v[0], sum = 0;
    for (size_t j = 1; j < n; j++)
        most = v[j] > most ? v[j] : most;
    for (size_t j = 0; j < n; j++)
        sum += v[j] = exp(v[j] - most);
    for (size_t j = 0; j < n; j++)
        v[j] /= sum;
    return most + log(sum);
}

static struct loss_component component(const struct loss_context *s, size_t j) {
    size_t m = s->output->components;
    const float *p = s->a + 1 + m + j; /* behind end and the logits */
    return loss_component(p[0], p[m], p[2 * m], p[3 * m], p[4 * m], s->y[0].real, s->y[1].real);
}

/* -log sum_j pi_j N_j, pi = softmax(logits): Graves (2013), eq. 26; slopes eq. 29, 33-35, with
   g_j = pi_j N_j / sum: d logit = pi_j - g_j, the others g_j times the component's. */
static double mixture_density(const struct loss_context *s, double *scratch) {
    size_t m = s->output->components;
    double *weight = scratch, *share = scratch + m;
    for (size_t j = 0; j < m; j++) {
        weight[j] = (double)s->a[1 + j];
        share[j] = weight[j] + component(s, j).log_density;
    }
    double loss = log_sum_exp(weight, m) - log_sum_exp(share, m);
    if (!s->d)
        return loss;
    for (size_t j = 0; j < m; j++) {
        struct loss_component c = component(s, j);
        double g = share[j] * s->scale;
        const double slopes[] = {c.slope_mean1, c.slope_mean2, c.slope_log_sd1, c.slope_log_sd2,
                                 c.slope_atanh_rho};
        s->d[1 + j] = (float)((weight[j] - share[j]) * s->scale);
        for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++)
            s->d[1 + (i + 1) * m + j] = (float)(g == 0 ? 0 : g * slopes[i]);
    }
    return loss;
}

/* The density of (y1, y2), if both are observed, and the end of stroke, if it is. */
static double mixture(const struct loss_context *s, double *scratch) {
    double loss = 0, slope;
    if (!isnan(s->y[0].real) && !isnan(s->y[1].real))
        loss += mixture_density(s, scratch);
    if (!isnan(s->y[2].real)) {
        loss += loss_bernoulli(s->a[0], s->y[2].real, &slope);
        put(s, 0, slope * s->scale);
    }
    return loss;
}

double loss_step(const struct model *model, const float *a, const union value *y, float scale,
                 float *d, double *scratch) {
    struct loss_context s = {&model->architecture.output, a, y, (double)scale, d};
    if (d)
        memset(d, 0, model->outputs * sizeof *d);
    switch (s.output->loss) {
    case LOSS_SOFTMAX:
        return softmax(&s);
    case LOSS_MIXTURE:
        return mixture(&s, scratch);
    default:
        return elementwise(&s);
    }
}
