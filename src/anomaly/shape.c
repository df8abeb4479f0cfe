#include "shape.h"

#include <float.h>
#include <math.h>

#include "common/finite.h"
#include "common/vectors.h"
#include "habit.h"

static const size_t blocks[SHAPE_SCALES] = {1, 3, 7};
static const size_t delays[SHAPE_SCALES] = {NOVELTY_DELAY, NOVELTY_DELAY, 7 * SHAPE_CONTEXT};

#define DEVIATION_LEAST 0.1 /* of s */
#define S_LEAST 1e-9

size_t shape_contexts(const struct shape *shape, size_t scale, size_t memory) {
    return vector_pad((size_t)fmin(fmax(shape->used[scale], 0), (double)memory));
}

/* The context whose newest value is `lag` steps old. */
static void fill_context(const struct shape *shape, size_t block, size_t lag, float *context) {
    uint64_t newest = (uint64_t)shape->count + SHAPE_RING - lag, at = newest;
    double means[SHAPE_CONTEXT] = {0}, middle = 0, squares = 0;
    for (size_t j = 0; j < SHAPE_CONTEXT; j++) {
        for (size_t i = 0; i < block; i++)
            means[j] += shape->values[at-- % SHAPE_RING] / (double)block;
        middle += means[j] / SHAPE_CONTEXT;
    }
    for (size_t j = 0; j < SHAPE_CONTEXT; j++)
        squares += (means[j] - middle) * (means[j] - middle);
    double least = DEVIATION_LEAST * fabs(shape->deviations[newest % SHAPE_RING]);
    double unit = fmax(sqrt(squares / SHAPE_CONTEXT), least);
    for (size_t j = 0; j < SHAPE_CONTEXT; j++)
        context[j] = (float)((means[j] - middle) / unit);
}

/* The search needs full blocks: a context fills the rest of the block that it begins. */
static void remember(struct shape *shape, size_t scale, float *contexts, size_t memory,
                     const float *context) {
    bool full = shape->used[scale] >= (double)memory;
    size_t at = full ? novelty_choose(shape->random, memory) : (size_t)shape->used[scale]++;
    do
        novelty_place(contexts, SHAPE_CONTEXT, at, context);
    while (++at % VECTOR_LANES && !full);
}

/* Finds the least square of a distance. */
VECTOR_BODY void search_body(const float *restrict context, const float *restrict contexts,
                             size_t count, float *restrict found) {
    float least[VECTOR_LANES];
    for (size_t i = 0; i < VECTOR_LANES; i++)
        least[i] = INFINITY;
    for (const float *end = contexts + count * SHAPE_CONTEXT; contexts < end;) {
        float sums[VECTOR_LANES] = {0};
        for (size_t j = 0; j < SHAPE_CONTEXT; j++, contexts += VECTOR_LANES)
#pragma omp simd
            for (size_t i = 0; i < VECTOR_LANES; i++)
                sums[i] += (context[j] - contexts[i]) * (context[j] - contexts[i]);
#pragma omp simd
        for (size_t i = 0; i < VECTOR_LANES; i++)
            least[i] = sums[i] < least[i] ? sums[i] : least[i];
    }
    *found = least[0];
    for (size_t i = 1; i < VECTOR_LANES; i++)
        *found = least[i] < *found ? least[i] : *found;
}

VECTOR_CLONES(search, (const float *context, const float *contexts, size_t count, float *found),
              (context, contexts, count, found))

double shape_take(struct shape *shape, float *floats, size_t memory, const struct novelty *novelty,
                  double x, bool learn) {
    uint64_t t = (uint64_t)shape->count;
    double sum = 0, s = novelty_deviation(novelty) + S_LEAST;
    if (t == 0)
        *shape = (struct shape){.random = {novelty->random[0], novelty->random[1]}};
    shape->values[t % SHAPE_RING] = x;
    shape->deviations[t % SHAPE_RING] = learn ? s : -s;
    for (size_t n = 0; n < SHAPE_SCALES; n++, floats += memory * SHAPE_CONTEXT) {
        float context[SHAPE_CONTEXT], square;
        struct tail *tail = &shape->tails[n];
        if (t == 0)
            tail_begin(tail);
        if (t + 1 >= blocks[n] * SHAPE_CONTEXT + delays[n] &&
            shape->deviations[(t - delays[n]) % SHAPE_RING] > 0) {
            fill_context(shape, blocks[n], delays[n], context);
            remember(shape, n, floats, memory, context);
        }
        if (shape->used[n] == 0)
            continue;
        fill_context(shape, blocks[n], 0, context);
        search(context, floats, shape_contexts(shape, n, memory), &square);
        sum += tail_unlikeliness(tail, sqrt((double)square));
        if (learn)
            tail_learn(tail, sqrt((double)square));
    }
    shape->count++;
    return sum / SHAPE_SCALES;
}

bool shape_valid(const struct shape *shape, const float *floats, size_t memory) {
    bool begun = shape->count != 0;
    bool valid = habit_is_count(shape->count) && shape->random[0] >= 0 && shape->random[1] >= 0 &&
                 fmax(shape->random[0], shape->random[1]) <= UINT32_MAX;
    for (size_t t = 0; valid && t < SHAPE_RING; t++)
        valid =
            fabs(shape->values[t]) <= (double)FLT_MAX && fabs(shape->deviations[t]) <= FINITE_MOST;
    for (size_t n = 0; valid && begun && n < SHAPE_SCALES; n++, floats += memory * SHAPE_CONTEXT) {
        size_t size = shape_contexts(shape, n, memory) * SHAPE_CONTEXT;
        valid = habit_is_count(shape->used[n]) && shape->used[n] <= (double)memory &&
                tail_valid(&shape->tails[n]);
        for (size_t i = 0; valid && i < size; i++)
            valid = isfinite(floats[i]);
    }
    return valid;
}
