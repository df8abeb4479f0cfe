/* Durations: a stream sends nothing, values are missing, or a value is repeated. A duration
   breaks the habit if it exceeds HABIT_FACTOR times the longest one so far, and HABIT_LEAST
   steps, once enough is known. */
#ifndef RUNNEL_HABIT_H
#define RUNNEL_HABIT_H

#include <stdbool.h>

#define HABIT_FACTOR 3.0
#define HABIT_LEAST 30.0
#define HABIT_KNOWN 100.0 /* ends, or values, before anything is reported */

/* Whether it is an integer from 0 to 2^53, the range in which doubles are exact. */
bool habit_is_count(double value);

/* Doubles only, so that a checkpoint can copy it; all zero is a new stream. */
struct habit {
    double now;      /* current duration */
    double longest;  /* longest earlier duration */
    double ended;    /* number of ends */
    double reported; /* 1: the current duration was reported as too long */
};

/* The longest duration within the habit. */
double habit_limit(const struct habit *habit, double least);

/* Extends the duration by one step; `known`: amount of data so far. Returns true once per
   duration, when it becomes too long. */
bool habit_goes_on(struct habit *habit, double known);

/* The duration ends. One that was too long widens the habit, by at most HABIT_FACTOR. */
void habit_end(struct habit *habit, double least);

/* Whether a state from a checkpoint is valid. */
bool habit_valid(const struct habit *habit);

#endif
