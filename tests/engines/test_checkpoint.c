/* Checkpoints: resuming with the same bits, and invalid files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/streams.h"
#include "learner/learner_state.h"
#include "parts/missing.h"
#include "parts/targets.h"
#include "saved_run.h"
#include "under_test.h"

/* ---- The same bits ---- */

static void assert_same_block(struct run *a, struct run *b, enum engine_block block,
                              const struct model *model) {
    for (size_t n = 0; n < model->tensor_count; n++) {
        size_t size = tensor_size(&model->tensors[n]);
        float *x = calloc(2 * size, sizeof *x), *y = x + size;
        assert_non_null(x);
        assert_int_equal(learner_read(a->learner, 0, block, n, x, NULL), 0);
        assert_int_equal(learner_read(b->learner, 0, block, n, y, NULL), 0);
        assert_memory_equal(x, y, size * sizeof *x);
        free(x);
    }
}

/* Streams in order of use, their windows, states and outputs. */
static void assert_same_streams(struct run *a, struct run *b, const struct workload *workload) {
    const struct model *model = &workload->model;
    size_t record = slot_record_size(model, workload->config.learning.window);
    size_t live = model->state_size + model->outputs;
    const struct streams *s = learner_streams_table(a->learner);
    const struct streams *t = learner_streams_table(b->learner);
    float *x = calloc(2 * record, sizeof *x), *y = x + record;
    assert_non_null(x);
    assert_int_equal(streams_count(s), streams_count(t));
    for (uint32_t m = streams_oldest(s), n = streams_oldest(t); m != STREAMS_NONE;
         m = streams_newer(s, m), n = streams_newer(t, n)) {
        size_t m_size, n_size;
        const char *m_key = streams_key(s, m, &m_size), *n_key = streams_key(t, n, &n_size);
        assert_int_equal(m_size, n_size);
        assert_memory_equal(m_key, n_key, m_size);
        struct learner_window v = learner_window(a->learner, 0, m),
                              w = learner_window(b->learner, 0, n);
        assert_memory_equal(&v, &w, sizeof v);
        assert_int_equal(learner_read(a->learner, 0, ENGINE_SLOT, m, x, NULL), 0);
        assert_int_equal(learner_read(b->learner, 0, ENGINE_SLOT, n, y, NULL), 0);
        assert_memory_equal(x, y, live * sizeof *x);
        if (missing_held(learner_host(a->learner), m))
            assert_memory_equal(missing_held(learner_host(a->learner), m),
                                missing_held(learner_host(b->learner), n),
                                workload->x_size * sizeof(float));
        if (targets_scale(learner_host(a->learner), m, 0))
            assert_memory_equal(targets_scale(learner_host(a->learner), m, 0),
                                targets_scale(learner_host(b->learner), n, 0),
                                2 * workload->x_size * sizeof(double));
    }
    free(x);
}

static void assert_same_learners(struct run *a, struct run *b, const struct workload *workload) {
    unsigned blocks = (unsigned)optimizer_moments(&workload->config.learning.optimizer);
    struct learner_counters c = learner_counters(a->learner), d = learner_counters(b->learner);
    uint64_t updates[2];
    assert_memory_equal(&c, &d, sizeof c);
    assert_int_equal(learner_read(a->learner, 0, ENGINE_UPDATES, 0, &updates[0], NULL), 0);
    assert_int_equal(learner_read(b->learner, 0, ENGINE_UPDATES, 0, &updates[1], NULL), 0);
    assert_int_equal(updates[0], updates[1]);
    assert_same_block(a, b, ENGINE_PARAMETERS, &workload->model);
    for (unsigned k = 0; k < blocks; k++)
        assert_same_block(a, b, ENGINE_MOMENTS + k, &workload->model);
    assert_same_streams(a, b, workload);
}

enum { CASES = 14 };

static struct workload_options resumed_case(size_t which) {
    struct workload_options o = sensor();
    struct layer *layer = &o.architecture.layers[0];
    o.seed += which;
    switch (which) {
    case 0: /* next, scaled and held, window > stride, adam */
        break;
    case 1: /* given, one stream, window = stride, momentum */
        o.architecture.output.target = TARGET_GIVEN;
        o.optimizer = (struct optimizer){.kind = OPTIMIZER_sgd, .rate = 0.05, .momentum = 0.9};
        o.stride = o.window;
        o.keys = 1;
        o.end = 0;
        layer->cell = CELL_rnn;
        break;
    case 2: /* symbols, two layers, rmsprop */
        o.architecture.input = (struct input){.kind = INPUT_SYMBOL, .size = 7, .embedding = 3};
        o.architecture.output =
            (struct output){.loss = LOSS_softmax, .size = 7, .target = TARGET_NEXT};
        o.architecture.layers[1] =
            (struct layer){.cell = CELL_dense, .size = 5, .activation = ACTIVATION_tanh};
        o.architecture.layer_count = 2;
        o.optimizer = (struct optimizer){
            .kind = OPTIMIZER_rmsprop, .rate = 0.003, .alpha = 0.99, .epsilon = 1e-8};
        layer->cell = CELL_gru;
        break;
    case 3: /* given classes, adamw */
        o.architecture.output =
            (struct output){.loss = LOSS_softmax, .size = 3, .target = TARGET_GIVEN};
        o.optimizer.kind = OPTIMIZER_adamw;
        o.optimizer.weight_decay = 0.01;
        o.max_streams = 50;
        o.keys = 40;
        break;
    case 4: /* norms of rows */
        layer->norm = NORM_weight;
        break;
    case 5: /* running statistics */
        layer->norm = NORM_batch;
        layer->norm_momentum = 0.1F;
        layer->cell = CELL_gru;
        break;
    case 6: /* running statistics by age */
        layer->norm = NORM_recurrent_batch;
        layer->norm_momentum = 0.1F;
        layer->norm_steps = 4;
        break;
    case 7: /* five moments, including the starting values, and no rate */
        o.optimizer = (struct optimizer){.kind = OPTIMIZER_cocob, .rate = RATE_AUTO, .alpha = 100};
        break;
    case 8: /* starting values for pull beside one moment */
        o.optimizer = (struct optimizer){
            .kind = OPTIMIZER_adam, .rate = 0.003, .pull = 3, .beta2 = 0.999, .epsilon = 1e-8};
        break;
    case 9: /* later labels, with relative and scaled targets */
        o.architecture.output = (struct output){.loss = LOSS_squared,
                                                .size = 2,
                                                .target = TARGET_LATER,
                                                .relative = RELATIVE_TRUE,
                                                .patience = 6,
                                                .scale = SCALE_STANDARD,
                                                .limit = 30};
        o.keys = 2;
        break;
    case 10: /* several horizons */
        o.architecture.output.ahead = (struct ahead){2, {2, 5}};
        o.architecture.output.relative = RELATIVE_TRUE;
        break;
    case 11: /* units apart, one with parameters and another output of its own */
        layer->cell = CELL_rtu;
        layer->radius = (struct radius){2, {0.9, 0.999}};
        o.architecture.layers[1] =
            (struct layer){.cell = CELL_lstm, .size = 5, .norm = NORM_layer, .diagonal = true};
        o.architecture.layer_count = 2;
        break;
    case 12: /* delay lines longer than the window, and residuals; the CPU engine's */
        *layer = (struct layer){.cell = CELL_dense, .size = 6, .norm = NORM_layer, .gain = 1.0F};
        o.architecture.layer_count = under_test_is_cpu() ? 3 : 1;
        o.architecture.layers[1] = o.architecture.layers[2] = *layer;
        if (under_test_is_cpu())
            layer->taps = o.architecture.layers[2].taps = 3;
        layer->dilation = 1;
        o.architecture.layers[1].residual = o.architecture.layers[2].residual = true;
        o.architecture.layers[2].dilation = 9;
        break;
    default: /* only parameters, updates at every step */
        o.architecture.input.scale = SCALE_NONE;
        o.architecture.input.hold = false;
        o.optimizer = (struct optimizer){.kind = OPTIMIZER_sgd, .rate = 0.05};
        o.window = o.stride = 1;
        break;
    }
    return o;
}

/* Stops after `stop` examples; the resumed run continues as if uninterrupted. The run that
   resumes after writing is not disturbed, either. */
static void resume_at(const struct workload *workload, size_t stop) {
    struct checkpoint_report report;
    struct error error;
    struct run *whole = run_open(workload), *first = run_open(workload);
    struct run *second = run_open(workload);
    take(whole, workload, 0, stop);
    size_t observed = whole->observations.count;
    take(whole, workload, stop, EXAMPLES - stop);
    open_state(first);
    take(first, workload, 0, stop);
    save(first, workload);
    checkpoint_close(&first->checkpoint);
    take(first, workload, stop, EXAMPLES - stop);
    assert_same_observations(&whole->observations, &first->observations);
    open_state(second);
    if (load(second, workload, &report, &error) != 1)
        fail_msg("%s", error.text);
    assert_string_equal(report.warning, "");
    assert_int_equal(report.examples, stop);
    take(second, workload, stop, EXAMPLES - stop);
    struct observations rest = whole->observations;
    rest.list += observed;
    rest.count -= observed;
    assert_same_observations(&rest, &second->observations);
    assert_same_learners(whole, second, workload);
    run_close(whole);
    run_close(first);
    run_close(second);
}

static void goes_on_with_the_same_bits(void **unused) {
    /* Other engines take a hundred times as long: two places to stop are enough. */
    bool cpu = under_test_is_cpu();
    size_t first = cpu ? 0 : EXAMPLES / 3, by = cpu ? EXAMPLES / 8 : EXAMPLES / 3;
    for (size_t which = 0; which < CASES; which++) {
        struct workload_options options = resumed_case(which);
        struct workload *workload = workload_open(&options);
        for (size_t stop = first; stop <= EXAMPLES - first; stop += by)
            resume_at(workload, stop);
        workload_close(&workload);
    }
}

static void set_rates_survive_unless_reconfigured(void **unused) {
    struct workload_options options = sensor();
    struct workload *workload = workload_open(&options);
    struct checkpoint_report report;
    struct run *run = run_open_with_state(workload);
    assert_int_equal(learner_set_rate(run->learner, LEARNER_ALL, 0.5, NULL), 0);
    assert_int_equal(learner_set_clip(run->learner, LEARNER_ALL, 0.25, NULL), 0);
    workload->config.learning.optimizer.rate = 0.5; /* as config_set does */
    save(run, workload);
    run_close(run);
    workload->config.learning.optimizer.rate = options.optimizer.rate;
    run = run_open_with_state(workload);
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_true(learner_rate(run->learner) == 0.5);
    assert_true(learner_clip(run->learner) == 0.25);
    run_close(run);
    workload->config.learning.optimizer.rate = 0.125;
    run = run_open_with_state(workload);
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_true(learner_rate(run->learner) == 0.5);
    assert_int_equal(
        learner_configure(run->learner, 0, 0.125, workload->config.learning.clip, NULL), 0);
    assert_true(learner_rate(run->learner) == 0.125);
    assert_true(learner_clip(run->learner) == 0.25);
    assert_int_equal(learner_set_rate(run->learner, LEARNER_ALL, 0.5, NULL), 0);
    assert_int_equal(learner_reset(run->learner, NULL), 0);
    assert_true(learner_rate(run->learner) == 0.125);
    assert_true(learner_clip(run->learner) == workload->config.learning.clip);
    run_close(run);
    workload_close(&workload);
}

/* ---- Invalid files ---- */

static unsigned char *read_file(const char *path, size_t *size) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const void *bytes, size_t size) {
    unlink(path); /* the previous checkpoint may be the same file */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Resuming fails with an error that contains these words. */
static void assert_refused(struct run *run, const struct workload *workload, int status,
                           const char *const *words) {
    struct checkpoint_report report;
    struct error error;
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    assert_int_equal(load(run, workload, &report, &error), -1);
    assert_int_equal(error.status, status);
    for (; *words; words++)
        if (!strstr(error.text, *words))
            fail_msg("\"%s\" is not in: %s", *words, error.text);
}

/* The newest checkpoint is damaged: the previous one is resumed, with a warning. The damaged
   file stays unchanged, first in place, then under another name. */
static void assert_replaced(struct run *run, const struct workload *workload,
                            const unsigned char *bytes, size_t size) {
    static const char *const words[] = {"checkpoint.safetensors",
                                        "checkpoint.damaged-1.safetensors", "10 examples",
                                        "replayed from the journal", NULL};
    struct checkpoint_report report;
    struct error error;
    size_t kept_size;
    char aside[PATH_SIZE + 64];
    snprintf(aside, sizeof aside, "%s", file_in_state("checkpoint.damaged-1.safetensors"));
    write_file(file_in_state("checkpoint.safetensors"), bytes, size);
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    if (load(run, workload, &report, &error) != 1)
        fail_msg("%s", error.text);
    assert_int_equal(report.examples, 10);
    assert_int_equal(learner_counters(run->learner).examples, 10);
    for (size_t n = 0; words[n]; n++)
        if (!strstr(report.warning, words[n]))
            fail_msg("\"%s\" is not in: %s", words[n], report.warning);
    assert_int_equal(access(file_in_state("checkpoint.safetensors"), F_OK), 0);
    assert_int_equal(access(aside, F_OK), -1);
    struct checkpoint_kept list[CHECKPOINT_KEEP_MAX + 1];
    assert_int_equal(checkpoint_list(run->checkpoint, list), 1);
    assert_string_equal(list[0].name, "checkpoint.previous.safetensors");
    assert_int_equal(checkpoint_set_aside(run->checkpoint, NULL), 0);
    assert_int_equal(access(file_in_state("checkpoint.safetensors"), F_OK), -1);
    unsigned char *kept = read_file(aside, &kept_size);
    assert_int_equal(kept_size, size);
    assert_memory_equal(kept, bytes, size);
    free(kept);
    unlink(aside);
}

static void replaces_every_damage(void **unused) {
    enum { DENSE = 700, APART = 61, PAGE = 4096 };
    struct workload *workload = sensor_workload();
    workload->config.journal.enabled = true;
    struct run *run = write_two(workload);
    size_t size;
    unsigned char *bytes = read_file(file_in_state("checkpoint.safetensors"), &size);
    for (size_t n = 0; n < size; n += n < DENSE || n + DENSE > size ? 7 : APART) {
        bytes[n] ^= 0x10;
        assert_replaced(run, workload, bytes, size);
        bytes[n] ^= 0x10;
    }
    for (size_t lost = 1; lost <= PAGE && lost < size; lost++)
        assert_replaced(run, workload, bytes, size - lost);
    assert_replaced(run, workload, bytes, 0);
    bytes[size] = 0;
    assert_replaced(run, workload, bytes, size + 1);
    free(bytes);
    run_close(run);
    workload_close(&workload);
}

/* The file may belong to another user after a restore: it is valid, and keeps its name. */
static void refuses_what_it_may_not_read(void **unused) {
    static const char *const words[] = {"checkpoint.safetensors", "Permission denied",
                                        "readable for the daemon's user", NULL};
    if (geteuid() == 0)
        skip(); /* this user may read everything */
    struct workload *workload = sensor_workload();
    struct run *run = write_two(workload);
    assert_int_equal(chmod(file_in_state("checkpoint.safetensors"), 0), 0);
    assert_refused(run, workload, EX_IOERR, words);
    assert_int_equal(access(file_in_state("checkpoint.safetensors"), F_OK), 0);
    run_close(run);
    workload_close(&workload);
}

/* A second damaged file does not replace the first. */
static void keeps_every_damaged_file(void **unused) {
    struct workload *workload = sensor_workload();
    struct checkpoint_report report;
    struct run *run = write_two(workload);
    for (int n = 0; n < 2; n++) {
        write_file(file_in_state("checkpoint.safetensors"), "damaged", n);
        learner_close(&run->learner);
        open_learner(run, workload, under_test_ops());
        assert_int_equal(load(run, workload, &report, NULL), 1);
        assert_non_null(strstr(report.warning, "lost without a journal"));
        assert_int_equal(checkpoint_set_aside(run->checkpoint, NULL), 0);
    }
    assert_int_equal(unlink(file_in_state("checkpoint.damaged-1.safetensors")), 0);
    assert_int_equal(unlink(file_in_state("checkpoint.damaged-2.safetensors")), 0);
    run_close(run);
    workload_close(&workload);
}

/* Writing the next checkpoint renames a damaged one first. */
static void never_replaces_a_damaged_file(void **unused) {
    static const char damaged[] = "damaged";
    struct workload *workload = sensor_workload();
    struct checkpoint_report report;
    struct run *run = write_two(workload);
    size_t size;
    write_file(file_in_state("checkpoint.safetensors"), damaged, sizeof damaged);
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    assert_int_equal(load(run, workload, &report, NULL), 1);
    save(run, workload);
    unsigned char *kept = read_file(file_in_state("checkpoint.damaged-1.safetensors"), &size);
    assert_int_equal(size, sizeof damaged);
    assert_memory_equal(kept, damaged, size);
    free(kept);
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_string_equal(report.warning, "");
    assert_int_equal(unlink(file_in_state("checkpoint.damaged-1.safetensors")), 0);
    run_close(run);
    workload_close(&workload);
}

static void refuses_damage_without_another(void **unused) {
    struct workload *workload = sensor_workload();
    struct run *run = write_two(workload);
    size_t size;
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s", file_in_state("checkpoint.safetensors"));
    unsigned char *bytes = read_file(path, &size);
    write_file(path, bytes, size - 1);
    static const char *const both[] = {"nor can the previous one", "move both away", NULL};
    write_file(file_in_state("checkpoint.previous.safetensors"), bytes, size / 2);
    assert_refused(run, workload, EX_IOERR, both);
    static const char *const none[] = {"no previous", "start from scratch", NULL};
    unlink(file_in_state("checkpoint.previous.safetensors"));
    assert_refused(run, workload, EX_IOERR, none);

    write_file(path, bytes, size);
    struct checkpoint_report report;
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    assert_int_equal(load(run, workload, &report, NULL), 1);
    free(bytes);
    run_close(run);
    workload_close(&workload);
}

static void refuses_another_configuration(void **unused) {
    struct workload_options options = sensor();
    struct workload *workload = workload_open(&options);
    struct run *run = write_two(workload);
    options.window = 9;
    options.seed = 99;
    struct workload *other = workload_open(&options);
    static const char *const words[] = {"checkpoint.safetensors",
                                        "another configuration",
                                        "lstm 6",
                                        "window 5",
                                        "window 9",
                                        "state.directory",
                                        NULL};
    assert_refused(run, other, EX_CONFIG, words);
    run_close(run);
    workload_close(&workload);
    workload_close(&other);
}

static void goes_on_from_the_previous_one(void **unused) {
    struct workload *workload = sensor_workload();
    struct checkpoint_report report;
    struct run *run = write_two(workload);
    char newest[PATH_SIZE + 64];
    snprintf(newest, sizeof newest, "%s", file_in_state("checkpoint.safetensors"));
    assert_int_equal(rename(newest, file_in_state("aside")), 0);
    learner_close(&run->learner);
    open_learner(run, workload, under_test_ops());
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_int_equal(report.examples, 10);
    assert_int_equal(learner_counters(run->learner).examples, 10);
    assert_non_null(strstr(report.warning, "previous"));
    unlink(file_in_state("checkpoint.previous.safetensors"));
    assert_int_equal(load(run, workload, &report, NULL), 0);
    run_close(run);
    workload_close(&workload);
}

static const char *describe_other(const struct engine *engine) {
    (void)engine;
    return "another machine";
}

static void warns_of_another_device(void **unused) {
    struct workload *workload = sensor_workload();
    struct checkpoint_report report;
    struct run *run = write_two(workload);
    struct engine_ops other = cpu_engine;
    other.describe = describe_other;
    learner_close(&run->learner);
    open_learner(run, workload, &other);
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_non_null(strstr(report.warning, "another machine"));
    run_close(run);
    workload_close(&workload);
}

int main(void) {
    /* The content of a file and the checks do not depend on the engine. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replaces_every_damage, make_state, remove_state),
        cmocka_unit_test_setup_teardown(refuses_what_it_may_not_read, make_state, remove_state),
        cmocka_unit_test_setup_teardown(never_replaces_a_damaged_file, make_state, remove_state),
        cmocka_unit_test_setup_teardown(keeps_every_damaged_file, make_state, remove_state),
        cmocka_unit_test_setup_teardown(refuses_damage_without_another, make_state, remove_state),
        cmocka_unit_test_setup_teardown(refuses_another_configuration, make_state, remove_state),
        cmocka_unit_test_setup_teardown(goes_on_from_the_previous_one, make_state, remove_state),
        cmocka_unit_test_setup_teardown(warns_of_another_device, make_state, remove_state),
    };
    const struct CMUnitTest engine_tests[] = {
        cmocka_unit_test_setup_teardown(goes_on_with_the_same_bits, make_state, remove_state),
        cmocka_unit_test_setup_teardown(set_rates_survive_unless_reconfigured, make_state,
                                        remove_state),
    };
    under_test_above_engines();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + under_test_run(engine_tests);
}
