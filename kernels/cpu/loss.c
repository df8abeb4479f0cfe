/* The loss of one step: sums over the output's K numbers in double, in order. Bound by its
   transcendental functions, which are few compared with a layer's. */
#include "losses.h"

#include <string.h>

#include "network.h"
#include "vector.h"

/* The losses to compute; d (K,) gets their gradients, divided by the number of observed values. */
struct loss_context {
    const struct loss_kind *kind;
    size_t outputs, target_size, components;
    const float *a;
    const union value *y;
    double scale;
    float *d; /* NULL: only the loss */
    double *scratch;
};

#define WALK static inline __attribute__((always_inline)) double

static size_t observed(const union value *y, size_t size) {
    size_t count = 0;
    for (size_t k = 0; k < size; k++)
        count += loss_observed(y[k].real);
    return count;
}

/* The mean over the observed numbers of the target. */
WALK numbers(const struct loss_context *s, number_formula *number) {
    size_t size = s->target_size, parts = s->d ? s->outputs / size : 0;
    double count = (double)observed(s->y, size), factor = s->scale / count, total = 0;
    for (size_t k = 0; k < size; k++) {
        float y = s->y[k].real;
        if (!loss_observed(y))
            continue; /* its gradients stay 0 */
        double gradient[NUMBER_PARTS_MAX] = {0};
        total += number(s->a + k, size, y, gradient);
        for (size_t part = 0; part < parts; part++)
            s->d[part * size + k] = (float)(gradient[part] * factor);
    }
    return total / count;
}

WALK classes(const struct loss_context *s, term_formula *term, class_formula *loss) {
    enum { BLOCK = 256 }; /* summed in float; sums of blocks in double */
    const float *restrict a = s->a;
    float *restrict d = s->d;
    size_t size = s->outputs;
    float most = a[0];
    for (size_t k = 1; k < size; k++)
        most = a[k] > most ? a[k] : most;
    double total = 0;
    for (size_t first = 0; first < size; first += BLOCK) {
        size_t last = first + BLOCK < size ? first + BLOCK : size;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t k = first; k < last; k++)
            sum += term(a[k], most);
        total += (double)sum;
    }
    if (d) {
        float factor = (float)(s->scale / total);
#pragma omp simd
        for (size_t k = 0; k < size; k++)
            d[k] = term(a[k], most) * factor;
        d[s->y->id] -= (float)s->scale;
    }
    return loss(total, most, a[s->y->id]);
}

/* log sum_j e^v_j; v_j becomes its share e^v_j / sum. */
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

/* -log sum_j pi_j N_j, pi = softmax(logits), over the components with activations a and
   gradients d. A component's share, pi_j N_j / sum, is its responsibility. Its gradients are
   pi_j - share for the logit, and share times its own gradient for the others. They are 0 for a
   component without responsibility, however far away it is. */
WALK components(const struct loss_context *s, const float *a, float *d, size_t parts,
                component_formula *component) {
    size_t count = s->components;
    double *weight = s->scratch, *share = s->scratch + count;
    for (size_t j = 0; j < count; j++) {
        weight[j] = (double)a[j];
        share[j] = weight[j] + component(a + j, count, s->y).log_density;
    }
    double loss = log_sum_exp(weight, count) - log_sum_exp(share, count);
    for (size_t j = 0; d && j < count; j++) {
        struct loss_component c = component(a + j, count, s->y);
        double g = share[j] * s->scale;
        d[j] = (float)((weight[j] - share[j]) * s->scale);
        for (size_t part = 1; part < parts; part++)
            d[part * count + j] = (float)(g == 0 ? 0 : g * c.gradient[part]);
    }
    return loss;
}

/* The components, if all of their numbers are observed, and each other observed number. */
WALK components_and_numbers(const struct loss_context *s, component_formula *component,
                            number_formula *number) {
    size_t together = s->kind->together, single = s->target_size - together;
    double loss = 0, gradient = 0;
    if (observed(s->y, together) == together)
        loss += components(s, s->a + single, s->d ? s->d + single : NULL,
                           (s->outputs - single) / s->components, component);
    for (size_t k = 0; k < single; k++) {
        float y = s->y[together + k].real;
        if (!loss_observed(y))
            continue;
        loss += number(s->a + k, 1, y, &gradient);
        if (s->d)
            s->d[k] = (float)(gradient * s->scale);
    }
    return loss;
}

#define WALK_numbers(name) numbers(&s, name##_number)
#define WALK_classes(name) classes(&s, name##_term, name##_loss)
#define WALK_components(name) components_and_numbers(&s, name##_component, name##_number)
#define WALK_candidates(name) NAN

double loss_step(const struct model *model, const struct model_head *head, const float *a,
                 const union value *y, float scale, float *d, double *scratch) {
    const struct output *output = model_output(model, head->output);
    const struct loss_context s = {loss_kind(output->loss),
                                   head->scored,
                                   head->target_size,
                                   output->components,
                                   a,
                                   y,
                                   (double)scale,
                                   d,
                                   scratch};
    if (d)
        memset(d, 0, s.outputs * sizeof *d);
    switch (output->loss) {
#define LOSS(name, walk)                                                                           \
    case LOSS_##name:                                                                              \
        return WALK_##walk(name);
#include "kinds.def"
    case LOSSES:
        break;
    }
    return NAN;
}
