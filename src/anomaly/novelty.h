/* How novel the recent past of one column is: nothing like it, seen at several scales, has been
   there before. A memory of earlier contexts is searched for the nearest one; how unlikely the
   distance is, its own history says (tail.h). No model, one setting for all streams, memory that
   does not grow, and nothing but the values until now.

   With x less the stream's first value, and s the running deviation of all values so far:

   - Context, 9 floats: the means of the lags [2^j - 1, 2^(j+1) - 2], j = 0..5 (0 before the first
     value); 0.5 sin and 0.5 cos of the time of day; the mean of the last 30.
   - Memory: up to `memory` contexts, which enter NOVELTY_DELAY steps late and replace a random one
     when it is full (xorshift64, whose state is kept).
   - N = s times the distance to the nearest: blocks divided by s, and the time of day. T likewise
     with the mean of the last 30 alone. Q = 1 / (deviation of the last 30 + 0.001 s).
   - Score = max(0, (L(N) + 0.2 L(Q) + 0.15 L(T)) / 1.15 - 0.4 log10(max(1, t / 1000))), L being
     their tails, which learn from step NOVELTY_DELAY on.

   A memory may be shared by the columns of several streams (novelty_take_shared). What is compared
   then is in each column's own terms, so that streams of other levels and scales are alike: means
   less that of the last 63, and in units of s. Each column keeps its calibration, and its own
   contexts on their way. A context enters with the probability 1 / n when the memory is full, n
   being how many others were offered since the column's last one: the memory of n streams reaches
   as far back as that of one. `t` is at least the number of those that entered so.

   The search takes the least of float distances, each computed in one order: it gives the same bits
   whatever the instruction set. The rest is double. */
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

/* What is kept of one column, doubles alone, beside novelty_floats() floats. */
struct novelty {
    double count; /* t: values so far; of a shared memory: see above */
    double first; /* of a shared memory: how many contexts it was offered */
    double mean, squares;
    double random[2];          /* the generator's state: high and low 32 bits; with a shared memory
                                  the number of its contexts when the column last offered one */
    double used;               /* contexts in memory */
    double ring[NOVELTY_RING]; /* value t is at t % NOVELTY_RING, less the first */
    struct tail novel, quiet, level;
};

/* Floats beside it: contexts on their way, and the memory. */
size_t novelty_floats(size_t memory);

/* Of them, whole contexts that are in use, from the first on: those after are zero. At most as many
   as there are, whatever `novelty` has. */
size_t novelty_contexts(const struct novelty *novelty, size_t memory);

/* A stream begins. Seed 1 gives the memory of the published figures. */
void novelty_begin(struct novelty *novelty, uint64_t seed);

/* The score >= 0 of the next value x, which is finite, at that minute of the day (0 without time).
   NaN: too little has been seen to say. */
double novelty_take(struct novelty *novelty, float *floats, size_t memory, double x,
                    unsigned minute);

/* The same, and what the column adds to a distance of several: to `distances` (memory, rounded up
   to VECTOR_LANES) the square of its blocks' distance in s from each context that it remembers.
   Without `learn` the tails stay as they are; then novelty_drop, once nobody asks for its context
   any more, keeps that from entering the memory. */
double novelty_take_beside(struct novelty *novelty, float *floats, size_t memory, double x,
                           unsigned minute, bool learn, float *distances);
void novelty_drop(const struct novelty *novelty, float *floats);

/* Where a column remembers: there, or where it shares. */
struct novelty_memory {
    struct novelty *novelty;
    float *floats;
    size_t size;
};

/* The same of a column that remembers with others, where novelty_begin was, too: of its own floats
   there need to be novelty_floats(0). */
double novelty_take_shared(struct novelty *novelty, float *floats,
                           const struct novelty_memory *memory, double x, unsigned minute,
                           bool learn);

/* It joins those that remember there; after novelty_begin. */
void novelty_join(struct novelty *novelty, const struct novelty *shared);

/* Of `columns` columns with a past in common, that have each taken their value of this step: the
   distance to the nearest context, blocks and time of day. INFINITY before there is any. */
double novelty_joint(const struct novelty *novelty, const float *floats, unsigned minute,
                     const float *distances, size_t columns);

/* s: the deviation of all values so far; 0 before there are any. */
double novelty_deviation(const struct novelty *novelty);

/* The context of the newest value, (NOVELTY_CONTEXT,). */
const float *novelty_newest(const struct novelty *novelty, const float *floats);

/* A context enters the memory at once. */
void novelty_remember(const struct novelty_memory *memory, const float *context);

/* A score less what it sinks by at value t: there are more to be surprised by. >= 0. */
double novelty_patient(double score, double t);

/* Whether what was read from a checkpoint can have been written by this. */
bool novelty_valid(const struct novelty *novelty, const float *floats, size_t memory);

#endif
