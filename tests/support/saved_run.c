#include "saved_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "under_test.h"

char state[PATH_SIZE];
static char base[PATH_SIZE - 64]; /* the temporary directory */

const char *file_in_state(const char *name) {
    static char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", state, name);
    return path;
}

int make_state(void **unused) {
    (void)unused;
    const char *temporary = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/runnel-checkpoint-XXXXXX", temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(base));
    snprintf(state, sizeof state, "%s/deep/state", base);
    return 0;
}

int remove_state(void **unused) {
    (void)unused;
    static const char *const names[] = {"lock", "checkpoint.safetensors",
                                        "checkpoint.previous.safetensors", "checkpoint.tmp",
                                        "aside"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        unlink(file_in_state(names[n]));
    rmdir(state);
    *strrchr(state, '/') = '\0';
    rmdir(state);
    return rmdir(base);
}

void open_learner(struct run *run, const struct workload *workload,
                  const struct engine_ops *engine) {
    struct error error;
    /* A label is not measured: the next example is in its place, which no checkpoint keeps. */
    bool later = workload->config.architecture.output.target == TARGET_LATER;
    run->observations = (struct observations){.list = run->list,
                                              .capacity = OBSERVATIONS,
                                              .inputs = workload->x_size,
                                              .outputs = workload->model.outputs,
                                              .layers = 1,
                                              .measure_every = later ? 0 : 3};
    struct learner_observer observer = observations_observer(&run->observations);
    struct config config = workload->config;
    snprintf(config.device, sizeof config.device, "%s", under_test_device());
    if (learner_open(&run->learner, &config, &workload->model, engine, 16, &observer, &error))
        fail_msg("%s", error.text);
    learner_want_outputs(run->learner, true);
}

struct run *run_open(const struct workload *workload) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    open_learner(run, workload, under_test_ops());
    return run;
}

void open_state(struct run *run) {
    struct error error;
    if (checkpoint_open(&run->checkpoint, state, &error))
        fail_msg("%s", error.text);
}

struct run *run_open_with_state(const struct workload *workload) {
    struct run *run = run_open(workload);
    open_state(run);
    return run;
}

void run_close(struct run *run) {
    checkpoint_close(&run->checkpoint);
    learner_close(&run->learner);
    free(run);
}

void take(struct run *run, const struct workload *workload, size_t first, size_t count) {
    for (size_t n = first; n < first + count; n++)
        assert_int_equal(learner_take(run->learner, &workload->examples[n], NULL), 0);
    assert_int_equal(learner_flush(run->learner, NULL), 0);
}

void save(struct run *run, const struct workload *workload) {
    struct checkpoint_report report;
    struct error error;
    struct stat status;
    if (checkpoint_start(run->checkpoint, &workload->config, run->learner, &error))
        fail_msg("%s", error.text);
    assert_true(checkpoint_busy(run->checkpoint));
    if (checkpoint_finish(run->checkpoint, &report, &error) != 1)
        fail_msg("%s", error.text);
    assert_false(checkpoint_busy(run->checkpoint));
    assert_int_equal(report.examples, learner_counters(run->learner).examples);
    assert_int_equal(stat(report.path, &status), 0);
    assert_int_equal(report.bytes, status.st_size);
}

int load(struct run *run, const struct workload *workload, struct checkpoint_report *report,
         struct error *error) {
    return checkpoint_load(run->checkpoint, &workload->config, run->learner, report, error);
}

struct workload_options sensor(void) {
    return (struct workload_options){
        .architecture =
            {.input = {.kind = INPUT_REAL, .size = 2, .scale = SCALE_STANDARD, .hold = true},
             .layers = {{.cell = CELL_lstm, .size = 6, .norm = NORM_layer, .gain = 1}},
             .layer_count = 1,
             .output = {.loss = LOSS_gaussian, .size = 2, .target = TARGET_NEXT}},
        .window = 5,
        .stride = 3,
        .max_streams = 3,
        .optimizer =
            {.kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .examples = EXAMPLES,
        .keys = 4,
        .steps = 4,
        .end = 0.1,
        .frozen = 0.1,
        .missing = 0.2,
        .seed = 11,
    };
}

struct workload *sensor_workload(void) {
    struct workload_options options = sensor();
    return workload_open(&options);
}

struct run *write_two(const struct workload *workload) {
    struct run *run = run_open_with_state(workload);
    take(run, workload, 0, 10);
    save(run, workload);
    take(run, workload, 10, 10);
    save(run, workload);
    return run;
}
