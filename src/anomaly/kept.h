/* Keeps the last alarms of a stream, so that one can be marked as normal. Each has the numbers of
   its step and of the steps after it, KEPT_STEPS in total. For novelty these are the contexts
   (novelty.h) of each column: after that, the same values are not novel any more, including their
   way through the blocks of lags. For level (level.h) they are all smoothed values, as of one
   column. */
#ifndef RUNNEL_KEPT_H
#define RUNNEL_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "novelty.h"

enum { KEPT_ALARMS = 8, KEPT_STEPS = 32 };

/* Doubles only, so that a checkpoint can copy it; all zero is a new stream. (columns,
   KEPT_ALARMS) of 1 + KEPT_STEPS * width doubles follow: the number of steps, and `width` numbers
   of each. */
struct kept {
    double next; /* place of the next alarm, that of the oldest */
    struct kept_alarm {
        double steps; /* number of the stream's steps, including its own; 0: none */
        double time;  /* data time, Unix time; 0 = unknown */
        double score;
        double normal; /* 1: marked as normal */
    } alarms[KEPT_ALARMS];
};

/* Doubles of a stream. */
size_t kept_size(size_t columns, size_t width);

/* Keeps an alarm of the newest step in place of the oldest one. */
void kept_add(struct kept *kept, size_t columns, size_t width, const struct kept_alarm *alarm);

/* The number of steps of an alarm, then the numbers; and the place of those of a further step. */
double *kept_steps(const struct kept *kept, size_t width, size_t k, size_t alarm);
double *kept_append(struct kept *kept, size_t width, size_t k, size_t alarm);

/* Whether the alarm takes the stream's newest step, too. */
bool kept_takes(const struct kept *kept, size_t alarm, double steps);

/* With novelty: after kept_add, each column's context if the column has a value. */
void kept_first(struct kept *kept, size_t k, const struct novelty *novelty, const float *floats);

/* Column k has a value in the stream's newest step: keeps its context with the latest alarms. If
   an alarm is marked as normal, the context enters the memory at once. */
void kept_take(struct kept *kept, size_t k, double steps, const struct novelty *novelty,
               const float *floats, const struct novelty_memory *memory);

/* The alarm nearest to that time, within a second; NaN: the newest. KEPT_ALARMS: not found. */
size_t kept_find(const struct kept *kept, double at);

/* Enters column k's contexts of the alarm into its memory. */
void kept_enter(const struct kept *kept, size_t alarm, size_t k,
                const struct novelty_memory *memory);

/* Whether a state from a checkpoint is valid, in a stream of so many steps. */
bool kept_valid(const struct kept *kept, size_t columns, size_t width, double steps);

#endif
