/* Compares the learner with a second implementation of the protocol (protocol.h), on random
   streams. On every engine: the cut of plans changes no bit, examples cause no allocations,
   changes at run time, and reset. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/random.h"
#include "common/wire.h"
#include "hash_engine.h"
#include "learner/learner.h"
#include "observed.h"
#include "protocol.h"
#include "under_test.h"
#include "workload.h"

enum { CUTS = 3, ROUNDS = 400, EXAMPLES = 80, OBSERVATIONS = 2 * EXAMPLES };
static const size_t cuts[CUTS] = {1, 7, 1000}; /* steps in a plan */

/* ---- Allocations, counted by the linker's --wrap ---- */

static size_t allocations, failing; /* `failing`: allocations until one fails; 0 = none fails */
static size_t alive;                /* allocations that are not freed */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

void *__wrap_malloc(size_t size) {
    allocations++;
    alive++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    if (failing && --failing == 0)
        return NULL;
    alive++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    allocations++;
    alive += !old;
    return __real_realloc(old, size);
}

void __wrap_free(void *old) {
    alive -= old != NULL;
    __real_free(old);
}

/* ---- Playing workloads ---- */

struct run {
    struct observation list[OBSERVATIONS];
    struct observations observations;
    struct learner *learner;
};

static void run_open(struct run *run, const struct workload *workload,
                     const struct engine_ops *engine, size_t plan_steps) {
    struct error error;
    run->observations = (struct observations){
        .list = run->list,
        .capacity = OBSERVATIONS,
        .inputs = workload->x_size,
        .outputs = workload->model.outputs,
        .layers = workload->model.architecture.layer_count,
        .measure_every = 3,
    };
    struct learner_observer observer = observations_observer(&run->observations);
    struct config config = workload->config;
    snprintf(config.device, sizeof config.device, "%s", under_test_device());
    if (learner_open(&run->learner, &config, &workload->model, engine, plan_steps, &observer,
                     &error))
        fail_msg("%s", error.text);
    learner_want_outputs(run->learner, true);
}

static void take(struct run *run, const struct workload *workload, size_t first, size_t count) {
    for (size_t n = first; n < first + count; n++)
        assert_int_equal(learner_take(run->learner, &workload->examples[n], NULL), 0);
}

static void take_all(struct run *run, const struct workload *workload) {
    take(run, workload, 0, workload->count);
    assert_int_equal(learner_flush(run->learner, NULL), 0);
    assert_int_equal(learner_taken(run->learner), learner_counters(run->learner).examples);
}

/* ---- The protocol ---- */

static size_t draw(uint64_t *state, size_t low, size_t high) {
    return low + random_bits(state) % (high - low + 1);
}

/* A loss whose target is a class id, or one with numbers. */
static enum loss draw_loss(uint64_t *state, bool class_id) {
    enum loss found[LOSSES];
    size_t count = 0;
    for (enum loss loss = 0; loss < LOSSES; loss++)
        if (loss_kind(loss)->class_id == class_id && !loss_kind(loss)->ranks)
            found[count++] = loss;
    return found[count > 1 ? draw(state, 0, count - 1) : 0];
}

static struct workload_options random_options(uint64_t *state) {
    struct workload_options o = {
        .architecture = {.layers = {{.cell = CELL_dense, .size = 2}}, .layer_count = 1},
        .window = draw(state, 1, 6),
        .max_streams = draw(state, 1, 4),
        .optimizer = {.kind = OPTIMIZER_sgd, .rate = 0.5},
        .examples = EXAMPLES,
        .keys = draw(state, 1, 6),
        .steps = draw(state, 0, 3) ? 3 : 12,
        .end = draw(state, 0, 1) ? 0.2 : 0,
        .frozen = draw(state, 0, 1) ? 0.3 : 0,
        .missing = draw(state, 0, 1) ? 0.4 : 0,
        .seed = random_bits(state),
    };
    struct input *input = &o.architecture.input;
    struct output *output = &o.architecture.output;
    o.stride = draw(state, 1, o.window);
    input->kind = draw(state, 0, 1) ? INPUT_REAL : INPUT_SYMBOL;
    input->size = draw(state, 1, 4);
    output->target = draw(state, 0, 1) ? TARGET_NEXT : TARGET_GIVEN;
    bool next = output->target == TARGET_NEXT;
    output->loss = draw_loss(state, false);
    if (next ? input->kind == INPUT_SYMBOL : draw(state, 0, 4) == 0)
        output->loss = draw_loss(state, true);
    const struct loss_kind *loss = loss_kind(output->loss);
    output->components = loss_has_components(loss) ? 2 : 0;
    if (loss->size && next)
        input->size = loss->size;
    output->size = loss->size ? loss->size : next ? input->size : draw(state, 1, 3);
    if (input->kind == INPUT_REAL) {
        input->hold = draw(state, 0, 1);
        input->scale = draw(state, 0, 1) ? SCALE_STANDARD : SCALE_NONE;
    }
    return o;
}

/* Every observation and the final parameters agree with the protocol, for any cut. */
static void keeps_to_the_protocol(void **unused) {
    uint64_t state = 1;
    struct run *run = calloc(2, sizeof *run), *expected = run + 1;
    assert_non_null(run);
    size_t updates = 0, skipped = 0, forgotten = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct workload_options options = random_options(&state);
        struct workload *workload = workload_open(&options);
        for (size_t cut = 0; cut < CUTS; cut++) {
            run_open(run, workload, &hash_engine, cuts[cut]);
            expected->observations = run->observations;
            expected->observations.list = expected->list;
            uint64_t parameters =
                protocol_run(workload, hash_engine_parameters(), &expected->observations);
            take_all(run, workload);
            assert_same_observations(&expected->observations, &run->observations);
            assert_true(hash_engine_parameters() == parameters);
            struct learner_counters counters = learner_counters(run->learner);
            assert_int_equal(counters.examples, EXAMPLES);
            updates += counters.updates;
            skipped += counters.skipped;
            forgotten += counters.forgotten;
            learner_close(&run->learner);
        }
        workload_close(&workload);
    }
    assert_true(updates > ROUNDS && skipped > ROUNDS && forgotten > ROUNDS);
    free(run);
}

static struct workload_options one_stream(enum target target) {
    return (struct workload_options){
        .architecture = {.input = {.kind = INPUT_REAL, .size = 2},
                         .layers = {{.cell = CELL_lstm, .size = 6, .norm = NORM_layer, .gain = 1}},
                         .layer_count = 1,
                         .output = {.loss = LOSS_squared, .size = 2, .target = target}},
        .window = 4,
        .stride = 4,
        .max_streams = 3,
        .optimizer =
            {.kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .examples = EXAMPLES,
        .keys = 1,
        .steps = 1,
        .seed = 7,
    };
}

/* Windows without recomputation are marked as fresh: all of one stream with window = stride. */
static void calls_windows_fresh(void **unused) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    for (enum target target = TARGET_GIVEN; target <= TARGET_NEXT; target++)
        for (size_t cut = 0; cut < CUTS; cut++) {
            struct workload_options options = one_stream(target);
            struct workload *workload = workload_open(&options);
            run_open(run, workload, &hash_engine, cuts[cut]);
            take_all(run, workload);
            size_t closed = EXAMPLES - (target == TARGET_NEXT);
            assert_int_equal(hash_engine_counts().updates, closed / 4);
            assert_int_equal(hash_engine_counts().fresh, closed / 4);
            learner_close(&run->learner);
            workload_close(&workload);
        }
    free(run);
}

/* ---- On every engine ---- */

static void read_all_parameters(struct learner *learner, const struct model *model, float *values) {
    for (size_t n = 0; n < model->tensor_count; n++)
        assert_int_equal(
            learner_read_parameters(learner, 0, n, values + model->tensors[n].offset, NULL), 0);
}

static struct workload_options busy(enum target target) {
    struct workload_options options = one_stream(target);
    if (target == TARGET_LATER) {
        options.architecture.output.patience = 7;
        options.architecture.output.relative = RELATIVE_TRUE;
        options.architecture.output.scale = SCALE_STANDARD;
    }
    options.architecture.input.hold = true;
    options.architecture.input.scale = SCALE_STANDARD;
    options.stride = 3;
    options.keys = 5;
    options.steps = 9;
    options.end = 0.1;
    options.frozen = options.missing = 0.2;
    return options;
}

/* Targets that arrive at different times. Only the CPU engine has several outputs. */
static bool add_outputs(struct architecture *architecture) {
    static const enum target targets[] = {TARGET_NEXT, TARGET_PREVIOUS, TARGET_SAME};
    architecture->other_count = sizeof targets / sizeof *targets;
    architecture->output.weight = 1;
    strcpy(architecture->output.name, "sent");
    for (size_t k = 0; k < architecture->other_count; k++) {
        architecture->others[k] = (struct output){.loss = k == 1 ? LOSS_gaussian : LOSS_squared,
                                                  .size = 2,
                                                  .target = targets[k],
                                                  .weight = 0.5};
        snprintf(architecture->others[k].name, OUTPUT_NAME_SIZE, "%s", target_name(targets[k]));
    }
    return under_test_is_cpu();
}

static void cuts_change_no_bit(void **unused) {
    struct run *run = calloc(2, sizeof *run), *first = run + 1;
    assert_non_null(run);
    for (enum target target = TARGET_GIVEN; target <= TARGET_LATER + 2; target++) {
        struct workload_options options = busy(target > TARGET_LATER + 1 ? TARGET_GIVEN
                                               : target > TARGET_LATER   ? TARGET_NEXT
                                                                         : target);
        if (target == TARGET_LATER + 1) /* several horizons */
            options.architecture.output.ahead = (struct ahead){3, {1, 2, 5}};
        if (target > TARGET_LATER + 1 && !add_outputs(&options.architecture))
            continue;
        struct workload *workload = workload_open(&options);
        size_t parameters = workload->model.parameters;
        float *values = calloc(2 * parameters, sizeof *values), *others = values + parameters;
        assert_non_null(values);
        run_open(first, workload, under_test_ops(), cuts[0]);
        take_all(first, workload);
        read_all_parameters(first->learner, &workload->model, values);
        for (size_t cut = 1; cut < CUTS; cut++) {
            run_open(run, workload, under_test_ops(), cuts[cut]);
            take_all(run, workload);
            assert_same_observations(&first->observations, &run->observations);
            read_all_parameters(run->learner, &workload->model, others);
            assert_memory_equal(values, others, parameters * sizeof *values);
            learner_close(&run->learner);
        }
        learner_close(&first->learner);
        free(values);
        workload_close(&workload);
    }
    free(run);
}

static void allocates_nothing_for_an_example(void **unused) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    for (enum target target = TARGET_GIVEN; target <= TARGET_LATER; target++) {
        struct workload_options options = busy(target);
        struct workload *workload = workload_open(&options);
        run_open(run, workload, under_test_ops(), cuts[2]);
        size_t before = allocations;
        for (size_t n = 0; n < workload->count; n++) {
            take(run, workload, n, 1);
            assert_int_equal(n % 2 ? learner_flush(run->learner, NULL) : 0, 0);
        }
        assert_int_equal(allocations, before);
        assert_true(learner_counters(run->learner).forgotten > 0);
        learner_close(&run->learner);
        assert_true(before > 0); /* opening was counted, so the counter works */
        workload_close(&workload);
    }
    free(run);
}

/* Predictions of classes are kept without intervals. */
static void allocates_nothing_for_a_truth(void **unused) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    struct workload_options options = one_stream(TARGET_GIVEN);
    options.architecture.output.loss = LOSS_softmax;
    struct workload *workload = workload_open(&options);
    run_open(run, workload, under_test_ops(), cuts[2]);
    assert_int_equal(learner_keep_truths(run->learner, true, NULL), 0);
    size_t before = allocations;
    for (size_t n = 0; n < workload->count; n++) {
        take(run, workload, n, 1);
        assert_int_equal(n % 2 ? learner_flush(run->learner, NULL) : 0, 0);
    }
    assert_int_equal(allocations, before);
    learner_close(&run->learner);
    workload_close(&workload);
    free(run);
}

/* Subscribers come and go: only the examples that they want report outputs and truths, and what is
   learned stays the same. */
static void predictions_are_reported_where_wanted(void **unused) {
    enum { WANTED = 3, KEPT = 8 }; /* examples in a row */
    struct run *run = calloc(2, sizeof *run), *never = run + 1;
    assert_non_null(run);
    for (enum target target = TARGET_GIVEN; target <= TARGET_LATER; target++) {
        struct workload_options options = busy(target);
        struct workload *workload = workload_open(&options);
        run_open(never, workload, under_test_ops(), cuts[1]);
        learner_want_outputs(never->learner, false);
        take_all(never, workload);
        run_open(run, workload, under_test_ops(), cuts[1]);
        for (size_t n = 0; n < workload->count; n++) {
            learner_want_outputs(run->learner, n / WANTED % 2);
            assert_int_equal(learner_keep_truths(run->learner, n / KEPT % 2, NULL), 0);
            take(run, workload, n, 1);
        }
        assert_int_equal(learner_flush(run->learner, NULL), 0);
        for (size_t n = 0; n < run->observations.count; n++) {
            struct observation *o = &run->list[n];
            bool wanted = !o->forgotten && (o->examples - 1) / WANTED % 2;
            assert_int_equal(o->outputs != 0, wanted);
            assert_int_equal(o->truths, wanted && (o->examples - 1) / KEPT % 2);
            o->outputs = 0;
            o->truths = false;
        }
        assert_same_observations(&never->observations, &run->observations);
        learner_close(&run->learner);
        learner_close(&never->learner);
        workload_close(&workload);
    }
    free(run);
}

/* This happens when statistics.predictions is turned on while the daemon runs. */
static void a_failure_to_keep_truths_leaves_nothing(void **unused) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    struct workload_options options = one_stream(TARGET_GIVEN);
    struct workload *workload = workload_open(&options);
    run_open(run, workload, under_test_ops(), cuts[2]);
    struct error error;
    size_t before = alive, failures = 0;
    for (int status = -1; status; failures += status != 0) {
        assert_int_equal(alive, before);
        failing = failures + 1;
        status = learner_keep_truths(run->learner, true, &error);
    }
    failing = 0;
    assert_true(failures > 4);
    take_all(run, workload);
    learner_close(&run->learner);
    workload_close(&workload);
    free(run);
}

static void reset_goes_back_to_the_beginning(void **unused) {
    struct run *run = calloc(2, sizeof *run), *again = run + 1;
    assert_non_null(run);
    struct workload_options options = busy(TARGET_NEXT);
    options.max_streams = 5;
    struct workload *workload = workload_open(&options);
    run_open(run, workload, under_test_ops(), 2);
    take_all(run, workload);
    memcpy(again->list, run->list, sizeof run->list);
    again->observations = run->observations;
    again->observations.list = again->list;
    assert_true(learner_streams(run->learner) > 0);
    assert_int_equal(learner_reset(run->learner, NULL), 0);
    assert_int_equal(learner_streams(run->learner), 0);
    assert_int_equal(learner_counters(run->learner).examples, 0);
    run->observations.count = 0;
    take_all(run, workload);
    assert_same_observations(&again->observations, &run->observations);
    learner_close(&run->learner);
    workload_close(&workload);
    free(run);
}

/* A rate is valid for later examples, independent of the queue of the plan. */
static void rates_are_set_in_flight(void **unused) {
    struct run *run = calloc(2, sizeof *run), *other = run + 1;
    assert_non_null(run);
    struct workload_options options = busy(TARGET_GIVEN);
    struct workload *workload = workload_open(&options);
    run_open(run, workload, under_test_ops(), 1);
    run_open(other, workload, under_test_ops(), 1000);
    struct run *runs[] = {run, other};
    for (size_t n = 0; n < 2; n++) {
        take(runs[n], workload, 0, EXAMPLES / 2);
        assert_int_equal(learner_set_rate(runs[n]->learner, LEARNER_ALL, 0, NULL), 0);
        assert_int_equal(learner_set_clip(runs[n]->learner, LEARNER_ALL, 0.25, NULL), 0);
        take(runs[n], workload, EXAMPLES / 2, EXAMPLES / 2);
        assert_int_equal(learner_flush(runs[n]->learner, NULL), 0);
        assert_true(learner_rate(runs[n]->learner) == 0);
        assert_true(learner_clip(runs[n]->learner) == 0.25);
    }
    assert_same_observations(&run->observations, &other->observations);
    const struct observations *o = &run->observations;
    bool moved = false;
    for (size_t n = 0; n < o->count; n++) {
        if (o->list[n].examples > EXAMPLES / 2)
            assert_true(o->list[n].update_ratio == 0);
        else
            moved |= o->list[n].update_ratio > 0;
    }
    assert_true(moved);
    learner_close(&run->learner);
    learner_close(&other->learner);
    workload_close(&workload);
    free(run);
}

/* ---- Starting values ---- */

static void a_missing_initial_file_is_an_error(void **unused) {
    struct workload_options options = one_stream(TARGET_NEXT);
    struct workload *workload = workload_open(&options);
    struct observations observations = {0};
    struct learner_observer observer = observations_observer(&observations);
    struct learner *learner;
    struct error error;
    snprintf(workload->config.initial, sizeof workload->config.initial, "/nowhere/a.safetensors");
    assert_int_equal(learner_open(&learner, &workload->config, &workload->model, &cpu_engine, 8,
                                  &observer, &error),
                     -1);
    assert_null(learner);
    assert_non_null(strstr(error.text, "/nowhere/a.safetensors"));
    workload_close(&workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_to_the_protocol),
        cmocka_unit_test(calls_windows_fresh),
        cmocka_unit_test(a_missing_initial_file_is_an_error),
    };
    const struct CMUnitTest engine_tests[] = {
        cmocka_unit_test(cuts_change_no_bit),
        cmocka_unit_test(allocates_nothing_for_an_example),
        cmocka_unit_test(allocates_nothing_for_a_truth),
        cmocka_unit_test(predictions_are_reported_where_wanted),
        cmocka_unit_test(a_failure_to_keep_truths_leaves_nothing),
        cmocka_unit_test(reset_goes_back_to_the_beginning),
        cmocka_unit_test(rates_are_set_in_flight),
    };
    under_test_above_engines();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + under_test_run(engine_tests);
}
