#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "ingest.h"
#include "learner.h"
#include "metrics.h"
#include "prediction.h"
#include "wire.h"

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

json_t *report_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *report_text(const char *text, size_t size) {
    if (wire_is_utf8(text, size))
        return json_stringn_nocheck(text, size);
    char ascii[CONFIG_PATH_SIZE];
    if (size > sizeof ascii)
        size = sizeof ascii;
    for (size_t i = 0; i < size; i++)
        ascii[i] = (unsigned char)text[i] < 0x80 && text[i] ? text[i] : '?';
    return json_stringn_nocheck(ascii, size);
}

static json_t *text(const char *string) {
    return report_text(string, strlen(string));
}

static json_t *count(uint64_t number) {
    return json_integer((json_int_t)number);
}

static json_t *metric(const struct metrics_report *metrics, enum loss loss) {
    json_t *object = json_object();
    if (loss == LOSS_SQUARED || loss == LOSS_GAUSSIAN)
        put(object, "rmse", report_number(metrics->rmse));
    if (loss == LOSS_SOFTMAX || loss == LOSS_BERNOULLI)
        put(object, "accuracy", report_number(metrics->accuracy));
    if (loss == LOSS_SOFTMAX || loss == LOSS_BERNOULLI || loss == LOSS_MIXTURE)
        put(object, "bits", report_number(metrics->bits));
    return object;
}

static json_t *rejections(const struct ingest *ingest) {
    json_t *object = json_object();
    for (int r = REJECT_NOT + 1; r < REJECT_REASONS; r++) {
        uint64_t rejected = ingest_rejected(ingest, (enum reject_reason)r);
        if (rejected)
            put(object, reject_name((enum reject_reason)r), count(rejected));
    }
    return object;
}

void report_loss(json_t *object, const struct metrics_report *metrics, const struct model *model,
                 const struct learner *learner, size_t queued, const struct ingest *ingest) {
    put(object, "loss", report_number(metrics->loss));
    put(object, "mean", report_number(metrics->mean));
    put(object, "smoothed", report_number(metrics->smoothed));
    put(object, "minimum", report_number(metrics->minimum));
    put(object, "maximum", report_number(metrics->maximum));
    put(object, "updates", count(metrics->updates));
    put(object, "rate", report_number(learner_rate(learner)));
    put(object, "gradient_norm", report_number(metrics->gradient_norm));
    put(object, "update_ratio", report_number(metrics->update_ratio));
    put(object, "metric", metric(metrics, model->architecture.output.loss));
    put(object, "examples_per_second", report_number(metrics->examples_per_second));
    json_t *latency = json_object();
    put(latency, "p50", report_number(metrics->latency_p50));
    put(latency, "p99", report_number(metrics->latency_p99));
    put(latency, "max", report_number(metrics->latency_max));
    put(object, "latency_us", latency);
    put(object, "queued", count(queued));
    put(object, "rejected", count(ingest_rejected(ingest, REJECT_NOT)));
    put(object, "rejected_by", rejections(ingest));
    put(object, "skipped", count(metrics->skipped));
    put(object, "streams", count(metrics->streams));
}

static json_t *moments(const struct moments *moments) {
    json_t *object = json_object();
    put(object, "mean", report_number(moments->mean));
    put(object, "std", report_number(moments->std));
    return object;
}

static json_t *units(const struct unit_statistics *units) {
    json_t *object = json_object();
    put(object, "mean", report_number(units->mean));
    put(object, "std", report_number(units->std));
    put(object, "minimum", report_number(units->minimum));
    put(object, "maximum", report_number(units->maximum));
    put(object, "norm", report_number(units->norm));
    put(object, "saturated", report_number(units->saturated));
    return object;
}

static json_t *parameter_range(const struct parameter_statistics *parameters) {
    json_t *object = json_object();
    put(object, "mean", report_number(parameters->mean));
    put(object, "std", report_number(parameters->std));
    put(object, "minimum", report_number(parameters->minimum));
    put(object, "maximum", report_number(parameters->maximum));
    return object;
}

static json_t *layer_state(const struct layer *layer, const struct layer_statistics *statistics) {
    json_t *object = json_object();
    put(object, "kind", json_string(cell_names[layer->cell]));
    put(object, "size", count(layer->size));
    put(object, "summed_inputs", moments(&statistics->summed_inputs));
    if (layer->cell == CELL_LSTM || layer->cell == CELL_GRU)
        put(object, "summed_recurrent", moments(&statistics->summed_recurrent));
    put(object, "hidden", units(&statistics->hidden));
    if (layer->cell == CELL_LSTM)
        put(object, "cell", units(&statistics->cell));
    if (layer->norm) {
        put(object, "gain", parameter_range(&statistics->gain));
        put(object, "bias", parameter_range(&statistics->bias));
    }
    json_t *histogram = json_array();
    for (int i = 0; i < MEASURE_BINS; i++)
        json_array_append_new(histogram, count(statistics->histogram[i]));
    put(object, "histogram", histogram);
    return object;
}

void report_state(json_t *object, const struct model *model,
                  const struct layer_statistics *statistics) {
    json_t *layers = json_array();
    for (size_t i = 0; i < model->architecture.layer_count; i++)
        json_array_append_new(layers, layer_state(&model->architecture.layers[i], &statistics[i]));
    put(object, "layers", layers);
}

static json_t *list(const double *numbers, size_t size) {
    json_t *array = json_array();
    for (size_t k = 0; k < size; k++)
        json_array_append_new(array, report_number(numbers[k]));
    return array;
}

static json_t *gaussian(const double *numbers, size_t size) {
    json_t *object = json_object();
    put(object, "mean", list(numbers, size));
    put(object, "sd", list(numbers + size, size));
    return object;
}

static json_t *mixture(const double *numbers, size_t components) {
    static const char *const rows[] = {"weights", "mean1", "mean2", "sd1", "sd2", "rho"};
    json_t *object = json_object();
    put(object, "end", report_number(numbers[0]));
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        put(object, rows[row], list(numbers + 1 + row * components, components));
    return object;
}

static json_t *prediction(const struct model *model, const double *numbers) {
    const struct output *output = &model->architecture.output;
    if (output->loss == LOSS_GAUSSIAN)
        return gaussian(numbers, output->size);
    return output->loss == LOSS_MIXTURE ? mixture(numbers, output->components)
                                        : list(numbers, model->outputs);
}

/* One step's prediction, or a list of them. NULL when memory is short. */
static json_t *predictions(const struct model *model, const struct learned *learned) {
    double *numbers = malloc(model->outputs * sizeof *numbers);
    json_t *value = numbers && learned->output_steps > 1 ? json_array() : NULL;
    for (size_t t = 0; numbers && t < learned->output_steps; t++) {
        prediction_of(model, learned, t, numbers);
        json_t *step = prediction(model, numbers);
        if (!value)
            value = step;
        else
            json_array_append_new(value, step);
    }
    free(numbers);
    return value;
}

void report_prediction(json_t *object, const struct model *model, const struct learned *learned) {
    put(object, "stream", report_text(learned->key, learned->key_size));
    put(object, "example", count(learned->examples));
    put(object, "prediction", predictions(model, learned));
    put(object, "loss", report_number(learned->scored ? learned->loss : NAN));
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
    put(object, "uptime", report_number(status->uptime));
    put(object, "every", count(config->statistics_every));
    put(object, "clip", report_number(config->learning.clip));
    put(object, "predictions", json_boolean(config->predictions));
    put(object, "state_directory", text(config->state_directory));
    put(object, "resumed", status->resumed ? text(status->resumed) : json_null());
    json_t *sockets = json_object();
    put(sockets, "examples", text(status->examples));
    put(sockets, "statistics", text(status->statistics));
    put(sockets, "control", text(status->control));
    put(object, "sockets", sockets);
}
