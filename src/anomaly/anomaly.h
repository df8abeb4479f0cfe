/* Scores how abnormal values are, by stream and column. Scores mean the same in every stream:
   -log10 of how often such a value has occurred before. docs/explanation/anomalies.md has the
   equations.

   - Novelty (novelty.h): the recent values of a column differ from everything in its memory. The
     score of a stream is the largest of its columns. Shape (shape.h) adds to it.
   - Level (level.h): several columns stand, together, not as usual.
   - Surprise: the forecast error is among the largest of the stream. The tail does not learn from
     a step that raises an alarm of surprise, nor from the SURPRISE_WAKE - 1 steps after it, whose
     forecasts still suffer from it. So a repeated spike keeps its score, while later steps of a
     lasting change are learned.
   - Habits (habit.h): a column freezes (stuck) or is missing (silent), or the stream sends nothing
     (silent), for longer than ever before.

   Each stream has its own memory in one of `slots` places. It is allocated at opening; pages are
   touched as memories grow. Streams of a group share one memory (novelty.h) instead, and have no
   level. The memory of group g is at place `slots` + g, and outlives its streams. Results depend
   only on the stream's values, times and errors, in their order. */
#ifndef RUNNEL_ANOMALY_H
#define RUNNEL_ANOMALY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alarm.h"

struct anomaly;
struct error;

/* Reasons of an alarm; ANOMALY_ANY: any that is kept. */
enum anomaly_reason {
    ANOMALY_NOVELTY,
    ANOMALY_SURPRISE,
    ANOMALY_LEVEL,
    ANOMALY_REASONS,
    ANOMALY_ANY = ANOMALY_REASONS,
};

struct anomaly_options {
    size_t slots, columns;
    size_t memory;   /* contexts of a column, >= 1 */
    size_t groups;   /* number of groups with a shared memory */
    bool all_share;  /* every stream is in a group */
    bool symbols;    /* each symbol has a loss; no columns */
    bool has_errors; /* one forecast error per column; else one number for all columns */
    bool surprise;   /* surprise counts for P */
    uint64_t seed;   /* seed of the choice of replaced contexts */
    double accept;   /* half of a normal is forgotten in so many steps (level.h); 0: no level */
    double shape;    /* share of shape in novelty (shape.h); 0: no shape */
    bool half;       /* limits memories to half of the machine's memory; else to all of it */
};

/* -1: EX_CONFIG if the memories exceed their share of the machine's memory, EX_UNAVAILABLE if
   out of memory. */
int anomaly_open(struct anomaly **anomaly, const struct anomaly_options *options,
                 struct error *error);
void anomaly_close(struct anomaly **anomaly);

/* Sets the group of the slot's stream, or of the next one that begins there; ANOMALY_ALONE:
   none. */
#define ANOMALY_ALONE UINT32_MAX
void anomaly_join(struct anomaly *anomaly, uint32_t slot, uint32_t group);

/* Clears the groups' memories and the times of the streams' newest examples. */
void anomaly_reset(struct anomaly *anomaly);

/* Starts a stream in the slot. */
void anomaly_begin(struct anomaly *anomaly, uint32_t slot);

/* Largest scores since anomaly_clear: NaN if unknown. */
struct anomaly_result {
    double score, surprise, level; /* scores of the stream */
    const double *scores, *surprises /* (columns,) */;
    const double *shares; /* (columns,) of the largest level; NULL: no level */
    double p;             /* as in struct anomaly_rarity */
    bool by_rate;         /* set by the caller: alarms are those of p */
};
void anomaly_clear(struct anomaly *anomaly);
struct anomaly_result anomaly_result(const struct anomaly *anomaly);

/* Whether later steps are learned, as by default. Otherwise they have scores and enter the
   recent values, but do not enter tails or the memory; habits always learn. */
void anomaly_learn(struct anomaly *anomaly, bool learn);

/* The stream's next step at that Unix time (0 = unknown): x (columns,), NaN where a value is
   missing. Returns its score; NaN: too few steps so far. */
double anomaly_take(struct anomaly *anomaly, uint32_t slot, const float *x, double time);

/* The level of that step, or NaN. It needs 2 to ANOMALY_LEVEL_COLUMNS columns. */
enum { ANOMALY_LEVEL_COLUMNS = 64 };
double anomaly_level(const struct anomaly *anomaly);

/* The habit of a column that the newest step broke, reported once each time. */
enum anomaly_habit { HABIT_KEPT, HABIT_STUCK, HABIT_SILENT };
enum anomaly_habit anomaly_habit(const struct anomaly *anomaly, size_t k);

/* ---- Streams that stop, by data time: independent of the rest of a slot ---- */

/* The stream sent an example at that Unix time (0 = unknown), or begins with it. Silence is
   measured by the common clock of all streams, since a stream's own time may lag. */
void anomaly_received(struct anomaly *anomaly, uint32_t slot, double time, bool begins);

/* Call both after anomaly_received: the first returns whether any stream may be silent now, and if
   so the second checks one stream. It reports each pause once, and sets `changed` (may be NULL)
   if it changed the stream's state. A time that no second example confirms, or that leaps beyond
   the stream's history, has no effect. */
bool anomaly_may_be_silent(struct anomaly *anomaly);
bool anomaly_is_silent(struct anomaly *anomaly, uint32_t slot, bool *changed);

/* The forecast error of the newest step: by column (columns,), NaN where a forecast or value is
   missing; or one number for all columns. Returns the surprise, or NaN. `rule`: for alarms of
   surprise, to be checked with anomaly_alarm afterwards; NULL: no alarms. */
enum { SURPRISE_WAKE = 8, SURPRISE_REST_MIN = 8 }; /* steps */
_Static_assert(SURPRISE_REST_MIN >= SURPRISE_WAKE, "every step would be left out of the tail");
#define SURPRISE_BAND 3.0
#define SURPRISE_IN_BAND 6.0
double anomaly_wrong(struct anomaly *anomaly, uint32_t slot, const double *errors,
                     const struct alarm_rule *rule);

/* Whether a recent alarm of surprise is still part of the stream's recent values, and so
   explains their novelty. */
bool anomaly_is_echo(const struct anomaly *anomaly, uint32_t slot);

/* Replaces the step's surprise for P. */
void anomaly_set_surprise(struct anomaly *anomaly, double raw);

/* P of the step's scores (calibration.h), together; call it once they are known. Alarms at a rate
   of r a step are those with p >= base - log10(r). */
struct anomaly_rarity {
    double p; /* NaN: too little is known */
    double base;
    double steps;               /* steps with a P before */
    enum anomaly_reason reason; /* the rarest */
};
struct anomaly_rarity anomaly_rarity(struct anomaly *anomaly, uint32_t slot, double rest);

/* The mean time between steps (and scored labels) of the stream, after one at that Unix time (0 =
   unknown); 0: unknown. */
double anomaly_interval(struct anomaly *anomaly, uint32_t slot, double time);

/* The loss of the next symbol. Returns the stream's score; NaN: too few losses so far. The
   second returns the number of losses. */
double anomaly_lost(struct anomaly *anomaly, uint32_t slot, double loss);
uint64_t anomaly_losses(const struct anomaly *anomaly, uint32_t slot);

/* A kept alarm, of novelty or level. */
struct anomaly_kept {
    enum anomaly_reason reason;
    double time; /* data time, Unix time; 0 = unknown */
    double score;
    uint64_t ago; /* steps of the stream after it; set by anomaly_find_alarm */
};

/* Keeps the newest step, which anomaly_take scored with that x, as an alarm (kept.h). */
void anomaly_keep(struct anomaly *anomaly, uint32_t slot, const float *x,
                  const struct anomaly_kept *alarm);

/* The caller has read the scores of that step. */
void anomaly_end_step(struct anomaly *anomaly, uint32_t slot, const float *x);

/* Finds the alarm less than a second from that time (NaN: the newest). If not found, returns
   false with the newest alarm in `found`; its score is NaN if no alarm is kept. */
bool anomaly_find_alarm(const struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason,
                        double at, struct anomaly_kept *found);

/* Marks that alarm as normal: its steps are learned now, and later steps as they arrive. Their
   contexts enter the memory of each column, or level learns them. Marking it again has no
   effect. */
bool anomaly_mark_normal(struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason,
                         double at, struct anomaly_kept *found);

/* The newest values of a column, at most `most`, without the last `skip` ones. Returns their
   count. */
size_t anomaly_recent(const struct anomaly *anomaly, uint32_t slot, size_t k, size_t skip,
                      size_t most, double *values);

/* The state of the stream's alarms, and its number of steps. */
struct alarm *anomaly_alarm(struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason);
uint64_t anomaly_steps(const struct anomaly *anomaly, uint32_t slot);

/* State of a slot, for checkpoints. */
struct anomaly_state {
    double *numbers, *alarms; /* `alarms`: the kept ones */
    double *level, *rates, *shapes;
    float *contexts;
    size_t numbers_size, alarms_size, level_size, rates_size, shapes_size, contexts_size;
};
struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot);

/* The clock of streams that stop, for checkpoints; without it, the states of streams set it. The
   first ANOMALY_OWN bytes of a stream's numbers are a time of this clock. */
enum { ANOMALY_CLOCK = 3, ANOMALY_OWN = sizeof(double) };
double *anomaly_clock(struct anomaly *anomaly);

/* The used contexts of memory n, of novelty or shape, counted by its numbers; the others of novelty
   are zero. All zero: memory n does not exist. */
struct anomaly_contexts {
    float *floats; /* (count, size) */
    size_t count, size;
    size_t most; /* contexts in all memories */
};
struct anomaly_contexts anomaly_contexts(struct anomaly *anomaly, uint32_t slot, bool of_shape,
                                         size_t n);

/* Whether the state is valid; call it again after writing the state. */
bool anomaly_valid(struct anomaly *anomaly, uint32_t slot);
bool anomaly_written(struct anomaly *anomaly, uint32_t slot);

/* Call the first before a slot is written with a state from another daemon, and the second
   after: the clock of all streams stays that of this daemon. `arrived`: the state is the
   stream's from now on, and it shares the memory of its group here; else the slot is as before. */
void anomaly_expect(struct anomaly *anomaly, uint32_t slot);
void anomaly_settle(struct anomaly *anomaly, uint32_t slot, bool arrived);

#endif
