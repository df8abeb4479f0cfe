/* Models that read messages: their gradients against central differences of the engine's own
   losses, over a window of several messages, and the bits of windows that are played again. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "under_test.h"

enum { LENGTH = 3, CLOSED = 2, EACH = 6 /* parameters of a tensor that are moved */ };

#define RATE 1024.0 /* the update is so many gradients: parameters before and after keep them */
#define MOVED 0x1p-6
#define TOLERANCE 3e-3
#define FLOOR 1e-4 /* rounding of the losses */

struct messages {
    union value *x, *y; /* (LENGTH, features), (LENGTH, heads, target_size) */
};

/* Plays a stream of LENGTH messages from its beginning. */
static void play_steps(struct fixture *f, const struct messages *s, bool learn) {
    size_t heads = f->model.horizons, size = f->model.target_size;
    fixture_forget(f, 0);
    for (size_t t = 0; t < LENGTH; t++) {
        fixture_step(f, 0, t, s->x + t * f->inputs);
        for (size_t h = 0; h < heads; h++) {
            fixture_score_horizon(f, 0, t, h, s->y + (t * heads + h) * size);
            f->operations[f->plan.count - 1].learn = learn;
        }
    }
}

/* The mean loss of the last CLOSED steps with these parameters. */
static double loss_of(struct fixture *f, const struct messages *s, const float *parameters) {
    size_t heads = f->model.horizons;
    double sum = 0;
    fixture_write(f, ENGINE_PARAMETERS, parameters);
    play_steps(f, s, false);
    fixture_play(f, 0, 0);
    for (size_t n = (LENGTH - CLOSED) * heads; n < LENGTH * heads; n++)
        sum += f->losses[n] * (double)f->model.heads[n % heads].weight;
    return sum / CLOSED;
}

static double slope_of(struct fixture *f, const struct messages *s, float *parameters, size_t k,
                       double by) {
    float kept = parameters[k];
    parameters[k] = kept + (float)by;
    double above = loss_of(f, s, parameters);
    parameters[k] = kept - (float)by;
    double slope = (above - loss_of(f, s, parameters)) / (2 * by);
    parameters[k] = kept;
    return slope;
}

static void compare(struct fixture *f, const struct messages *s, float *before, const float *after,
                    const char *name) {
    for (size_t n = 0; n < f->model.learned_count; n++) {
        const struct tensor *tensor = &f->model.tensors[n];
        size_t count = tensor_size(tensor), stride = count / EACH + 1;
        double off = 0, norm = 0;
        for (size_t k = tensor->offset; k < tensor->offset + count; k += stride) {
            double gradient = ((double)before[k] - (double)after[k]) / RATE;
            double slope =
                (4 * slope_of(f, s, before, k, MOVED / 2) - slope_of(f, s, before, k, MOVED)) /
                3; /* without the error of the third derivative */
            off += (slope - gradient) * (slope - gradient);
            norm += slope * slope;
        }
        if (!(sqrt(off) <= TOLERANCE * sqrt(norm) + FLOOR))
            fail_msg("%s: gradient of %s is off by %.3g, its norm is %.3g", name, tensor->name,
                     sqrt(off), sqrt(norm));
    }
}

static void check(const struct architecture *architecture, const char *name) {
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    struct fixture *f;
    struct messages s;
    if (!under_test_plays() || !under_test_is_cpu())
        return;
    fixture_open(&f, architecture, &sgd, LENGTH, 1, 1);
    size_t count = f->model.parameters, heads = f->model.horizons;
    s.x = calloc(LENGTH * f->inputs, sizeof *s.x);
    s.y = calloc(LENGTH * heads * f->model.target_size, sizeof *s.y);
    for (size_t t = 0; t < LENGTH; t++) {
        fixture_random_input(f, s.x + t * f->inputs);
        for (size_t h = 0; h < heads; h++)
            fixture_random_target_of(f, h, s.y + (t * heads + h) * f->model.target_size);
    }
    float *before = calloc(count, sizeof *before), *after = calloc(count, sizeof *after);
    float *again = calloc(count, sizeof *again);
    fixture_read(f, ENGINE_PARAMETERS, before);
    for (int fresh = 1; fresh >= 0; fresh--) {
        play_steps(f, &s, true);
        fixture_update(f, 0, 0, LENGTH, CLOSED, CLOSED, fresh);
        fixture_play(f, RATE, 0.0);
        assert_true(f->updates[0].applied);
        fixture_read(f, ENGINE_PARAMETERS, fresh ? after : again);
        fixture_write(f, ENGINE_PARAMETERS, before);
    }
    if (memcmp(after, again, count * sizeof *after) != 0)
        fail_msg("%s: a recomputed window gives other bits than a fresh one", name);
    compare(f, &s, before, after, name);
    free(s.x);
    free(s.y);
    free(before);
    free(after);
    free(again);
    fixture_close(&f);
}

static const struct layer GRU = {.cell = CELL_gru, .size = 5, .norm = NORM_layer};
static const struct layer LSTM = {.cell = CELL_lstm, .size = 4, .norm = NORM_layer};

static struct input reads(enum input_kind kind, size_t embedding, enum pool pool) {
    struct input input = {
        .kind = kind,
        .size = 4,
        .embedding = embedding,
        .sequence = {.layer_count = 2, .layers = {GRU, LSTM}, .longest = 5, .pool = pool}};
    input.sequence.attention = pool_kind(pool)->attends ? 3 : 0;
    return input;
}

static void every_pool(void **state) {
    (void)state;
    for (enum pool pool = 0; pool < POOLS; pool++) {
        struct architecture a = {.input = reads(INPUT_SYMBOL, 3, pool),
                                 .output = {.loss = LOSS_softmax, .size = 4}};
        check(&a, pool_kind(pool)->name);
        a.layers[0] = LSTM;
        a.layer_count = 1;
        check(&a, pool_kind(pool)->name);
    }
}

static void every_input(void **state) {
    (void)state;
    struct architecture a = {.input = reads(INPUT_SYMBOL, 0, POOL_mean),
                             .layers = {{.cell = CELL_dense,
                                         .size = 6,
                                         .norm = NORM_layer,
                                         .activation = ACTIVATION_tanh}},
                             .layer_count = 1,
                             .output = {.loss = LOSS_gaussian, .size = 3}};
    check(&a, "one-hot");
    a.input.kind = INPUT_REAL;
    check(&a, "numbers");
    a.input.sequence.layers[0] =
        (struct layer){.cell = CELL_rtu, .size = 4, .norm = NORM_layer, .radius = {2, {0.1, 0.9}}};
    a.input.sequence.layers[1].norm = NORM_none;
    check(&a, "rtu, lstm without norm");
    const struct layer grid = {.cell = CELL_conv,
                               .norm = NORM_layer,
                               .activation = ACTIVATION_tanh,
                               .shape.channels = 6,
                               .kernel = 1,
                               .stride = 1,
                               .norm_groups = 2};
    a.input.shape = (struct grid_shape){1, 2, 2};
    a.input.sequence.layers[0] = a.input.sequence.layers[1] = grid;
    a.input.sequence.layers[1].kernel = 2;
    a.input.sequence.layers[2] = GRU;
    a.input.sequence.layer_count = 3;
    check(&a, "images");
}

/* Several outputs of one h, in one product, each with a loss and a weight. */
static void outputs(void **state) {
    (void)state;
    struct architecture a = {
        .input = {.kind = INPUT_REAL, .size = 3},
        .layers = {GRU, LSTM},
        .layer_count = 2,
        .output = {.name = "next", .loss = LOSS_squared, .size = 3, .weight = 1},
        .others =
            {{.name = "class", .loss = LOSS_softmax, .size = 19, .weight = 0.25},
             {.name = "stroke", .loss = LOSS_mixture, .size = 3, .components = 2, .weight = 2}},
        .other_count = 2};
    check(&a, "three outputs");
    a.other_count = 1;
    check(&a, "two outputs");
}

/* One output or two that write messages, of classes and numbers, given and of x. */
static void writers(void **state) {
    (void)state;
    const struct output next = {.name = "next",
                                .loss = LOSS_softmax,
                                .size = 4,
                                .target = TARGET_NEXT,
                                .sequence = {.layer_count = 1, .layers = {GRU}, .longest = 5}};
    struct architecture a = {
        .input = reads(INPUT_SYMBOL, 3, POOL_last), .output = next, .other_count = 0};
    check(&a, "next");
    a.input.embedding = 0;
    check(&a, "next, one-hot");
    a.input.embedding = 3;
    a.layers[0] = LSTM;
    a.layer_count = 1;
    a.others[0] = next;
    strcpy(a.others[0].name, "previous");
    a.others[0].target = TARGET_PREVIOUS;
    a.others[0].weight = 0.5;
    a.output.weight = 1;
    a.others[0].sequence.layers[0] = LSTM;
    a.other_count = 1;
    check(&a, "next and previous");
    a.other_count = 0;
    a.output.target = TARGET_GIVEN;
    a.output.sequence.embedding = 3;
    a.output.sequence.layers[1] = LSTM;
    a.output.sequence.layer_count = 2;
    check(&a, "given classes");
    a.output.loss = LOSS_gaussian;
    a.output.size = 2;
    check(&a, "given numbers");
}

/* Each score with each objective, of symbols and of numbers that a tower reads. */
static void rankings(void **state) {
    (void)state;
    struct architecture a = {
        .input = {.kind = INPUT_REAL, .size = 3},
        .layers = {GRU},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, /* is not used */
                   .size = 4,
                   .ranking = {.negatives = LENGTH, /* the bank is the same in each play */
                               .temperature = 0.5,
                               .margin = 0.3,
                               .kind = INPUT_REAL,
                               .size = 3,
                               .layer_count = 1,
                               .layers = {{.cell = CELL_dense,
                                           .size = 6,
                                           .norm = NORM_layer,
                                           .activation = ACTIVATION_tanh}}}}};
    struct ranking *ranking = &a.output.ranking;
    for (ranking->score = 0; ranking->score <= RANKING_ORDER; ranking->score++)
        for (ranking->objective = 0; ranking->objective <= RANKING_HINGE; ranking->objective++)
            check(&a, "numbers");
    ranking->layer_count = 0;
    ranking->score = RANKING_COSINE;
    ranking->objective = RANKING_SOFTMAX;
    check(&a, "numbers without a tower");
    ranking->kind = INPUT_SYMBOL;
    ranking->size = 6;
    ranking->score = RANKING_DOT;
    for (; ranking->objective <= RANKING_HINGE; ranking->objective++)
        check(&a, "symbols");
}

/* Convolutions over a message: a reader's delay lines begin with zeros, a writer's with h. */
static void taps(void **state) {
    (void)state;
    const struct layer first = {.cell = CELL_dense,
                                .size = 5,
                                .norm = NORM_layer,
                                .activation = ACTIVATION_tanh,
                                .taps = 3,
                                .dilation = 1};
    struct layer second = first;
    second.taps = second.dilation = 2;
    second.residual = true;
    for (size_t embedding = 0; embedding <= 3; embedding += 3) {
        struct architecture a = {.input = reads(INPUT_SYMBOL, embedding, POOL_mean),
                                 .output = {.loss = LOSS_softmax,
                                            .size = 4,
                                            .target = TARGET_NEXT,
                                            .sequence = {.layer_count = 2, .longest = 5}}};
        a.input.sequence.layers[0] = a.output.sequence.layers[0] = first;
        a.input.sequence.layers[1] = a.output.sequence.layers[1] = second;
        check(&a, "next, with taps");
        a.output.target = TARGET_GIVEN;
        a.output.loss = LOSS_gaussian;
        a.output.size = 3;
        check(&a, "numbers, with taps");
    }
}

/* Plays that many steps with targets from y on (count, target_size), and learns from the last. */
static void rank_all(struct fixture *f, const union value *y, size_t count) {
    size_t ring = model_ring(&f->model, 1);
    union value x[8] = {{.real = 0}};
    fixture_forget(f, 0);
    for (size_t t = 0; t < count; t++) {
        fixture_random_input(f, x);
        fixture_step(f, 0, t % ring, x);
        fixture_score(f, 0, t % ring, y + t * f->model.target_size, true);
    }
    fixture_update(f, 0, (count - 1) % ring, 1, 1, 1, false);
}

/* Many wide candidates without a tower: an update with rate 0 moves nothing, also not in arrays
   beside theirs. A candidate of huge numbers spoils no ranking but its own. */
static void extreme_candidates(void **state) {
    enum { WIDE = 784, MANY = 100 };
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    struct architecture a = {
        .input = {.kind = INPUT_REAL, .size = 3},
        .layers = {GRU},
        .layer_count = 1,
        .output = {.loss = LOSS_ranking,
                   .size = 4,
                   .ranking = {.negatives = MANY, .kind = INPUT_REAL, .size = WIDE}}};
    struct fixture *f;
    (void)state;
    if (!under_test_is_cpu())
        skip();
    fixture_open(&f, &a, &sgd, 1, 1, 1);
    union value *y = calloc(MANY, WIDE * sizeof *y);
    float *before = calloc(f->model.parameters, sizeof *before);
    float *after = calloc(f->model.parameters, sizeof *after);
    for (size_t k = 0; k < (size_t)MANY * WIDE; k++)
        y[k].real = (float)fixture_random(f);
    for (size_t k = 0; k < WIDE; k++)
        y[WIDE + k].real = FLT_MAX;
    fixture_read(f, ENGINE_PARAMETERS, before);
    rank_all(f, y, MANY);
    fixture_play(f, 0, 0);
    assert_true(f->updates[0].applied);
    fixture_read(f, ENGINE_PARAMETERS, after);
    assert_memory_equal(before, after, f->model.parameters * sizeof *before);
    assert_true(isnan(f->losses[0]));
    for (size_t t = 2; t < MANY; t++)
        assert_true(isfinite(f->losses[t]));
    free(y);
    free(before);
    free(after);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pool),        cmocka_unit_test(every_input),
        cmocka_unit_test(outputs),           cmocka_unit_test(writers),
        cmocka_unit_test(rankings),          cmocka_unit_test(taps),
        cmocka_unit_test(extreme_candidates)};
    return under_test_run(tests);
}
