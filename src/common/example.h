/* One checked example, as ingest hands it to the learner. Plain data; the bytes that it points to
   belong to ingest and are valid until its next call. */
#ifndef RUNNEL_EXAMPLE_H
#define RUNNEL_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXAMPLE_STEPS_MAX = 4096 /* most steps in one example */ };

struct example {
    const char *key; /* the stream, UTF-8, not terminated */
    size_t key_size; /* 0..WIRE_KEY_MAX */
    size_t steps;    /* T >= 1; of a label: those of the example that it is for */
    bool label;      /* it has no x: y are the targets of an earlier example of its stream and */
    uint32_t label_epoch; /* producer, that of these numbers */
    uint64_t label_sequence;
    const void *x; /* (T, I) float32, or (T,) uint32 symbols; may be unaligned. NaN only if held */
    const void *y; /* (T, size) float32, or (T,) uint32 classes; may be unaligned; NULL = none */
    const char *words; /* (words_size,) those of cells of x, then y, that are WIRE_WORD, as wire.h
                          has them; words_size 0: there are none */
    size_t words_size;
    const char *note; /* (note_size,) UTF-8, for people: shown with an alarm, and not learned */
    size_t note_size; /* 0: there is none */
    bool end;         /* the sequence ends with this example */
    bool learn;       /* the targets that it brings are learned from */
    bool result;      /* a ROUTER's client wants prediction and loss back */
    bool numbered;    /* it came with a header: the next three fields count */
    uint32_t epoch;
    uint64_t sequence;
    bool sparse;        /* its numbers only rise: a gap before this one says nothing */
    uint64_t producer;  /* whose numbers these are; 0 = not said */
    uint32_t partition; /* of a broker: journal_partition; 0 = it came over a socket. Then epoch and
                           sequence are its place, and */
    uint64_t count;     /* so many of the partition have come, as far as is known */
    double time;        /* Unix time of the header, 0 = unknown */
    uint64_t received;  /* CLOCK_MONOTONIC in ns when it was taken from the socket */
};

#endif
