/* The optimizers' updates over the whole block at once: they read and write parameters, moments
   and gradient once. Bound by bytes if the block exceeds the cache, else by square roots and
   divisions. */
#include "optimizers.h"

#include "network.h"
#include "split.h"
#include "updates.h"

/* Cost of a number, to decide about threads: adam's square root and division. */
enum { AS_MULTIPLY_ADDS = 8 };

struct arrays {
    float *weight, *gradient, *const *moments; /* (MOMENTS_MAX,), NULL: unused */
    const float *start;                        /* NULL: no pull */
    size_t kept;                               /* moments, without `start` */
    float factor;                              /* of the gradient: clipping */
    float pull;
};

/* Three functions per optimizer: the step of one number; the loop over [begin, end), which sums
   squares of change and weight; and the choice of the loop. `kept`, the number of moments, and
   `pulled` are constants of each loop. The compiler vectorizes the loop only if nothing in it has
   an address: a separate function sets pointers to the moments, and the constants are a copy that
   no store can reach. */
#define MOMENT(k) (kept > k ? &m##k[i] : NULL)
#define LOOP(name, kept)                                                                           \
    !name##_kind.rateless && a->start ? name##_loop(numbers, kept, true, a, begin, end)            \
                                      : name##_loop(numbers, kept, false, a, begin, end)
#define OPTIMIZER(name)                                                                            \
    static inline __attribute__((always_inline)) float name##_number(                              \
        const struct name##_numbers *numbers, size_t kept, float w, float g, float *m0, float *m1, \
        float *m2, float *m3, float *m4) {                                                         \
        float *const moments[MOMENTS_MAX] = {m0, m1, m2, m3, m4};                                  \
        return name##_step(numbers, kept, w, g, moments);                                          \
    }                                                                                              \
    static inline __attribute__((always_inline)) struct network_change name##_loop(                \
        const struct name##_numbers *numbers, size_t kept, bool pulled, const struct arrays *a,    \
        size_t begin, size_t end) {                                                                \
        const struct name##_numbers constants = *numbers;                                          \
        float change = 0, before = 0;                                                              \
        float *restrict weight = a->weight, *restrict m0 = a->moments[0],                          \
                        *restrict m1 = a->moments[1], *restrict m2 = a->moments[2],                \
                        *restrict m3 = a->moments[3], *restrict m4 = a->moments[4];                \
        const float *restrict gradient = a->gradient, *restrict start = a->start;                  \
        _Pragma("omp simd reduction(+ : change, before)") for (size_t i = begin; i < end; i++) {   \
            float w = weight[i], g = gradient[i] * a->factor;                                      \
            float next = name##_number(&constants, kept, w, g, MOMENT(0), MOMENT(1), MOMENT(2),    \
                                       MOMENT(3), MOMENT(4));                                      \
            if (pulled)                                                                            \
                next = optimizer_pull(a->pull, next, start[i]);                                    \
            next = update_next(w, g, next);                                                        \
            float d = next - w;                                                                    \
            weight[i] = next;                                                                      \
            change += d * d;                                                                       \
            before += w * w;                                                                       \
        }                                                                                          \
        return (struct network_change){(double)change, (double)before};                            \
    }                                                                                              \
    static struct network_change name##_part(const struct name##_numbers *numbers,                 \
                                             const struct arrays *a, size_t begin, size_t end) {   \
        if (name##_kind.moments_need && a->kept == name##_kind.moments_least)                      \
            return LOOP(name, name##_kind.moments_least);                                          \
        return LOOP(name, name##_kind.moments);                                                    \
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

/* A step on blocks shared by threads; each block's sums are in n->changes. */
struct shared {
    const struct network *n;
    const struct optimizer_numbers *numbers;
    const struct arrays *arrays;
    size_t blocks, parts;
};

static struct network_change block(const struct shared *s, size_t number) {
    size_t begin = number * NETWORK_BLOCK, end = begin + NETWORK_BLOCK;
    return part(s->numbers, s->arrays, begin, end < s->n->trained ? end : s->n->trained);
}

static void play_blocks(void *context, size_t part) {
    const struct shared *s = context;
    size_t end = threads_share(s->blocks, part + 1, s->parts);
    for (size_t b = threads_share(s->blocks, part, s->parts); b < end; b++)
        s->n->changes[b] = block(s, b);
}

struct network_change optimizer_step(struct network *n, const struct optimizer *optimizer,
                                     double rate, double factor, uint64_t t) {
    struct optimizer_numbers numbers = optimizer_prepare(optimizer, rate, t);
    size_t start = optimizer_start(optimizer);
    bool pulled = start < MOMENTS_MAX;
    struct arrays arrays = {n->parameters,
                            n->gradient,
                            n->moments,
                            pulled ? n->moments[start] : NULL,
                            optimizer_moments(optimizer) - pulled,
                            (float)factor,
                            numbers.pull};
    struct shared shared = {n, &numbers, &arrays, network_blocks(n), 1};
    struct network_change total = {0, 0};
    shared.parts = split_parts(n, n->trained * AS_MULTIPLY_ADDS, shared.blocks);
    if (shared.parts > 1)
        threads_run(n->threads, play_blocks, &shared, shared.parts);
    for (size_t b = 0; b < shared.blocks; b++) {
        struct network_change c = shared.parts > 1 ? n->changes[b] : block(&shared, b);
        total.squares += c.squares;
        total.before += c.before;
    }
    return total;
}
