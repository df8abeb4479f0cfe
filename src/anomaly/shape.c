#include "shape.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "common/vectors.h"
#include "habit.h"
#include "novelty.h"

static const struct {
    size_t block, delay;
} scales[SHAPE_SCALES] = {{1, NOVELTY_DELAY}, {3, NOVELTY_DELAY}, {7, 7 * SHAPE_CONTEXT}};
_Static_assert(SHAPE_RING >= 2 * 7 * SHAPE_CONTEXT, "a delayed window");

#define DEVIATION_LEAST 0.1 /* of s */

size_t shape_floats(size_t memory) {
    return SHAPE_SCALES * memory * SHAPE_CONTEXT;
}

size_t shape_contexts(const struct shape *shape, size_t n, size_t memory) {
    return vector_pad((size_t)fmin(fmax(shape->used[n], 0), (double)memory));
}

/* The context whose newest value is `lag` steps old. */
static void fill_context(const struct shape *shape, size_t block, size_t lag, float *context) {
    uint64_t newest = (uint64_t)shape->count + SHAPE_RING - lag, at = newest;
    double means[SHAPE_CONTEXT], middle = 0, squares = 0;
    for (size_t j = 0; j < SHAPE_CONTEXT; j++) {
        double sum = 0;
        for (size_t i = 0; i < block; i++)
            sum += shape->values[at-- % SHAPE_RING];
        means[j] = sum / (double)block;
        middle += means[j] / SHAPE_CONTEXT;
    }
    for (size_t j = 0; j < SHAPE_CONTEXT; j++)
        squares += (means[j] - middle) * (means[j] - middle);
    double unit = fmax(sqrt(squares / SHAPE_CONTEXT),
                       DEVIATION_LEAST * fabs(shape->deviations[newest % SHAPE_RING]));
    for (size_t j = 0; j < SHAPE_CONTEXT; j++)
        context[j] = (float)((means[j] - middle) / unit);
}

/* The search needs full blocks: a context fills the rest of the block that it begins. */
static void remember(struct shape *shape, size_t n, float *contexts, size_t memory,
                     const float *context) {
    bool full = shape->used[n] >= (double)memory;
    size_t at = full ? novelty_choose(shape->random, memory) : (size_t)shape->used[n]++;
    do
        novelty_place(contexts, SHAPE_CONTEXT, at, context);
    while (++at % VECTOR_LANES && !full);
}

enum { PART = 8 };

/* Adds the squares of PART differences of each context of a block. */
VECTOR_BODY void add_part(const float *restrict context, const float *restrict block,
                          float *restrict sums) {
#pragma omp simd
    for (size_t i = 0; i < VECTOR_LANES; i++) {
        float squares[PART];
        for (size_t j = 0; j < PART; j++) {
            float d = context[j] - block[j * VECTOR_LANES + i];
            squares[j] = d * d;
        }
        sums[i] += ((squares[0] + squares[1]) + (squares[2] + squares[3])) +
                   ((squares[4] + squares[5]) + (squares[6] + squares[7]));
    }
}

/* Finds the least square of a distance. A block ends early where all its sums exceed it. */
VECTOR_BODY void search_body(const float *restrict context, const float *restrict contexts,
                             size_t count, float *restrict found) {
    float least = INFINITY;
    for (size_t n = 0; n < count; n += VECTOR_LANES) {
        const float *block = contexts + n * SHAPE_CONTEXT;
        float sums[VECTOR_LANES] = {0};
        int nearer = 1;
        for (size_t j = 0; j < SHAPE_CONTEXT && nearer; j += PART) {
            add_part(context + j, block + j * VECTOR_LANES, sums);
            nearer = 0;
#pragma omp simd reduction(| : nearer)
            for (size_t i = 0; i < VECTOR_LANES; i++)
                nearer |= sums[i] < least;
        }
        for (size_t i = 0; i < VECTOR_LANES && nearer; i++)
            least = sums[i] < least ? sums[i] : least;
    }
    *found = least;
}

VECTOR_CLONES(search, (const float *context, const float *contexts, size_t count, float *found),
              (context, contexts, count, found))

static void begin(struct shape *shape, uint64_t seed) {
    memset(shape, 0, sizeof *shape);
    novelty_seed(shape->random, seed);
    for (size_t n = 0; n < SHAPE_SCALES; n++)
        tail_begin(&shape->tails[n]);
}

double shape_take(struct shape *shape, float *floats, size_t memory, uint64_t seed, double x,
                  double s, bool learn) {
    if (shape->count == 0)
        begin(shape, seed);
    uint64_t t = (uint64_t)shape->count;
    double sum = 0;
    shape->values[t % SHAPE_RING] = x;
    shape->deviations[t % SHAPE_RING] = learn ? s : -s;
    for (size_t n = 0; n < SHAPE_SCALES; n++) {
        float context[SHAPE_CONTEXT], square;
        float *contexts = floats + n * memory * SHAPE_CONTEXT;
        size_t block = scales[n].block, delay = scales[n].delay;
        if (t + 1 >= block * SHAPE_CONTEXT + delay &&
            shape->deviations[(t - delay) % SHAPE_RING] > 0) {
            fill_context(shape, block, delay, context);
            remember(shape, n, contexts, memory, context);
        }
        if (shape->used[n] == 0)
            continue;
        fill_context(shape, block, 0, context);
        search(context, contexts, shape_contexts(shape, n, memory), &square);
        double distance = sqrt((double)square);
        sum += tail_unlikeliness(&shape->tails[n], distance);
        if (learn)
            tail_learn(&shape->tails[n], distance);
    }
    shape->count++;
    return sum / SHAPE_SCALES;
}

bool shape_valid(const struct shape *shape, const float *floats, size_t memory) {
    bool valid = shape->count == 0 || novelty_random_valid(shape->random);
    valid &= habit_is_count(shape->count);
    for (size_t t = 0; valid && t < SHAPE_RING; t++)
        valid =
            fabs(shape->values[t]) <= (double)FLT_MAX && fabs(shape->deviations[t]) <= FINITE_MOST;
    for (size_t n = 0; valid && shape->count > 0 && n < SHAPE_SCALES; n++) {
        valid = habit_is_count(shape->used[n]) && shape->used[n] <= (double)memory &&
                tail_valid(&shape->tails[n]);
        const float *contexts = floats + n * memory * SHAPE_CONTEXT;
        for (size_t i = 0; valid && i < shape_contexts(shape, n, memory) * SHAPE_CONTEXT; i++)
            valid = isfinite(contexts[i]);
    }
    return valid;
}
