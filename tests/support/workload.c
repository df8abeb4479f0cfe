#include "workload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "common/wire.h"

static double uniform(uint64_t *state) {
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

static bool chance(uint64_t *state, double share) {
    return uniform(state) < share;
}

/* Number `k` of a row of real numbers, missing with the probability `share`. */
static union value real(uint64_t *state, size_t k, double missing) {
    union value value = {.real = (float)(4 * uniform(state) - 2) * (float)(k + 1)};
    if (chance(state, missing))
        value.real = NAN;
    return value;
}

static void put(char *bytes, size_t index, union value value) {
    memcpy(bytes + index * sizeof value, &value, sizeof value);
}

static void fill_input(const struct workload_options *options, uint64_t *state, char *x) {
    const struct input *input = &options->architecture.input;
    if (input->kind == INPUT_SYMBOL) {
        put(x, 0, (union value){.id = (uint32_t)(random_bits(state) % input->size)});
        return;
    }
    for (size_t k = 0; k < input->size; k++)
        put(x, k, real(state, k, input->hold ? options->missing : 0));
}

static void fill_target(const struct workload_options *options, uint64_t *state, char *y,
                        size_t size) {
    const struct output *output = &options->architecture.output;
    bool none = chance(state, options->missing);
    const struct loss_kind *loss = loss_kind(output->loss);
    if (loss->class_id) {
        uint32_t id = (uint32_t)(random_bits(state) % output->size);
        put(y, 0, (union value){.id = none ? WIRE_NO_CLASS : id});
        return;
    }
    for (size_t k = 0; k < size; k++) {
        union value value = real(state, k, none ? 1 : options->missing);
        if (loss->unit_range)
            value.real = value.real < 0 ? 0 : value.real >= 0 ? 1 : value.real;
        put(y, k, value);
    }
}

static void describe(struct workload *workload, const struct workload_options *options) {
    struct config *config = &workload->config;
    snprintf(config->name, sizeof config->name, "workload");
    snprintf(config->device, sizeof config->device, "cpu");
    config->seed = options->seed;
    config->architecture = options->architecture;
    config->learning.window = options->window;
    config->learning.stride = options->stride;
    config->learning.optimizer = options->optimizer;
    config->learning.clip = 1;
    config->learning.max_streams = options->max_streams;
    snprintf(config->compatible, sizeof config->compatible, "%016llx",
             (unsigned long long)options->seed);
    memcpy(config->lasting, config->compatible, sizeof config->lasting);
    model_build(&workload->model, &config->architecture);
}

/* About every other example with target: later is a label of one of the latest examples of its
   stream: possibly of one that has its targets, or with a different number of steps. */
static void make_label(struct workload *workload, size_t n, uint64_t *state) {
    enum { LATEST = 12 };
    struct example *label = &workload->examples[n];
    size_t back = 1 + random_bits(state) % LATEST;
    const struct example *of = back <= n ? &workload->examples[n - back] : NULL;
    bool same = of && !of->label && of->key_size == label->key_size &&
                memcmp(of->key, label->key, of->key_size) == 0;
    if (!same)
        return;
    label->label = true;
    label->label_sequence = of->sequence;
    label->y = (const char *)label->x + workload->label_room;
    if (of->steps <= workload->label_steps && !chance(state, 0.1))
        label->steps = of->steps;
}

struct workload *workload_open(const struct workload_options *options) {
    struct workload *workload = calloc(1, sizeof *workload);
    assert_non_null(workload);
    describe(workload, options);
    const struct input *input = &options->architecture.input;
    bool given = options->architecture.output.target == TARGET_GIVEN;
    bool later = options->architecture.output.target == TARGET_LATER;
    workload->x_size = input->kind == INPUT_SYMBOL ? 1 : input->size;
    workload->count = options->examples;
    size_t x_bytes = workload->x_size * sizeof(union value);
    size_t y_bytes = workload->model.target_size * sizeof(union value);
    size_t room = WIRE_KEY_MAX + 2 + options->steps * (x_bytes + y_bytes);
    workload->examples = calloc(workload->count, sizeof *workload->examples);
    workload->bytes = calloc(workload->count, room);
    assert_non_null(workload->examples);
    assert_non_null(workload->bytes);
    workload->label_room = options->steps * x_bytes + 1;
    workload->label_steps = options->steps;
    uint64_t state = options->seed;
    for (size_t n = 0; n < workload->count; n++) {
        struct example *example = &workload->examples[n];
        char *key = workload->bytes + n * room, *x = key + WIRE_KEY_MAX;
        char *y = x + options->steps * x_bytes + 1;
        unsigned which = (unsigned)(random_bits(&state) % options->keys);
        example->key = key;
        example->key_size = which ? (size_t)snprintf(key, WIRE_KEY_MAX, "stream-%u", which) : 0;
        example->steps = 1 + random_bits(&state) % options->steps;
        example->end = chance(&state, options->end);
        example->learn = !chance(&state, options->frozen);
        example->received = n + 1;
        example->x = x;
        example->y = given && !chance(&state, options->missing) ? y : NULL;
        for (size_t t = 0; t < (later ? options->steps : example->steps); t++) {
            fill_input(options, &state, x + t * x_bytes);
            fill_target(options, &state, y + t * y_bytes, workload->model.target_size);
        }
        example->numbered = later;
        example->sequence = later ? n + 1 : 0;
        if (later)
            make_label(workload, n, &state);
    }
    return workload;
}

void workload_close(struct workload **workload) {
    free((*workload)->examples);
    free((*workload)->bytes);
    free(*workload);
    *workload = NULL;
}
