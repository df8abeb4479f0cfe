/* Novelty of several columns together. Its memory is that of the columns themselves, as long as
   they come together. When one is missing alone, its memory goes another way than the others': from
   then on each column is kept once more, with the value before in place of what is missing. */
#include <math.h>
#include <string.h>

#include "anomaly_internal.h"
#include "forecast/vectors.h"

static size_t count_missing(const struct anomaly *anomaly, const float *x) {
    size_t missing = 0;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        missing += isnan(x[k]) != 0;
    return missing;
}

/* Until now what is held is what the columns have. */
static void hold(struct anomaly *anomaly, uint32_t slot) {
    for (size_t k = 0; k < anomaly->options.columns; k++) {
        *held_of(anomaly, slot, k) = column_of(anomaly, slot, k)->novelty;
        memcpy(held_floats_of(anomaly, slot, k), floats_of(anomaly, slot, k),
               anomaly->floats * sizeof(float));
    }
}

void joint_prepare(struct anomaly *anomaly, uint32_t slot, const float *x) {
    struct stream *stream = stream_of(anomaly, slot);
    size_t missing = count_missing(anomaly, x);
    memset(anomaly->distances, 0, vector_pad(anomaly->options.memory) * sizeof(float));
    if (stream->apart != TOGETHER || missing == 0 || missing == anomaly->options.columns)
        return;
    stream->apart = APART;
    if (column_of(anomaly, slot, 0)->novelty.count == 0)
        return;
    hold(anomaly, slot);
    stream->apart = HELD;
}

/* Whether every column has been seen. */
static bool all_seen(const struct anomaly *anomaly, uint32_t slot) {
    for (size_t k = 0; k < anomaly->options.columns; k++)
        if (column_of(anomaly, slot, k)->novelty.count == 0)
            return false;
    return true;
}

static void begin_held(struct anomaly *anomaly, uint32_t slot) {
    for (size_t k = 0; k < anomaly->options.columns; k++)
        novelty_begin(held_of(anomaly, slot, k), anomaly->options.seed);
    stream_of(anomaly, slot)->apart = HELD;
}

static void take_held(struct anomaly *anomaly, uint32_t slot, unsigned minute) {
    for (size_t k = 0; k < anomaly->options.columns; k++)
        novelty_take_beside(held_of(anomaly, slot, k), held_floats_of(anomaly, slot, k),
                            anomaly->options.memory, column_of(anomaly, slot, k)->last, minute,
                            anomaly->learns, anomaly->distances);
}

void joint_take(struct anomaly *anomaly, uint32_t slot, const float *x, unsigned minute) {
    struct stream *stream = stream_of(anomaly, slot);
    size_t columns = anomaly->options.columns, missing = count_missing(anomaly, x);
    const struct novelty *first = &column_of(anomaly, slot, 0)->novelty;
    const float *floats = floats_of(anomaly, slot, 0);
    if (missing == columns)
        return;
    if (stream->apart == APART && all_seen(anomaly, slot))
        begin_held(anomaly, slot);
    if (stream->apart == APART)
        return;
    if (stream->apart == HELD) {
        take_held(anomaly, slot, minute);
        first = held_of(anomaly, slot, 0);
        floats = held_floats_of(anomaly, slot, 0);
    }
    if (missing > 0 || first->used == 0)
        return;
    double distance = novelty_joint(first, floats, minute, anomaly->distances, columns);
    double score = tail_unlikeliness(&stream->joint, distance);
    if (tail_knows(&stream->joint))
        anomaly->joint = fmax(anomaly->joint, novelty_patient(score, first->count - 1));
    if (anomaly->learns)
        tail_learn(&stream->joint, distance);
}

void joint_drop(struct anomaly *anomaly, uint32_t slot, const float *x) {
    if (stream_of(anomaly, slot)->apart != HELD ||
        count_missing(anomaly, x) == anomaly->options.columns)
        return;
    for (size_t k = 0; k < anomaly->options.columns; k++)
        novelty_drop(held_of(anomaly, slot, k), held_floats_of(anomaly, slot, k));
}
