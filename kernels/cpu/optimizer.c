/* torch.optim's updates over the whole block at once: parameters, moments and gradient are read and
   written once. Bound by their bytes when the block exceeds the cache, else by square roots and
   divisions. */
#include <math.h>

#include "formulas.h"
#include "network.h"
#include "vector.h"

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

static struct network_change sgd_plain(const struct formula_sgd *o, const struct arrays *a,
                                       size_t begin, size_t end) {
    LOOP(formula_sgd_plain(o, w, g));
}

static struct network_change sgd(const struct formula_sgd *o, const struct arrays *a, size_t begin,
                                 size_t end) {
    LOOP(formula_sgd(o, w, g, &first[i]));
}

static struct network_change rmsprop(const struct formula_rmsprop *o, const struct arrays *a,
                                     size_t begin, size_t end) {
    LOOP(formula_rmsprop(o, w, g, &first[i]));
}

static struct network_change adam(const struct formula_adam *o, const struct arrays *a,
                                  size_t begin, size_t end) {
    LOOP(formula_adam(o, w, g, &first[i], &second[i]));
}

/* The optimizer's numbers of this step, rounded once. */
struct step {
    const struct optimizer *optimizer;
    struct formula_sgd sgd;
    struct formula_rmsprop rmsprop;
    struct formula_adam adam;
};

static struct step prepare(const struct optimizer *o, double rate, uint64_t t) {
    double decay = o->weight_decay, power = (double)t;
    struct step s = {.optimizer = o};
    s.sgd = (struct formula_sgd){(float)rate, (float)o->momentum, (float)decay, o->nesterov};
    s.rmsprop = (struct formula_rmsprop){(float)rate, (float)o->alpha, (float)(1 - o->alpha),
                                         (float)o->epsilon, (float)decay};
    bool decoupled = o->kind == OPTIMIZER_ADAMW;
    s.adam = (struct formula_adam){
        .step = (float)(rate / (1 - pow(o->beta1, power))),
        .scale = (float)(1 / sqrt(1 - pow(o->beta2, power))),
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
        .epsilon = (float)o->epsilon,
        .decay = decoupled ? 0.0f : (float)decay,
        .shrink = decoupled ? (float)(1 - rate * decay) : 1.0f,
    };
    return s;
}

static struct network_change part(const struct step *s, const struct arrays *a, size_t begin,
                                  size_t end) {
    switch (s->optimizer->kind) {
    case OPTIMIZER_RMSPROP:
        return rmsprop(&s->rmsprop, a, begin, end);
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        return adam(&s->adam, a, begin, end);
    case OPTIMIZER_SGD:
        break;
    }
    return optimizer_blocks(s->optimizer) ? sgd(&s->sgd, a, begin, end)
                                          : sgd_plain(&s->sgd, a, begin, end);
}

struct network_change optimizer_step(struct network *n, const struct optimizer *optimizer,
                                     double rate, double factor, uint64_t t) {
    struct step step = prepare(optimizer, rate, t);
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
