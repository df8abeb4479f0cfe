/* How long something goes on: a stream sends nothing, values are missing, or the same value is
   repeated. Against its own habits that is when it takes more than HABIT_FACTOR times as long as it
   ever did, and HABIT_LEAST steps at least, once enough is known of it. */
#ifndef RUNNEL_HABIT_H
#define RUNNEL_HABIT_H

#include <stdbool.h>

#define HABIT_FACTOR 3.0
#define HABIT_LEAST 30.0
#define HABIT_KNOWN 100.0 /* times that it has ended, or values, before anything is said */

/* Whether it is a whole number from 0 to 2^53, up to where all of them are doubles. */
bool habit_is_count(double value);

/* Doubles alone, so that a checkpoint takes it as it is; zero is the beginning. */
struct habit {
    double now;     /* for how long it has gone on */
    double longest; /* it has, before */
    double ended;   /* how often it has */
    double told;    /* 1: of this time it was said that it takes too long */
};

/* Longer than that it has never taken. */
double habit_limit(const struct habit *habit, double least);

/* It goes on by one, and so much is known of it. Returns true once each time, when it takes too
   long. */
bool habit_goes_on(struct habit *habit, double known);

/* It has ended; what took too long widens the habit, but not by more than HABIT_FACTOR. */
void habit_end(struct habit *habit, double least);

/* Whether what was read from a checkpoint can have been written by this. */
bool habit_valid(const struct habit *habit);

#endif
