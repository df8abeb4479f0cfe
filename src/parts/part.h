/* Parts of a stream: everything that it has besides arithmetic. A part is one source file here, and
   a line in parts.def, in the order in which parts act. The learner opens those that its
   configuration wants, and calls their functions at the moments below: it knows none of them by
   name, but truths, which can be switched in flight.

   Planning, for each example:
     take      before anything else: it may rewrite the example
     example   its stream and its row of the plan are known
     input     for each step: rewrite x on its way to the networks. x as it came stays what
               statistics, experts, anomalies, baselines and errors see: who changes it for all of
               them does that in `take`. With scale: forecast experts make the networks' x of it
     score     for each step, before it: targets of earlier steps that its x brings
     stepped   for each step, after it
     settled   likewise, when all else of the step is planned. The plan may be played
     label     an example that is a label, in place of the steps
     end       a sequence ends
     taken     the example is planned
   and `target` for each target of the one network that comes.

   Once the plan is played, for each example:
     resumed   it begins, or goes on from the plan before
     played    for each step, after its scores
     given     all of it that this plan has
     gather    it goes on in the next plan, or came from the one before: keep what it says
     report    it is finished: what the observer gets
   and `scored` for each score, from whoever made it; then `next`: an empty plan begins.

   How examples are cut into plans never changes a bit. A function that a part does not need is
   NULL. Those that return int: 0, or -1 with a sentence; then the learner can only be closed (not
   so after `prepare`, which changes nothing). */
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

/* What parts publish in `loss` (parts.def). */
enum part_figure {
#define PART_FIELD(key, ...) FIGURE_##key,
#include "common/parts.def"
    PART_FIGURES
};

/* One example of the plan: its results, gathered while its plans are played. An example that is
   longer than a plan is the last of one plan and the first of the next. */
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
    uint32_t slot; /* of its stream; of a label without a stream STREAMS_NONE */
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

/* One step of an example, while it is planned. */
struct step {
    const struct example *example;
    size_t t;            /* its number in the example, */
    size_t number;       /* and in the plan */
    uint32_t slot;       /* of its stream */
    const void *x;       /* (x_size,) as it came, maybe unaligned */
    union value *values; /* (x_size,) begins as x; parts rewrite it */
    union value *input;  /* (features,) of the first network: `values` where nothing is encoded */
    const void *came;    /* (target_size,) what of x is a target: as it came, maybe unaligned, */
    const union value *seen; /* and as networks see it */
};

/* A target of an open step has come, while the example that brings it is planned. */
struct target_come {
    uint32_t slot;
    size_t age, horizon;         /* of the step: see member.h */
    union value *value;          /* (target_size,) in the network's unit; not yet relative */
    const void *came;            /* (target_size,) as it came, maybe unaligned */
    bool learn;                  /* it is learned from */
    uint64_t classes;            /* that had appeared before the step's example */
    const double *scale;         /* (2, target_size) mean and deviation that the step was predicted
                                    with; NULL: targets are not scaled */
    const struct scaler *scaler; /* likewise */
    const float *base;           /* (target_size,) what it is relative to; NULL: nothing */
};

/* A score, once it has been played. */
struct scored {
    size_t number;             /* of the plan; SIZE_MAX: not of a network */
    size_t horizon;            /* 0 is the nearest */
    double loss, baseline;     /* what the simplest forecast would have lost */
    const float *output;       /* (outputs / horizons,) that was scored */
    const union value *target; /* (target_size,) */
    const double *errors;      /* (target_size,) forecast less target in original units, NaN where
                                  there is none; NULL: targets are not numbers */
    const double *of_baseline; /* (target_size,) likewise; zeros where there is no baseline */
};

/* What this plan has of an example. */
struct given {
    size_t row;                     /* of the example in the plan */
    size_t first_step, first_score; /* in the plan */
    struct learned *learned;        /* scale and outputs of this plan */
};

/* A stream begins in a slot: its first step is planned; or now, while the plan is empty. */
enum part_begin { BEGIN_PLANNED, BEGIN_NOW };

/* A slot is to be written with a stream that comes from elsewhere; it has been; or with the stream
   that was there. */
enum part_adopt { ADOPT_EXPECTED, ADOPT_ARRIVED, ADOPT_WITHDRAWN };

struct part_kind {
    const char *name;

    /* ---- Opening ---- */
    bool (*wanted)(const struct part_host *host); /* NULL: always */
    /* 1: it cannot be had, but is not missed either; the sentence says why. */
    int (*open)(void **self, struct part_host *host, struct error *error);
    void (*close)(void *self);
    size_t (*step_bytes)(const void *self); /* of a planned step */
    bool (*plan_open)(void *self);          /* host->plan_steps is known. False: out of memory */
    int (*prepare)(void *self, struct error *error); /* read what `reset` begins with */
    void (*reset)(void *self);                       /* learning begins again; no stream is there */
    /* Starting values (parameters,) of a member, before they are written. */
    int (*fill)(void *self, size_t member, float *values, struct error *error);

    /* ---- Streams ---- */
    void (*begin)(void *self, uint32_t slot, enum part_begin when);
    void (*adopt)(void *self, uint32_t slot, enum part_adopt what);
    void (*restored)(void *self); /* all rows that are not of streams have been written */

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
    void (*target)(void *self, const struct target_come *target);

    /* ---- Once the plan is played ---- */
    bool (*needs_outputs)(const void *self); /* of every step */
    void (*resumed)(void *self, struct planned *example);
    void (*played)(void *self, struct planned *example, size_t step);
    void (*scored)(void *self, struct planned *example, struct scored *score);
    void (*given)(void *self, struct planned *example, const struct given *given);
    int (*gather)(void *self, const struct planned *example, size_t first_step,
                  struct error *error);
    void (*report)(void *self, const struct planned *example, const struct given *given);
    void (*figures)(const void *self, double *figures); /* (PART_FIGURES,) its own, as they are */
    /* The example in row `last` goes on as the first; NULL: none does. */
    int (*next)(void *self, const struct planned *unfinished, size_t last, struct error *error);

    /* ---- What checkpoints keep (rows.h) ---- */
    const struct state_row *rows;
    /* Whether what is kept of a slot can have come from here: NULL, or the name of a row that
       cannot. `filled`: its rows have been written, after which more may follow from them. */
    const char *(*valid)(void *self, uint32_t slot);
    const char *(*filled)(void *self, uint32_t slot);

    size_t row_count;
    bool shares; /* `valid` and `filled` also of slots that streams share, after those of streams */
};

struct part {
    const struct part_kind *kind;
    void *self;
};

enum { PARTS_MAX = 32, PART_MEMBERS = offsetof(struct part_kind, row_count) / sizeof(void *) };

/* What parts see of the learner. They write what is said to be theirs. */
struct part_host {
    const struct config *config; /* while they open, then NULL */
    const struct model *model;   /* of the configuration as it stands */
    struct member *members;      /* (member_count,), and one more for its rates where that is 0 */
    size_t member_count;
    struct streams *streams;
    size_t slots, window; /* streams at most; of the configuration's network */
    struct learner_observer observer;

    size_t plan_steps;       /* room for steps, scores and examples */
    size_t steps;            /* planned */
    struct planned *planned; /* the example that is planned, */
    size_t row;              /* its number in the plan */
    bool want_outputs;
    char initial[CONFIG_PATH_SIZE]; /* model.initial; "" = none */

    uint64_t taken; /* examples taken since the start of learning */
    struct learner_counters counters;
    struct learner_errors errors; /* sums: parts add to columns and experts */

    size_t forecasts;      /* that are mixed, experts and members (experts) */
    uint64_t appeared;     /* classes that had appeared before the example (words) */
    size_t known_classes;  /* that take part; SIZE_MAX: all (words) */
    size_t hidden_classes; /* whose biases are no part of what is learned (words) */

    struct part *parts; /* (part_count,) */
    size_t part_count;
    /* By member of part_kind the parts that have it, in their order; NULL ends each. */
    const struct part *having[PART_MEMBERS][PARTS_MAX + 1];

    /* Play the plan where it has no room for one more step with all that may come with it. The
       example that is planned becomes its first. */
    int (*make_room)(struct part_host *host, struct error *error);
    /* Play what is planned, whatever it is. */
    int (*play)(struct part_host *host, struct error *error);
    /* The stream in a slot changes with the example. */
    void (*mark)(struct part_host *host, uint32_t slot);
    /* A score that a part has made. */
    void (*score)(struct part_host *host, struct planned *example, struct scored *score);
};

/* The parts that have that function, in their order. */
#define PARTS_EACH(host, part, function)                                                           \
    for (const struct part *const *                                                                \
             part##_at = (host)->having[offsetof(struct part_kind, function) / sizeof(void *)],    \
            *part;                                                                                 \
         (part = *part##_at); part##_at++)

/* What a part of that kind keeps; NULL: the learner has none. */
static inline void *part_find(const struct part_host *host, const struct part_kind *kind) {
    for (size_t n = 0; n < host->part_count; n++)
        if (host->parts[n].kind == kind)
            return host->parts[n].self;
    return NULL;
}

/* All parts are open: note what each has. */
void parts_opened(struct part_host *host);

/* Hand a target to all parts. */
static inline void part_target(struct part_host *host, const struct target_come *target) {
    PARTS_EACH(host, part, target)
    part->kind->target(part->self, target);
}

#define PART_NO_MEMORY                                                                             \
    "out of memory for the predictions of an example of %zu steps: send it in pieces or turn "     \
    "statistics.predictions off"

/* All kinds, in the order of parts.def. */
#define PART(name) extern const struct part_kind name##_part;
#include "common/parts.def"
extern const struct part_kind *const part_kinds[]; /* NULL ends it */

/* Row n of all kinds; NULL after the last. */
const struct state_row *part_row(size_t n);

#endif
