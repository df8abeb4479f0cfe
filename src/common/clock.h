/* The two clocks: one that only goes forward, for durations and deadlines, and the time of day. */
#ifndef RUNNEL_CLOCK_H
#define RUNNEL_CLOCK_H

#include <stdint.h>

#define NS_PER_SECOND 1000000000ull

/* CLOCK_MONOTONIC, in ns and in seconds. */
uint64_t clock_ns(void);
double clock_seconds(void);

/* Unix time in seconds. */
double clock_unix(void);

/* Seconds as poll(2) and its like want them: rounded up, so that a deadline that was waited for has
   passed; 0 of what is over, INT_MAX (24 days) of anything longer, infinity too. */
int clock_milliseconds(double seconds);

#endif
