#include "anomaly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/denormals.h"
#include "common/error.h"
#include "novelty.h"

#define MINUTE 60.0
#define DAY (MINUTE * NOVELTY_MINUTES)
#define GIGABYTE 1e9

/* What is kept of a stream: doubles alone, then floats. */
struct stream {
    double begun; /* 1: what follows is of a stream; 0: nothing has come yet */
    double steps;
    struct alarm novelty, surprise;
    struct tail wrong; /* of errors of all columns together */
};

struct column {
    struct novelty novelty;
    struct tail wrong; /* of errors */
};

struct anomaly {
    struct anomaly_options options;
    size_t numbers_size, floats; /* of a stream, and of a column */
    double **numbers;            /* (slots,) of (numbers_size,) doubles and (columns, floats) */
    double *scores, *surprises;  /* (columns,) */
    double score, surprise;
};

#define NUMBERS(type) (sizeof(type) / sizeof(double))

/* ---- Memory ---- */

static size_t stream_bytes(const struct anomaly *anomaly) {
    return anomaly->numbers_size * sizeof(double) +
           anomaly->options.columns * anomaly->floats * sizeof(float);
}

static int check_machine(const struct anomaly *anomaly, struct error *error) {
    const struct anomaly_options *options = &anomaly->options;
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double needed = (double)options->slots * (double)stream_bytes(anomaly);
    if (machine <= 0 || needed <= machine)
        return 0;
    return error_set(error, EX_CONFIG,
                     "anomaly.memory: %zu contexts take %.1f GB for %zu column%s of %zu streams, "
                     "and this machine has %.1f GB: lower anomaly.memory or learning.max_streams, "
                     "or set anomaly.enabled to false",
                     options->memory, needed / GIGABYTE, options->columns,
                     options->columns == 1 ? "" : "s", options->slots, machine / GIGABYTE);
}

static bool allocate(struct anomaly *anomaly) {
    size_t columns = anomaly->options.columns;
    anomaly->numbers = calloc(anomaly->options.slots, sizeof *anomaly->numbers);
    anomaly->scores = calloc(columns, sizeof *anomaly->scores);
    anomaly->surprises = calloc(columns, sizeof *anomaly->surprises);
    if (!anomaly->numbers || !anomaly->scores || !anomaly->surprises)
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
        made->floats = novelty_floats(options->memory);
        made->numbers_size = NUMBERS(struct stream) + options->columns * NUMBERS(struct column);
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
    }
    free(*anomaly);
    *anomaly = NULL;
}

static struct stream *stream_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct stream *)(void *)anomaly->numbers[slot];
}

static struct column *column_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (struct column *)(void *)(anomaly->numbers[slot] + NUMBERS(struct stream)) + k;
}

static float *floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (float *)(void *)(anomaly->numbers[slot] + anomaly->numbers_size) + k * anomaly->floats;
}

void anomaly_begin(struct anomaly *anomaly, uint32_t slot) {
    struct stream *stream = stream_of(anomaly, slot);
    if (stream->begun != 0) /* else its pages are zero, and not yet used */
        memset(anomaly->numbers[slot], 0, stream_bytes(anomaly));
    stream->begun = 1;
    tail_begin(&stream->wrong);
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        struct column *column = column_of(anomaly, slot, k);
        novelty_begin(&column->novelty, anomaly->options.seed);
        tail_begin(&column->wrong);
    }
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
    anomaly->score = anomaly->surprise = NAN;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        anomaly->scores[k] = anomaly->surprises[k] = NAN;
}

struct anomaly_said anomaly_said(const struct anomaly *anomaly) {
    return (struct anomaly_said){anomaly->score, anomaly->surprise, anomaly->scores,
                                 anomaly->surprises};
}

double anomaly_take(struct anomaly *anomaly, uint32_t slot, const float *x, double time) {
    struct stream *stream = begun(anomaly, slot);
    unsigned minute = minute_of(time);
    double most = NAN;
    denormals_to_zero();
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        if (isnan(x[k]))
            continue;
        double score =
            novelty_take(&column_of(anomaly, slot, k)->novelty, floats_of(anomaly, slot, k),
                         anomaly->options.memory, (double)x[k], minute);
        anomaly->scores[k] = fmax(anomaly->scores[k], score);
        most = fmax(most, score);
    }
    stream->steps++;
    anomaly->score = fmax(anomaly->score, most);
    return most;
}

/* Of an error after `seen` steps. */
static double surprise_of(struct tail *tail, double error, double seen) {
    double surprise = NAN;
    if (isnan(error))
        return NAN;
    if (tail_knows(tail))
        surprise = novelty_patient(tail_unlikeliness(tail, error), seen);
    if (seen >= NOVELTY_DELAY)
        tail_learn(tail, error);
    return surprise;
}

double anomaly_wrong(struct anomaly *anomaly, uint32_t slot, const double *errors) {
    struct stream *stream = begun(anomaly, slot);
    double most = NAN;
    if (!anomaly->options.has_errors)
        most = surprise_of(&stream->wrong, *errors, stream->steps);
    for (size_t k = 0; anomaly->options.has_errors && k < anomaly->options.columns; k++) {
        struct tail *tail = &column_of(anomaly, slot, k)->wrong;
        double surprise = surprise_of(tail, fabs(errors[k]), stream->steps);
        anomaly->surprises[k] = fmax(anomaly->surprises[k], surprise);
        most = fmax(most, surprise);
    }
    anomaly->surprise = fmax(anomaly->surprise, most);
    return most;
}

struct alarm *anomaly_alarm(struct anomaly *anomaly, uint32_t slot, bool surprise) {
    struct stream *stream = begun(anomaly, slot);
    return surprise ? &stream->surprise : &stream->novelty;
}

uint64_t anomaly_steps(const struct anomaly *anomaly, uint32_t slot) {
    return (uint64_t)stream_of(anomaly, slot)->steps;
}

/* ---- Checkpoints ---- */

struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot) {
    return (struct anomaly_state){
        .numbers = anomaly->numbers[slot],
        .contexts = floats_of(anomaly, slot, 0),
        .numbers_size = anomaly->numbers_size,
        .contexts_size = anomaly->options.columns * anomaly->floats,
    };
}

bool anomaly_written(struct anomaly *anomaly, uint32_t slot) {
    const struct stream *stream = stream_of(anomaly, slot);
    bool valid = stream->begun == 1 && stream->steps >= 0 &&
                 stream->steps == floor(stream->steps) && isfinite(stream->steps) &&
                 alarm_valid(&stream->novelty) && alarm_valid(&stream->surprise) &&
                 tail_valid(&stream->wrong);
    if (stream->begun == 0)
        return true;
    for (size_t k = 0; valid && k < anomaly->options.columns; k++) {
        const struct column *column = column_of(anomaly, slot, k);
        valid =
            tail_valid(&column->wrong) &&
            novelty_valid(&column->novelty, floats_of(anomaly, slot, k), anomaly->options.memory);
    }
    return valid;
}
