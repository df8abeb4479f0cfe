/* A plan that is made and played: what belongs to its examples and members, and the operations of a
   member. For learner*.c alone, as part of learner_internal.h. */
#ifndef RUNNEL_LEARNER_PLANNING_H
#define RUNNEL_LEARNER_PLANNING_H

#include "common/wire.h"
#include "config/config.h"
#include "engine.h"
#include "learner_state.h"

struct learner;

/* One example of the plan: its results, gathered while its plans are played. An
   example that is longer than a plan is the last of one plan and the first of the next. */
struct planned {
    char key[WIRE_KEY_MAX], forgotten[WIRE_KEY_MAX];
    size_t key_size, forgotten_size;
    bool forgets;  /* the stream `forgotten` made room for it */
    bool outputs;  /* its outputs are wanted */
    bool measured; /* it has a MEASURE */
    bool finished; /* all of it has been planned */
    bool begun;    /* some of it has been given out */
    bool begins;   /* its stream does, with it */
    bool learn;    /* as in struct example */
    uint32_t slot; /* of its stream; of a label without a stream nothing */
    uint64_t received;
    double time;                          /* of its header, 0 = unknown */
    size_t steps;                         /* of the whole example */
    size_t streams;                       /* in memory after it */
    size_t planned_steps, planned_scores; /* in this plan, of each member */
    size_t planned_measures;              /* likewise, 0 or 1 */
    size_t planned_moments;
    size_t gathered_steps;                              /* played in earlier plans */
    size_t given_steps;                                 /* whose predictions are kept (truth.h) */
    size_t told_scores, told_steps;                     /* of it, the first that is told */
    size_t scored, observed, correct, updates, skipped; /* as in struct learned */
    double loss_sum, baseline_sum, squared_error, gradient_norm, update_ratio;
    size_t planned_updates[CONFIG_MEMBERS_MAX]; /* (members,): last, since few are there mostly */
};

/* One network: an engine and a plan of its own. */
struct member {
    char name[CONFIG_MEMBER_NAME_SIZE]; /* "" where no members are listed */
    const struct model *model;
    struct model *own; /* the same, of one that is listed; else NULL */
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

/* What of a plan predictions beside their truths follow: a step at which something is said, or a
   truth that comes. */
struct moment {
    uint32_t slot;
    size_t age; /* of a truth: what was said about it, counted back from the newest, */
    size_t horizon;
    bool is_truth; /* the next row of truths; else a step, */
    bool begins;   /* its stream's first */
    bool learn;
};

/* How much of the plan's results has been given out. */
struct cursor {
    size_t steps, scores, measures, moments; /* of each member, */
    size_t updates[CONFIG_MEMBERS_MAX];
};

/* Operations that one step can bring at most: FORGET of the stream that made room, STEP, MEASURE,
   SCORE (for each horizon), UPDATE (or ADVANCE) and SOLVE, and at the end of a sequence one more
   UPDATE and FORGET. */
enum { OPERATIONS_PER_STEP = 8, UPDATES_PER_STEP = 2 };

/* Counts that no plan of such a member exceeds. learner_plan_open decides how many steps. */
struct plan plan_longest(const struct learner *learner, const struct model *model);

/* The plan's memory: for at most so many steps. False when out of memory; close it all the same. */
bool learner_plan_open(struct learner *learner, size_t most_steps);
void learner_plan_close(struct learner *learner);

/* Whether the plan has room for one more step with all that may come with it. */
bool plan_has_room(const struct learner *learner);

/* The plan has no room for one more step with all that may come with it; play it and begin another,
   in which the unfinished example is the first. */
int plan_make_room(struct learner *learner, struct planned **planned, struct error *error);

/* The position `age` steps before the next one of a stream. */
uint32_t plan_position(const struct member *member, uint32_t slot, size_t age);

/* Of one member: append an operation; a target of the open step of that age is the next row, which
   is filled; step with the next row of inputs, which is filled: it is open; the oldest open step's
   targets have come, or there are none: `terms` of them are learned from. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot);
void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn);
void plan_step(struct member *member, uint32_t slot);
void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates);

/* Learn from what is closed since the last update, if anything is: the window ends right before the
   open steps. Without a target, what a rule keeps moves on over it. */
void plan_update(struct member *member, uint32_t slot, size_t *updates);

#endif
