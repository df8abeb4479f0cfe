/* The state of a learner and its parts, besides tensors and words: rows of numbers, each of one
   part. Checkpoints, hand-over and adoption use them (learner_rows).

   Use them only between plans. Rows are filled in their order, into a learner that has just been
   opened, or a slot in which the stream has begun; learner_slot_filled comes last. */
#ifndef RUNNEL_ROWS_H
#define RUNNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "model/safetensors.h"

struct error;

enum state_flags {
    STATE_ONCE = 1,    /* one of the learner; otherwise one of each stream */
    STATE_MEMBERS = 2, /* one of each member, under its name */
    STATE_ALWAYS = 4,  /* STATE_MEMBERS even without a member */
    STATE_LATER = 8,   /* missing in files of earlier versions: starts from scratch */
    STATE_TRUTH = 16,  /* only if predictions or distributions are kept */
    /* Only with anomaly detection. */
    STATE_WATCH = 32,
    STATE_SHARED = 64,   /* also in shared slots, after those of streams */
    STATE_ALONE = 128,   /* only shared slots have it, with STATE_SHARED */
    STATE_WINDOW = 256,  /* reset by another window, stride, rule or optimizer */
    STATE_MOMENTS = 512, /* reset by another optimizer */
    STATE_MEMORY = 1024, /* if it is missing or has another size, all anomaly rows are reset */
    STATE_SIZED = 2048,  /* if one has another size, all of them start from scratch */
};

struct state_place;

struct state_row {
    const char *name;
    enum safetensors_type type;
    unsigned flags;
    unsigned which; /* selects the row for its functions */
    size_t count; /* numbers of a stream; STATE_ONCE: of the learner, or rows of `width` numbers */
    size_t width; /* 0: one dimension */
    size_t own;   /* first bytes that mean something only here: zeros in a state that moves */

    /* Replaces `count`; 0: this learner does not have the row. */
    size_t (*size)(const struct state_place *place);

    /* The numbers as piece n; NULL after the last one. `used`: the rows of `count` numbers in the
       piece; without it, one piece of one row. */
    void *(*at)(const struct state_place *place, size_t n);
    size_t (*used)(const struct state_place *place, size_t n);
    size_t (*most)(
        const struct state_place *place); /* maximum of rows in all pieces, with `used` */

    /* Replace `at`: copy all numbers out or in. `write`, and `filled` after `at`, return 1 if this
       learner cannot have written them, -1 if the device has failed. */
    int (*read)(const struct state_place *place, void *numbers, struct error *error);
    int (*write)(const struct state_place *place, const void *numbers, struct error *error);
    int (*filled)(const struct state_place *place);

    /* When windows are reset, the first numbers of a row continue; the others become 0. */
    size_t (*lasting)(const struct state_place *place);

    /* The file lacks the numbers, and their initial value is not that of a new stream. */
    void (*lacked)(const struct state_place *place);
};

/* The owner of a row's numbers. */
struct state_place {
    void *self; /* the part */
    const struct state_row *row;
    size_t member;
    uint32_t slot;
};

/* Returns `size` of the place's row, or `count`. */
static inline size_t state_row_size(const struct state_place *place) {
    return place->row->size ? place->row->size(place) : place->row->count;
}

/* A row of a table, with its functions by name. */
#define STATE_ROW(name, type, flags, ...)                                                          \
    { name, SAFETENSORS_##type, flags, __VA_ARGS__ }
#define STATE_COPIED(what) .read = read_##what, .write = write_##what
#define STATE_ROWS(list) .rows = list, .row_count = sizeof list / sizeof *list

#endif
