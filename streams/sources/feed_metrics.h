/* Series in Prometheus's text format, and selectors: node_load1,
   http_requests_total{code="500",method="get"}. A selector matches all series of that name with at
   least these labels. */
#ifndef RUNNEL_FEED_METRICS_H
#define RUNNEL_FEED_METRICS_H

#include <stddef.h>

struct label {
    char *name, *value; /* terminated */
};

struct selector {
    const char *text; /* as given */
    char *copy;       /* owned; the rest points to it */
    const char *name;
    struct label *labels; /* (count,) owned */
    size_t count;
};

/* Returns 0, or -1 with a clause in `*why`; NULL: out of memory. */
int selector_open(struct selector *selector, const char *text, const char **why);
void selector_close(struct selector *selector);

/* Adds the values of all series that selector k matches in sums[k]; NAN without a match. `text` is
   terminated and is changed. Lines in another format are ignored. */
void metrics_sum(char *text, const struct selector *const *selectors, double *sums, size_t count);

#endif
