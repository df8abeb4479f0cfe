#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

enum { SLOTS = 2, SEED = 23, NUMBERS = 2048, AT_ONCE = 3 };

static void put(FILE *file, const void *bytes, size_t size) {
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

static void gather(struct fixture *f, size_t t) {
    union value x[NUMBERS], y[NUMBERS];
    size_t window = f->options.window, positions = window + 1, slot = t % SLOTS, step = t / SLOTS;
    fixture_random_input(f, x);
    fixture_random_target(f, y);
    fixture_step(f, slot, step % positions, x);
    fixture_score(f, slot, step % positions, y, true);
    if (step + 1 >= window)
        fixture_update(f, slot, (step + 1 - window) % positions, window, window, window, false);
    if (f->model.solved)
        fixture_solve(f, slot, y);
    fixture_measure(f, slot);
}

/* Runs of a window's steps: one that is learned from as it is, and one whose last step is scored
   late, when the next sequence's steps use its position again: they clear its mark. */
static void gather_runs(struct fixture *f) {
    union value x[NUMBERS], y[NUMBERS];
    size_t window = f->options.window;
    fixture_forget(f, 0);
    for (size_t t = 0; t < window; t++) {
        fixture_random_input(f, x);
        fixture_random_target(f, y);
        fixture_step(f, 0, t, x);
        fixture_score(f, 0, t, y, true);
    }
    fixture_update(f, 0, 0, window, window, window, true);
    fixture_play(f, 0.01, 1.0);
    fixture_forget(f, 0);
    for (size_t t = 0; t < window; t++)
        fixture_step(f, 0, t, x);
    fixture_play(f, 0.01, 1.0);
    fixture_score(f, 0, window - 1, y, true);
    fixture_forget(f, 0);
    for (size_t t = 0; t < window; t++)
        fixture_step(f, 0, t, x);
    fixture_play(f, 0.01, 1.0);
}

static void put_slot(FILE *file, struct fixture *f) {
    size_t size = slot_record_size(&f->model, f->options.window);
    float *record = calloc(size, sizeof *record);
    assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
    put(file, record, size * sizeof *record);
    free(record);
}

static void put_results(FILE *file, const struct fixture *f, const struct plan *p) {
    put(file, f->losses, p->scores * sizeof *f->losses);
    put(file, f->outputs, p->steps * f->model.outputs * sizeof *f->outputs);
    for (size_t n = 0; n < p->updates; n++) {
        assert_true(f->updates[n].applied);
        put(file, &f->updates[n].gradient_norm, sizeof f->updates[n].gradient_norm);
        put(file, &f->updates[n].update_ratio, sizeof f->updates[n].update_ratio);
    }
    put(file, f->measures, p->measures * f->model.architecture.layer_count * sizeof *f->measures);
}

static void put_parameters(FILE *file, struct fixture *f) {
    float *values = calloc(f->model.parameters, sizeof *values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    put(file, values, f->model.parameters * sizeof *values);
    free(values);
}

static void play(FILE *file, const struct played *played) {
    struct optimizer optimizer = fixture_optimizer(played->optimizer, 0.01);
    if (optimizer_kind(played->optimizer)->rateless)
        optimizer.rate = RATE_AUTO;
    struct fixture *f;
    fixture_open(&f, &played->model, &optimizer, played->window, SLOTS, SEED);
    for (size_t t = 0; t < played->steps * SLOTS; t++) {
        gather(f, t);
        if (t % AT_ONCE == 0 || t + 1 == played->steps * SLOTS) {
            const struct plan p = f->plan;
            fixture_play(f, 0.01, 1.0);
            put_results(file, f, &p);
        }
    }
    put_parameters(file, f);
    gather_runs(f);
    put_parameters(file, f);
    put_slot(file, f);
    fixture_close(&f);
}

FILE *played_results(const struct played *played, const char *const *variables) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (; *variables; variables += 2)
            setenv(variables[0], variables[1], 1);
        play(file, played);
        fclose(file);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: the engine ended with status %d", played->name, status);
    rewind(file);
    return file;
}

void played_same(FILE *a, FILE *b, const char *what) {
    long count = 0;
    rewind(a);
    rewind(b);
    for (int left, right; (left = getc(a)) == (right = getc(b)); count++)
        if (left == EOF) {
            assert_true(count > 0);
            return;
        }
    fail_msg("%s: byte %ld of the results is another", what, count);
}
