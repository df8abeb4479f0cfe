/* The streams of a file whose rows name them, each with a row that is held back. */
#ifndef RUNNEL_FEED_STREAMS_H
#define RUNNEL_FEED_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "feed.h"

union value {
    float real;
    uint32_t id;
};

/* A parsed row. */
struct values {
    union value *numbers; /* x, then y */
    double time;
};

struct held_stream {
    struct stream stream; /* must be first: the tree compares by it */
    uint32_t epoch;       /* epoch of its newest number */
    uint64_t producer;    /* epoch and producer of the newest JSON example */
    bool seen;            /* JSON: there was an example */
    uint64_t labels;      /* JSON: labels since then, which got the numbers after its own */
    double time;          /* time of its newest row */
    bool timed;           /* there was a row */
    struct values held;
    bool holds;     /* `held` has a row */
    char *sequence; /* name of the held row's sequence; NULL before the first row */
    /* A table that is read ahead: for each row its key, ascending, and its values. `place`: the row
       of the table with the key of the newest row; `used`: rows up to the last one with an x. */
    double *later;
    size_t rows, capacity, used, place;
};

struct streams {
    struct held_stream **list; /* (count,) in the order of their first rows */
    size_t count, capacity;
    void *tree;     /* the same by key, for tsearch */
    size_t numbers; /* numbers per row; set before the first find */
};

/* Returns the stream with that name, or a new one. NULL: EX_DATAERR with the reason why the key is
   invalid, or EX_OSERR. */
struct held_stream *streams_find(struct streams *streams, const char *key, struct error *error);

/* Holds the row `values` and returns the one held before in it. Returns 1 if the new row begins
   another sequence, 0 if not, -1 if out of memory. */
int streams_hold(struct held_stream *stream, struct values *values, const char *sequence,
                 struct error *error);

int values_open(struct values *values, size_t numbers, struct error *error);
void streams_close(struct streams *streams);

#endif
