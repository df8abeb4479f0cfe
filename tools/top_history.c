#include "build-config.h"

#include "top_history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

enum { STATES_LEAST = 4, STATES_BYTES = 16 << 20 };

enum merge { MERGE_NEWER, MERGE_MEAN, MERGE_LEAST, MERGE_GREATEST };

static const struct {
    const char *object, *key; /* object: NULL = of the message itself */
    enum merge merge;
} fields[FIELDS] = {
    [FIELD_STEPS] = {NULL, "steps", MERGE_NEWER},
    [FIELD_LOSS] = {NULL, "loss", MERGE_NEWER},
    [FIELD_MEAN] = {NULL, "mean", MERGE_MEAN},
    [FIELD_MINIMUM] = {NULL, "minimum", MERGE_LEAST},
    [FIELD_MAXIMUM] = {NULL, "maximum", MERGE_GREATEST},
    [FIELD_SMOOTHED] = {NULL, "smoothed", MERGE_NEWER},
    [FIELD_UPDATES] = {NULL, "updates", MERGE_NEWER},
    [FIELD_RATE] = {NULL, "rate", MERGE_NEWER},
    [FIELD_GRADIENT] = {NULL, "gradient_norm", MERGE_MEAN},
    [FIELD_UPDATE] = {NULL, "update_ratio", MERGE_MEAN},
    [FIELD_RMSE] = {"metric", "rmse", MERGE_MEAN},
    [FIELD_ACCURACY] = {"metric", "accuracy", MERGE_MEAN},
    [FIELD_BITS] = {"metric", "bits", MERGE_MEAN},
    [FIELD_SPEED] = {NULL, "examples_per_second", MERGE_MEAN},
    [FIELD_P50] = {"latency_us", "p50", MERGE_MEAN},
    [FIELD_P99] = {"latency_us", "p99", MERGE_GREATEST},
    [FIELD_SLOWEST] = {"latency_us", "max", MERGE_GREATEST},
    [FIELD_QUEUED] = {NULL, "queued", MERGE_GREATEST},
    [FIELD_REJECTED] = {NULL, "rejected", MERGE_NEWER},
    [FIELD_SKIPPED] = {NULL, "skipped", MERGE_NEWER},
    [FIELD_STREAMS] = {NULL, "streams", MERGE_NEWER},
};

static void drop_states(struct history *h, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        free(h->states[i].text);
    memmove(h->states + first, h->states + first + count,
            (h->state_count - first - count) * sizeof *h->states);
    h->state_count -= count;
}

void history_close(struct history *h) {
    drop_states(h, 0, h->state_count);
    free(h->samples);
    h->samples = NULL;
    h->count = 0;
}

static double merge_value(enum merge merge, const struct sample *a, const struct sample *b,
                          size_t field) {
    double older = a->values[field], newer = b->values[field];
    if (merge == MERGE_LEAST)
        return fmin(older, newer);
    if (merge == MERGE_GREATEST)
        return fmax(older, newer);
    if (isnan(newer) || (merge == MERGE_MEAN && isnan(older)))
        return isnan(newer) ? older : newer;
    return merge == MERGE_NEWER ? newer
                                : (older * a->weight + newer * b->weight) / (a->weight + b->weight);
}

static struct sample merge_samples(const struct sample *a, const struct sample *b) {
    struct sample both = *b;
    both.weight = a->weight + b->weight;
    both.apart = a->apart || b->apart;
    for (size_t field = 0; field < FIELDS; field++)
        both.values[field] = merge_value(fields[field].merge, a, b, field);
    return both;
}

/* Two of the older half become one. */
static void thin_samples(struct history *h) {
    size_t half = h->count / 4 * 2;
    for (size_t i = 0; i < half; i += 2)
        h->samples[i / 2] = merge_samples(&h->samples[i], &h->samples[i + 1]);
    memmove(h->samples + half / 2, h->samples + half, (h->count - half) * sizeof *h->samples);
    h->count -= half / 2;
}

static size_t state_bytes(const struct history *h) {
    size_t bytes = 0;
    for (size_t i = 0; i < h->state_count; i++)
        bytes += h->states[i].size;
    return bytes;
}

/* Of the older half every other one goes. */
static void thin_states(struct history *h) {
    size_t half = h->state_count / 4 * 2;
    for (size_t i = 0; i < half; i += 2) {
        free(h->states[i].text);
        h->states[i / 2] = h->states[i + 1];
    }
    memmove(h->states + half / 2, h->states + half, (h->state_count - half) * sizeof *h->states);
    h->state_count -= half / 2;
}

size_t history_after(const struct history *h, double examples) {
    size_t low = 0, high = h->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (h->samples[middle].examples <= examples)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* States come after the `loss` of the same examples: that of just as many may stay. */
static void forget_from(struct history *h, double examples) {
    while (h->count > 0 && h->samples[h->count - 1].examples >= examples)
        h->count--;
    while (h->state_count > 0 && h->states[h->state_count - 1].examples > examples)
        drop_states(h, h->state_count - 1, 1);
}

void history_loss(struct history *h, const json_t *body, bool apart) {
    struct sample sample = {.weight = 1, .time = (double)time(NULL), .apart = apart};
    if (!tool_number(body, "examples", &sample.examples))
        return;
    tool_number(body, "time", &sample.time);
    for (size_t field = 0; field < FIELDS; field++) {
        const char *object = fields[field].object;
        if (!tool_number(object ? json_object_get(body, object) : body, fields[field].key,
                         &sample.values[field]))
            sample.values[field] = NAN;
    }
    if (!h->samples)
        h->samples = malloc(HISTORY_SAMPLES * sizeof *h->samples);
    if (!h->samples)
        return;
    forget_from(h, sample.examples);
    if (h->count == HISTORY_SAMPLES)
        thin_samples(h);
    h->samples[h->count++] = sample;
}

void history_state(struct history *h, double examples, char *text) {
    while (h->state_count > 0 && h->states[h->state_count - 1].examples >= examples)
        drop_states(h, h->state_count - 1, 1);
    size_t size = strlen(text);
    while (h->state_count == HISTORY_STATES ||
           (h->state_count >= STATES_LEAST && state_bytes(h) + size > STATES_BYTES))
        thin_states(h);
    h->states[h->state_count++] = (struct history_state){examples, text, size};
}

const struct sample *history_at(const struct history *h, double examples) {
    size_t after = history_after(h, examples);
    return after > 0 ? &h->samples[after - 1] : NULL;
}

json_t *history_state_at(const struct history *h, double examples) {
    size_t i = h->state_count;
    while (i > 0 && h->states[i - 1].examples > examples)
        i--;
    return i > 0 ? json_loads(h->states[i - 1].text, 0, NULL) : NULL;
}
