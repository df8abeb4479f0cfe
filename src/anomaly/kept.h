/* The last alarms of a stream, kept so that one can be marked as normal. With each are the contexts
   (novelty.h) of its step and of those after it, KEPT_STEPS in all: what was seen once, also its
   way through the blocks of lags, is then not novel the next time. */
#ifndef RUNNEL_KEPT_H
#define RUNNEL_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "novelty.h"

enum { KEPT_ALARMS = 8, KEPT_STEPS = 32 };

/* Doubles alone, so that a checkpoint takes it as it is; zero is the state of a stream that begins.
   Followed by (columns, KEPT_ALARMS) struct kept_contexts. */
struct kept {
    double next; /* the place of the next alarm: the oldest's */
    struct kept_alarm {
        double steps; /* of the stream, its own included; 0: there is none */
        double time;  /* of the data, Unix time; 0 = unknown */
        double score;
        double normal; /* 1: marked */
    } alarms[KEPT_ALARMS];
};

struct kept_contexts {
    double count;
    double contexts[KEPT_STEPS][NOVELTY_CONTEXT];
};

/* Doubles of a stream. */
size_t kept_size(size_t columns);

/* Keep an alarm, in place of the oldest: the newest step's. Then each column's context of it, where
   the column has a value. */
void kept_add(struct kept *kept, size_t columns, const struct kept_alarm *alarm);
void kept_first(struct kept *kept, size_t k, const struct novelty *novelty, const float *floats);

/* Column k has taken its value of the stream's newest step: its context is one of those after an
   alarm, and enters the memory at once where that has been marked. */
void kept_take(struct kept *kept, size_t k, double steps, const struct novelty *novelty,
               const float *floats, const struct novelty_memory *memory);

/* The alarm less than a second from that time, the nearest; NaN: the newest. KEPT_ALARMS: none. */
size_t kept_find(const struct kept *kept, double at);

/* Column k's contexts of the alarm enter its memory. */
void kept_enter(const struct kept *kept, size_t alarm, size_t k,
                const struct novelty_memory *memory);

/* Whether what was read from a checkpoint can have been written by this. */
bool kept_valid(const struct kept *kept, size_t columns);

#endif
