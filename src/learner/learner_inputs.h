/* From an x as it came to the engine's x. For learner*.c alone, as part of learner_internal.h. */
#ifndef RUNNEL_LEARNER_INPUTS_H
#define RUNNEL_LEARNER_INPUTS_H

#include "engine.h"

struct example;
struct learner;

/* ---- What is kept ---- */

/* From an x of columns to the engine's x: learner_columns.c. Of the step that is planned: */
struct learner_columns {
    bool wanted;         /* columns are listed, and are not one symbol alone or all forecast */
    bool next;           /* some are targets: */
    union value *scaled; /* (I,) a column's value as scaled, a symbol's id */
    union value *came;   /* (target_row,) targets as they came, */
    union value *seen;   /* (target_row,) and as scaled, what is missing filled in */
};

/* What of an example's time follows the rest of an input: learner_time.c. */
struct learner_time {
    double *kept;           /* (max_streams, LEARNER_TIMES); NULL without model.input.time */
    struct time_zone *zone; /* likewise */
    uint64_t backwards;     /* examples that were older than the one before, of all streams */
    union value features[TIME_WIDTH_MAX]; /* of the next step of the example that is planned */
};

/* ---- Columns (learner_columns.c) ---- */

int learner_columns_open(struct learner *learner, struct error *error);
void learner_columns_close(struct learner *learner);

/* The x of a step, float32 or uint32, maybe unaligned, becomes the engine's x (features,), but for
   what of it follows from the example's time. */
void learner_read_input(struct learner *learner, uint32_t slot, const void *x, union value *input);

/* ---- Time (learner_time.c) ---- */

int learner_time_open(struct learner *learner, size_t slots, struct error *error);
void learner_time_close(struct learner *learner);

/* A stream begins; an example of it comes, whose first step is next; a step has been planned. All
   of them do nothing without model.input.time. */
void learner_time_begin(struct learner *learner, uint32_t slot);
void learner_time_take(struct learner *learner, uint32_t slot, const struct example *example);
void learner_time_stepped(struct learner *learner);

/* Into the engine's x (features,) of a step: the last numbers of it. */
void learner_time_put(struct learner *learner, const struct model *model, union value *input);

#endif
