/* Novelty compares the recent values of a column with its history, at several scales: it finds the
   nearest one in a memory of earlier contexts, and the history of distances gives how unlikely this
   distance is (tail.h). The equations are in docs/explanation/anomalies.md. It has no model, one
   setting for all streams, a constant memory size, and uses only values up to now.

   Columns of several streams may share a memory (novelty_take_shared). Each column keeps its own
   calibration and delayed contexts. When the memory is full, a context enters with probability
   1 / n, where n is the number of contexts that other columns have offered since the column's last
   one: the shared memory reaches as far back as that of one stream. `t` is at least the number of
   contexts that entered.

   The search takes the least of float distances, each computed in a fixed order, so all
   instruction sets give the same bits. The rest is double. */
#ifndef RUNNEL_NOVELTY_H
#define RUNNEL_NOVELTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tail.h"

enum {
    NOVELTY_RING = 64,
    NOVELTY_DELAY = 150, /* steps */
    NOVELTY_CONTEXT = 9, /* floats of a context */
    NOVELTY_MINUTES = 24 * 60,
};

/* State of one column, doubles only, beside novelty_floats() floats. */
struct novelty {
    double count; /* t: values so far; of a shared memory see above */
    double first; /* first value; for a shared memory: number of offered contexts */
    double mean, squares;
    /* generator state: high and low 32 bits; with a shared memory its number of contexts when
       the column last offered one */
    double random[2];
    double used;               /* contexts in memory */
    double ring[NOVELTY_RING]; /* value t at t % NOVELTY_RING, relative to the first value */
    struct tail novel, quiet, level;
};

/* Floats of a column: delayed contexts and the memory. */
size_t novelty_floats(size_t memory);

/* Number of used contexts, from the first on; the others are zero. At most the capacity, even if
   `novelty` has an invalid count. */
size_t novelty_contexts(const struct novelty *novelty, size_t memory);

/* Starts a stream. Seed 1 gives the memory of the published figures. */
void novelty_begin(struct novelty *novelty, uint64_t seed);

/* `raw` does not fall with the number of values. */
struct novelty_score {
    double score, raw;
};

/* The score >= 0 of the next finite value x, at that minute of the day (0 without time). NaN:
   too few values so far. Without `learn` the tails stay unchanged; then call novelty_drop after
   the last use of the context, to keep it from the memory. */
struct novelty_score novelty_take(struct novelty *novelty, float *floats, size_t memory, double x,
                                  unsigned minute, bool learn);
void novelty_drop(const struct novelty *novelty, float *floats);

/* The memory of a column: its own or a shared one. */
struct novelty_memory {
    struct novelty *novelty;
    float *floats;
    size_t size;
};

/* Does the same for a column with a shared memory, also set at novelty_begin; its own floats are
   novelty_floats(0). */
struct novelty_score novelty_take_shared(struct novelty *novelty, float *floats,
                                         const struct novelty_memory *memory, double x,
                                         unsigned minute, bool learn);

/* The column joins those that share the memory; call it after novelty_begin. */
void novelty_join(struct novelty *novelty, const struct novelty *shared);

/* s: the deviation of all values so far; 0 without values. */
double novelty_deviation(const struct novelty *novelty);

/* The context of the newest value, (NOVELTY_CONTEXT,). */
const float *novelty_newest(const struct novelty *novelty, const float *floats);

/* A context enters the memory at once. */
void novelty_remember(const struct novelty_memory *memory, const float *context);

/* The score reduced by its penalty at value t, since longer streams have more chances for
   surprises. >= 0. */
double novelty_patient(double score, double t);

/* Whether a state from a checkpoint is valid. */
bool novelty_valid(const struct novelty *novelty, const float *floats, size_t memory);

/* The context of a full memory that a new one replaces, and the place of context `at` of so many
   floats: a memory is blocks of VECTOR_LANES contexts, transposed. */
size_t novelty_choose(double random[2], size_t memory);
void novelty_place(float *contexts, size_t floats, size_t at, const float *context);

#endif
