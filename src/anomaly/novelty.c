#include "novelty.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "common/vectors.h"
#include "habit.h"

enum {
    BLOCKS = 6, /* means of 1, 2, 4, ... values */
    CLOCK = BLOCKS,
    LEVEL = CLOCK + 2,
    RECENT = 30,
    PAST = NOVELTY_RING - 1, /* values of a context */
    SHARED_FROM = 20,        /* values until a column is compared with a shared memory */
};

#define SEED UINT64_C(88172645463325252)
#define SEED_STEP UINT64_C(0x9E3779B97F4A7C15) /* difference between one seed and the next */
#define CLOCK_SIZE 0.5
#define DEVIATION_LEAST 1e-9
#define QUIET_LEAST 1e-3 /* of the deviation */
#define QUIET_FLOOR 1e-12
#define QUIET_SHARE 0.2
#define LEVEL_SHARE 0.15
#define SHARES (1 + LEVEL_SHARE)
#define PATIENCE 0.4
#define PATIENCE_FROM 1000

_Static_assert(LEVEL + 1 == NOVELTY_CONTEXT, "the mean of the last group is its only number");

size_t novelty_floats(size_t memory) {
    return NOVELTY_CONTEXT * (NOVELTY_DELAY + vector_pad(memory));
}

size_t novelty_contexts(const struct novelty *novelty, size_t memory) {
    if (novelty->used > 0)
        return NOVELTY_DELAY + vector_pad((size_t)fmin(novelty->used, (double)memory));
    return (size_t)fmin(fmax(novelty->count, 0), NOVELTY_DELAY);
}

static uint64_t random_of(const double random[2]) {
    return (uint64_t)random[0] << 32 | (uint64_t)random[1];
}

static void keep_random(double kept[2], uint64_t random) {
    kept[0] = (double)(random >> 32);
    kept[1] = (double)(random & UINT32_MAX);
}

void novelty_begin(struct novelty *novelty, uint64_t seed) {
    memset(novelty, 0, sizeof *novelty);
    uint64_t random = SEED + (seed - 1) * SEED_STEP;
    keep_random(novelty->random, random ? random : SEED);
    tail_begin(&novelty->novel);
    tail_begin(&novelty->quiet);
    tail_begin(&novelty->level);
}

double novelty_deviation(const struct novelty *novelty) {
    return novelty->count > 0 ? sqrt(novelty->squares / novelty->count) : 0;
}

/* ---- The context ---- */

/* x is value t. Returns the running deviation of all values. */
static double take_value(struct novelty *novelty, double x) {
    uint64_t t = (uint64_t)novelty->count;
    if (t == 0)
        novelty->first = x;
    double delta = x - novelty->mean;
    novelty->mean += delta / (double)(t + 1);
    novelty->squares += delta * (x - novelty->mean);
    novelty->ring[t % NOVELTY_RING] = x - novelty->first;
    return sqrt(novelty->squares / (double)(t + 1)) + DEVIATION_LEAST;
}

/* The newest values, newest first; before the first value 0, since values are relative to it. */
static void unroll(const struct novelty *novelty, double *past) {
    uint64_t newest = (uint64_t)novelty->count + NOVELTY_RING;
    for (size_t lag = 0; lag < NOVELTY_RING; lag++)
        past[lag] = novelty->ring[(newest - lag) % NOVELTY_RING];
}

/* Sums in the order of the specification: round numbers lie on the edges of bins, where the last
   bit matters. */
static double sum_of(const double *values, size_t count) {
    enum { LANES = 8 };
    double lanes[LANES] = {0}, sum = 0;
    size_t n = 0;
    for (; n + LANES <= count; n += LANES)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] += values[n + i];
    sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; n < count; n++)
        sum += values[n];
    return sum;
}

static double mean_of(const double *values, size_t count) {
    return sum_of(values, count) / (double)count;
}

static double deviation_of(const double *values, size_t count, double mean) {
    double squares[RECENT];
    for (size_t n = 0; n < count; n++)
        squares[n] = (values[n] - mean) * (values[n] - mean);
    return sqrt(mean_of(squares, count));
}

static float number(double value) {
    return (float)fmin(fmax(value, -(double)FLT_MAX), (double)FLT_MAX);
}

/* Relative to the first value; with `unit` > 0 relative to the mean of its values, in that unit.
   Returns the deviation of the last RECENT values. */
static double fill_context(const struct novelty *novelty, unsigned minute, double unit,
                           float *context) {
    double seen = novelty->count + 1, angle = 2 * M_PI * minute / NOVELTY_MINUTES;
    size_t recent = seen < RECENT ? (size_t)seen : RECENT;
    double past[NOVELTY_RING], middle = 0;
    unroll(novelty, past);
    if (unit > 0)
        middle = mean_of(past, seen < PAST ? (size_t)seen : PAST);
    else
        unit = 1;
    double mean = mean_of(past, recent);
    for (size_t j = 0; j < BLOCKS; j++)
        context[j] = number((mean_of(past + ((size_t)1 << j) - 1, (size_t)1 << j) - middle) / unit);
    context[CLOCK] = (float)(CLOCK_SIZE * sin(angle));
    context[CLOCK + 1] = (float)(CLOCK_SIZE * cos(angle));
    context[LEVEL] = number((mean - middle) / unit);
    return deviation_of(past, recent, mean);
}

/* ---- The memory ---- */

/* Contexts that have not arrived yet: (NOVELTY_DELAY, NOVELTY_CONTEXT), that of value t at t %
   NOVELTY_DELAY. */
static float *delayed_of(const struct novelty *novelty, float *floats) {
    return floats + (uint64_t)novelty->count % NOVELTY_DELAY * NOVELTY_CONTEXT;
}

static float *memory_of(float *floats) {
    return floats + (size_t)NOVELTY_DELAY * NOVELTY_CONTEXT;
}

/* A dropped context is all zero. No other is, since its time of day has length CLOCK_SIZE. */
static bool is_dropped(const float *context) {
    return context[CLOCK] == 0 && context[CLOCK + 1] == 0;
}

/* xorshift64 (Marsaglia 2003) */
size_t novelty_choose(double random[2], size_t memory) {
    uint64_t r = random_of(random);
    r ^= r << 13;
    r ^= r >> 7;
    r ^= r << 17;
    keep_random(random, r);
    return (size_t)(r % memory);
}

void novelty_place(float *contexts, size_t floats, size_t at, const float *context) {
    float *lane = contexts + at / VECTOR_LANES * VECTOR_LANES * floats + at % VECTOR_LANES;
    for (size_t k = 0; k < floats; k++)
        lane[k * VECTOR_LANES] = context[k];
}

static void remember(struct novelty *novelty, float *contexts, size_t memory,
                     const float *context) {
    bool full = novelty->used >= (double)memory;
    size_t at = full ? novelty_choose(novelty->random, memory) : (size_t)novelty->used++;
    novelty_place(contexts, NOVELTY_CONTEXT, at, context);
}

/* Squares of the least distances from a context, of the whole and of the level; `square` is that
   of s. */
struct nearest {
    float context, level;
};

VECTOR_BODY void block_distances(const float *restrict context, float square,
                                 const float *restrict block, float *restrict all,
                                 float *restrict levels) {
#pragma omp simd
    for (size_t n = 0; n < VECTOR_LANES; n++) {
        float sum = 0;
        for (size_t j = 0; j < BLOCKS; j++) {
            float d = context[j] - block[j * VECTOR_LANES + n];
            sum += d * d;
        }
        float sine = context[CLOCK] - block[CLOCK * VECTOR_LANES + n];
        float cosine = context[CLOCK + 1] - block[(CLOCK + 1) * VECTOR_LANES + n];
        float clock = sine * sine + cosine * cosine;
        float level = context[LEVEL] - block[LEVEL * VECTOR_LANES + n];
        all[n] = sum / square + clock;
        levels[n] = level * level / square + clock;
    }
}

/* NaN (an infinite distance divided by an infinite s) is never the least. */
VECTOR_BODY float least(float a, float b) {
    return a < b ? a : b;
}

VECTOR_BODY void search_body(const float *restrict context, float square,
                             const float *restrict contexts, size_t count,
                             struct nearest *restrict found) {
    float all[VECTOR_LANES], levels[VECTOR_LANES];
    float best[VECTOR_LANES], best_level[VECTOR_LANES];
    size_t n = 0;
    for (size_t i = 0; i < VECTOR_LANES; i++)
        best[i] = best_level[i] = INFINITY;
    for (; n + VECTOR_LANES <= count; n += VECTOR_LANES) {
        block_distances(context, square, contexts + n * NOVELTY_CONTEXT, all, levels);
#pragma omp simd
        for (size_t i = 0; i < VECTOR_LANES; i++) {
            best[i] = least(all[i], best[i]);
            best_level[i] = least(levels[i], best_level[i]);
        }
    }
    if (n < count)
        block_distances(context, square, contexts + n * NOVELTY_CONTEXT, all, levels);
    for (size_t i = 0; i < count - n; i++) {
        best[i] = least(all[i], best[i]);
        best_level[i] = least(levels[i], best_level[i]);
    }
    for (size_t i = 1; i < VECTOR_LANES; i++) {
        best[0] = least(best[i], best[0]);
        best_level[0] = least(best_level[i], best_level[0]);
    }
    *found = (struct nearest){best[0], best_level[0]};
}

VECTOR_CLONES(search,
              (const float *context, float square, const float *contexts, size_t count,
               struct nearest *found),
              (context, square, contexts, count, found))

/* ---- The score ---- */

double novelty_patient(double score, double t) {
    return isnan(score) ? NAN : fmax(score - PATIENCE * log10(fmax(t / PATIENCE_FROM, 1)), 0);
}

struct features {
    double novel, quiet, level;
};

/* NaN while the tails have too few values; with `learn` they add these. */
static double score_of(struct novelty *novelty, const struct features *features, bool learn) {
    bool knows = tail_knows(&novelty->novel);
    double score = (tail_unlikeliness(&novelty->novel, features->novel) +
                    QUIET_SHARE * tail_unlikeliness(&novelty->quiet, features->quiet) +
                    LEVEL_SHARE * tail_unlikeliness(&novelty->level, features->level)) /
                   SHARES;
    if (learn) {
        tail_learn(&novelty->novel, features->novel);
        tail_learn(&novelty->quiet, features->quiet);
        tail_learn(&novelty->level, features->level);
    }
    return knows ? score : NAN;
}

struct novelty_score novelty_take(struct novelty *novelty, float *floats, size_t memory, double x,
                                  unsigned minute, bool learn) {
    float context[NOVELTY_CONTEXT];
    float *delayed = delayed_of(novelty, floats), *contexts = memory_of(floats);
    double s = take_value(novelty, x), t = novelty->count;
    double spread = fill_context(novelty, minute, 0, context);
    if (t >= NOVELTY_DELAY && !is_dropped(delayed))
        remember(novelty, contexts, memory, delayed);
    memcpy(delayed, context, sizeof context);
    bool compares = t >= NOVELTY_DELAY && novelty->used > 0;
    struct nearest nearest = {0, 0};
    if (compares)
        search(context, (float)(s * s), contexts, (size_t)novelty->used, &nearest);
    double novel = s * sqrt((double)nearest.context), level = s * sqrt((double)nearest.level);
    double quiet = 1 / (spread + QUIET_LEAST * s + QUIET_FLOOR);
    double score = score_of(novelty, &(struct features){novel, quiet, level}, compares && learn);
    novelty->count++;
    return (struct novelty_score){novelty_patient(score, t), score};
}

/* A context of a column enters the memory. Once it is full, only one in as many as others have
   offered meanwhile. */
static void offer(struct novelty *novelty, const struct novelty_memory *memory,
                  const float *context) {
    struct novelty *shared = memory->novelty;
    double since = ++shared->first - (double)random_of(novelty->random);
    bool counts = novelty_choose(shared->random, (size_t)fmax(since, 1)) == 0;
    keep_random(novelty->random, (uint64_t)shared->first);
    shared->count += counts;
    if (counts || shared->used < (double)memory->size)
        novelty_remember(memory, context);
}

void novelty_join(struct novelty *novelty, const struct novelty *shared) {
    keep_random(novelty->random, (uint64_t)fmax(shared->first, 1));
}

struct novelty_score novelty_take_shared(struct novelty *novelty, float *floats,
                                         const struct novelty_memory *memory, double x,
                                         unsigned minute, bool learn) {
    struct novelty *shared = memory->novelty;
    float context[NOVELTY_CONTEXT];
    float *delayed = delayed_of(novelty, floats);
    double s = take_value(novelty, x), t = novelty->count;
    double spread = fill_context(novelty, minute, s, context);
    if (t >= NOVELTY_DELAY && !is_dropped(delayed))
        offer(novelty, memory, delayed);
    memcpy(delayed, context, sizeof context);
    bool compares = t >= SHARED_FROM && shared->used > 0;
    struct nearest nearest = {0, 0};
    if (compares)
        search(context, 1, memory_of(memory->floats), (size_t)shared->used, &nearest);
    const struct features features = {
        .novel = sqrt((double)nearest.context),
        .quiet = s / (spread + QUIET_LEAST * s + QUIET_FLOOR),
        .level = sqrt((double)nearest.level),
    };
    double score = score_of(novelty, &features, compares && learn);
    novelty->count++;
    return (struct novelty_score){novelty_patient(score, fmax(t, shared->count)), score};
}

/* ---- The newest context ---- */

const float *novelty_newest(const struct novelty *novelty, const float *floats) {
    return floats + ((uint64_t)novelty->count - 1) % NOVELTY_DELAY * NOVELTY_CONTEXT;
}

void novelty_drop(const struct novelty *novelty, float *floats) {
    size_t newest = ((uint64_t)novelty->count - 1) % NOVELTY_DELAY;
    memset(floats + newest * NOVELTY_CONTEXT, 0, NOVELTY_CONTEXT * sizeof *floats);
}

void novelty_remember(const struct novelty_memory *memory, const float *context) {
    remember(memory->novelty, memory_of(memory->floats), memory->size, context);
}

/* ---- Checkpoints ---- */

static bool is_count(double value, double most) {
    return habit_is_count(value) && value <= most;
}

bool novelty_valid(const struct novelty *novelty, const float *floats, size_t memory) {
    static const double most = 2 * (double)FLT_MAX; /* a difference of two floats */
    bool valid = habit_is_count(novelty->count) && is_count(novelty->used, (double)memory) &&
                 is_count(novelty->random[0], UINT32_MAX) &&
                 is_count(novelty->random[1], UINT32_MAX) && random_of(novelty->random) &&
                 fabs(novelty->first) <= (double)FLT_MAX && fabs(novelty->mean) <= most &&
                 (novelty->used == 0 || novelty->count > 0 || novelty->first > 0) &&
                 novelty->squares >= 0 && novelty->squares <= FINITE_MOST &&
                 tail_valid(&novelty->novel) && tail_valid(&novelty->quiet) &&
                 tail_valid(&novelty->level);
    for (size_t n = 0; valid && n < NOVELTY_RING; n++)
        valid = fabs(novelty->ring[n]) <= most;
    for (size_t n = 0; valid && n < novelty_floats(memory); n++)
        valid = isfinite(floats[n]);
    return valid;
}
