#include "hash_engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RING_MAX = 64, NOT_FINITE_EVERY = 5, GRADIENTS = 1000 };

/* ---- Hashes ---- */

uint64_t hash_mix(uint64_t a, uint64_t b) {
    uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9u;
    return z ^ z >> 29;
}

uint64_t hash_values(const union value *values, size_t count) {
    static const uint32_t nan_bits = 0x7FC00000u;
    uint64_t hash = count;
    for (size_t k = 0; k < count; k++)
        hash = hash_mix(hash, isnan(values[k].real) ? nan_bits : values[k].id);
    return hash;
}

uint64_t hash_state(uint64_t parameters, uint64_t state, uint64_t x) {
    return hash_mix(hash_mix(parameters, state), x);
}

uint64_t hash_output(uint64_t parameters, uint64_t state) {
    return hash_mix(state, parameters);
}

float hash_output_number(uint64_t output, size_t k) {
    return (float)(hash_mix(output, k) >> 40) * 0x1p-22f - 2;
}

double hash_loss(uint64_t output, uint64_t y) {
    return (double)(hash_mix(output, y) >> 11) * 0x1p-53;
}

uint64_t hash_term(uint64_t chain, uint64_t output, uint64_t y) {
    return hash_mix(hash_mix(chain, output), y);
}

uint64_t hash_gradient(uint64_t chain, uint64_t last_state, size_t terms, double rate,
                       double clip) {
    union value settings[] = {{.real = (float)rate}, {.real = (float)clip}};
    return hash_mix(hash_mix(hash_mix(chain, last_state), terms), hash_values(settings, 2));
}

struct update_result hash_update(uint64_t gradient) {
    return (struct update_result){.applied = gradient % NOT_FINITE_EVERY != 0,
                                  .gradient_norm = (double)(gradient % GRADIENTS) + 1,
                                  .update_ratio = (double)(gradient / GRADIENTS % GRADIENTS) + 1};
}

/* ---- The engine ---- */

struct position {
    uint64_t before, x, output;
    uint64_t y[AHEAD_MAX]; /* by horizon, like */
    bool kept[AHEAD_MAX], scored[AHEAD_MAX];
    bool stepped; /* since the stream began */
};

struct slot {
    uint64_t state;
    struct position ring[RING_MAX];
};

/* One of the latest STEPs, with its activations. */
struct played_step {
    uint32_t slot, position;
    uint64_t parameters;
};

struct engine {
    const struct model *model;
    size_t window, ring, slot_count, inputs;
    uint64_t tensors[MODEL_TENSORS_MAX]; /* as written */
    uint64_t learned;                    /* by later updates */
    uint64_t updates;
    struct slot *slots;
    uint64_t newest; /* state after the newest step of any slot */
    struct played_step latest[RING_MAX];
    size_t steps;
    struct hash_engine_counts counts;
};

static struct engine *opened_last;

static uint64_t parameters_with(const struct engine *engine, uint64_t learned) {
    uint64_t hash = learned;
    for (size_t n = 0; n < engine->model->tensor_count; n++)
        hash = hash_mix(hash, engine->tensors[n]);
    return hash;
}

static uint64_t parameters_of(const struct engine *engine) {
    return parameters_with(engine, engine->learned);
}

uint64_t hash_updated(uint64_t gradient) {
    return parameters_with(opened_last, gradient);
}

uint64_t hash_engine_parameters(void) {
    return parameters_of(opened_last);
}

struct hash_engine_counts hash_engine_counts(void) {
    return opened_last->counts;
}

static int hash_open(struct engine **engine, const struct model *model,
                     const struct engine_options *options, const char *device,
                     struct error *error) {
    (void)error;
    assert_string_equal(device, "cpu");
    assert_true(model_ring(model, options->window) <= RING_MAX);
    struct engine *opened = calloc(1, sizeof *opened);
    assert_non_null(opened);
    opened->model = model;
    opened->window = options->window;
    opened->ring = model_ring(model, options->window);
    opened->slot_count = options->slots;
    opened->inputs = model->features;
    opened->slots = calloc(options->slots, sizeof *opened->slots);
    assert_non_null(opened->slots);
    *engine = opened_last = opened;
    return 0;
}

static void play_step(struct engine *engine, const struct operation *o, const struct plan *plan,
                      const struct results *results, size_t row) {
    struct slot *slot = &engine->slots[o->slot];
    struct position *position = &slot->ring[o->position];
    uint64_t parameters = parameters_of(engine);
    assert_true(o->value < plan->steps);
    *position = (struct position){
        .before = slot->state,
        .x = hash_values(plan->inputs + o->value * engine->inputs, engine->inputs),
        .stepped = true};
    slot->state = engine->newest = hash_state(parameters, slot->state, position->x);
    position->output = hash_output(parameters, slot->state);
    engine->latest[engine->steps++ % RING_MAX] =
        (struct played_step){o->slot, o->position, parameters};
    for (size_t k = 0; plan->outputs && k < engine->model->outputs; k++)
        results->outputs[row * engine->model->outputs + k] =
            hash_output_number(position->output, k);
}

static void play_score(struct engine *engine, const struct operation *o, const struct plan *plan,
                       const struct results *results, size_t row) {
    struct slot *slot = &engine->slots[o->slot];
    size_t size = engine->model->target_size;
    assert_true(o->value < plan->scores);
    struct position *position = &slot->ring[o->position];
    size_t h = o->horizon, outputs = engine->model->scored;
    assert_true(h < engine->model->horizons && position->stepped && !position->scored[h]);
    position->scored[h] = true;
    position->y[h] = hash_values(plan->targets + o->value * size, size);
    position->kept[h] = o->learn;
    results->losses[row] = hash_loss(position->output, position->y[h]);
    for (size_t k = 0; k < outputs; k++)
        results->scored[row * outputs + k] = hash_output_number(position->output, h * outputs + k);
}

/* The window's steps are among the latest STEPs, all of one slot since, with activations of the
   current parameters. */
static void check_fresh(const struct engine *engine, const struct operation *o) {
    size_t back = 1;
    while (engine->latest[(engine->steps - back) % RING_MAX].position != o->position)
        assert_true(++back <= engine->ring && back <= engine->steps);
    assert_true(back >= o->length);
    for (size_t n = 0; n < back; n++) {
        const struct played_step *played = &engine->latest[(engine->steps - back + n) % RING_MAX];
        assert_int_equal(played->slot, o->slot);
        assert_int_equal(played->position, (o->position + n) % engine->ring);
        assert_true(played->parameters == parameters_of(engine));
    }
}

static void play_update(struct engine *engine, const struct operation *o, const struct plan *plan,
                        struct update_result *result) {
    struct slot *slot = &engine->slots[o->slot];
    uint64_t parameters = parameters_of(engine), chain = parameters;
    uint64_t state = slot->ring[o->position].before;
    size_t terms = 0;
    assert_true(o->length >= 1 && o->length <= engine->window);
    assert_true(o->closed >= 1 && o->closed <= o->length);
    for (size_t n = 0; n < o->length; n++) {
        const struct position *position = &slot->ring[(o->position + n) % engine->ring];
        state = hash_state(parameters, state, position->x);
        for (size_t h = 0; n >= o->length - o->closed && h < engine->model->horizons; h++) {
            if (!position->kept[h])
                continue;
            chain = hash_term(chain, hash_output(parameters, state), position->y[h]);
            terms++;
        }
    }
    assert_int_equal(terms, o->terms);
    assert_true(terms > 0);
    if (o->fresh)
        check_fresh(engine, o);
    engine->counts.updates++;
    engine->counts.fresh += o->fresh;
    uint64_t gradient = hash_gradient(chain, state, terms, plan->rate, plan->clip);
    *result = hash_update(gradient);
    if (result->applied) {
        engine->learned = gradient;
        engine->updates++;
    }
}

static int hash_play(struct engine *engine, const struct plan *plan, const struct results *results,
                     struct error *error) {
    (void)error;
    size_t steps = 0, scores = 0, updates = 0, measures = 0;
    for (size_t n = 0; n < plan->count; n++) {
        const struct operation *o = &plan->operations[n];
        assert_true(o->slot < engine->slot_count && o->position < engine->ring);
        switch (o->kind) {
        case OPERATION_FORGET:
            memset(&engine->slots[o->slot], 0, sizeof *engine->slots);
            break;
        case OPERATION_STEP:
            play_step(engine, o, plan, results, steps++);
            break;
        case OPERATION_SCORE:
            play_score(engine, o, plan, results, scores++);
            break;
        case OPERATION_UPDATE:
            play_update(engine, o, plan, &results->updates[updates++]);
            break;
        case OPERATION_ADVANCE:
            fail_msg("the rule has a window");
            break;
        case OPERATION_SOLVE:
            fail_msg("no output is solved");
            break;
        case OPERATION_MEASURE:
            results->measures[measures++ * engine->model->architecture.layer_count].hidden.mean =
                (double)engine->newest;
            break;
        }
    }
    assert_int_equal(steps, plan->steps);
    assert_int_equal(scores, plan->scores);
    assert_int_equal(updates, plan->updates);
    assert_int_equal(measures, plan->measures);
    return 0;
}

static int hash_read(struct engine *engine, enum engine_block block, size_t index, void *data,
                     struct error *error) {
    (void)error;
    assert_int_equal(block, ENGINE_PARAMETERS);
    memset(data, 0, tensor_size(&engine->model->tensors[index]) * sizeof(float));
    return 0;
}

static int hash_write(struct engine *engine, enum engine_block block, size_t index,
                      const void *data, struct error *error) {
    (void)error;
    if (block == ENGINE_UPDATES)
        memcpy(&engine->updates, data, sizeof engine->updates);
    if (block == ENGINE_PARAMETERS) {
        engine->tensors[index] = hash_values(data, tensor_size(&engine->model->tensors[index]));
        engine->learned = 0;
    }
    return 0;
}

static const char *hash_describe(const struct engine *engine) {
    (void)engine;
    return "hash";
}

static void hash_close(struct engine **engine) {
    free((*engine)->slots);
    free(*engine);
    *engine = NULL;
}

const struct engine_ops hash_engine = {
    .name = "hash",
    .open = hash_open,
    .play = hash_play,
    .play_together = NULL,
    .read = hash_read,
    .write = hash_write,
    .describe = hash_describe,
    .close = hash_close,
};
