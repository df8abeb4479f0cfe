/* Measures the time of decoding JSON examples of eight named columns, on one core, compared with
   parsing the same text with jansson alone, and with the same example in binary. Each is measured
   three times, by this thread's time; the best counts.

     make tests/support/json-speed && tests/support/json-speed */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/model.h"
#include "sockets/decode.h"

enum { EXAMPLES = 200000, TIMES = 3, COLUMNS = 8 };

static const char text[] = "{\"stream\": \"pump-7\", \"x\": {\"load\": 0.7312, \"oil\": 81.25, "
                           "\"rpm\": 1480, \"temp\": -3.5, "
                           "\"hum\": 44.125, \"host\": \"web-3\", \"state\": \"idle\", \"zone\": "
                           "\"north\"}, \"y\": \"free\"}";

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void open_model(struct model *model) {
    static const char *const names[COLUMNS] = {"load", "oil",  "rpm",   "temp",
                                               "hum",  "host", "state", "zone"};
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = COLUMNS, .column_count = COLUMNS},
        .layers = {{.cell = CELL_gru, .size = 4, .norm = NORM_layer, .gain = 1.0F}},
        .layer_count = 1,
        .output = {.loss = LOSS_softmax, .size = 11, .vocabulary = {.capacity = 10}},
    };
    for (size_t k = 0; k < COLUMNS; k++) {
        struct column *column = &architecture.input.columns[k];
        strcpy(column->name, names[k]);
        if (k < 5)
            continue;
        *column = (struct column){.kind = COLUMN_SYMBOL, .size = 101, .vocabulary = {100}};
        strcpy(column->name, names[k]);
    }
    model_build(model, &architecture);
}

static void parse_alone(struct decoder *decoder, const struct frame *frames) {
    (void)decoder;
    json_error_t error;
    json_decref(json_loadb(frames->data, frames->size,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error));
}

static void decode_frames(struct decoder *decoder, const struct frame *frames, size_t count) {
    struct example example;
    char why[REJECT_WHY_SIZE];
    if (decode(decoder, frames, count, &example, why) != REJECT_NOT)
        fprintf(stderr, "rejected: %s\n", why);
}

static void decode_json_text(struct decoder *decoder, const struct frame *frames) {
    decode_frames(decoder, frames, 1);
}

static void decode_binary(struct decoder *decoder, const struct frame *frames) {
    decode_frames(decoder, frames, 3);
}

static void measure(const char *what, void (*one)(struct decoder *, const struct frame *),
                    struct decoder *decoder, const struct frame *frames) {
    double best = 1e9;
    for (int n = 0; n < TIMES; n++) {
        double begin = seconds();
        for (int i = 0; i < EXAMPLES; i++)
            one(decoder, frames);
        double took = seconds() - begin;
        best = took < best ? took : best;
    }
    printf("%-32s %9.0f examples/s  %6.3f us\n", what, EXAMPLES / best, best / EXAMPLES * 1e6);
}

int main(void) {
    static struct model model;
    struct decoder *decoder;
    const uint32_t x[COLUMNS] = {0, 0, 0, 0, 0, 3, 2, 1}, y = 1;
    const struct frame json[] = {{text, sizeof text - 1}};
    const struct frame binary[] = {{"pump-7", 6}, {x, sizeof x}, {&y, sizeof y}};
    open_model(&model);
    if (decoder_open(&decoder, &model, false, NULL))
        return 1;
    measure("jansson's parse alone", parse_alone, decoder, json);
    measure("JSON, eight columns by name", decode_json_text, decoder, json);
    measure("binary, eight columns", decode_binary, decoder, binary);
    decoder_close(&decoder);
    return 0;
}
