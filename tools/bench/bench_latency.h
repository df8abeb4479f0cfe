/* How long single examples take, one by one: what a mean hides, such as the example that brings the
   update. */
#ifndef RUNNEL_BENCH_LATENCY_H
#define RUNNEL_BENCH_LATENCY_H

#include <stddef.h>

enum { LATENCIES_MAX = 1 << 17 };

struct latencies {
    double *values; /* (LATENCIES_MAX,) */
    size_t count;
};

/* -1 when out of memory. */
int latencies_open(struct latencies *latencies);
void latencies_close(struct latencies *latencies);

/* What is beyond LATENCIES_MAX is left out. */
void latencies_add(struct latencies *latencies, double value);

/* The value that the share `part` lies at or below; 0 for none. Sorts the values. */
double latencies_quantile(struct latencies *latencies, double part);

#endif
