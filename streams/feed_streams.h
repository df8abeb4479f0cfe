/* The streams of a file whose rows name them, and the row that each one holds back. */
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
    struct stream stream; /* first: the tree compares by it */
    uint32_t epoch;       /* of its newest number, where numbers are those of a journal; of JSON: */
    uint64_t producer;    /* of its newest example; and whose it is */
    bool seen;            /* of JSON: there was an example, */
    uint64_t labels;      /* and so many labels since, which got the numbers after its own */
    double time;          /* of its newest row, */
    bool timed;           /* if it had a row */
    struct values held;
    bool holds;     /* there is a row in `held` */
    char *sequence; /* what names the held row's sequence; NULL before the first row */
};

struct streams {
    struct held_stream **list; /* (count,) in the order of their first rows */
    size_t count, capacity;
    void *tree;     /* the same by key, for tsearch */
    size_t numbers; /* in a row; set it before the first find */
};

/* The stream of that name, a new one if there is none. NULL: `error` is filled (EX_DATAERR, with a
   phrase that says why the key is none; EX_OSERR). */
struct held_stream *streams_find(struct streams *streams, const char *key, struct error *error);

/* Hold the row `values`, and put into it what was held before. 1: the new row belongs to another
   sequence than the one before, 0: to the same. -1: out of memory. */
int streams_hold(struct held_stream *stream, struct values *values, const char *sequence,
                 struct error *error);

int values_open(struct values *values, size_t numbers, struct error *error);
void streams_close(struct streams *streams);

#endif
