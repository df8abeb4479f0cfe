#include "anomaly.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "calibration.h"
#include "common/denormals.h"
#include "common/error.h"
#include "common/finite.h"
#include "common/machine.h"
#include "common/vectors.h"
#include "habit.h"
#include "kept.h"
#include "level.h"
#include "novelty.h"
#include "shape.h"
#include "tail.h"

/* ---- Recent ----

   How badly the newest symbols of a stream were predicted together: the mean loss of the last
   RECENT_SPAN, and how unlikely such a mean is (tail.h). A single symbol is often a surprise, a
   series of them hardly ever. */

enum { RECENT_SPAN = 32 };

/* Doubles only, so that a checkpoint can copy it. */
struct recent {
    double count;               /* losses so far */
    double losses[RECENT_SPAN]; /* number t is at t % RECENT_SPAN */
    struct tail tail;           /* of their mean */
};

/* Missing losses are 0. The sum is computed from scratch, since a running sum would drift. */
static double mean_of(const struct recent *recent) {
    double sum = 0;
    for (size_t n = 0; n < RECENT_SPAN; n++)
        sum += recent->losses[n];
    return sum / RECENT_SPAN;
}

/* The score >= 0 after the next loss, in nats; ignores losses that are not finite. NaN: too few
   losses so far. */
static struct novelty_score recent_take(struct recent *recent, double loss, bool learn) {
    struct novelty_score score = {NAN, NAN};
    double t = recent->count;
    if (!isfinite(loss))
        return score;
    recent->losses[(uint64_t)t % RECENT_SPAN] = fmax(loss, 0);
    recent->count++;
    double mean = mean_of(recent);
    if (tail_knows(&recent->tail))
        score.raw = tail_unlikeliness(&recent->tail, mean);
    score.score = novelty_patient(score.raw, t);
    if (learn && t >= NOVELTY_DELAY)
        tail_learn(&recent->tail, mean);
    return score;
}

/* Whether a state from a checkpoint is valid. */
static bool recent_valid(const struct recent *recent) {
    bool valid = habit_is_count(recent->count) && tail_valid(&recent->tail);
    for (size_t n = 0; valid && n < RECENT_SPAN; n++)
        valid = recent->losses[n] >= 0 && recent->losses[n] <= FINITE_MOST;
    return valid;
}

/* ---- Silence ----

   Finds streams that have stopped, by the data time of the other streams. The clock is the
   latest time that two examples in a row have reached. A stream is silent after three times its
   longest pause on this clock. A single wrong time stamp does not move the clock, a leap of the
   clock is not a pause of any stream, and the clock goes back if the data starts again at an
   earlier time. */

/* State of all streams; all zero before the first example. */
struct silence {
    double clock;    /* Unix time: the latest that two examples in a row have reached */
    double newest;   /* time of the newest example */
    double lagging;  /* examples in a row before the clock */
    double leap;     /* how far it moved the clock */
    double earliest; /* no stream is silent before this time */
};

/* State of one stream, doubles only, so that a checkpoint can copy it; all zero before its first
   example. */
struct arrival {
    /* clock at the newest example, regardless of its own time; 0: no example yet, or the stream
       began ahead of the clock */
    double last;
    struct habit silences; /* pauses in seconds of that clock */
};

enum {
    LEAP = 10,        /* times the longest accepted pause: the data was interrupted meanwhile */
    LAGGING_MOST = 2, /* examples per stream: after them the data has started again earlier */
};

static double deadline_of(const struct arrival *arrival) {
    const struct habit *silences = &arrival->silences;
    if (silences->ended < HABIT_KNOWN || silences->reported == 1 || !(arrival->last > 0))
        return INFINITY;
    return arrival->last + habit_limit(silences, 0);
}

/* Streams with late time stamps do not move the clock back. */
static void advance(struct silence *silence, size_t slots, double time) {
    double confirmed = fmin(time, silence->newest), before = silence->clock;
    silence->newest = time;
    silence->lagging = confirmed < before ? silence->lagging + 1 : 0;
    silence->clock = fmax(before, confirmed);
    if (silence->lagging > (double)(LAGGING_MOST * slots)) {
        silence->lagging = 0;
        silence->clock = confirmed;
        silence->earliest = 0; /* check all of them */
    }
    silence->leap = before > 0 ? silence->clock - before : 0;
}

/* A leap of the clock is not a habit: it does not count, or at most as LEAP while little is
   known. */
static void end_pause(struct habit *silences, double pause, double leap) {
    double limit = habit_limit(silences, 0);
    if (limit > 0 && leap > LEAP * limit)
        pause -= leap;
    if (!(pause > 0))
        return;
    silences->now = limit > 0 ? fmin(pause, LEAP * limit) : pause;
    if (silences->ended >= HABIT_KNOWN && pause > limit)
        silences->reported = 1;
    habit_end(silences, 0);
}

/* Takes an example of the stream; `time` is 0 if it has none, `slots` is the largest number of
   streams. `begins`: the state belongs to an earlier stream. */
static void silence_take(struct silence *silence, struct arrival *arrival, size_t slots,
                         double time, bool begins) {
    if (begins)
        memset(arrival, 0, sizeof *arrival);
    silence->leap = 0;
    if (time > 0)
        advance(silence, slots, time);
    if (time > 0 && arrival->last > 0 && silence->clock > arrival->last)
        end_pause(&arrival->silences, silence->clock - arrival->last, silence->leap);
    /* a new stream may make the clock leap: that is not its pause */
    arrival->last = begins && time > silence->clock ? 0 : silence->clock;
    arrival->silences.reported = 0;
    silence->earliest = fmin(silence->earliest, deadline_of(arrival));
}

/* Whether any stream may be silent now; if so, check each with silence_is. */
static bool silence_may_be(struct silence *silence) {
    if (silence->clock <= silence->earliest)
        return false;
    silence->earliest = INFINITY;
    return true;
}

/* Whether the stream is silent, reported once per pause. */
static bool silence_is(struct silence *silence, struct arrival *arrival) {
    if (arrival->last >
        silence->clock) { /* the data started again earlier: the stream may have ended */
        arrival->last = silence->clock;
        arrival->silences.reported = 1;
        return false;
    }
    double deadline = deadline_of(arrival);
    if (silence->clock <= deadline) {
        silence->earliest = fmin(silence->earliest, deadline);
        return false;
    }
    arrival->silences.reported = 1;
    if (silence->leap <= LEAP * (deadline - arrival->last))
        return true;
    arrival->last = silence->clock; /* the leap is not its pause */
    return false;
}

/* Sets the clock from a stream of a checkpoint, if it has no clock itself. */
static void silence_go_on(struct silence *silence, const struct arrival *arrival) {
    if (arrival->last > silence->clock)
        silence->clock = silence->newest = arrival->last;
    silence->earliest = 0;
}

/* Whether a state from a checkpoint is valid. */
static bool silence_valid(const struct arrival *arrival) {
    return arrival->last >= 0 && isfinite(arrival->last) && habit_valid(&arrival->silences);
}

#define NUMBERS(type) (sizeof(type) / sizeof(double))

/* State of a stream: doubles, then floats. Struct arrival is first, since it is written while
   earlier steps still wait for their scores. */
struct stream {
    double begun; /* 1: a stream has begun; 0: no example yet */
    double steps;
    struct alarm novelty, surprise;
    struct tail wrong;                       /* errors of all columns together */
    double unused[NUMBERS(struct tail) + 1]; /* earlier versions scored columns together */
};

struct column {
    struct novelty novelty;
    struct tail wrong; /* of its errors */
    double last;       /* newest value */
    struct habit repeated, missing;
};

/* Time between steps and scored labels of a stream, a running mean. */
struct pace {
    double time, interval, count;
};
#define PACE_STEPS 1000

struct anomaly {
    struct anomaly_options options;
    /* sizes per stream */
    size_t numbers_size, alarms_size, level_size, rates_size, shapes_size;
    /* per column: contexts, floats, and floats in a shared memory */
    size_t own_memory, floats, shared_floats;
    size_t shape_memory; /* contexts of a scale; the last of `floats` */
    uint32_t *groups;    /* (slots,) group of each stream */
    /* (slots + groups,) pointers to doubles of all these sizes, and (columns, floats) */
    double **numbers;
    double *scores, *surprises, *shares; /* (columns,) */
    double score, surprise, level;
    double newest_level; /* of the newest step */
    struct level levels; /* used with level_size > 0 */
    /* of the current step, the largest scores that do not fall with the number of steps */
    double raw[ANOMALY_REASONS];
    double rarity;              /* the largest since anomaly_clear */
    bool learns;                /* whether new steps are learned */
    enum anomaly_habit *habits; /* (columns,) habits that the newest step broke */

    struct silence silence;
    struct silence expecting; /* saved by anomaly_expect */
};

static inline struct arrival *arrival_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct arrival *)(void *)anomaly->numbers[slot];
}

static inline struct stream *stream_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct stream *)(void *)(anomaly->numbers[slot] + NUMBERS(struct arrival));
}

static inline struct column *column_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (struct column *)(void *)(stream_of(anomaly, slot) + 1) + k;
}

static inline struct kept *kept_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct kept *)(void *)(anomaly->numbers[slot] + anomaly->numbers_size);
}

/* Exists only with symbols. */
static inline struct recent *recent_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct recent *)(void *)(stream_of(anomaly, slot) + 1);
}

/* Exists with level_size > 0; the state and the kept alarms follow. */
static inline struct alarm *level_alarm_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct alarm *)(void *)(anomaly->numbers[slot] + anomaly->numbers_size +
                                    anomaly->alarms_size);
}

static inline struct level_state *level_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct level_state *)(void *)(level_alarm_of(anomaly, slot) + 1);
}

static inline struct kept *level_kept_of(const struct anomaly *anomaly, uint32_t slot) {
    double *state = (double *)(void *)level_of(anomaly, slot);
    return (struct kept *)(void *)(state + level_size(anomaly->options.columns));
}

/* struct pace, then the calibrations of all reasons, and of the largest of several. */
static inline double *rates_of(const struct anomaly *anomaly, uint32_t slot) {
    return anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size +
           anomaly->level_size;
}

/* Exist with shapes_size > 0. */
static inline struct shape *shapes_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct shape *)(void *)(rates_of(anomaly, slot) + anomaly->rates_size);
}

static inline float *floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    double *after = rates_of(anomaly, slot) + anomaly->rates_size + anomaly->shapes_size;
    size_t floats = slot < anomaly->options.slots ? anomaly->floats : anomaly->shared_floats;
    return (float *)(void *)after + k * floats;
}

static inline float *shape_floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return floats_of(anomaly, slot, k) + novelty_floats(anomaly->own_memory);
}

/* Slot of the memory that a stream shares with others; ANOMALY_ALONE: none. */
static inline uint32_t shared_slot(const struct anomaly *anomaly, uint32_t slot) {
    uint32_t group = slot < anomaly->options.slots ? anomaly->groups[slot] : ANOMALY_ALONE;
    return group == ANOMALY_ALONE ? ANOMALY_ALONE : (uint32_t)anomaly->options.slots + group;
}

#define MINUTE 60.0
#define DAY (MINUTE * NOVELTY_MINUTES)
#define GIGABYTE 1e9
#define HALF 0.5

/* ---- Memory ---- */

static size_t bytes_of(const struct anomaly *anomaly, size_t floats) {
    return (anomaly->numbers_size + anomaly->alarms_size + anomaly->level_size +
            anomaly->rates_size + anomaly->shapes_size) *
               sizeof(double) +
           anomaly->options.columns * floats * sizeof(float);
}

static int check_machine(const struct anomaly *anomaly, struct error *error) {
    const struct anomaly_options *options = &anomaly->options;
    double machine = machine_memory("");
    double needed = (double)options->slots * (double)bytes_of(anomaly, anomaly->floats) +
                    (double)options->groups * (double)bytes_of(anomaly, anomaly->shared_floats);
    if (machine <= 0 || needed <= (options->half ? HALF : 1) * machine)
        return 0;
    return error_set(error, EX_CONFIG,
                     "anomaly.memory: %zu contexts for %zu column%s of %zu streams need %.1f GB, "
                     "more than %sthe %.1f GB of this machine (or control group); lower "
                     "anomaly.memory or learning.max_streams, or set anomaly.enabled: false",
                     options->memory, options->columns, options->columns == 1 ? "" : "s",
                     options->slots, needed / GIGABYTE, options->half ? "half of " : "",
                     machine / GIGABYTE);
}

static bool allocate(struct anomaly *anomaly) {
    size_t columns = anomaly->options.columns;
    size_t slots = anomaly->options.slots, places = slots + anomaly->options.groups;
    anomaly->numbers = calloc(places, sizeof *anomaly->numbers);
    anomaly->groups = malloc(slots * sizeof *anomaly->groups);
    columns += columns == 0; /* an allocation of zero bytes must not fail */
    anomaly->scores = calloc(columns, sizeof *anomaly->scores);
    anomaly->surprises = calloc(columns, sizeof *anomaly->surprises);
    anomaly->shares = calloc(columns, sizeof *anomaly->shares);
    anomaly->habits = calloc(columns, sizeof *anomaly->habits);
    if (!anomaly->numbers || !anomaly->groups || !anomaly->scores || !anomaly->surprises ||
        !anomaly->shares || !anomaly->habits ||
        (anomaly->level_size && !level_open(&anomaly->levels, columns, anomaly->options.accept)))
        return false;
    /* one allocation: the pages of streams that do not begin stay untouched */
    size_t bytes = bytes_of(anomaly, anomaly->floats),
           shared = bytes_of(anomaly, anomaly->shared_floats);
    char *numbers = calloc(1, slots * bytes + (places - slots) * shared);
    for (size_t n = 0; numbers && n < places; n++)
        anomaly->numbers[n] =
            (double *)(void *)(numbers +
                               (n < slots ? n * bytes : slots * bytes + (n - slots) * shared));
    if (!numbers)
        return false;
    for (size_t slot = 0; slot < slots; slot++)
        anomaly->groups[slot] = ANOMALY_ALONE;
    return true;
}

int anomaly_open(struct anomaly **anomaly, const struct anomaly_options *options,
                 struct error *error) {
    struct anomaly *made = *anomaly = calloc(1, sizeof *made);
    int status = -1;
    if (made) {
        made->options = *options;
        made->learns = true;
        made->own_memory = options->all_share ? 0 : options->memory;
        made->floats = novelty_floats(made->own_memory);
        made->shared_floats = novelty_floats(options->memory);
        made->numbers_size = NUMBERS(struct arrival) + NUMBERS(struct stream) +
                             options->columns * NUMBERS(struct column) +
                             (options->symbols ? NUMBERS(struct recent) : 0);
        made->alarms_size = kept_size(options->columns, NOVELTY_CONTEXT);
        if (options->accept > 0 && options->columns >= 2 &&
            options->columns <= ANOMALY_LEVEL_COLUMNS && !options->all_share)
            made->level_size = NUMBERS(struct alarm) + level_size(options->columns) +
                               kept_size(1, options->columns);
        made->rates_size =
            NUMBERS(struct pace) + (ANOMALY_REASONS + 1) * NUMBERS(struct calibration);
        if (options->shape > 0 && options->columns > 0) {
            size_t most = options->memory < SHAPE_MEMORY ? options->memory : SHAPE_MEMORY;
            made->shape_memory = vector_pad(most);
            made->floats += SHAPE_SCALES * made->shape_memory * SHAPE_CONTEXT;
            made->shapes_size = options->columns * NUMBERS(struct shape);
        }
        status = check_machine(made, error);
        if (status == 0 && allocate(made)) {
            anomaly_clear(made);
            anomaly_reset(made);
            return 0;
        }
    }
    anomaly_close(anomaly);
    return status ? -1
                  : error_set(error, EX_UNAVAILABLE,
                              "out of memory for the anomalies of %zu streams; lower "
                              "anomaly.memory or learning.max_streams",
                              options->slots);
}

void anomaly_close(struct anomaly **anomaly) {
    if (*anomaly) {
        free((*anomaly)->numbers ? (*anomaly)->numbers[0] : NULL);
        free((*anomaly)->numbers);
        free((*anomaly)->groups);
        free((*anomaly)->scores);
        free((*anomaly)->surprises);
        free((*anomaly)->shares);
        free((*anomaly)->habits);
        level_close(&(*anomaly)->levels);
    }
    free(*anomaly);
    *anomaly = NULL;
}

/* Clears the used part, except struct arrival. */
static void clear(struct anomaly *anomaly, uint32_t slot) {
    for (size_t m = 0; m < anomaly->options.columns; m++) {
        const struct anomaly_contexts contexts = anomaly_contexts(anomaly, slot, false, m);
        memset(contexts.floats, 0, contexts.count * contexts.size * sizeof(float));
    }
    memset(stream_of(anomaly, slot), 0, bytes_of(anomaly, 0) - sizeof(struct arrival));
}

void anomaly_begin(struct anomaly *anomaly, uint32_t slot) {
    struct stream *stream = stream_of(anomaly, slot);
    uint32_t shared = shared_slot(anomaly, slot);
    if (stream->begun != 0) /* otherwise its pages are zero and untouched */
        clear(anomaly, slot);
    stream->begun = 1;
    tail_begin(&stream->wrong);
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        struct column *column = column_of(anomaly, slot, k);
        novelty_begin(&column->novelty, anomaly->options.seed);
        if (shared != ANOMALY_ALONE)
            novelty_join(&column->novelty, &column_of(anomaly, shared, k)->novelty);
        tail_begin(&column->wrong);
    }
    if (!anomaly->options.symbols)
        return;
    struct recent *recent = recent_of(anomaly, slot);
    memset(recent, 0, sizeof *recent);
    tail_begin(&recent->tail);
}

void anomaly_join(struct anomaly *anomaly, uint32_t slot, uint32_t group) {
    anomaly->groups[slot] = group;
}

void anomaly_reset(struct anomaly *anomaly) {
    for (size_t n = 0; n < anomaly->options.groups; n++)
        anomaly_begin(anomaly, (uint32_t)(anomaly->options.slots + n));
    anomaly->silence = (struct silence){0};
}

/* The memory of a column. */
static struct novelty_memory memory_in(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    uint32_t shared = shared_slot(anomaly, slot), at = shared == ANOMALY_ALONE ? slot : shared;
    return (struct novelty_memory){&column_of(anomaly, at, k)->novelty, floats_of(anomaly, at, k),
                                   anomaly->options.memory};
}

static struct stream *begun(struct anomaly *anomaly, uint32_t slot) {
    struct stream *stream = stream_of(anomaly, slot);
    if (stream->begun == 0)
        anomaly_begin(anomaly, slot);
    return stream;
}

/* ---- Scores ---- */

void anomaly_clear(struct anomaly *anomaly) {
    anomaly->score = anomaly->surprise = anomaly->level = anomaly->rarity = NAN;
    for (size_t n = 0; n < ANOMALY_REASONS; n++)
        anomaly->raw[n] = NAN;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        anomaly->scores[k] = anomaly->surprises[k] = anomaly->shares[k] = NAN;
}

struct anomaly_result anomaly_result(const struct anomaly *anomaly) {
    return (struct anomaly_result){anomaly->score,     anomaly->surprise,
                                   anomaly->level,     anomaly->scores,
                                   anomaly->surprises, anomaly->level_size ? anomaly->shares : NULL,
                                   anomaly->rarity,    false};
}

static enum anomaly_habit habit_of(struct column *column, float x) {
    double count = column->novelty.count, value = (double)x;
    if (isnan(x))
        return habit_goes_on(&column->missing, count) ? HABIT_SILENT : HABIT_KEPT;
    if (column->missing.now > 0)
        habit_end(&column->missing, HABIT_LEAST);
    bool same = count > 0 && value == column->last;
    column->last = value;
    if (same)
        return habit_goes_on(&column->repeated, column->repeated.ended) ? HABIT_STUCK : HABIT_KEPT;
    habit_end(&column->repeated, HABIT_LEAST);
    return HABIT_KEPT;
}

enum anomaly_habit anomaly_habit(const struct anomaly *anomaly, size_t k) {
    return anomaly->habits[k];
}

void anomaly_learn(struct anomaly *anomaly, bool learn) {
    anomaly->learns = learn;
}

/* Updates the kept alarms. Call it after all reads of the memory, which it may change. */
static void take_kept(struct anomaly *anomaly, uint32_t slot, const float *x) {
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        const struct novelty_memory memory = memory_in(anomaly, slot, k);
        if (!isnan(x[k]))
            kept_take(kept_of(anomaly, slot), k, stream_of(anomaly, slot)->steps,
                      &column_of(anomaly, slot, k)->novelty, floats_of(anomaly, slot, k), &memory);
    }
}

/* Does the same for level. */
static void take_kept_level(struct anomaly *anomaly, uint32_t slot) {
    struct kept *kept = level_kept_of(anomaly, slot);
    for (size_t a = 0; a < KEPT_ALARMS; a++) {
        if (!kept_takes(kept, a, stream_of(anomaly, slot)->steps))
            continue;
        double *smoothed = kept_append(kept, anomaly->options.columns, 0, a);
        level_smoothed(&anomaly->levels, level_of(anomaly, slot), smoothed);
        if (kept->alarms[a].normal == 1)
            level_mark_normal(&anomaly->levels, level_of(anomaly, slot), smoothed, 1,
                              1.0 / KEPT_STEPS);
    }
}

static void note_raw(struct anomaly *anomaly, enum anomaly_reason reason, double raw) {
    anomaly->raw[reason] = fmax(anomaly->raw[reason], raw);
}

/* Score of column k's next value; also updates a shared memory. */
static struct novelty_score take_value(struct anomaly *anomaly, uint32_t slot, size_t k, float x,
                                       unsigned minute) {
    struct novelty *novelty = &column_of(anomaly, slot, k)->novelty;
    float *floats = floats_of(anomaly, slot, k);
    const struct novelty_memory memory = memory_in(anomaly, slot, k);
    struct novelty_score score =
        memory.novelty == novelty
            ? novelty_take(novelty, floats, memory.size, (double)x, minute, anomaly->learns)
            : novelty_take_shared(novelty, floats, &memory, (double)x, minute, anomaly->learns);
    if (anomaly->shapes_size) {
        double shape = shape_take(shapes_of(anomaly, slot) + k, shape_floats_of(anomaly, slot, k),
                                  anomaly->shape_memory, novelty, (double)x, anomaly->learns);
        double more = anomaly->options.shape * fmax(shape - SHAPE_FROM, 0);
        score = (struct novelty_score){score.score + more, score.raw + more};
    }
    return score;
}

static void take_level(struct anomaly *anomaly, uint32_t slot, const float *x) {
    const struct level_result result =
        level_take(&anomaly->levels, level_of(anomaly, slot), x, anomaly->learns);
    anomaly->newest_level = result.score;
    note_raw(anomaly, ANOMALY_LEVEL, result.unlikeliness);
    if (isnan(result.score) || anomaly->level >= result.score)
        return;
    anomaly->level = result.score;
    memcpy(anomaly->shares, anomaly->levels.shares,
           anomaly->options.columns * sizeof *anomaly->shares);
}

double anomaly_level(const struct anomaly *anomaly) {
    return anomaly->newest_level;
}

double anomaly_take(struct anomaly *anomaly, uint32_t slot, const float *x, double time) {
    struct stream *stream = begun(anomaly, slot);
    unsigned minute = time > 0 ? (unsigned)(fmod(time, DAY) / MINUTE) : 0;
    double most = NAN;
    denormals_to_zero();
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        anomaly->habits[k] = habit_of(column_of(anomaly, slot, k), x[k]);
        if (isnan(x[k]))
            continue;
        const struct novelty_score score = take_value(anomaly, slot, k, x[k], minute);
        anomaly->scores[k] = fmax(anomaly->scores[k], score.score);
        most = fmax(most, score.score);
        note_raw(anomaly, ANOMALY_NOVELTY, score.raw);
    }
    anomaly->newest_level = NAN;
    if (anomaly->level_size && shared_slot(anomaly, slot) == ANOMALY_ALONE)
        take_level(anomaly, slot, x);
    stream->steps++;
    take_kept(anomaly, slot, x);
    if (anomaly->level_size)
        take_kept_level(anomaly, slot);
    anomaly->score = fmax(anomaly->score, most);
    return most;
}

static double raw_surprise(const struct tail *tail, double error) {
    return tail_knows(tail) && !isnan(error) ? tail_unlikeliness(tail, error) : NAN;
}

/* The surprise of an error after `seen` steps. */
static double surprise_of(const struct tail *tail, double error, double seen) {
    return novelty_patient(raw_surprise(tail, error), seen);
}

static double column_surprise(struct anomaly *anomaly, uint32_t slot, size_t k, double error) {
    const struct column *column = column_of(anomaly, slot, k);
    double surprise = surprise_of(&column->wrong, error, stream_of(anomaly, slot)->steps);
    note_raw(anomaly, ANOMALY_SURPRISE, raw_surprise(&column->wrong, error));
    bool in_band = error <= SURPRISE_BAND * novelty_deviation(&column->novelty);
    return in_band && surprise > SURPRISE_IN_BAND ? SURPRISE_IN_BAND : surprise;
}

/* Steps from the newest alarm of surprise to the next step; INFINITY: no alarm yet. */
static double since_surprise(const struct stream *stream) {
    double last = stream->surprise.last;
    return last > 0 ? stream->steps - (last - 1) : (double)INFINITY;
}

/* Whether the tails learn from a step with that surprise. */
static bool teaches(const struct anomaly *anomaly, const struct stream *stream, double surprise,
                    const struct alarm_rule *rule) {
    struct alarm alarm = stream->surprise; /* state after this step */
    if (!anomaly->learns || stream->steps < NOVELTY_DELAY)
        return false;
    return !rule || (since_surprise(stream) >= SURPRISE_WAKE &&
                     !alarm_raised(&alarm, rule, surprise, (uint64_t)stream->steps));
}

double anomaly_wrong(struct anomaly *anomaly, uint32_t slot, const double *errors,
                     const struct alarm_rule *rule) {
    struct stream *stream = begun(anomaly, slot);
    size_t columns = anomaly->options.has_errors ? anomaly->options.columns : 0;
    double most = columns ? (double)NAN : surprise_of(&stream->wrong, *errors, stream->steps);
    if (columns == 0)
        note_raw(anomaly, ANOMALY_SURPRISE, raw_surprise(&stream->wrong, *errors));
    for (size_t k = 0; k < columns; k++) {
        double surprise = column_surprise(anomaly, slot, k, fabs(errors[k]));
        anomaly->surprises[k] = fmax(anomaly->surprises[k], surprise);
        most = fmax(most, surprise);
    }
    anomaly->surprise = fmax(anomaly->surprise, most);
    if (!teaches(anomaly, stream, most, rule))
        return most;
    if (columns == 0 && !isnan(*errors))
        tail_learn(&stream->wrong, *errors);
    for (size_t k = 0; k < columns; k++)
        if (!isnan(errors[k]))
            tail_learn(&column_of(anomaly, slot, k)->wrong, fabs(errors[k]));
    return most;
}

bool anomaly_is_echo(const struct anomaly *anomaly, uint32_t slot) {
    double since =
        since_surprise(stream_of(anomaly, slot)) - 1; /* the newest step was already taken */
    return since > 0 && since < NOVELTY_RING;
}

double anomaly_lost(struct anomaly *anomaly, uint32_t slot, double loss) {
    begun(anomaly, slot);
    const struct novelty_score score = recent_take(recent_of(anomaly, slot), loss, anomaly->learns);
    anomaly->score = fmax(anomaly->score, score.score);
    note_raw(anomaly, ANOMALY_NOVELTY, score.raw);
    return score.score;
}

void anomaly_set_surprise(struct anomaly *anomaly, double raw) {
    anomaly->raw[ANOMALY_SURPRISE] = raw;
}

/* P of a score, which is learned. */
static struct anomaly_rarity rarity_of(const struct anomaly *anomaly, struct calibration *c,
                                       double score, double rest) {
    const struct anomaly_rarity found = {
        .p = calibration_rarity(c, score), .base = calibration_threshold(c, 1), .steps = c->steps};
    if (anomaly->learns)
        calibration_learn(c, score, found.p, rest);
    return found;
}

struct anomaly_rarity anomaly_rarity(struct anomaly *anomaly, uint32_t slot, double rest) {
    struct calibration *c =
        (struct calibration *)(void *)(rates_of(anomaly, slot) + NUMBERS(struct pace));
    const bool has[ANOMALY_REASONS] = {true, anomaly->options.surprise, anomaly->level_size > 0};
    struct anomaly_rarity most = {.p = NAN};
    size_t reasons = 0;
    begun(anomaly, slot);
    for (enum anomaly_reason reason = 0; reason < ANOMALY_REASONS; reason++) {
        double raw = anomaly->raw[reason];
        anomaly->raw[reason] = NAN;
        if (!has[reason])
            continue;
        struct anomaly_rarity one = rarity_of(anomaly, c + reason, raw, rest);
        one.reason = reason;
        if (reasons++ == 0 || isnan(most.p) || one.p > most.p)
            most = one;
    }
    enum anomaly_reason reason = most.reason;
    if (reasons > 1)
        most = rarity_of(anomaly, c + ANOMALY_REASONS, most.p, rest);
    most.reason = reason;
    anomaly->rarity = fmax(anomaly->rarity, most.p);
    return most;
}

double anomaly_interval(struct anomaly *anomaly, uint32_t slot, double time) {
    struct pace *pace = (struct pace *)(void *)rates_of(anomaly, slot);
    double passed = time - pace->time;
    if (time > 0 && pace->time > 0 && passed >= 0) {
        pace->count = fmin(pace->count + 1, PACE_STEPS);
        pace->interval += (passed - pace->interval) / pace->count;
    }
    pace->time = time > 0 ? time : pace->time;
    return pace->interval;
}

uint64_t anomaly_losses(const struct anomaly *anomaly, uint32_t slot) {
    return (uint64_t)recent_of(anomaly, slot)->count;
}

struct alarm *anomaly_alarm(struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason) {
    struct stream *stream = begun(anomaly, slot);
    if (reason == ANOMALY_LEVEL)
        return level_alarm_of(anomaly, slot);
    return reason == ANOMALY_SURPRISE ? &stream->surprise : &stream->novelty;
}

uint64_t anomaly_steps(const struct anomaly *anomaly, uint32_t slot) {
    return (uint64_t)stream_of(anomaly, slot)->steps;
}

size_t anomaly_recent(const struct anomaly *anomaly, uint32_t slot, size_t k, size_t skip,
                      size_t most, double *values) {
    const struct novelty *novelty = &column_of(anomaly, slot, k)->novelty;
    size_t end = (size_t)novelty->count - (novelty->count > 0 ? skip : 0);
    size_t count = end < most ? end : most;
    for (size_t n = 0; n < count; n++)
        values[n] =
            (double)finite_float(novelty->first + novelty->ring[(end - count + n) % NOVELTY_RING]);
    return count;
}

void anomaly_keep(struct anomaly *anomaly, uint32_t slot, const float *x,
                  const struct anomaly_kept *alarm) {
    const struct kept_alarm kept = {
        .steps = stream_of(anomaly, slot)->steps, .time = alarm->time, .score = alarm->score};
    if (alarm->reason == ANOMALY_LEVEL) {
        struct kept *of = level_kept_of(anomaly, slot);
        kept_add(of, 1, anomaly->options.columns, &kept);
        level_smoothed(&anomaly->levels, level_of(anomaly, slot),
                       kept_append(of, anomaly->options.columns, 0, kept_find(of, NAN)));
        return;
    }
    kept_add(kept_of(anomaly, slot), anomaly->options.columns, NOVELTY_CONTEXT, &kept);
    for (size_t k = 0; k < anomaly->options.columns; k++)
        if (!isnan(x[k]))
            kept_first(kept_of(anomaly, slot), k, &column_of(anomaly, slot, k)->novelty,
                       floats_of(anomaly, slot, k));
}

void anomaly_end_step(struct anomaly *anomaly, uint32_t slot, const float *x) {
    for (size_t k = 0; !anomaly->learns && k < anomaly->options.columns; k++)
        if (!isnan(x[k]))
            novelty_drop(&column_of(anomaly, slot, k)->novelty, floats_of(anomaly, slot, k));
}

static struct kept *kept_for(const struct anomaly *anomaly, uint32_t slot,
                             enum anomaly_reason reason) {
    return reason == ANOMALY_LEVEL ? level_kept_of(anomaly, slot) : kept_of(anomaly, slot);
}

/* Enters the alarm with its place; KEPT_ALARMS: not found, with the newest. */
static size_t find_kept(const struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason,
                        double at, struct anomaly_kept *found) {
    const struct kept *kept = kept_for(anomaly, slot, reason);
    size_t there = kept_find(kept, at), newest = kept_find(kept, NAN);
    size_t nearest = there < KEPT_ALARMS ? there : newest;
    *found = (struct anomaly_kept){.score = NAN, .reason = reason};
    if (nearest < KEPT_ALARMS)
        *found = (struct anomaly_kept){
            .reason = reason,
            .time = kept->alarms[nearest].time,
            .score = kept->alarms[nearest].score,
            .ago = (uint64_t)(stream_of(anomaly, slot)->steps - kept->alarms[nearest].steps),
        };
    return there;
}

bool anomaly_find_alarm(const struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason,
                        double at, struct anomaly_kept *found) {
    struct anomaly_kept level;
    bool any = reason == ANOMALY_ANY && anomaly->level_size;
    if (reason == ANOMALY_LEVEL && !anomaly->level_size) {
        *found = (struct anomaly_kept){.score = NAN, .reason = reason};
        return false;
    }
    bool there = find_kept(anomaly, slot, reason == ANOMALY_ANY ? ANOMALY_NOVELTY : reason, at,
                           found) < KEPT_ALARMS;
    bool also = any && find_kept(anomaly, slot, ANOMALY_LEVEL, at, &level) < KEPT_ALARMS;
    bool later = any && !isnan(level.score) && (isnan(found->score) || level.ago < found->ago);
    if (any && (also != there ? also : later))
        *found = level;
    return there || also;
}

bool anomaly_mark_normal(struct anomaly *anomaly, uint32_t slot, enum anomaly_reason reason,
                         double at, struct anomaly_kept *found) {
    if (!anomaly_find_alarm(anomaly, slot, reason, at, found))
        return false;
    struct kept *kept = kept_for(anomaly, slot, found->reason);
    size_t marked = kept_find(kept, at), columns = anomaly->options.columns;
    if (kept->alarms[marked].normal == 1)
        return true;
    kept->alarms[marked].normal = 1;
    if (found->reason == ANOMALY_LEVEL) {
        const double *steps = kept_steps(kept, columns, 0, marked);
        level_mark_normal(&anomaly->levels, level_of(anomaly, slot), steps + 1, (size_t)*steps,
                          1 / fmax(*steps, 1));
        return true;
    }
    for (size_t k = 0; k < columns; k++) {
        const struct novelty_memory memory = memory_in(anomaly, slot, k);
        kept_enter(kept, marked, k, &memory);
    }
    return true;
}

/* ---- Streams that stop ---- */

void anomaly_received(struct anomaly *anomaly, uint32_t slot, double time, bool begins) {
    silence_take(&anomaly->silence, arrival_of(anomaly, slot), anomaly->options.slots, time,
                 begins);
}

bool anomaly_may_be_silent(struct anomaly *anomaly) {
    return silence_may_be(&anomaly->silence);
}

bool anomaly_is_silent(struct anomaly *anomaly, uint32_t slot, bool *changed) {
    struct arrival *arrival = arrival_of(anomaly, slot), before = *arrival;
    bool silent = silence_is(&anomaly->silence, arrival);
    if (changed)
        *changed = memcmp(&before, arrival, sizeof before) != 0; /* doubles only */
    return silent;
}

/* ---- State ---- */

/* Contexts of a column in that place. */
static size_t memory_size(const struct anomaly *anomaly, uint32_t slot) {
    return slot < anomaly->options.slots ? anomaly->own_memory : anomaly->options.memory;
}

struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot) {
    return (struct anomaly_state){
        .numbers = anomaly->numbers[slot],
        .alarms = anomaly->numbers[slot] + anomaly->numbers_size,
        .level = anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size,
        .rates = rates_of(anomaly, slot),
        .shapes = (double *)(void *)shapes_of(anomaly, slot),
        .contexts = floats_of(anomaly, slot, 0),
        .numbers_size = anomaly->numbers_size,
        .alarms_size = anomaly->alarms_size,
        .level_size = anomaly->level_size,
        .rates_size = anomaly->rates_size,
        .shapes_size = anomaly->shapes_size,
        .contexts_size = anomaly->options.columns *
                         (slot < anomaly->options.slots ? anomaly->floats : anomaly->shared_floats),
    };
}

double *anomaly_clock(struct anomaly *anomaly) {
    return &anomaly->silence.clock;
}

struct anomaly_contexts anomaly_contexts(struct anomaly *anomaly, uint32_t slot, bool of_shape,
                                         size_t n) {
    size_t columns = anomaly->options.columns, k = of_shape ? n / SHAPE_SCALES : n;
    size_t memory = of_shape ? anomaly->shape_memory : memory_size(anomaly, slot);
    if (k >= columns || (of_shape && memory == 0))
        return (struct anomaly_contexts){0};
    if (of_shape)
        return (struct anomaly_contexts){
            shape_floats_of(anomaly, slot, k) + n % SHAPE_SCALES * memory * SHAPE_CONTEXT,
            shape_contexts(shapes_of(anomaly, slot) + k, n % SHAPE_SCALES, memory), SHAPE_CONTEXT,
            columns * SHAPE_SCALES * memory};
    return (struct anomaly_contexts){
        floats_of(anomaly, slot, k),
        novelty_contexts(&column_of(anomaly, slot, k)->novelty, memory), NOVELTY_CONTEXT,
        columns * novelty_floats(memory) / NOVELTY_CONTEXT};
}

static bool column_valid(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    const struct column *column = column_of(anomaly, slot, k);
    return tail_valid(&column->wrong) && fabs(column->last) <= (double)FLT_MAX &&
           habit_valid(&column->repeated) && habit_valid(&column->missing) &&
           novelty_valid(&column->novelty, floats_of(anomaly, slot, k),
                         memory_size(anomaly, slot)) &&
           (!anomaly->shapes_size ||
            shape_valid(shapes_of(anomaly, slot) + k, shape_floats_of(anomaly, slot, k),
                        anomaly->shape_memory));
}

static bool rates_valid(const struct anomaly *anomaly, uint32_t slot) {
    const struct pace *pace = (const struct pace *)(const void *)rates_of(anomaly, slot);
    const struct calibration *c = (const struct calibration *)(const void *)(pace + 1);
    bool valid = isfinite(pace->time) && pace->interval >= 0 && isfinite(pace->interval) &&
                 pace->count >= 0 && pace->count <= PACE_STEPS;
    for (size_t n = 0; valid && n <= ANOMALY_REASONS; n++)
        valid = calibration_valid(c + n);
    return valid;
}

bool anomaly_valid(struct anomaly *anomaly, uint32_t slot) {
    const struct stream *stream = stream_of(anomaly, slot);
    bool valid = silence_valid(arrival_of(anomaly, slot));
    if (!valid || stream->begun == 0) /* anomaly_begin relies on zeros */
        return valid &&
               finite_within(&stream->begun,
                             bytes_of(anomaly, 0) / sizeof(double) - NUMBERS(struct arrival), 0);
    valid = stream->begun == 1 && habit_is_count(stream->steps) && alarm_valid(&stream->novelty) &&
            alarm_valid(&stream->surprise) && tail_valid(&stream->wrong) &&
            kept_valid(kept_of(anomaly, slot), anomaly->options.columns, NOVELTY_CONTEXT,
                       stream->steps);
    for (size_t k = 0; valid && k < anomaly->options.columns; k++)
        valid = column_valid(anomaly, slot, k);
    if (valid && anomaly->level_size)
        valid =
            alarm_valid(level_alarm_of(anomaly, slot)) &&
            level_valid(&anomaly->levels, level_of(anomaly, slot)) &&
            kept_valid(level_kept_of(anomaly, slot), 1, anomaly->options.columns, stream->steps);
    return valid && rates_valid(anomaly, slot) &&
           (!anomaly->options.symbols || recent_valid(recent_of(anomaly, slot)));
}

bool anomaly_written(struct anomaly *anomaly, uint32_t slot) {
    if (silence_valid(arrival_of(anomaly, slot)))
        silence_go_on(&anomaly->silence, arrival_of(anomaly, slot));
    return anomaly_valid(anomaly, slot);
}

void anomaly_expect(struct anomaly *anomaly, uint32_t slot) {
    anomaly->expecting = anomaly->silence;
    silence_take(&anomaly->silence, arrival_of(anomaly, slot), anomaly->options.slots, 0, true);
    anomaly_begin(anomaly, slot);
}

void anomaly_settle(struct anomaly *anomaly, uint32_t slot, bool arrived) {
    uint32_t shared = shared_slot(anomaly, slot);
    struct silence *silence = &anomaly->silence;
    *silence = anomaly->expecting;
    if (!arrived)
        return;
    struct arrival *arrival = arrival_of(anomaly, slot);
    arrival->last = silence->clock; /* its daemon had another clock: its pause begins now */
    silence->earliest = fmin(silence->earliest, deadline_of(arrival));
    for (size_t k = 0; shared != ANOMALY_ALONE && k < anomaly->options.columns; k++)
        novelty_join(&column_of(anomaly, slot, k)->novelty,
                     &column_of(anomaly, shared, k)->novelty);
}
