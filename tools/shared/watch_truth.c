#include "watch_truth.h"

#include <math.h>
#include <stdio.h>

#include "common/json_member.h"

static double number_of(const json_t *value) {
    return json_is_number(value) && isfinite(json_number_value(value)) ? json_number_value(value)
                                                                       : NAN;
}

static double member(const json_t *object, const char *key, double otherwise) {
    double value;
    return member_number(object, key, &value) ? value : otherwise;
}

/* The numbers of a prediction, or its means. */
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

/* The most probable word of a prediction; "" = the unknown word, NULL = not a prediction of
   words. */
static const char *first_word(const json_t *prediction) {
    const json_t *words = json_object_get(prediction, "words");
    const char *word = json_string_value(json_array_get(words, 0));
    return json_is_array(words) ? word ? word : "" : NULL;
}

static double first_probability(const json_t *prediction) {
    return number_of(json_array_get(json_object_get(prediction, "probabilities"), 0));
}

struct taking {
    truth_take *take;
    void *context;
    bool all;   /* also targets that were not observed */
    bool words; /* only classes that are words */
};

const char *const truth_score_names[TRUTH_SCORES] = {"pit_below", "pit_at", "z", "crps",
                                                     "log_score"};

/* Fills the quantiles and scores of the row's column. */
static void put_distribution(const json_t *scored, struct truth_row *row) {
    const json_t *pit = json_array_get(json_object_get(scored, "pit"), row->column);
    row->quantiles = json_array_get(json_object_get(scored, "quantiles"), row->column);
    row->distributed = json_object_get(scored, "pit") != NULL;
    for (size_t n = 0; n < TRUTH_SCORES; n++)
        row->scores[n] = number_of(
            n <= TRUTH_PIT_AT
                ? json_array_get(pit, n)
                : json_array_get(json_object_get(scored, truth_score_names[n]), row->column));
}

static void take_column(const struct taking *taking, const json_t *scored, struct truth_row *row) {
    const json_t *bounds = json_array_get(json_object_get(scored, "interval"), row->column);
    row->target = number_of(json_array_get(json_object_get(scored, "target"), row->column));
    row->prediction = level(json_object_get(scored, "prediction"), row->column);
    row->baseline = level(json_object_get(scored, "baseline"), row->column);
    row->low = number_of(json_array_get(bounds, 0));
    row->high = number_of(json_array_get(bounds, 1));
    put_distribution(scored, row);
    if (taking->all || !isnan(row->target))
        taking->take(taking->context, row);
}

static bool take_word(const struct taking *taking, const json_t *scored, struct truth_row row) {
    const json_t *word = json_object_get(scored, "word"); /* of a symbol */
    const json_t *target = word ? word : json_object_get(scored, "target");
    const json_t *prediction = json_object_get(scored, "prediction");
    row.words[TRUTH_FORECAST] = first_word(prediction);
    if (!row.words[TRUTH_FORECAST] || !target)
        return false;
    row.words[TRUTH_ACTUAL] = json_is_string(target) ? json_string_value(target) : "";
    row.words[TRUTH_BASELINE] = first_word(json_object_get(scored, "baseline"));
    row.probability = first_probability(prediction);
    row.chance = member(scored, "probability", NAN);
    row.target = row.prediction = row.baseline = row.low = row.high = NAN;
    taking->take(taking->context, &row);
    return true;
}

/* Takes a target; `row` contains the values that all targets of the message share. Returns false if
   its prediction is neither numbers nor a class. */
static bool take_scored(const struct taking *taking, const json_t *scored, struct truth_row row) {
    const json_t *target = json_object_get(scored, "target");
    const json_t *prediction = json_object_get(scored, "prediction");
    row.experts = json_object_get(scored, "experts");
    row.low = row.high = NAN;
    put_distribution(NULL, &row);
    if (json_is_number(target) && !first_word(prediction)) {
        row.target = json_number_value(target);
        row.prediction = most_probable(prediction);
        row.baseline = most_probable(json_object_get(scored, "baseline"));
        taking->take(taking->context, &row);
        return true;
    }
    row.columns = json_array_size(target);
    if (!row.columns || !json_is_array(levels(prediction)))
        return false;
    for (; row.column < row.columns; row.column++)
        take_column(taking, scored, &row);
    return true;
}

static size_t take_rows(const struct taking *taking, const json_t *body) {
    const json_t *scored = json_object_get(body, "scored");
    const char *stream = member_string(body, "stream");
    /* A message with a prediction contains the truth of earlier ones; else a label has arrived for
       them. */
    bool predicts = json_object_get(body, "prediction");
    size_t count = json_is_array(scored) ? json_array_size(scored) : scored ? 1 : 0, without = 0;
    for (size_t n = 0; n < count; n++) {
        const json_t *one = json_is_array(scored) ? json_array_get(scored, n) : scored;
        const json_t *placed = predicts ? body : one;
        if (!json_is_object(one))
            continue;
        struct truth_row row = {.stream = stream ? stream : "",
                                .levels = json_object_get(body, "levels"),
                                .horizons = json_object_get(one, "ahead") != NULL};
        row.steps = row.horizons ? 1 : count;
        row.data_time = member(placed, "data_time", NAN);
        row.place = member(placed, "example", NAN);
        if (row.steps > 1)
            row.place += (double)n / (double)row.steps;
        row.example = member(one, "example", NAN);
        row.forecast_time = member(one, "data_time", NAN);
        row.step = member(one, "step", 0);
        row.ahead = member(one, "ahead", 1);
        row.score = predicts ? member(json_object_get(body, "anomaly"), "score", NAN) : NAN;
        without += !(taking->words ? take_word : take_scored)(taking, one, row);
    }
    return without;
}

void truth_rows(const json_t *body, truth_take *take, void *context) {
    take_rows(&(struct taking){take, context, false, false}, body);
}

size_t truth_rows_all(const json_t *body, truth_take *take, void *context) {
    return take_rows(&(struct taking){take, context, true, false}, body);
}

void truth_words(const json_t *body, truth_take *take, void *context) {
    take_rows(&(struct taking){take, context, false, true}, body);
}

/* Fills the values that all columns of a future value share. Returns false if the message contains
   the value already: with `target: given` an example is scored at once. */
static bool begin_next(const json_t *body, struct truth_row *row) {
    const char *stream = member_string(body, "stream");
    *row = (struct truth_row){.stream = stream ? stream : "",
                              .levels = json_object_get(body, "levels"),
                              .ahead = 1,
                              .steps = 1,
                              .example = member(body, "example", NAN),
                              .forecast_time = member(body, "data_time", NAN),
                              .place = NAN,
                              .data_time = NAN,
                              .target = NAN,
                              .chance = NAN,
                              .baseline = NAN};
    return member(json_object_get(body, "scored"), "example", NAN) != row->example;
}

void truth_next_word(const json_t *body, truth_take *take, void *context) {
    const json_t *prediction = json_object_get(body, "prediction");
    struct truth_row row;
    if (!begin_next(body, &row) || !first_word(prediction))
        return;
    row.words[TRUTH_FORECAST] = first_word(prediction);
    row.probability = first_probability(prediction);
    row.prediction = row.low = row.high = NAN;
    take(context, &row);
}

void truth_next(const json_t *body, truth_take *take, void *context) {
    const json_t *prediction = json_object_get(body, "prediction");
    const json_t *intervals = json_object_get(body, "interval");
    struct truth_row row;
    if (!begin_next(body, &row))
        return;
    row.columns = json_array_size(intervals);
    for (; row.column < row.columns; row.column++) {
        const json_t *bounds = json_array_get(intervals, row.column);
        row.prediction = level(prediction, row.column);
        row.low = number_of(json_array_get(bounds, 0));
        row.high = number_of(json_array_get(bounds, 1));
        row.quantiles = json_array_get(json_object_get(body, "quantiles"), row.column);
        if (!isnan(row.prediction))
            take(context, &row);
    }
}

char *truth_level(const json_t *levels, size_t n, char name[TRUTH_LEVEL_SIZE]) {
    snprintf(name, TRUTH_LEVEL_SIZE, "q%.10g", number_of(json_array_get(levels, n)));
    return name;
}

double truth_quantile(const struct truth_row *row, size_t n) {
    return number_of(json_array_get(row->quantiles, n));
}

double truth_expert(const struct truth_row *row, const char *name) {
    return number_of(json_array_get(json_object_get(row->experts, name), row->column));
}
