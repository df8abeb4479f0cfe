#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_text.h"
#include "common/streams.h"
#include "learner/learner.h"
#include "metrics.h"
#include "parts/anomalies.h"
#include "parts/distributions.h"
#include "parts/experts.h"
#include "parts/part.h"
#include "parts/prediction.h"
#include "parts/symbols.h"
#include "parts/truth.h"
#include "parts/truths.h"
#include "parts/words.h"
#include "sockets/ingest.h"

/* A part's figure, NaN without the part. */
#define AS_NUMBER(figure) (figure)
#define AS_COUNT(figure) ((uint64_t)fmax(figure, 0))

static unsigned loss_has(const struct output *output) {
    unsigned metrics = output_metrics(output);
    return (metrics & METRIC_RMSE ? FIELD_HAS(NEED_ERROR) : 0) |
           (metrics & METRIC_ACCURACY ? FIELD_HAS(NEED_CLASSES) : 0) |
           (metrics & METRIC_BITS ? FIELD_HAS(NEED_BITS) : 0) |
           (metrics & METRIC_RANK ? FIELD_HAS(NEED_RANKS) : 0) |
           (output_baseline(output) != BASELINE_NONE ? FIELD_HAS(NEED_BASELINE) : 0);
}

static bool has_messages(const struct architecture *architecture) {
    bool has = input_is_message(&architecture->input);
    for (size_t k = 0; k <= architecture->other_count; k++)
        has |= output_is_message(architecture_output(architecture, k));
    return has;
}

struct field_tally report_rejected(const struct ingest *ingest,
                                   struct field_count counts[REJECT_REASONS]) {
    for (int r = 0; r < REJECT_REASONS - 1; r++) {
        enum reject_reason reason = (enum reject_reason)(REJECT_NOT + 1 + r);
        counts[r] = (struct field_count){reject_name(reason), ingest_rejected(ingest, reason)};
    }
    return (struct field_tally){counts, REJECT_REASONS - 1};
}

enum { SHARES_SIZE = 512 };

/* Shares of a weight as a JSON list; NULL without weight. */
static const char *format_shares(char text[SHARES_SIZE], const double *shares, size_t count,
                                 double weight) {
    size_t used = 0;
    for (size_t n = 0; n < count; n++)
        used += (size_t)snprintf(text + used, SHARES_SIZE - used, "%s%.6g", n ? "," : "[",
                                 shares[n] / weight);
    snprintf(text + used, SHARES_SIZE - used, "]");
    return weight > 0 ? text : NULL;
}

/* The last rows of experts are the baselines of orders. */
static void add_orders(struct loss_fields *loss) {
    const double *rows = loss->experts.numbers + EXPERT_mean;
    size_t first = loss->experts.size - SYMBOLS_ORDERS;
    loss->baseline_order1 = rows[first * EXPERT_FIELDS];
    loss->baseline_best = loss->baseline;
    for (size_t n = first; n < loss->experts.size; n++)
        loss->baseline_best = fmin(loss->baseline_best, rows[n * EXPERT_FIELDS]);
}

void report_loss(struct json_text *text, const struct loss_fields *metrics,
                 const struct model *model, const struct learner *learner, size_t queued,
                 const struct ingest *ingest) {
    struct loss_fields loss = *metrics;
    const char *names[LEARNER_FORECASTS_MAX];
    struct field_count rejected_by[REJECT_REASONS];
    const struct truth_coverage coverage = truths_coverage(learner_host(learner));
    double rate = learner_rate(learner);
    loss.rate = rate == RATE_AUTO ? NAN : rate;
    loss.plasticity = learner_plasticity(learner);
    loss.coverage_total = truth_held(&coverage);
    loss.coverage_recent = truth_held_recently(&coverage);
    loss.queued = queued;
    loss.rejected = ingest_rejected(ingest, REJECT_NOT);
    loss.rejected_by = report_rejected(ingest, rejected_by);
    for (size_t n = 0; n < learner_host(learner)->forecasts; n++)
        names[n] = experts_name(learner_host(learner), n);
    loss.experts.names = names;
    struct symbols_usage usage;
    unsigned symbols = symbols_usage(learner_host(learner), &usage) ? FIELD_HAS(NEED_SYMBOLS) : 0;
    if (symbols)
        add_orders(&loss);
    unsigned experts = learner_host(learner)->forecasts ? FIELD_HAS(NEED_EXPERTS) : 0;
    loss.anomaly_open = anomalies_open_incidents(learner_host(learner));
    loss.anomaly_threshold = anomalies_limit(learner_host(learner));
    unsigned anomaly = learner_watches(learner) ? FIELD_HAS(NEED_ANOMALY) : 0;
    unsigned words = words_lexicons(learner_host(learner)) ? FIELD_HAS(NEED_WORDS) : 0;
    const struct distributions_recent recent = distributions_recent(learner_host(learner));
    char pit[SHARES_SIZE], held[SHARES_SIZE];
    size_t levels;
    loss.pit = format_shares(pit, recent.pit, DISTRIBUTIONS_PIT_BINS, recent.weight);
    loss.coverage_levels = format_shares(held, recent.held, DISTRIBUTIONS_INTERVALS, recent.weight);
    loss.calibration = distributions_calibration(learner_host(learner));
    unsigned distribution =
        distributions_levels(learner_host(learner), &levels) ? FIELD_HAS(NEED_DISTRIBUTION) : 0;
    unsigned outputs = model->architecture.other_count ? FIELD_HAS(NEED_OUTPUTS) : 0;
    unsigned messages = has_messages(&model->architecture) ? FIELD_HAS(NEED_MESSAGES) : 0;
    double figures[PART_FIGURES];
    learner_figures(learner, figures);
#define PART_FIELD(key, type, ...) loss.key = AS_##type(figures[FIGURE_##key]);
#include "common/parts.def"
    fields_write(text, FIELDS_OF_LOSS, &loss,
                 loss_has(&model->architecture.output) | experts | anomaly | words | distribution |
                     symbols | outputs | messages);
}

static unsigned layer_has(const struct layer *layer) {
    const struct cell_kind *cell = cell_kind(layer->cell);
    bool norm = norm_kind(layer->norm)->source != SOURCE_NOTHING;
    return (cell->apart ? FIELD_HAS(NEED_RECURRENT) : 0) |
           (cell->states > cell->outputs ? FIELD_HAS(NEED_CELL) : 0) |
           (norm ? FIELD_HAS(NEED_NORM) : 0) |
           (norm_kind(layer->norm)->source == SOURCE_RUNNING ? FIELD_HAS(NEED_RUNNING) : 0);
}

enum { LAYER_NAME_SIZE = OUTPUT_NAME_SIZE + 24 };

/* The layer's number is that in its chain. */
static void name_layer(const struct model *model, size_t n, char name[LAYER_NAME_SIZE]) {
    static const char *const chains[] = {"layer", "reader", "output", "candidates"};
    const struct chain *chain = model->chains;
    while (n < chain->first || n - chain->first >= chain->count)
        chain++;
    const char *output = chain->kind < CHAIN_WRITER ? "" : model_output(model, chain->output)->name;
    snprintf(name, LAYER_NAME_SIZE, "%s %zu", *output ? output : chains[chain->kind],
             n - chain->first);
}

static void put_layers(struct json_text *text, const struct model *model,
                       const struct layer_statistics *statistics) {
    json_text_open_list(text, "layers");
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = model_layer(model, i);
        char name[LAYER_NAME_SIZE];
        name_layer(model, i, name);
        const struct layer_fields fields = {
            .name = name,
            .kind = cell_kind(layer->cell)->kind.name,
            .size = layer->size * layer_positions(layer),
#define MEASURED_ROW(name, member, ...) .name = statistics[i].member,
#include "common/fields.def"
        };
        json_text_open_object(text, NULL);
        fields_write(text, FIELDS_OF_LAYER, &fields,
                     layer_has(layer) | (model->chain_count > 1 ? FIELD_HAS(NEED_CHAINS) : 0));
        json_text_close_object(text);
    }
    json_text_close_list(text);
}

void report_state(struct json_text *text, const struct learner *learner,
                  const struct layer_statistics *const *statistics) {
    put_layers(text, learner_member_model(learner, 0), statistics[0]);
    if (!*learner_member_name(learner, 0))
        return;
    json_text_open_object(text, "members");
    for (size_t m = 0; m < learner_members(learner); m++) {
        json_text_open_object(text, learner_member_name(learner, m));
        put_layers(text, learner_member_model(learner, m), statistics[m]);
        json_text_close_object(text);
    }
    json_text_close_object(text);
}

void report_vector(struct json_text *text, const struct learned *learned) {
    json_text_string(text, "stream", learned->key, learned->key_size);
    json_text_count(text, "example", learned->examples);
    if (learned->output_steps > 1)
        json_text_open_list(text, "h");
    for (size_t t = 0; t < learned->output_steps; t++) {
        json_text_open_list(text, learned->output_steps > 1 ? NULL : "h");
        for (size_t i = 0; i < learned->width; i++)
            json_text_number(text, NULL, (double)learned->hidden[t * learned->width + i]);
        json_text_close_list(text);
    }
    if (learned->output_steps > 1)
        json_text_close_list(text);
}

static void put_list(struct json_text *text, const char *key, const double *numbers, size_t size) {
    json_text_open_list(text, key);
    for (size_t k = 0; k < size; k++)
        json_text_number(text, NULL, numbers[k]);
    json_text_close_list(text);
}

/* ---- Predictions ---- */

/* The options for formatting predictions. */
struct formatter {
    const struct model *model;
    const struct learner *learner;
    size_t lexicon; /* vocabulary of classes that are words, else SIZE_MAX */
    size_t top;     /* number of words in a prediction */
    bool bytes;     /* symbols are bytes */
};

static bool has_words(const struct formatter *formatter, size_t output) {
    return formatter->lexicon != SIZE_MAX &&
           words_of_output(learner_host(formatter->learner), output);
}

/* A symbol that is not a word is its number, and a byte its character. */
static void put_word(struct json_text *text, const char *key, const struct formatter *formatter,
                     uint32_t id) {
    char symbol[16];
    bool printable = id >= ' ' && id <= '~', bytes = formatter->bytes;
    snprintf(symbol, sizeof symbol, !bytes ? "%u" : printable ? "'%c'" : "0x%02X", id);
    size_t size = strlen(symbol);
    const char *word = symbol;
    if (formatter->lexicon != SIZE_MAX)
        word = words_word(learner_host(formatter->learner), formatter->lexicon, id, &size);
    if (word)
        json_text_string(text, key, word, size);
    else
        json_text_null(text, key);
}

/* Probabilities below the least float32 are omitted; classes that never occurred have 0. */
#define NO_SHARE 1e-45

/* Returns the most probable class after `last` in order of probability, the first of equals;
   SIZE_MAX: none. Skips classes without a word, except the last class. */
static size_t next_class(const double *numbers, const struct learner_lexicon *lexicon,
                         size_t last) {
    size_t best = SIZE_MAX;
    for (size_t n = 0; n <= lexicon->size; n++) {
        size_t k = n < lexicon->size ? n : lexicon->capacity;
        bool left = last == SIZE_MAX || numbers[k] < numbers[last] ||
                    (numbers[k] == numbers[last] && k > last);
        if (left && numbers[k] >= NO_SHARE && (best == SIZE_MAX || numbers[k] > numbers[best]))
            best = k;
    }
    return best;
}

/* Adds the most probable symbols, their words and probabilities. */
static void put_guesses(struct json_text *text, const char *key, const struct formatter *formatter,
                        const struct symbols_guess *top, size_t count) {
    bool words = formatter->lexicon != SIZE_MAX;
    size_t most = 0;
    while (most < count && most < formatter->top && top[most].probability > 0)
        most++;
    json_text_open_object(text, key);
    if (!words) {
        json_text_open_list(text, "symbols");
        for (size_t n = 0; n < most; n++)
            json_text_count(text, NULL, top[n].symbol);
        json_text_close_list(text);
    }
    json_text_open_list(text, "words");
    for (size_t n = 0; n < most; n++)
        put_word(text, NULL, formatter, top[n].symbol);
    json_text_close_list(text);
    json_text_open_list(text, "probabilities");
    for (size_t n = 0; n < most; n++)
        json_text_number(text, NULL, top[n].probability);
    json_text_close_list(text);
    json_text_close_object(text);
}

/* Adds the most probable words and their probabilities. */
static void put_words(struct json_text *text, const char *key, const struct formatter *formatter,
                      const double *numbers) {
    const struct learner_lexicon classes =
        words_lexicon(learner_host(formatter->learner), formatter->lexicon);
    struct symbols_guess top[CONFIG_TOP_MAX];
    size_t last = SIZE_MAX, count = 0;
    while (count < formatter->top && (last = next_class(numbers, &classes, last)) != SIZE_MAX)
        top[count++] = (struct symbols_guess){(uint32_t)last, numbers[last]};
    put_guesses(text, key, formatter, top, count);
}

/* Adds a list, or an object of the loss's parts. */
static void put_head(struct json_text *text, const char *key, const struct formatter *formatter,
                     size_t h, const double *numbers) {
    const struct model_head *head = &formatter->model->heads[h];
    const struct output *output = model_output(formatter->model, head->output);
    const struct loss_part *part = loss_kind(output->loss)->parts;
    numbers += head->at;
    if (has_words(formatter, head->output)) {
        put_words(text, key, formatter, numbers);
        return;
    }
    if (!part->name) {
        put_list(text, key, numbers, head->scored);
        return;
    }
    json_text_open_object(text, key);
    for (; part->extent != EXTENT_NONE; part++) {
        size_t size = loss_part_size(part, output->size, output->components);
        if (part->extent == EXTENT_ONCE)
            json_text_number(text, part->name, *numbers);
        else
            put_list(text, part->name, numbers, size);
        numbers += size;
    }
    json_text_close_object(text);
}

/* Adds the prediction of an output at a step; a list if there are several horizons. */
static void put_prediction(struct json_text *text, const char *key,
                           const struct formatter *formatter, size_t output,
                           const double *numbers) {
    const struct model *model = formatter->model;
    bool many = !output && model_ahead(model) > 1;
    if (many)
        json_text_open_list(text, key);
    for (size_t h = 0; h < model->horizons; h++)
        if (model->heads[h].output == output)
            put_head(text, many ? NULL : key, formatter, h, numbers);
    if (many)
        json_text_close_list(text);
}

/* Adds the class that came, with what was predicted before it. */
static void put_came(struct json_text *text, const char *key, const struct formatter *formatter,
                     const struct symbols_guess *came, size_t count) {
    json_text_open_object(text, key);
    put_guesses(text, "prediction", formatter, came + 1, count);
    if (formatter->lexicon == SIZE_MAX)
        json_text_count(text, "target", came->symbol);
    put_word(text, formatter->lexicon == SIZE_MAX ? "word" : "target", formatter, came->symbol);
    json_text_number(text, "probability", came->probability);
    json_text_number(text, "loss", 0 - log(came->probability));
    json_text_close_object(text);
}

/* Adds those at all steps that begin at place `first` of a row. */
static void put_all_guesses(struct json_text *text, const char *key,
                            const struct formatter *formatter, const struct learned *learned,
                            size_t first) {
    bool many = learned->output_steps > 1;
    if (many)
        json_text_open_list(text, key);
    for (size_t t = 0; t < learned->output_steps; t++)
        (first ? put_guesses : put_came)(text, many ? NULL : key, formatter,
                                         learned->guesses + t * learned->guess_row + first,
                                         learned->guess_count);
    if (many)
        json_text_close_list(text);
}

/* Adds one prediction of an output, or a list with one of each step. */
static void put_predictions(struct json_text *text, const char *key,
                            const struct formatter *formatter, const struct learned *learned,
                            size_t output) {
    const struct model *model = formatter->model;
    if (learned->guesses) {
        put_all_guesses(text, key, formatter, learned, 1 + learned->guess_count);
        return;
    }
    double *numbers = malloc(model->outputs * sizeof *numbers);
    bool many = learned->output_steps > 1;
    if (many)
        json_text_open_list(text, key);
    for (size_t t = 0; numbers && t < learned->output_steps; t++) {
        prediction_of(model, learned, t, numbers);
        put_prediction(text, many ? NULL : key, formatter, output, numbers);
    }
    if (many)
        json_text_close_list(text);
    free(numbers);
}

/* Adds the forecast (I,) of one expert or member at a step; a list if there are several horizons,
   `apart` numbers from one to the next. */
static void put_columns(struct json_text *text, const char *name, const struct model *model,
                        const double *numbers, size_t apart) {
    bool many = model_ahead(model) > 1;
    if (many)
        json_text_open_list(text, name);
    for (size_t h = 0; h < model_ahead(model); h++)
        put_list(text, many ? NULL : name, numbers + h * apart, model->heads[0].target_size);
    if (many)
        json_text_close_list(text);
}

/* Adds the forecasts of one expert or member at all steps, the first at `first`. */
static void put_forecast(struct json_text *text, const char *name, const struct model *model,
                         const struct learned *learned, size_t first, size_t apart) {
    bool many = learned->output_steps > 1;
    if (many)
        json_text_open_list(text, name);
    for (size_t t = 0; t < learned->output_steps; t++)
        put_columns(text, many ? NULL : name, model,
                    learned->forecasts + t * learned->forecast_row + first, apart);
    if (many)
        json_text_close_list(text);
}

static void put_experts(struct json_text *text, const struct learner *learner,
                        const struct model *model, const struct learned *learned) {
    size_t count = learner_host(learner)->forecasts, columns = model->heads[0].target_size,
           all = count * columns;
    size_t experts = model->outputs, weights = experts + model_ahead(model) * all;
    const double *last = learned->forecasts + (learned->output_steps - 1) * learned->forecast_row;
    json_text_open_object(text, "experts");
    for (size_t n = 0; n < count; n++)
        put_forecast(text, experts_name(learner_host(learner), n), model, learned,
                     experts + n * columns, all);
    json_text_close_object(text);
    json_text_open_object(text, "weights");
    for (size_t n = 0; n < count; n++)
        put_columns(text, experts_name(learner_host(learner), n), model,
                    last + weights + n * columns, all);
    json_text_close_object(text);
}

/* Adds a list with the numbers (columns, width) of each column, or null. */
static void put_rows(struct json_text *text, const char *key, const double *numbers, size_t columns,
                     size_t width) {
    json_text_open_list(text, key);
    for (size_t k = 0; k < columns; k++, numbers += width)
        if (isnan(*numbers))
            json_text_null(text, NULL);
        else
            put_list(text, NULL, numbers, width);
    json_text_close_list(text);
}

/* Adds the intervals, or with `notes` the quantiles, in the form of `prediction`. */
static void put_steps(struct json_text *text, const char *key, const struct learned *learned,
                      bool notes, size_t width) {
    const struct truth_shape *shape = truth_shape(learned->truth);
    bool many = learned->output_steps > 1, horizons = shape->horizons > 1;
    const char *name = many ? NULL : key;
    if (!shape->columns)
        return;
    if (many)
        json_text_open_list(text, key);
    for (size_t t = learned->first_bounds; t < learned->first_bounds + learned->output_steps; t++) {
        const double *numbers =
            notes ? truth_step_notes(learned->truth, t) : truth_bounds(learned->truth, t);
        if (horizons)
            json_text_open_list(text, name);
        for (size_t h = 0; h < shape->horizons; h++, numbers += shape->columns * width)
            put_rows(text, horizons ? NULL : name, numbers, shape->columns, width);
        if (horizons)
            json_text_close_list(text);
    }
    if (many)
        json_text_close_list(text);
}

static void put_distribution(struct json_text *text, const struct formatter *formatter,
                             const struct learned *learned) {
    size_t count;
    const double *levels = distributions_levels(learner_host(formatter->learner), &count);
    if (!count)
        return;
    put_list(text, "levels", levels, count);
    put_steps(text, "quantiles", learned, true, count);
}

/* The notes of a pair: lists for the columns. */
static void put_distribution_scores(struct json_text *text, const struct formatter *formatter,
                                    const double *notes) {
    const struct part_host *host = learner_host(formatter->learner);
    size_t count, columns = formatter->model->heads[0].target_size;
    if (!distributions_levels(host, &count))
        return;
    const struct distribution_score *scores = (const void *)notes;
    if (count)
        put_rows(text, "quantiles", (const double *)(scores + columns), columns, count);
    json_text_open_list(text, "pit");
    for (size_t k = 0; k < columns; k++)
        if (isnan(scores[k].z))
            json_text_null(text, NULL);
        else
            put_list(text, NULL, scores[k].pit, 2);
    json_text_close_list(text);
#define PUT_SCORES(field)                                                                          \
    json_text_open_list(text, #field);                                                             \
    for (size_t k = 0; k < columns; k++)                                                           \
        json_text_number(text, NULL, scores[k].field);                                             \
    json_text_close_list(text)
    PUT_SCORES(z);
    PUT_SCORES(crps);
    PUT_SCORES(log_score);
#undef PUT_SCORES
}

static void put_target(struct json_text *text, const struct formatter *formatter,
                       const double *target) {
    const struct model *model = formatter->model;
    if (has_words(formatter, 0))
        put_word(text, "target", formatter, (uint32_t)*target);
    else if (loss_kind(model->architecture.output.loss)->class_id)
        json_text_count(text, "target", (uint64_t)*target);
    else
        put_list(text, "target", target, model->heads[0].target_size);
}

static void put_truth_experts(struct json_text *text, const struct learner *learner,
                              const double *forecasts, size_t columns) {
    json_text_open_object(text, "experts");
    for (size_t n = 0; n < learner_host(learner)->forecasts; n++)
        put_list(text, experts_name(learner_host(learner), n), forecasts + n * columns, columns);
    json_text_close_object(text);
}

/* Adds a truth and its forecast. */
static void put_truth(struct json_text *text, const char *key, const struct formatter *formatter,
                      const struct learner *all, const struct truth_pair *pair) {
    const struct model *model = formatter->model;
    json_text_open_object(text, key);
    json_text_count(text, "example", pair->step.example);
    if (!key)
        json_text_count(text, "step", pair->step.step);
    if (model_ahead(model) > 1)
        json_text_count(text, "ahead", output_ahead(&model->architecture.output, pair->horizon));
    json_text_number(text, "data_time", pair->step.time > 0 ? pair->step.time : NAN);
    put_head(text, "prediction", formatter, 0, pair->prediction);
    if (pair->bounds)
        put_rows(text, "interval", pair->bounds, model->heads[0].target_size, 2);
    if (all && pair->experts)
        put_truth_experts(text, all, pair->experts, model->heads[0].target_size);
    put_target(text, formatter, pair->target);
    if (loss_kind(model->architecture.output.loss)->baseline)
        put_head(text, "baseline", formatter, 0, pair->baseline);
    json_text_number(text, "loss", pair->loss);
    if (formatter->learner)
        put_distribution_scores(text, formatter, pair->notes);
    json_text_close_object(text);
}

/* Adds one truth, or a list if the example has several steps. */
static void put_scored(struct json_text *text, const struct formatter *formatter,
                       const struct learner *all, const struct learned *learned) {
    size_t count = truth_count(learned->truth) - learned->first_pair;
    bool many = learned->output_steps > 1 || model_ahead(formatter->model) > 1 || count > 1;
    if (!count)
        return;
    if (many)
        json_text_open_list(text, "scored");
    for (size_t n = 0; n < count; n++) {
        const struct truth_pair pair = truth_pair(learned->truth, learned->first_pair + n);
        put_truth(text, many ? NULL : "scored", formatter, all, &pair);
    }
    if (many)
        json_text_close_list(text);
}

static size_t anomaly_columns(const struct model *model) {
    const struct input *input = &model->architecture.input;
    if (input->column_count)
        return columns_real(input->columns, input->column_count);
    return input_is_real(input) ? input->size : 0;
}

/* Adds lists with a number of each column, null if unknown. */
static void put_anomaly(struct json_text *text, const struct anomaly_result *result,
                        size_t columns) {
    json_text_open_object(text, "anomaly");
    json_text_number(text, "score", result->score);
    json_text_number(text, "surprise", result->surprise);
    if (result->shares)
        json_text_number(text, "level", result->level);
    if (result->by_rate)
        json_text_number(text, "p", result->p);
    json_text_open_list(text, "columns");
    for (size_t k = 0; k < columns; k++) {
        json_text_open_object(text, NULL);
        json_text_number(text, "score", result->scores[k]);
        json_text_number(text, "surprise", result->surprises[k]);
        if (result->shares)
            json_text_number(text, "share", result->shares[k]);
        json_text_close_object(text);
    }
    json_text_close_list(text);
    json_text_close_object(text);
}

enum { NEWEST = 5 }; /* words of a vocabulary in a report */

/* Adds the most recent words, newest first. */
static void put_newest(struct json_text *text, const struct learner *learner, size_t n) {
    const struct learner_lexicon lexicon = words_lexicon(learner_host(learner), n);
    uint64_t before = UINT64_MAX;
    json_text_open_list(text, "newest");
    for (size_t count = 0; count < NEWEST; count++) {
        uint32_t newest = STREAMS_NONE;
        for (uint32_t id = 0; id < lexicon.size; id++)
            if (lexicon.appeared[id] < before &&
                (newest == STREAMS_NONE || lexicon.appeared[id] > lexicon.appeared[newest]))
                newest = id;
        if (newest == STREAMS_NONE)
            break;
        before = lexicon.appeared[newest];
        size_t size;
        const char *word = words_word(learner_host(learner), n, newest, &size);
        json_text_string(text, NULL, word, size);
    }
    json_text_close_list(text);
}

void report_words(struct json_text *text, const struct learner *learner) {
    size_t count = words_lexicons(learner_host(learner));
    if (!count)
        return;
    json_text_open_object(text, "vocabulary");
    for (size_t n = 0; n < count; n++) {
        const struct learner_lexicon lexicon = words_lexicon(learner_host(learner), n);
        json_text_open_object(text, lexicon.name);
        json_text_count(text, "size", lexicon.size);
        json_text_count(text, "capacity", lexicon.capacity);
        put_newest(text, learner, n);
        json_text_close_object(text);
    }
    json_text_close_object(text);
}

void report_prediction(struct json_text *text, const struct model *model,
                       const struct learner *learner, bool experts, size_t top,
                       const struct learned *learned) {
    const struct learner *all = experts ? learner : NULL;
    const struct formatter formatter = {
        model, learner, learner ? words_lexicon_of_classes(learner_host(learner)) : SIZE_MAX, top,
        learned->guess_bytes};
    json_text_string(text, "stream", learned->key, learned->key_size);
    json_text_count(text, "example", learned->examples);
    json_text_number(text, "data_time", learned->time > 0 ? learned->time : NAN);
    if (!model->heads[0].late)
        put_predictions(text, "prediction", &formatter, learned, 0);
    if (model->architecture.other_count)
        json_text_open_object(text, "outputs");
    for (size_t k = 1; k <= model->architecture.other_count; k++)
        if (!model->heads[k].late)
            put_predictions(text, model_output(model, k)->name, &formatter, learned, k);
    if (model->architecture.other_count)
        json_text_close_object(text);
    if (learned->truth)
        put_steps(text, "interval", learned, false, 2);
    if (learned->truth && learner)
        put_distribution(text, &formatter, learned);
    if (all && learned->forecasts)
        put_experts(text, all, model, learned);
    size_t first = SYMBOLS_GUESSES(learned->guess_count, 0);
    if (all && learned->guess_row > first) {
        json_text_open_object(text, "experts");
        put_all_guesses(text, "experts", &formatter, learned, first);
        for (size_t m = 0; m < learner_members(all); m++)
            put_all_guesses(text, part_member_name(learner_host(all), m), &formatter, learned,
                            first + (m + 1) * learned->guess_count);
        json_text_close_object(text);
    }
    if (learned->attention) {
        json_text_open_list(text, "attention");
        for (size_t n = 0; n < learned->atoms_read; n++)
            json_text_number(text, NULL, (double)learned->attention[n]);
        json_text_close_list(text);
    }
    if (learned->anomaly)
        put_anomaly(text, learned->anomaly, anomaly_columns(model));
    json_text_number(text, "loss", learned->scored ? learned->loss : NAN);
    if (learned->truth)
        put_scored(text, &formatter, all, learned);
    if (learned->guesses)
        put_all_guesses(text, "scored", &formatter, learned, 0);
}
