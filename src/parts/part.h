/* Parts of a stream: everything besides arithmetic. A part is one source file here and one line in
   parts.def, in the order in which parts act. The learner opens the parts that its configuration
   requires and calls their functions at the moments below. It calls no part by name, except truths,
   which can be switched in flight.

   Planning, for each example:
     take      first: it may rewrite the example
     example   its stream and its row of the plan are known
     input     for each step, or atom of its message: rewrites x for the networks. Statistics,
               experts, anomalies, baselines and errors use the original x; `take` may change that.
               With scale: forecast, experts compute the networks' x from it
     score     for each step, before it: targets of earlier steps that its x contains
     stepped   for each step, after it
     settled   the same, when the rest of the step is planned. The plan may be played
     label     an example that is a label, in place of the steps
     end       a sequence ends
     taken     the example is planned
   and `target` for each target of the one network; of a list of outputs, of the first one.

   After the plan has been played, for each example:
     resumed   it begins, or continues from the previous plan
     played    for each step, after its scores
     given     all of its results in this plan
     gather    it spans plans: save its results
     report    it is complete: fill in the results for the observer
   and `scored` for each score of network or part, of a list of outputs those of the first one; then
   `next`: an empty plan begins.

   How examples are divided into plans never changes a bit. An unused function is NULL. Functions of
   type int return 0, or -1 with an error: then the learner can only be closed, except after
   `prepare`, which changes nothing. */
#ifndef RUNNEL_PART_H
#define RUNNEL_PART_H

#include <stddef.h>

#include "common/error.h"
#include "common/example.h"
#include "common/streams.h"
#include "common/wire.h"
#include "engine/member.h"
#include "observer.h"

struct part_host;
struct state_row;

/* The figures of parts in `loss` (parts.def). */
enum part_figure {
#define PART_FIELD(key, ...) FIGURE_##key,
#include "common/parts.def"
    PART_FIGURES
};

/* One example of the plan with its results. An example longer than a plan is the last of one plan
   and the first of the next. */
struct planned {
    char key[WIRE_KEY_MAX], forgotten[WIRE_KEY_MAX];
    size_t key_size, forgotten_size;
    bool forgets;          /* `forgotten` was forgotten to make room for its stream */
    bool outputs, vectors; /* its outputs, or h, are wanted */
    bool measured;         /* it has a MEASURE */
    bool finished;         /* completely planned */
    bool begun;            /* some of its results have been delivered */
    bool begins;           /* its stream begins with it */
    bool ends;             /* its stream is forgotten after it */
    bool learn;            /* the field of struct example */
    uint32_t slot;         /* its stream's; STREAMS_NONE: a label without a stream */
    uint64_t received;
    double time;                          /* time in its header, 0 = unknown */
    size_t steps;                         /* steps of the whole example */
    size_t streams;                       /* streams in memory after it */
    size_t planned_steps, planned_scores; /* counts in this plan, for each member */
    size_t planned_measures;              /* count in this plan, 0 or 1 */
    size_t planned_moments;
    size_t gathered_steps;           /* played in earlier plans */
    size_t given_steps;              /* steps whose predictions are kept (truth.h) */
    size_t first_pair, first_bounds; /* its first pair and bounds (truth.h) */
    /* the fields of struct learned */
    size_t scored, observed, correct, updates, skipped, atoms_read, atoms_written;
    double loss_sum, baseline_sum, squared_error, gradient_norm, update_ratio;
    /* (members,): at the end, since most configurations have few */
    size_t planned_updates[CONFIG_MEMBERS_MAX];
};

/* One step of an example, while it is planned. */
struct step {
    const struct example *example;
    size_t t;      /* its number in the example */
    size_t number; /* its number in the plan */
    uint32_t slot; /* its stream's */
    const void *x; /* (x_size,) as received, perhaps unaligned; of a message (atoms, x_size) */
    union value *values; /* (x_size,) initially x; parts rewrite it */
    union value *input;  /* (features,) of the first network: `values` without encoding */
    /* (numbers,) targets in x, as received, perhaps unaligned; of a message as `seen` */
    const void *original;
    const union value *seen; /* (numbers,) targets in the form for networks */
};

/* A target of an open step, while the example that contains it is planned. */
struct target_arrival {
    uint32_t slot;
    size_t age, horizon;  /* age and horizon of the step: see member.h; or number of its output */
    union value *value;   /* (target_size,) in the network's unit; not yet relative */
    const void *original; /* (target_size,) as received, perhaps unaligned */
    bool learn;           /* used for learning */
    uint64_t classes;     /* known before the step's example */
    /* (2, target_size) mean and deviation of the step's prediction; NULL: targets are not
       scaled. */
    const double *scale;
    const struct scaler *scaler; /* the scaler of that prediction, or NULL */
    const float *base;           /* (target_size,) the base of a relative target, or NULL */
};

/* A score, once it has been played. */
struct scored {
    size_t number;             /* its number in the plan; SIZE_MAX: no network's score */
    size_t step;               /* number of its step in the plan, if no network's */
    size_t horizon;            /* 0 is the nearest; of a list the number of its output */
    double loss, baseline;     /* loss of network and simplest forecast */
    const float *output;       /* (scored,) the output that was scored */
    const union value *target; /* (target_size,) */
    /* (target_size,) forecast less target in original units, NaN = unknown; NULL: targets are not
       numbers. */
    const double *errors;
    const double *of_baseline; /* (target_size,) the same of the baseline; zeros without one */
};

/* The results of an example in this plan. */
struct given {
    size_t row;                     /* the example's row in the plan */
    size_t first_step, first_score; /* numbers in the plan */
    struct learned *learned;        /* scale and outputs of this plan */
};

/* When a stream begins in a slot: with its first step, which is planned, or at once, while the plan
   is empty. */
enum part_begin { BEGIN_PLANNED, BEGIN_NOW };

/* A stream from another daemon: its rows are about to be written into the slot, have been written,
   or are replaced by those of the earlier stream. */
enum part_adopt { ADOPT_EXPECTED, ADOPT_ARRIVED, ADOPT_WITHDRAWN };

struct part_kind {
    const char *name;

    /* ---- Opening ---- */
    bool (*wanted)(const struct part_host *host); /* NULL: always */
    /* Whether the function PART_MEMBER(function) has nothing to do and is not called. */
    bool (*skips)(const void *self, size_t member);
    /* Returns 1 with an error if the part is unavailable and optional. */
    int (*open)(void **self, struct part_host *host, struct error *error);
    void (*close)(void *self);
    size_t (*step_bytes)(const void *self); /* bytes of a planned step */
    bool (*plan_open)(void *self);          /* host->plan_steps is known. False: out of memory */
    int (*prepare)(void *self, struct error *error); /* reads the data that `reset` starts from */
    void (*reset)(void *self);                       /* learning starts again without streams */
    /* Sets starting values (parameters,) of a member before they are written. */
    int (*fill)(void *self, size_t member, float *values, struct error *error);

    /* ---- Streams ---- */
    void (*begin)(void *self, uint32_t slot, enum part_begin when);
    void (*adopt)(void *self, uint32_t slot, enum part_adopt what);
    void (*forget)(void *self, uint32_t slot); /* by command; the plan is empty */
    void (*restored)(void *self);              /* all rows without a stream have been written */

    /* ---- Planning ---- */
    int (*take)(void *self, struct example *example, struct error *error);
    void (*example)(void *self, const struct example *example);
    void (*input)(void *self, struct step *step);
    void (*score)(void *self, struct step *step);
    void (*stepped)(void *self, const struct step *step);
    int (*settled)(void *self, const struct step *step, struct error *error);
    int (*label)(void *self, const struct example *label, struct error *error);
    int (*end)(void *self, uint32_t slot, struct error *error);
    int (*taken)(void *self, struct error *error);
    void (*target)(void *self, const struct target_arrival *target);

    /* ---- After the plan has been played ---- */
    bool (*needs_outputs)(const void *self); /* true: the outputs of every step */
    void (*resumed)(void *self, struct planned *example);
    void (*played)(void *self, struct planned *example, size_t step);
    void (*scored)(void *self, struct planned *example, struct scored *score);
    void (*given)(void *self, struct planned *example, const struct given *given);
    int (*gather)(void *self, const struct planned *example, size_t first_step,
                  struct error *error);
    void (*report)(void *self, const struct planned *example, const struct given *given);
    void (*figures)(const void *self, double *figures); /* (PART_FIGURES,) writes its own */
    /* Moves the unfinished example in row `last` to the first row; NULL: no example continues. */
    int (*next)(void *self, const struct planned *unfinished, size_t last, struct error *error);

    /* ---- State in checkpoints (rows.h) ---- */
    const struct state_row *rows;
    /* Check the slot's state: return NULL, or an invalid row's name. `filled` follows the writing
       of its rows, and may compute more state from them. */
    const char *(*valid)(void *self, uint32_t slot);
    const char *(*filled)(void *self, uint32_t slot);

    size_t row_count;
    bool shares; /* `valid` and `filled` also apply to shared slots, after those of streams */
};

struct part {
    const struct part_kind *kind;
    void *self;
};

#define PART_MEMBER(field) (offsetof(struct part_kind, field) / sizeof(void *))

enum { PARTS_MAX = 32, PART_MEMBERS = PART_MEMBER(row_count) };

/* The learner as parts see it. Parts write only the fields that name them. */
struct part_host {
    const struct config *config; /* NULL once all parts are open */
    const struct model *model;   /* the model of the configuration itself */
    struct member *members;      /* (member_count,), or one with rates only */
    size_t member_count;
    struct streams *streams;
    size_t slots, window; /* maximum of streams; window of the configuration's network */
    struct learner_observer observer;

    size_t plan_steps;       /* room for steps, scores and examples */
    size_t steps;            /* planned */
    struct planned *planned; /* the example in planning */
    size_t row;              /* its number in the plan */
    bool want_outputs, want_vectors;
    char initial[CONFIG_PATH_SIZE]; /* model.initial; "" = none */

    uint64_t taken; /* examples taken since the start of learning */
    struct learner_counters counters;
    struct learner_errors errors; /* sums: parts add to columns and experts */
    struct learned learned;       /* results of the example that is delivered */

    size_t forecasts;      /* forecasts in the mixture, experts and members (experts) */
    uint64_t appeared;     /* classes that had appeared before the example (words) */
    size_t known_classes;  /* classes in use; SIZE_MAX: all (words) */
    size_t hidden_classes; /* classes whose biases are not learned (words) */
    size_t class_biases;   /* biases of each class (words) */

    struct part *parts; /* (part_count,) */
    size_t part_count;
    /* The parts with each function of part_kind, in their order; NULL ends each list. */
    const struct part *having[PART_MEMBERS][PARTS_MAX + 1];

    /* Plays the plan if it has no room for another step with all its scores. The example in
       planning becomes its first. */
    int (*make_room)(struct part_host *host, struct error *error);
    /* Plays the plan in any case. */
    int (*play)(struct part_host *host, struct error *error);
    /* The example changes the stream in the slot. */
    void (*mark)(struct part_host *host, uint32_t slot);
    /* Adds a score of a part. */
    void (*score)(struct part_host *host, struct planned *example, struct scored *score);
};

/* Iterates over the parts with that function, in their order. */
#define PARTS_EACH(host, part, function)                                                           \
    for (const struct part *const *part##_at = (host)->having[PART_MEMBER(function)], *part;       \
         (part = *part##_at); part##_at++)

/* Returns the state of the part of that kind; NULL: the learner does not have it. */
static inline void *part_find(const struct part_host *host, const struct part_kind *kind) {
    for (size_t n = 0; n < host->part_count; n++)
        if (host->parts[n].kind == kind)
            return host->parts[n].self;
    return NULL;
}

static inline const char *part_member_name(const struct part_host *host, size_t member) {
    const char *name = host->members[member].name;
    return *name ? name : CONFIG_NETWORK;
}

/* Collects the functions that parts do not skip, and clears `learned`. Call it again when a part
   skips other functions than before, while the plan is empty. */
void parts_collect(struct part_host *host);

/* Fills step->input (features,) from its x, and sets the targets in x. step->values: a buffer
   (x_size,), or step->input. The atoms of a message, each like an x, follow their number, and zeros
   follow them. */
void parts_fill_input(struct part_host *host, struct step *step);

/* Passes a target to all parts. */
static inline void part_target(struct part_host *host, const struct target_arrival *target) {
    PARTS_EACH(host, part, target)
    part->kind->target(part->self, target);
}

#define PART_NO_MEMORY                                                                             \
    "out of memory for the predictions of an example of %zu steps: send it in pieces, or set "     \
    "statistics.predictions: false"

/* All kinds, in the order of parts.def. */
#define PART(name) extern const struct part_kind name##_part;
#include "common/parts.def"
extern const struct part_kind *const part_kinds[]; /* NULL ends it */

/* Results of an example that spans plans; grows to the longest. */
struct gathered {
    void *rows;
    size_t capacity; /* bytes */
};

/* Saves the rows of its steps in this plan, of `size` bytes each. */
int parts_gather(struct gathered *gathered, const struct planned *example, const void *rows,
                 size_t size, struct error *error);

/* Returns row n of all kinds; NULL after the last. */
const struct state_row *part_row(size_t n);

#endif
