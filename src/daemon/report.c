#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_text.h"
#include "common/wire.h"
#include "config/config.h"
#include "learner/learner.h"
#include "learner/prediction.h"
#include "metrics.h"
#include "sockets/ingest.h"

static const char *const cell_names[] = {
    [CELL_DENSE] = "dense", [CELL_RNN] = "rnn", [CELL_GRU] = "gru", [CELL_LSTM] = "lstm"};
static const char *const activation_names[] = {
    [ACTIVATION_RELU] = "relu", [ACTIVATION_TANH] = "tanh", [ACTIVATION_IDENTITY] = "identity"};
static const char *const loss_names[] = {[LOSS_SQUARED] = "squared",
                                         [LOSS_GAUSSIAN] = "gaussian",
                                         [LOSS_SOFTMAX] = "softmax",
                                         [LOSS_BERNOULLI] = "bernoulli",
                                         [LOSS_MIXTURE] = "mixture"};

static void put(json_t *object, const char *key, json_t *value) {
    json_object_set_new_nocheck(object, key, value);
}

static json_t *text(const char *string) {
    return json_of_text(string, strlen(string));
}

static json_t *count(uint64_t number) {
    return json_integer((json_int_t)number);
}

static void put_metric(struct json_text *text, const struct metrics_report *metrics,
                       enum loss loss) {
    json_text_open_object(text, "metric");
    if (loss == LOSS_SQUARED || loss == LOSS_GAUSSIAN)
        json_text_number(text, "rmse", metrics->rmse);
    if (loss == LOSS_SOFTMAX || loss == LOSS_BERNOULLI)
        json_text_number(text, "accuracy", metrics->accuracy);
    if (loss == LOSS_SOFTMAX || loss == LOSS_BERNOULLI || loss == LOSS_MIXTURE)
        json_text_number(text, "bits", metrics->bits);
    json_text_close_object(text);
}

static void put_latency(struct json_text *text, const struct metrics_report *metrics) {
    json_text_open_object(text, "latency_us");
    json_text_number(text, "p50", metrics->latency_p50);
    json_text_number(text, "p99", metrics->latency_p99);
    json_text_number(text, "max", metrics->latency_max);
    json_text_close_object(text);
}

static void put_rejections(struct json_text *text, const struct ingest *ingest) {
    json_text_open_object(text, "rejected_by");
    for (int r = REJECT_NOT + 1; r < REJECT_REASONS; r++) {
        uint64_t rejected = ingest_rejected(ingest, (enum reject_reason)r);
        if (rejected)
            json_text_count(text, reject_name((enum reject_reason)r), rejected);
    }
    json_text_close_object(text);
}

void report_loss(struct json_text *text, const struct metrics_report *metrics,
                 const struct model *model, const struct learner *learner, size_t queued,
                 const struct ingest *ingest) {
    json_text_number(text, "loss", metrics->loss);
    json_text_number(text, "mean", metrics->mean);
    json_text_number(text, "smoothed", metrics->smoothed);
    json_text_number(text, "minimum", metrics->minimum);
    json_text_number(text, "maximum", metrics->maximum);
    json_text_count(text, "updates", metrics->updates);
    json_text_number(text, "rate", learner_rate(learner));
    json_text_number(text, "gradient_norm", metrics->gradient_norm);
    json_text_number(text, "update_ratio", metrics->update_ratio);
    put_metric(text, metrics, model->architecture.output.loss);
    json_text_number(text, "examples_per_second", metrics->examples_per_second);
    put_latency(text, metrics);
    json_text_count(text, "queued", queued);
    json_text_count(text, "rejected", ingest_rejected(ingest, REJECT_NOT));
    put_rejections(text, ingest);
    json_text_count(text, "skipped", metrics->skipped);
    json_text_count(text, "streams", metrics->streams);
}

static void put_moments(struct json_text *text, const char *key, const struct moments *moments) {
    json_text_open_object(text, key);
    json_text_number(text, "mean", moments->mean);
    json_text_number(text, "std", moments->std);
    json_text_close_object(text);
}

static void put_units(struct json_text *text, const char *key,
                      const struct unit_statistics *units) {
    json_text_open_object(text, key);
    json_text_number(text, "mean", units->mean);
    json_text_number(text, "std", units->std);
    json_text_number(text, "minimum", units->minimum);
    json_text_number(text, "maximum", units->maximum);
    json_text_number(text, "norm", units->norm);
    json_text_number(text, "saturated", units->saturated);
    json_text_close_object(text);
}

static void put_range(struct json_text *text, const char *key,
                      const struct parameter_statistics *parameters) {
    json_text_open_object(text, key);
    json_text_number(text, "mean", parameters->mean);
    json_text_number(text, "std", parameters->std);
    json_text_number(text, "minimum", parameters->minimum);
    json_text_number(text, "maximum", parameters->maximum);
    json_text_close_object(text);
}

static void put_layer(struct json_text *text, const struct layer *layer,
                      const struct layer_statistics *statistics) {
    const char *kind = cell_names[layer->cell];
    json_text_open_object(text, NULL);
    json_text_string(text, "kind", kind, strlen(kind));
    json_text_count(text, "size", layer->size);
    put_moments(text, "summed_inputs", &statistics->summed_inputs);
    if (layer->cell == CELL_LSTM || layer->cell == CELL_GRU)
        put_moments(text, "summed_recurrent", &statistics->summed_recurrent);
    put_units(text, "hidden", &statistics->hidden);
    if (layer->cell == CELL_LSTM)
        put_units(text, "cell", &statistics->cell);
    if (layer->norm) {
        put_range(text, "gain", &statistics->gain);
        put_range(text, "bias", &statistics->bias);
    }
    json_text_open_list(text, "histogram");
    for (int i = 0; i < MEASURE_BINS; i++)
        json_text_count(text, NULL, statistics->histogram[i]);
    json_text_close_list(text);
    json_text_close_object(text);
}

void report_state(struct json_text *text, const struct model *model,
                  const struct layer_statistics *statistics) {
    json_text_open_list(text, "layers");
    for (size_t i = 0; i < model->architecture.layer_count; i++)
        put_layer(text, &model->architecture.layers[i], &statistics[i]);
    json_text_close_list(text);
}

static void put_list(struct json_text *text, const char *key, const double *numbers, size_t size) {
    json_text_open_list(text, key);
    for (size_t k = 0; k < size; k++)
        json_text_number(text, NULL, numbers[k]);
    json_text_close_list(text);
}

static void put_gaussian(struct json_text *text, const char *key, const double *numbers,
                         size_t size) {
    json_text_open_object(text, key);
    put_list(text, "mean", numbers, size);
    put_list(text, "sd", numbers + size, size);
    json_text_close_object(text);
}

static void put_mixture(struct json_text *text, const char *key, const double *numbers,
                        size_t components) {
    static const char *const rows[] = {"weights", "mean1", "mean2", "sd1", "sd2", "rho"};
    json_text_open_object(text, key);
    json_text_number(text, "end", numbers[0]);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        put_list(text, rows[row], numbers + 1 + row * components, components);
    json_text_close_object(text);
}

static void put_prediction(struct json_text *text, const char *key, const struct model *model,
                           const double *numbers) {
    const struct output *output = &model->architecture.output;
    if (output->loss == LOSS_GAUSSIAN)
        put_gaussian(text, key, numbers, output->size);
    else if (output->loss == LOSS_MIXTURE)
        put_mixture(text, key, numbers, output->components);
    else
        put_list(text, key, numbers, model->outputs);
}

/* One step's prediction, or a list of them. */
static void put_predictions(struct json_text *text, const char *key, const struct model *model,
                            const struct learned *learned) {
    double *numbers = malloc(model->outputs * sizeof *numbers);
    bool many = learned->output_steps > 1;
    if (many)
        json_text_open_list(text, key);
    for (size_t t = 0; numbers && t < learned->output_steps; t++) {
        prediction_of(model, learned, t, numbers);
        put_prediction(text, many ? NULL : key, model, numbers);
    }
    if (many)
        json_text_close_list(text);
    free(numbers);
}

void report_prediction(struct json_text *text, const struct model *model,
                       const struct learned *learned) {
    json_text_string(text, "stream", learned->key, learned->key_size);
    json_text_count(text, "example", learned->examples);
    put_predictions(text, "prediction", model, learned);
    json_text_number(text, "loss", learned->scored ? learned->loss : NAN);
}

static void __attribute__((format(printf, 2, 3)))
append(char summary[REPORT_SUMMARY_SIZE], const char *format, ...) {
    size_t used = strlen(summary);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(summary + used, REPORT_SUMMARY_SIZE - used, format, arguments);
    va_end(arguments);
}

void report_summary(const struct architecture *architecture, char summary[REPORT_SUMMARY_SIZE]) {
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    summary[0] = 0;
    append(summary, "%s %zu", input->kind == INPUT_REAL ? "real" : "symbol", input->size);
    if (input->kind == INPUT_SYMBOL && input->embedding)
        append(summary, " embedded in %zu", input->embedding);
    if (input->standard)
        append(summary, " (standard)");
    for (size_t i = 0; i < architecture->layer_count; i++) {
        const struct layer *layer = &architecture->layers[i];
        append(summary, " > %s %zu", cell_names[layer->cell], layer->size);
        if (layer->cell == CELL_DENSE)
            append(summary, " %s", activation_names[layer->activation]);
        if (layer->norm)
            append(summary, " norm");
    }
    append(summary, " > %s %zu", loss_names[output->loss], output->size);
    if (output->loss == LOSS_MIXTURE)
        append(summary, " of %zu", output->components);
    append(summary, ", %s", output->target == TARGET_NEXT ? "next" : "given");
}

void report_status(json_t *object, const struct report_status *status) {
    const struct config *config = status->config;
    char summary[REPORT_SUMMARY_SIZE];
    report_summary(&config->architecture, summary);
    put(object, "name", text(config->name));
    put(object, "state", text(status->state));
    put(object, "device", text(status->device));
    put(object, "model", text(summary));
    put(object, "parameters", count(status->model->parameters));
    put(object, "digest", text(config->digest));
    put(object, "version", text(status->version));
    put(object, "uptime", json_of_number(status->uptime));
    put(object, "every", count(config->statistics_every));
    put(object, "clip", json_of_number(config->learning.clip));
    put(object, "predictions", json_boolean(config->predictions));
    put(object, "state_directory", text(config->state_directory));
    put(object, "resumed", status->resumed ? text(status->resumed) : json_null());
    json_t *sockets = json_object();
    put(sockets, "examples", text(status->examples));
    put(sockets, "statistics", text(status->statistics));
    put(sockets, "control", text(status->control));
    put(object, "sockets", sockets);
}
