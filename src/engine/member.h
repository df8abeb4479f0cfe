/* One network and what is planned for it: its engine, its part of the plan, and the windows of its
   streams (engine.h). Where no members are listed there is one, without a name.

   Positions are those of a slot's ring (model_ring). The age of a step counts back from the next
   one: 1 is the newest. */
#ifndef RUNNEL_MEMBER_H
#define RUNNEL_MEMBER_H

#include "config/config.h"
#include "engine.h"

/* The window of one stream, beside the slot's record in the engine. */
struct learner_window {
    uint32_t next;   /* ring position of its next step */
    uint32_t length; /* closed steps in the window */
    uint32_t closed; /* of them: closed since the last update */
    uint32_t terms;  /* targets to be learned among those */
    uint32_t open;   /* steps after those that wait for their targets */
};

/* The rate and clip in effect, and those of the configuration: they differ once they were set in
   flight. */
struct learner_rates {
    double rate, clip, configured_rate, configured_clip;
};

struct member {
    char name[CONFIG_MEMBER_NAME_SIZE]; /* "" where no members are listed */
    const struct model *model;
    struct model *own; /* the same, of one that is listed; else NULL */
    const struct engine_ops *ops;
    struct engine *engine;
    uint64_t seed;
    enum rule rule;
    size_t window, stride, moments;
    struct learner_rates rates;
    struct learner_window *windows; /* (max_streams,) */

    /* The latest unbroken run of STEPs: of one slot, with no UPDATE among them and nothing else
       that changed parameters. A window that lies at its end is fresh. */
    uint32_t run_slot;
    uint64_t run_length;

    struct plan plan;
    struct results results;
};

/* Operations that one step can bring at most: FORGET of the stream that made room, STEP, MEASURE,
   SCORE (for each horizon), UPDATE (or ADVANCE) and SOLVE, and at the end of a sequence one more
   UPDATE and FORGET. */
enum { OPERATIONS_PER_STEP = 8, UPDATES_PER_STEP = 2 };

/* Counts that no plan of so many steps and measures exceeds. */
struct plan plan_longest(const struct model *model, size_t steps, size_t measures);

/* Memory for such a plan and its results; windows of so many streams. False: out of memory; close
   it all the same. Bytes that a step of the plan takes. */
bool member_open(struct member *member, size_t slots, size_t steps, size_t measures);
void member_close(struct member *member);
size_t member_step_bytes(const struct model *model);

/* Whether a plan of so many steps has room for all that one more can bring. */
bool plan_has_room(const struct member *member, size_t steps);

/* The plan begins empty. */
void plan_empty(struct plan *plan);

/* A block of its engine; writing one ends a run. */
int member_read(const struct member *member, enum engine_block block, size_t index, void *data,
                struct error *error);
int member_write(struct member *member, enum engine_block block, size_t index, const void *data,
                 struct error *error);

/* The position of the step of that age. */
uint32_t plan_position(const struct member *member, uint32_t slot, size_t age);

/* Append an operation. There must be room. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot);

/* A target of the open step of that age is the next row, which is filled. */
void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn);

/* Step with the next row of inputs, which is filled: the step is open. */
void plan_step(struct member *member, uint32_t slot);

/* The oldest open step's targets have come, or there are none: `terms` of them are learned from. */
void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates);

/* The sequence ends: open steps are dropped, and the rest is learned from. Without a target, what a
   rule keeps moves on over it. */
void plan_end(struct member *member, uint32_t slot, size_t *updates);

#endif
