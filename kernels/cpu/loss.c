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
        count += loss_observed(y[k].real);
    return count;
}

/* squared, gaussian, bernoulli: mean over the observed numbers of the target. */
static double elementwise(const struct loss_context *s) {
    size_t size = s->output->size;
    bool gaussian = s->output->loss == LOSS_GAUSSIAN;
    double count = (double)observed(s->y, size), factor = s->scale / count, total = 0;
    for (size_t k = 0; k < size; k++) {
        float y = s->y[k].real;
        if (!loss_observed(y))
            continue; /* its slopes stay 0 */
        double slope = 0, slope_logvar = 0;
        float logvar = gaussian ? s->a[size + k] : 0;
        total += loss_element(s->output->loss, s->a[k], logvar, y, &slope, &slope_logvar);
        if (gaussian)
            put(s, size + k, slope_logvar * factor);
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
    return loss_mixture_component(s->a, s->output->components, j, s->y[LOSS_MIXTURE_Y1].real,
                                  s->y[LOSS_MIXTURE_Y2].real);
}

/* -log sum_j pi_j N_j, pi = softmax(logits): Graves (2013), eq. 26 */
static double mixture_density(const struct loss_context *s, double *scratch) {
    size_t m = s->output->components;
    double *weight = scratch, *share = scratch + m;
    for (size_t j = 0; j < m; j++) {
        weight[j] = (double)s->a[loss_mixture_at(m, LOSS_MIXTURE_LOGIT, j)];
        share[j] = weight[j] + component(s, j).log_density;
    }
    double loss = log_sum_exp(weight, m) - log_sum_exp(share, m);
    if (!s->d)
        return loss;
    for (size_t j = 0; j < m; j++) {
        struct loss_component c = component(s, j);
        double slopes[LOSS_MIXTURE_ROWS];
        loss_mixture_slopes(&c, weight[j], share[j], s->scale, slopes);
        for (size_t row = 0; row < LOSS_MIXTURE_ROWS; row++)
            s->d[loss_mixture_at(m, row, j)] = (float)slopes[row];
    }
    return loss;
}

/* The density of (y1, y2), if both are observed, and the end of stroke, if it is. */
static double mixture(const struct loss_context *s, double *scratch) {
    double loss = 0, slope;
    if (loss_mixture_observed(s->y[LOSS_MIXTURE_Y1].real, s->y[LOSS_MIXTURE_Y2].real))
        loss += mixture_density(s, scratch);
    float end = s->y[LOSS_MIXTURE_END].real;
    if (loss_observed(end)) {
        loss += loss_bernoulli(s->a[0], end, &slope);
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
