/* How abnormal what comes is, stream by stream and column by column: scores that mean the same in
   every stream, -log10 of how often something like that has been before.

   - Novelty (novelty.h): the recent past of a column is like nothing in its memory. The score of a
     stream is that of its column with the largest.
   - Joint novelty, of several columns: their recent pasts together are like none before, though
   each may be. The distance is over all columns' blocks, each in its own deviation. What is missing
   of some columns is held for it; such a step has none.
   - Surprise: the error of the forecast is as large as hardly any of the stream's errors before,
     L - 0.4 log10(max(1, t / 1000)) >= 0 with L its tail (tail.h). The error is that of a column,
     and has at most SURPRISE_IN_BAND while it is within SURPRISE_BAND deviations s of the column's
     values; where the loss is a density's, it is 1 / density of all columns together. A step that
     is an alarm of surprise, and the SURPRISE_WAKE - 1 after it, in which the forecasts still
     suffer from it, teach the tail nothing: a repeated spike remains one. What lasts is learned
     from the steps after that.

   - Symbols have no columns. Their score is that of the mean loss of the last ones.

   - Habits (habit.h): a column freezes (stuck), is missing (silent), or the stream sends nothing
     (silent) for longer than it ever did.

   A missing value (NaN) takes no part: neither the column's past nor its memory know of it.

   Each stream has memory of its own, in `slots` places, allocated when it opens: pages of it are
   used as streams and their memories grow. Or it is of a group, whose streams remember together
   (novelty.h); they have no joint novelty. A group's memory is in a place after those of streams,
   `slots` + its number, and stays when streams begin and end there. Nothing depends on anything but
   the stream's values, their times and errors, in their order. */
#ifndef RUNNEL_ANOMALY_H
#define RUNNEL_ANOMALY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alarm.h"
#include "novelty.h"

struct anomaly;
struct error;

struct anomaly_options {
    size_t slots, columns;
    size_t memory;   /* contexts of a column, >= 1 */
    size_t groups;   /* that share theirs */
    bool all_share;  /* no stream is without a group */
    bool symbols;    /* each has a loss: no columns */
    bool has_errors; /* a forecast has one for each column; else one number for all of them */
    uint64_t seed;   /* of what memories forget */
    bool half;       /* of the machine's memory is theirs at most; else all of it */
};

/* -1 (EX_CONFIG) when so many memories are more than their part of what this machine has, or
   (EX_UNAVAILABLE) when out of memory. */
int anomaly_open(struct anomaly **anomaly, const struct anomaly_options *options,
                 struct error *error);
void anomaly_close(struct anomaly **anomaly);

/* What is in the slot, or begins there next, is a stream of that group, ANOMALY_ALONE of none. */
#define ANOMALY_ALONE UINT32_MAX
void anomaly_join(struct anomaly *anomaly, uint32_t slot, uint32_t group);

/* Nothing of groups is known any more, and of when any stream was heard. */
void anomaly_reset(struct anomaly *anomaly);

/* A stream begins in the slot. */
void anomaly_begin(struct anomaly *anomaly, uint32_t slot);

/* How abnormal it has been since anomaly_clear, the largest of each: NaN where nothing is known. */
struct anomaly_said {
    double score, surprise, joint; /* of the stream; joint of several columns */
    const double *scores, *surprises /* (columns,) */;
};
void anomaly_clear(struct anomaly *anomaly);
struct anomaly_said anomaly_said(const struct anomaly *anomaly);

/* Whether what comes from now on is learned from, as it is at first. Else it has scores and is part
   of what recently was, but no tail learns and its own contexts do not enter the memory; habits
   are of all that comes. */
void anomaly_learn(struct anomaly *anomaly, bool learn);

/* The stream's next step, x (columns,) with NaN where a value is missing, at that Unix time (0 =
   unknown). Returns its score; NaN: too little has been seen to say. */
double anomaly_take(struct anomaly *anomaly, uint32_t slot, const float *x, double time);

/* What the newest step has broken of the column's habits: told once each time. */
enum anomaly_habit { HABIT_KEPT, HABIT_STUCK, HABIT_SILENT };
enum anomaly_habit anomaly_habit(const struct anomaly *anomaly, size_t k);

/* ---- Streams that stop, by the time of the data: kept apart from the rest of a slot ---- */

/* A stream has sent something, at that Unix time (0 = unknown); or begins with it. Silence is
   measured by a clock of all streams' times since it was heard, not by its own, which may
   lag. */
void anomaly_heard(struct anomaly *anomaly, uint32_t slot, double time, bool begins);

/* After it: whether one of the streams may be silent by now; if so, each of them is to be asked.
   Of one: whether it is, which is said once each time, and whether what is kept of it has changed
   with the question (may be NULL). A time that no second example confirms, and
   one that leaps over all that the stream knows, say nothing. */
bool anomaly_may_be_silent(struct anomaly *anomaly);
bool anomaly_is_silent(struct anomaly *anomaly, uint32_t slot, bool *changed);

/* What came was forecast with that error: by column (columns,), NaN where nothing was said or came;
   or one number for all. Returns the surprise, NaN likewise. `rule`: of alarms of surprise, which
   anomaly_alarm is then asked for; NULL: there are none. */
enum { SURPRISE_WAKE = 8, SURPRISE_REST_MIN = 8 }; /* steps */
_Static_assert(SURPRISE_REST_MIN >= SURPRISE_WAKE, "every step would be left out of the tail");
#define SURPRISE_BAND 3.0
#define SURPRISE_IN_BAND 6.0
double anomaly_wrong(struct anomaly *anomaly, uint32_t slot, const double *errors,
                     const struct alarm_rule *rule);

/* Whether an alarm of surprise so shortly before is still part of the stream's recent past, which
   is then novel for no other reason. */
bool anomaly_is_echo(const struct anomaly *anomaly, uint32_t slot);

/* The next symbol had that loss. Returns the stream's score; NaN: too little has been seen to say.
   How many losses there were. */
double anomaly_lost(struct anomaly *anomaly, uint32_t slot, double loss);
uint64_t anomaly_losses(const struct anomaly *anomaly, uint32_t slot);

/* What is known of an alarm of novelty that is kept. */
struct anomaly_kept {
    double time; /* of the data, Unix time; 0 = unknown */
    double score;
    uint64_t ago; /* steps of the stream that came after it; set by anomaly_find_alarm */
};

/* The newest step, which anomaly_take had with that x, is one: it is kept (kept.h). */
void anomaly_keep(struct anomaly *anomaly, uint32_t slot, const float *x,
                  const struct anomaly_kept *alarm);

/* Nobody asks for that step any more. */
void anomaly_end_step(struct anomaly *anomaly, uint32_t slot, const float *x);

/* The alarm of that time, less than a second off (NaN: the newest). False when there is none; then
   `found` is the newest one, with score NaN when none is kept. */
bool anomaly_find_alarm(const struct anomaly *anomaly, uint32_t slot, double at,
                        struct anomaly_kept *found);

/* The same one is normal: its contexts enter the memory of each column now, and those of its steps
   to come as they come; nothing happens when it is marked again. */
bool anomaly_mark_normal(struct anomaly *anomaly, uint32_t slot, double at,
                         struct anomaly_kept *found);

/* The state of the stream's alarms, and how many steps it has had. */
struct alarm *anomaly_alarm(struct anomaly *anomaly, uint32_t slot, bool surprise);
uint64_t anomaly_steps(const struct anomaly *anomaly, uint32_t slot);

/* For checkpoints, of a slot. */
struct anomaly_state {
    double *numbers, *alarms; /* the latter kept */
    double *held;             /* only where it `holds`, which `numbers` say */
    float *contexts;
    size_t numbers_size, alarms_size, held_size, contexts_size;
    size_t memories; /* of contexts */
    bool holds;
};
struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot);

/* Those of a memory's contexts that are in use, as its numbers say: the others are zero. */
struct anomaly_contexts {
    float *floats; /* (count, ANOMALY_CONTEXT) */
    size_t count;
};
enum { ANOMALY_CONTEXT = NOVELTY_CONTEXT };
struct anomaly_contexts anomaly_contexts(struct anomaly *anomaly, uint32_t slot, size_t k);

/* Whether it can have come from here. Likewise, after it has been written. */
bool anomaly_valid(struct anomaly *anomaly, uint32_t slot);
bool anomaly_written(struct anomaly *anomaly, uint32_t slot);

/* A slot is to be written with what another daemon kept of its stream, and has been: the clock of
   all streams' times stays this one's. `arrived`: it is the stream's from now on, and remembers
   with those of its group here; else it is as it was before. */
void anomaly_expect(struct anomaly *anomaly, uint32_t slot);
void anomaly_settle(struct anomaly *anomaly, uint32_t slot, bool arrived);

#endif
