/* What is kept of a learner and its parts, beside tensors and words: rows of numbers, each of which
   belongs to one part. Checkpoints, hand-over and adoption walk them (learner_rows).

   Between plans only. Rows are filled in their order, into a learner that has just been opened, or
   a slot in which the stream has begun; learner_slot_filled comes last. */
#ifndef RUNNEL_ROWS_H
#define RUNNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "model/safetensors.h"

struct error;

enum state_flags {
    STATE_ONCE = 1,    /* of the learner; else of each stream */
    STATE_MEMBERS = 2, /* each member has its own, under its name */
    STATE_ALWAYS = 4,  /* with STATE_MEMBERS: also where there is no member */
    STATE_LATER = 8,   /* files of earlier versions lack it: its numbers begin */
    STATE_TRUTH = 16,  /* only where predictions are kept for their truth */
    STATE_WATCH = 32, /* only where anomalies are looked for; those of a stream fit, or all begin */
    STATE_SHARED = 64,   /* also of slots that streams share, after those of streams */
    STATE_ALONE = 128,   /* with STATE_SHARED: of those slots alone */
    STATE_WINDOW = 256,  /* begins anew with another window, stride, rule or optimizer */
    STATE_MOMENTS = 512, /* begins anew with another optimizer */
    STATE_MEMORY = 1024, /* of anomalies: without it, or of another size, all of them begin */
};

struct state_place;

struct state_row {
    const char *name;
    enum safetensors_type type;
    unsigned flags;
    unsigned which; /* for its functions */
    size_t count; /* numbers of a stream; STATE_ONCE: of the learner, or rows of `width` numbers */
    size_t width; /* 0: it has one dimension */

    /* In place of `count`; 0: this learner has no such row. */
    size_t (*size)(const struct state_place *place);

    /* The numbers: piece n, NULL after the last one. `used`: how many rows of `count` numbers it
       has; without it there is one piece, of one row. */
    void *(*at)(const struct state_place *place, size_t n);
    size_t (*used)(const struct state_place *place, size_t n);
    size_t (*most)(
        const struct state_place *place); /* with `used`: rows that all pieces can have */

    /* In place of `at`: copy all of them out, or in. `write`, and `filled` after `at`: 1 when the
       learner cannot have written them, -1 when the device has failed. */
    int (*read)(const struct state_place *place, void *numbers, struct error *error);
    int (*write)(const struct state_place *place, const void *numbers, struct error *error);
    int (*filled)(const struct state_place *place);

    /* Of a row, where windows begin anew: the first numbers, which go on. The others are 0. */
    size_t (*lasting)(const struct state_place *place);

    /* The file lacks them, and a stream that begins has others. */
    void (*lacked)(const struct state_place *place);
};

/* Whose numbers are meant. */
struct state_place {
    void *self; /* the part */
    const struct state_row *row;
    size_t member;
    uint32_t slot;
};

/* `size` of the place's row, else `count`. */
static inline size_t state_row_size(const struct state_place *place) {
    return place->row->size ? place->row->size(place) : place->row->count;
}

/* A row of a table: its functions by name. */
#define STATE_ROW(name, type, flags, ...)                                                          \
    { name, SAFETENSORS_##type, flags, __VA_ARGS__ }
#define STATE_COPIED(what) .read = read_##what, .write = write_##what

#endif
