/* The optimizers' updates over the whole block at once: parameters, moments and gradient are read
   and written once. Bound by their bytes when the block exceeds the cache, else by square roots and
   divisions. */
#include "optimizers.h"

#include "network.h"

enum { BLOCK = 4096 }; /* changes are summed in float over a block, the blocks' sums in double */

struct arrays {
    float *weight, *gradient, *first, *second;
    float factor; /* of the gradient: clipping */
};

/* One loop a kind, over [begin, end), summing squares of change and weight. `moments`, a constant
   wherever it is called, says how many are kept. */
#define OPTIMIZER(name)                                                                            \
    static inline __attribute__((always_inline)) struct network_change name##_loop(                \
        const struct name##_numbers *numbers, const struct arrays *a, size_t begin, size_t end,    \
        size_t moments) {                                                                          \
        float change = 0, before = 0;                                                              \
        float *restrict weight = a->weight, *restrict first = a->first,                            \
                        *restrict second = a->second;                                              \
        const float *restrict gradient = a->gradient;                                              \
        _Pragma("omp simd reduction(+ : change, before)") for (size_t i = begin; i < end; i++) {   \
            float kept[MOMENTS_MAX] = {moments > 0 ? first[i] : 0, moments > 1 ? second[i] : 0};   \
            float w = weight[i], g = gradient[i] * a->factor;                                      \
            float next = name##_step(numbers, w, g, kept), d = next - w;                           \
            weight[i] = next;                                                                      \
            if (moments > 0)                                                                       \
                first[i] = kept[0];                                                                \
            if (moments > 1)                                                                       \
                second[i] = kept[1];                                                               \
            change += d * d;                                                                       \
            before += w * w;                                                                       \
        }                                                                                          \
        return (struct network_change){(double)change, (double)before};                            \
    }                                                                                              \
    static struct network_change name##_part(const struct name##_numbers *numbers,                 \
                                             const struct arrays *a, size_t begin, size_t end) {   \
        if (name##_kind.moments > 0 && a->first)                                                   \
            return name##_loop(numbers, a, begin, end, name##_kind.moments);                       \
        return name##_loop(numbers, a, begin, end, 0);                                             \
    }
#include "kinds.def"

static struct network_change part(const struct optimizer_numbers *numbers, const struct arrays *a,
                                  size_t begin, size_t end) {
    switch (numbers->kind) {
#define OPTIMIZER(name)                                                                            \
    case OPTIMIZER_##name:                                                                         \
        return name##_part(&numbers->of.name, a, begin, end);
#include "kinds.def"
    case OPTIMIZERS:
        break;
    }
    return (struct network_change){0, 0};
}

struct network_change optimizer_step(struct network *n, const struct optimizer *optimizer,
                                     double rate, double factor, uint64_t t) {
    struct optimizer_numbers numbers = optimizer_prepare(optimizer, rate, t);
    struct arrays arrays = {n->parameters, n->gradient, n->moments[0], n->moments[1],
                            (float)factor};
    struct network_change total = {0, 0};
    for (size_t begin = 0; begin < n->block; begin += BLOCK) {
        size_t end = begin + BLOCK < n->block ? begin + BLOCK : n->block;
        struct network_change c = part(&numbers, &arrays, begin, end);
        total.squares += c.squares;
        total.before += c.before;
    }
    return total;
}
