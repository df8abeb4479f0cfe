/* One checked example, from ingest to the learner. Plain data: the bytes belong to
   ingest and are valid until its next call. */
#ifndef RUNNEL_EXAMPLE_H
#define RUNNEL_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXAMPLE_STEPS_MAX = 4096 /* most steps in one example */ };

struct example {
    const char *key; /* name of the stream, UTF-8, not terminated */
    size_t key_size; /* 0..WIRE_KEY_MAX */
    size_t steps;    /* T >= 1; for a label the steps of its example */
    /* A label has no x: y contains the targets of an earlier example of this stream and
       producer, which has these numbers. */
    bool label;
    uint32_t label_epoch;
    uint64_t label_sequence;
    /* (T, I) float32, or (T,) uint32 symbols; may be unaligned. NaN only with missing: hold. */
    const void *x;
    /* With model.input.sequence x is one step, a message of that many atoms (atoms, I); else 0. Of
       y the same, with output.sequence. */
    size_t atoms, target_atoms;
    /* (T, size) float32, or (T,) uint32 classes; may be unaligned; NULL = no targets. */
    const void *y;
    /* (words_size,) The words of the cells of x, then y, that are WIRE_WORD, in the format of
       wire.h; words_size 0: no words. */
    const char *words;
    size_t words_size;
    /* (note_size,) UTF-8, for people: shown with an alarm, never learned; note_size 0: no note. */
    const char *note;
    size_t note_size;
    bool end;      /* the sequence ends with this example */
    bool learn;    /* learn from the targets of this example */
    bool result;   /* the ROUTER's client requests prediction and loss */
    bool numbered; /* the example has a header: epoch and sequence are set */
    uint32_t epoch;
    uint64_t sequence;
    bool quantiles;    /* with `result`: quantiles, too */
    bool sparse;       /* the numbers only increase: a gap does not mean a missing example */
    uint64_t producer; /* 0 = unknown */
    /* Partition of a broker (journal_partition), whose position is epoch and sequence; 0 = from
       a socket. */
    uint32_t partition;
    uint64_t count;    /* messages of the partition so far, as far as known */
    double time;       /* Unix time from the header, 0 = unknown */
    uint64_t received; /* CLOCK_MONOTONIC in ns at the receipt from the socket */
};

/* The rows of x, and of y: its steps, or the atoms of its one step. */
static inline size_t example_inputs(const struct example *example) {
    return example->label ? 0 : example->atoms ? example->atoms : example->steps;
}
static inline size_t example_targets(const struct example *example) {
    return !example->y ? 0 : example->target_atoms ? example->target_atoms : example->steps;
}

#endif
