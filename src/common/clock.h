/* Clocks: a monotonic one for durations and deadlines, the time of day, and a thread's CPU time. */
#ifndef RUNNEL_CLOCK_H
#define RUNNEL_CLOCK_H

#include <stdint.h>

#define NS_PER_SECOND 1000000000ull

/* CLOCK_MONOTONIC, in ns and in seconds. */
uint64_t clock_ns(void);
double clock_seconds(void);

/* CPU time of the calling thread in seconds. */
double clock_thread_seconds(void);

/* Unix time in seconds. */
double clock_unix(void);

/* Seconds as a timeout in ms for poll(2), rounded up so that a deadline has passed after the
   wait. 0 if the time is over; INT_MAX (24 days) for longer times and infinity. */
int clock_milliseconds(double seconds);

#endif
