#include "clock.h"

#include <limits.h>
#include <math.h>
#include <time.h>

uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_seconds(void) {
    return seconds(CLOCK_MONOTONIC);
}

double clock_thread_seconds(void) {
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

double clock_unix(void) {
    return seconds(CLOCK_REALTIME);
}

int clock_milliseconds(double seconds) {
    return (int)fmin(ceil(fmax(seconds, 0) * 1e3), INT_MAX);
}
