/* Series of metrics in Prometheus's text format, and selectors that choose some of them:
   node_load1, http_requests_total{code="500",method="get"}. A selector chooses the series of that
   name that have these labels, whatever others they have. */
#ifndef RUNNEL_FEED_METRICS_H
#define RUNNEL_FEED_METRICS_H

#include <stddef.h>

struct label {
    char *name, *value; /* terminated */
};

struct selector {
    const char *text; /* as given */
    char *copy;       /* owned: what the rest points to */
    const char *name;
    struct label *labels; /* (count,) owned */
    size_t count;
};

/* 0, or -1: `*why` is a clause that says what is wrong, or NULL: out of memory. */
int selector_open(struct selector *selector, const char *text, const char **why);
void selector_close(struct selector *selector);

/* The sum of the values of all series that selector k chooses, to sums[k]; NAN when there
   is none. `text` is terminated and is written to. Lines that are none of this format count for
   nothing. */
void metrics_sum(char *text, const struct selector *const *selectors, double *sums, size_t count);

#endif
