/* torch.optim's updates over the whole block at once: parameters, moments and gradient are read and
   written once. Bound by their bytes when the block exceeds the cache, else by square roots and
   divisions. */
#include "network.h"
#include "updates.h"

enum { BLOCK = 4096 }; /* changes are summed in float over a block, the blocks' sums in double */

struct arrays {
    float *restrict weight, *restrict gradient, *restrict first, *restrict second;
    float factor; /* of the gradient: clipping */
};

/* LOOP(new weight) over i in [begin, end), summing squares of change and weight. */
#define LOOP(EXPRESSION)                                                                           \
    float change = 0, before = 0;                                                                  \
    float *restrict weight = a->weight, *restrict first = a->first, *restrict second = a->second;  \
    const float *restrict gradient = a->gradient;                                                  \
    (void)first, (void)second;                                                                     \
    _Pragma("omp simd reduction(+ : change, before)") for (size_t i = begin; i < end; i++) {       \
        float w = weight[i], g = gradient[i] * a->factor, next = (EXPRESSION), d = next - w;       \
        weight[i] = next;                                                                          \
        change += d * d;                                                                           \
        before += w * w;                                                                           \
    }                                                                                              \
    return (struct network_change) {                                                               \
        (double)change, (double)before                                                             \
    }

static struct network_change sgd_plain(const struct formula_sgd_numbers *o, const struct arrays *a,
                                       size_t begin, size_t end) {
    LOOP(formula_sgd_plain(o, w, g));
}

static struct network_change sgd(const struct formula_sgd_numbers *o, const struct arrays *a,
                                 size_t begin, size_t end) {
    LOOP(formula_sgd(o, w, g, &first[i]));
}

static struct network_change rmsprop(const struct formula_rmsprop_numbers *o,
                                     const struct arrays *a, size_t begin, size_t end) {
    LOOP(formula_rmsprop(o, w, g, &first[i]));
}

static struct network_change adam(const struct formula_adam_numbers *o, const struct arrays *a,
                                  size_t begin, size_t end) {
    LOOP(formula_adam(o, w, g, &first[i], &second[i]));
}

static struct network_change part(const struct update_step *s, const struct arrays *a, size_t begin,
                                  size_t end) {
    switch (s->kind) {
    case OPTIMIZER_RMSPROP:
        return rmsprop(&s->rmsprop, a, begin, end);
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        return adam(&s->adam, a, begin, end);
    case OPTIMIZER_SGD:
        break;
    }
    return s->momentum ? sgd(&s->sgd, a, begin, end) : sgd_plain(&s->sgd, a, begin, end);
}

struct network_change optimizer_step(struct network *n, const struct optimizer *optimizer,
                                     double rate, double factor, uint64_t t) {
    struct update_step step = update_prepare(optimizer, rate, t);
    struct arrays arrays = {n->parameters, n->gradient, n->moments[0], n->moments[1],
                            (float)factor};
    struct network_change total = {0, 0};
    for (size_t begin = 0; begin < n->block; begin += BLOCK) {
        size_t end = begin + BLOCK < n->block ? begin + BLOCK : n->block;
        struct network_change c = part(&step, &arrays, begin, end);
        total.squares += c.squares;
        total.before += c.before;
    }
    return total;
}
