/* One network and its plan: its engine, its part of the plan, and the windows of its streams
   (engine.h). Without listed members there is one, with an empty name.

   Positions are those of a slot's ring (model_ring). The age of a step counts back from the next
   one: 1 is the newest. */
#ifndef RUNNEL_MEMBER_H
#define RUNNEL_MEMBER_H

#include "config/config.h"
#include "engine.h"
#include "plasticity.h"

/* The window of one stream, beside the slot's record in the engine. */
struct learner_window {
    uint32_t next;   /* ring position of the next step */
    uint32_t length; /* closed steps in the window */
    uint32_t closed; /* the steps of these closed since the last update */
    uint32_t terms;  /* targets of these to be learned; of a list of outputs, steps with some */
    uint32_t open;   /* later steps that wait for their targets */
};

/* The rate and clip in effect, and those of the configuration: they differ after a change at run
   time. */
struct learner_rates {
    double rate, clip, configured_rate, configured_clip;
};

struct member {
    char name[CONFIG_MEMBER_NAME_SIZE]; /* "" without listed members */
    const struct model *model;
    struct model *own; /* the same, if the member is listed; else NULL */
    const struct engine_ops *ops;
    struct engine *engine;
    uint64_t seed;
    enum rule rule;
    size_t window, stride, moments;
    size_t start; /* number of the moments that are starting values; SIZE_MAX: none */
    struct learner_rates rates;
    struct learner_window *windows; /* (max_streams,) */
    uint64_t probe;                 /* updates between two probes; 0: none */
    struct plasticity plasticity;

    /* The latest run of STEPs of one slot, without an UPDATE or another change of parameters. A
       window at its end is fresh. */
    uint32_t run_slot;
    uint64_t run_length;

    struct plan plan;
    uint8_t *heads; /* (scores,) of the plan: number of each SCORE's head */
    struct results results;
    size_t delivered; /* results of updates that have been delivered */
};

/* The most operations per step: FORGET of the stream that made room, STEP, MEASURE, SCORE (per
   horizon), UPDATE (or ADVANCE) and SOLVE, and at the end of a sequence another UPDATE and
   FORGET. */
enum { OPERATIONS_PER_STEP = 8, UPDATES_PER_STEP = 2 };

/* The largest counts of a plan of that many steps and measures. */
struct plan plan_longest(const struct model *model, size_t steps, size_t measures);

/* Allocates such a plan, its results, and the windows of the streams. False: out of memory; call
   member_close anyway. The second returns the bytes per step of the plan. */
bool member_open(struct member *member, size_t slots, size_t steps, size_t measures);
void member_close(struct member *member);
size_t member_step_bytes(const struct model *model);

/* Whether a plan of that many steps has room for all operations of another one. */
bool plan_has_room(const struct member *member, size_t steps);

void plan_empty(struct member *member);

/* Reads or writes a block of its engine; writing one ends a run. */
int member_read(const struct member *member, enum engine_block block, size_t index, void *data,
                struct error *error);
int member_write(struct member *member, enum engine_block block, size_t index, const void *data,
                 struct error *error);

/* Starts the least squares of a solved output; its weights are written after it. */
int member_begin_solution(struct member *member, struct error *error);

/* Returns the starting values of all parameters, from the file `initial` if it is not empty, to be
   freed; NULL on error. member_write_values writes parameters, and with `begins` those starting
   values that an optimizer keeps; member_clear clears the rest of the optimizer, banks and
   statistics, and overwrites `values` (parameters,). */
float *member_starting_values(const struct member *member, const char *initial,
                              struct error *error);
int member_write_values(struct member *member, const float *values, bool begins,
                        struct error *error);
int member_clear(struct member *member, float *values, struct error *error);

/* The next play begins the statistics over updates, with the current weights. */
int member_begin_statistics(struct member *member, struct error *error);

/* The position of the step of that age. */
uint32_t plan_position(const struct member *member, uint32_t slot, size_t age);

/* Appends an operation. There must be room. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot);

/* Appends a SCORE of the open step of that age; its target is in the next row, which is filled. */
void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn);

/* Appends a STEP with the next row of inputs, which is filled: the step is open. */
void plan_step(struct member *member, uint32_t slot);

/* Closes the oldest open step: its targets have arrived, or it has none. `terms` of them are
   learned. */
void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates);

/* Ends the sequence: drops open steps and learns the rest. Without a target, the state of a
   learning rule only advances. */
void plan_end(struct member *member, uint32_t slot, size_t *updates);

#endif
