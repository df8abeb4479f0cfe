#include "anomaly.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/denormals.h"
#include "common/error.h"
#include "common/machine.h"
#include "forecast/vectors.h"
#include "habit.h"
#include "kept.h"
#include "novelty.h"
#include "recent.h"
#include "silence.h"

#define MINUTE 60.0
#define DAY (MINUTE * NOVELTY_MINUTES)
#define GIGABYTE 1e9
#define HALF 0.5

/* What is kept of a stream: doubles alone, then floats. First a struct heard: that is written while
   what came before still waits for its scores. */
struct stream {
    double begun; /* 1: what follows is of a stream; 0: nothing has come yet */
    double steps;
    struct alarm novelty, surprise;
    struct tail wrong; /* of errors of all columns together */
    struct tail joint;
    double apart; /* 1: a column was missing alone, and they have no past in common */
};

struct column {
    struct novelty novelty;
    struct tail wrong; /* of errors */
    double last;       /* value */
    struct habit repeated, missing;
};

struct anomaly {
    struct anomaly_options options;
    size_t numbers_size, alarms_size, floats; /* of a stream, and of a column */
    double **numbers; /* (slots,) of (numbers_size + alarms_size,) doubles and (columns, floats) */
    double *scores, *surprises; /* (columns,) */
    double score, surprise, joint;
    bool learns;                /* from what comes now */
    float *distances;           /* (memory,) of all columns together; NULL with one */
    enum anomaly_habit *habits; /* (columns,) what the newest step has broken */

    struct silence silence;
};

#define NUMBERS(type) (sizeof(type) / sizeof(double))

/* ---- Memory ---- */

static size_t stream_bytes(const struct anomaly *anomaly) {
    return (anomaly->numbers_size + anomaly->alarms_size) * sizeof(double) +
           anomaly->options.columns * anomaly->floats * sizeof(float);
}

static int check_machine(const struct anomaly *anomaly, struct error *error) {
    const struct anomaly_options *options = &anomaly->options;
    double machine = machine_memory("");
    double needed = (double)options->slots * (double)stream_bytes(anomaly);
    if (machine <= 0 || needed <= (options->half ? HALF : 1) * machine)
        return 0;
    return error_set(
        error, EX_CONFIG,
        "anomaly.memory: %zu contexts take %.1f GB for %zu column%s of %zu streams, "
        "more than %sthis machine's %.1f GB (or its control group's): lower anomaly.memory or "
        "learning.max_streams, or set anomaly.enabled to false",
        options->memory, needed / GIGABYTE, options->columns, options->columns == 1 ? "" : "s",
        options->slots, options->half ? "half of " : "", machine / GIGABYTE);
}

static bool allocate(struct anomaly *anomaly) {
    size_t columns = anomaly->options.columns;
    anomaly->numbers = calloc(anomaly->options.slots, sizeof *anomaly->numbers);
    columns += columns == 0; /* none is not out of memory */
    anomaly->scores = calloc(columns, sizeof *anomaly->scores);
    anomaly->surprises = calloc(columns, sizeof *anomaly->surprises);
    anomaly->habits = calloc(columns, sizeof *anomaly->habits);
    if (columns > 1)
        anomaly->distances = calloc(anomaly->floats, sizeof *anomaly->distances);
    if (columns > 1 && !anomaly->distances)
        return false;
    if (!anomaly->numbers || !anomaly->scores || !anomaly->surprises || !anomaly->habits)
        return false;
    for (size_t slot = 0; slot < anomaly->options.slots; slot++)
        if (!(anomaly->numbers[slot] = calloc(1, stream_bytes(anomaly))))
            return false;
    return true;
}

int anomaly_open(struct anomaly **anomaly, const struct anomaly_options *options,
                 struct error *error) {
    struct anomaly *made = *anomaly = calloc(1, sizeof *made);
    int status = -1;
    if (made) {
        made->options = *options;
        made->learns = true;
        made->floats = novelty_floats(options->memory);
        made->numbers_size = NUMBERS(struct heard) + NUMBERS(struct stream) +
                             options->columns * NUMBERS(struct column) +
                             (options->symbols ? NUMBERS(struct recent) : 0);
        made->alarms_size = kept_size(options->columns);
        status = check_machine(made, error);
        if (status == 0 && allocate(made)) {
            anomaly_clear(made);
            return 0;
        }
    }
    anomaly_close(anomaly);
    return status ? -1
                  : error_set(error, EX_UNAVAILABLE,
                              "out of memory for the anomalies of %zu streams: lower "
                              "anomaly.memory or learning.max_streams",
                              options->slots);
}

void anomaly_close(struct anomaly **anomaly) {
    if (*anomaly) {
        for (size_t slot = 0; (*anomaly)->numbers && slot < (*anomaly)->options.slots; slot++)
            free((*anomaly)->numbers[slot]);
        free((*anomaly)->numbers);
        free((*anomaly)->scores);
        free((*anomaly)->surprises);
        free((*anomaly)->habits);
        free((*anomaly)->distances);
    }
    free(*anomaly);
    *anomaly = NULL;
}

static struct heard *heard_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct heard *)(void *)anomaly->numbers[slot];
}

static struct stream *stream_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct stream *)(void *)(anomaly->numbers[slot] + NUMBERS(struct heard));
}

static struct column *column_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (struct column *)(void *)(stream_of(anomaly, slot) + 1) + k;
}

static struct kept *kept_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct kept *)(void *)(anomaly->numbers[slot] + anomaly->numbers_size);
}

/* Only with symbols. */
static struct recent *recent_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct recent *)(void *)(stream_of(anomaly, slot) + 1);
}

static float *floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    double *after = anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size;
    return (float *)(void *)after + k * anomaly->floats;
}

void anomaly_begin(struct anomaly *anomaly, uint32_t slot) {
    struct stream *stream = stream_of(anomaly, slot);
    if (stream->begun != 0) /* else its pages are zero, and not yet used */
        memset(stream, 0, stream_bytes(anomaly) - sizeof(struct heard));
    stream->begun = 1;
    tail_begin(&stream->wrong);
    tail_begin(&stream->joint);
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        struct column *column = column_of(anomaly, slot, k);
        novelty_begin(&column->novelty, anomaly->options.seed);
        tail_begin(&column->wrong);
    }
    if (anomaly->options.symbols)
        recent_begin(recent_of(anomaly, slot));
}

static struct stream *begun(struct anomaly *anomaly, uint32_t slot) {
    struct stream *stream = stream_of(anomaly, slot);
    if (stream->begun == 0)
        anomaly_begin(anomaly, slot);
    return stream;
}

/* ---- Scores ---- */

static unsigned minute_of(double time) {
    return time > 0 ? (unsigned)(fmod(time, DAY) / MINUTE) : 0;
}

void anomaly_clear(struct anomaly *anomaly) {
    anomaly->score = anomaly->surprise = anomaly->joint = NAN;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        anomaly->scores[k] = anomaly->surprises[k] = NAN;
}

struct anomaly_said anomaly_said(const struct anomaly *anomaly) {
    return (struct anomaly_said){anomaly->score, anomaly->surprise, anomaly->joint, anomaly->scores,
                                 anomaly->surprises};
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

/* Of a step that all columns have taken. */
static void take_joint(struct anomaly *anomaly, uint32_t slot, const float *x, unsigned minute) {
    struct stream *stream = stream_of(anomaly, slot);
    size_t columns = anomaly->options.columns, missing = 0;
    const struct novelty *first = &column_of(anomaly, slot, 0)->novelty;
    for (size_t k = 0; k < columns; k++)
        missing += isnan(x[k]) != 0;
    if (missing > 0 && missing < columns)
        stream->apart = 1;
    if (missing > 0 || stream->apart == 1 || first->used == 0)
        return;
    double distance =
        novelty_joint(first, floats_of(anomaly, slot, 0), minute, anomaly->distances, columns);
    double score = tail_unlikeliness(&stream->joint, distance);
    if (tail_knows(&stream->joint))
        anomaly->joint = fmax(anomaly->joint, novelty_patient(score, first->count - 1));
    if (anomaly->learns)
        tail_learn(&stream->joint, distance);
}

/* Of the alarms that are kept. After all that looks at the memory: it may change. */
static void take_kept(struct anomaly *anomaly, uint32_t slot, const float *x) {
    for (size_t k = 0; k < anomaly->options.columns; k++)
        if (!isnan(x[k]))
            kept_take(kept_of(anomaly, slot), k, stream_of(anomaly, slot)->steps,
                      &column_of(anomaly, slot, k)->novelty, floats_of(anomaly, slot, k),
                      anomaly->options.memory);
}

double anomaly_take(struct anomaly *anomaly, uint32_t slot, const float *x, double time) {
    struct stream *stream = begun(anomaly, slot);
    unsigned minute = minute_of(time);
    double most = NAN;
    denormals_to_zero();
    if (anomaly->distances)
        memset(anomaly->distances, 0, vector_pad(anomaly->options.memory) * sizeof(float));
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        struct column *column = column_of(anomaly, slot, k);
        anomaly->habits[k] = habit_of(column, x[k]);
        if (isnan(x[k]))
            continue;
        double score = novelty_take_beside(&column->novelty, floats_of(anomaly, slot, k),
                                           anomaly->options.memory, (double)x[k], minute,
                                           anomaly->learns, anomaly->distances);
        anomaly->scores[k] = fmax(anomaly->scores[k], score);
        most = fmax(most, score);
    }
    if (anomaly->distances)
        take_joint(anomaly, slot, x, minute);
    stream->steps++;
    take_kept(anomaly, slot, x);
    anomaly->score = fmax(anomaly->score, most);
    return most;
}

/* Of an error after `seen` steps. */
static double surprise_of(struct tail *tail, double error, double seen, bool learn) {
    double surprise = NAN;
    if (isnan(error))
        return NAN;
    if (tail_knows(tail))
        surprise = novelty_patient(tail_unlikeliness(tail, error), seen);
    if (learn && seen >= NOVELTY_DELAY)
        tail_learn(tail, error);
    return surprise;
}

double anomaly_wrong(struct anomaly *anomaly, uint32_t slot, const double *errors) {
    struct stream *stream = begun(anomaly, slot);
    double most = NAN;
    if (!anomaly->options.has_errors)
        most = surprise_of(&stream->wrong, *errors, stream->steps, anomaly->learns);
    for (size_t k = 0; anomaly->options.has_errors && k < anomaly->options.columns; k++) {
        struct tail *tail = &column_of(anomaly, slot, k)->wrong;
        double surprise = surprise_of(tail, fabs(errors[k]), stream->steps, anomaly->learns);
        anomaly->surprises[k] = fmax(anomaly->surprises[k], surprise);
        most = fmax(most, surprise);
    }
    anomaly->surprise = fmax(anomaly->surprise, most);
    return most;
}

double anomaly_lost(struct anomaly *anomaly, uint32_t slot, double loss) {
    begun(anomaly, slot);
    double score = recent_take(recent_of(anomaly, slot), loss, anomaly->learns);
    anomaly->score = fmax(anomaly->score, score);
    return score;
}

uint64_t anomaly_losses(const struct anomaly *anomaly, uint32_t slot) {
    return (uint64_t)recent_of(anomaly, slot)->count;
}

struct alarm *anomaly_alarm(struct anomaly *anomaly, uint32_t slot, bool surprise) {
    struct stream *stream = begun(anomaly, slot);
    return surprise ? &stream->surprise : &stream->novelty;
}

uint64_t anomaly_steps(const struct anomaly *anomaly, uint32_t slot) {
    return (uint64_t)stream_of(anomaly, slot)->steps;
}

void anomaly_keep(struct anomaly *anomaly, uint32_t slot, const float *x,
                  const struct anomaly_kept *alarm) {
    const struct kept_alarm kept = {
        .steps = stream_of(anomaly, slot)->steps, .time = alarm->time, .score = alarm->score};
    kept_add(kept_of(anomaly, slot), anomaly->options.columns, &kept);
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

bool anomaly_find_alarm(const struct anomaly *anomaly, uint32_t slot, double at,
                        struct anomaly_kept *found) {
    const struct kept *kept = kept_of(anomaly, slot);
    size_t there = kept_find(kept, at), newest = kept_find(kept, NAN);
    size_t said = there < KEPT_ALARMS ? there : newest;
    *found = (struct anomaly_kept){.score = NAN};
    if (said < KEPT_ALARMS)
        *found = (struct anomaly_kept){
            .time = kept->alarms[said].time,
            .score = kept->alarms[said].score,
            .ago = (uint64_t)(stream_of(anomaly, slot)->steps - kept->alarms[said].steps),
        };
    return there < KEPT_ALARMS;
}

bool anomaly_mark_normal(struct anomaly *anomaly, uint32_t slot, double at,
                         struct anomaly_kept *found) {
    struct kept *kept = kept_of(anomaly, slot);
    size_t marked = kept_find(kept, at);
    if (!anomaly_find_alarm(anomaly, slot, at, found) || kept->alarms[marked].normal == 1)
        return marked < KEPT_ALARMS;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        kept_enter(kept, marked, k, &column_of(anomaly, slot, k)->novelty,
                   floats_of(anomaly, slot, k), anomaly->options.memory);
    kept->alarms[marked].normal = 1;
    return true;
}

/* ---- Streams that stop ---- */

void anomaly_heard(struct anomaly *anomaly, uint32_t slot, double time, bool begins) {
    silence_heard(&anomaly->silence, heard_of(anomaly, slot), anomaly->options.slots, time, begins);
}

bool anomaly_may_be_silent(struct anomaly *anomaly) {
    return silence_may_be(&anomaly->silence);
}

bool anomaly_is_silent(struct anomaly *anomaly, uint32_t slot) {
    return silence_is(&anomaly->silence, heard_of(anomaly, slot));
}

/* ---- Checkpoints ---- */

struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot) {
    return (struct anomaly_state){
        .numbers = anomaly->numbers[slot],
        .alarms = anomaly->numbers[slot] + anomaly->numbers_size,
        .contexts = floats_of(anomaly, slot, 0),
        .numbers_size = anomaly->numbers_size,
        .alarms_size = anomaly->alarms_size,
        .contexts_size = anomaly->options.columns * anomaly->floats,
        .columns = anomaly->options.columns,
    };
}

struct anomaly_contexts anomaly_contexts(struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (struct anomaly_contexts){
        .floats = floats_of(anomaly, slot, k),
        .count = novelty_contexts(&column_of(anomaly, slot, k)->novelty, anomaly->options.memory),
    };
}

static bool column_valid(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    const struct column *column = column_of(anomaly, slot, k);
    return tail_valid(&column->wrong) && fabs(column->last) <= (double)FLT_MAX &&
           habit_valid(&column->repeated) && habit_valid(&column->missing) &&
           novelty_valid(&column->novelty, floats_of(anomaly, slot, k), anomaly->options.memory);
}

bool anomaly_written(struct anomaly *anomaly, uint32_t slot) {
    const struct stream *stream = stream_of(anomaly, slot);
    bool valid = silence_valid(heard_of(anomaly, slot));
    if (valid)
        silence_go_on(&anomaly->silence, heard_of(anomaly, slot));
    if (!valid || stream->begun == 0)
        return valid;
    valid = stream->begun == 1 && habit_is_count(stream->steps) && alarm_valid(&stream->novelty) &&
            alarm_valid(&stream->surprise) && tail_valid(&stream->wrong) &&
            tail_valid(&stream->joint) && (stream->apart == 0 || stream->apart == 1) &&
            kept_valid(kept_of(anomaly, slot), anomaly->options.columns);
    for (size_t k = 0; valid && k < anomaly->options.columns; k++)
        valid = column_valid(anomaly, slot, k);
    return valid && (!anomaly->options.symbols || recent_valid(recent_of(anomaly, slot)));
}
