#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "ingest.h"
#include "learner.h"
#include "metrics.h"
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

/* What turns an output into what it means. */
typedef double meaning(double output);

static double as_it_is(double a) {
    return a;
}

static double sigmoid(double a) {
    return 1 / (1 + exp(-a));
}

static double deviation(double log_variance) {
    return exp(log_variance / 2);
}

static json_t *list(const float *outputs, size_t size, meaning *convert) {
    json_t *array = json_array();
    for (size_t k = 0; k < size; k++)
        json_array_append_new(array, report_number(convert(outputs[k])));
    return array;
}

static json_t *softmax(const float *outputs, size_t size) {
    json_t *array = json_array();
    double largest = outputs[0], sum = 0;
    for (size_t k = 1; k < size; k++)
        largest = fmax(largest, outputs[k]);
    for (size_t k = 0; k < size; k++)
        sum += exp(outputs[k] - largest);
    for (size_t k = 0; k < size; k++)
        json_array_append_new(array, report_number(exp(outputs[k] - largest) / sum));
    return array;
}

/* Where outputs are scaled: x = means + deviations z. */
struct scale {
    const double *means, *deviations; /* NULL: they are not */
};

/* A standard deviation is only stretched, a mean is moved too. What has not varied yet has no
   standard deviation, and what has not been observed no mean: it is NaN. */
static json_t *unscaled(const float *outputs, size_t size, meaning *convert, struct scale scale,
                        bool moved) {
    if (!scale.means)
        return list(outputs, size, convert);
    json_t *array = json_array();
    for (size_t k = 0; k < size; k++) {
        double value = convert(outputs[k]) * scale.deviations[k];
        if (moved)
            value += scale.means[k];
        else if (scale.deviations[k] == 0)
            value = NAN;
        json_array_append_new(array, report_number(value));
    }
    return array;
}

static json_t *gaussian(const float *outputs, size_t size, struct scale scale) {
    json_t *object = json_object();
    put(object, "mean", unscaled(outputs, size, as_it_is, scale, true));
    put(object, "sd", unscaled(outputs + size, size, deviation, scale, false));
    return object;
}

static json_t *mixture(const float *outputs, size_t components) {
    const float *next = outputs + 1;
    json_t *object = json_object();
    put(object, "end", report_number(sigmoid(outputs[0])));
    put(object, "weights", softmax(next, components));
    put(object, "mean1", list(next += components, components, as_it_is));
    put(object, "mean2", list(next += components, components, as_it_is));
    put(object, "sd1", list(next += components, components, exp));
    put(object, "sd2", list(next += components, components, exp));
    put(object, "rho", list(next += components, components, tanh));
    return object;
}

static json_t *prediction(const struct output *output, struct scale scale,
                          const float *outputs /* (K,) */) {
    switch (output->loss) {
    case LOSS_GAUSSIAN:
        return gaussian(outputs, output->size, scale);
    case LOSS_SOFTMAX:
        return softmax(outputs, output->size);
    case LOSS_BERNOULLI:
        return list(outputs, output->size, sigmoid);
    case LOSS_MIXTURE:
        return mixture(outputs, output->components);
    case LOSS_SQUARED:
    default:
        return unscaled(outputs, output->size, as_it_is, scale, true);
    }
}

void report_prediction(json_t *object, const struct model *model, const struct learned *learned) {
    const struct output *output = &model->architecture.output;
    struct scale scale = {NULL, NULL};
    if (output->target == TARGET_NEXT)
        scale = (struct scale){learned->mean, learned->deviation};
    json_t *value = NULL;
    if (learned->output_steps == 1) {
        value = prediction(output, scale, learned->outputs);
    } else {
        value = json_array();
        for (size_t t = 0; t < learned->output_steps; t++)
            json_array_append_new(value,
                                  prediction(output, scale, learned->outputs + t * model->outputs));
    }
    put(object, "stream", report_text(learned->key, learned->key_size));
    put(object, "example", count(learned->examples));
    put(object, "prediction", value);
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
