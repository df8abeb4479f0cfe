#include "watch_truth.h"

#include <math.h>

#include "common/json_member.h"

static double number_of(const json_t *value) {
    return json_is_number(value) && isfinite(json_number_value(value)) ? json_number_value(value)
                                                                       : NAN;
}

static double member(const json_t *object, const char *key, double otherwise) {
    double value;
    return member_number(object, key, &value) ? value : otherwise;
}

/* The list of numbers that a prediction is, or its means. */
static const json_t *levels(const json_t *prediction) {
    return json_is_object(prediction) ? json_object_get(prediction, "mean") : prediction;
}

static double level(const json_t *prediction, size_t column) {
    return number_of(json_array_get(levels(prediction), column));
}

static double most_probable(const json_t *prediction) {
    size_t best = 0;
    for (size_t k = 1; k < json_array_size(prediction); k++)
        if (number_of(json_array_get(prediction, k)) > number_of(json_array_get(prediction, best)))
            best = k;
    return json_array_size(prediction) ? (double)best : NAN;
}

/* One target: `row` has what all its columns share. */
static void take_scored(const json_t *scored, struct truth_row row, truth_take *take,
                        void *context) {
    const json_t *target = json_object_get(scored, "target");
    const json_t *prediction = json_object_get(scored, "prediction");
    const json_t *baseline = json_object_get(scored, "baseline");
    row.example = member(scored, "example", NAN);
    row.step = member(scored, "step", 0);
    row.ahead = member(scored, "ahead", row.ahead);
    row.experts = json_object_get(scored, "experts");
    row.low = row.high = NAN;
    if (json_is_number(target)) {
        row.target = json_number_value(target);
        row.prediction = most_probable(prediction);
        row.baseline = most_probable(baseline);
        take(context, &row);
    }
    for (size_t k = 0; json_is_array(levels(prediction)) && k < json_array_size(target); k++) {
        const json_t *bounds = json_array_get(json_object_get(scored, "interval"), k);
        row.column = k;
        row.target = number_of(json_array_get(target, k));
        row.prediction = level(prediction, k);
        row.baseline = level(baseline, k);
        row.low = number_of(json_array_get(bounds, 0));
        row.high = number_of(json_array_get(bounds, 1));
        if (!isnan(row.target))
            take(context, &row);
    }
}

void truth_rows(const json_t *body, truth_take *take, void *context) {
    const json_t *scored = json_object_get(body, "scored");
    const char *stream = member_string(body, "stream");
    /* A message that predicts brings the truth with it; else a label has come of what was before.
     */
    bool predicts = json_object_get(body, "prediction");
    struct truth_row row = {.stream = stream ? stream : "", .ahead = 1};
    size_t count = json_is_array(scored) ? json_array_size(scored) : scored ? 1 : 0;
    for (size_t n = 0; n < count; n++) {
        const json_t *one = json_is_array(scored) ? json_array_get(scored, n) : scored;
        row.data_time = member(predicts ? body : one, "data_time", NAN);
        take_scored(one, row, take, context);
    }
}

double truth_expert(const struct truth_row *row, const char *name) {
    return number_of(json_array_get(json_object_get(row->experts, name), row->column));
}
