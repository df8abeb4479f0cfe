#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

enum { SLOTS = 2, SEED = 23, NUMBERS = 1 << 14, AT_ONCE = 3, OTHERS = 3 };

/* The results of a member, each kind in one row, however its plans were cut. */
enum { ROW_LOSSES, ROW_OUTPUTS, ROW_UPDATES, ROW_MEASURES, ROWS };

struct row {
    FILE *file;
    char *bytes;
    size_t size;
};

struct members {
    const struct played *played;
    size_t count;
    struct fixture *fixtures[FIXTURES_TOGETHER];
    union value x[FIXTURES_TOGETHER][NUMBERS], y[FIXTURES_TOGETHER][NUMBERS];
    struct row rows[FIXTURES_TOGETHER][ROWS];
    double rates[FIXTURES_TOGETHER], clips[FIXTURES_TOGETHER];
};

static void put(FILE *file, const void *bytes, size_t size) {
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

/* Whether a periodic event of a member is due at step t. */
static bool comes(const struct members *all, size_t m, size_t t, size_t every) {
    return !all->played->out_of_step || (t + m) % every > 0;
}

/* The targets at a step: of the step itself, and of older ones at their horizons. */
static void score_horizons(struct members *all, size_t m, size_t slot, size_t step) {
    struct fixture *f = all->fixtures[m];
    size_t positions = model_ring(&f->model, f->options.window);
    for (size_t h = 0; h < f->model.horizons; h++) {
        size_t before = output_ahead(&f->model.architecture.output, h) - 1;
        if (step >= before)
            fixture_score_horizon(f, slot, (step - before) % positions, h, all->y[m]);
    }
}

/* An update, with a probe or without. */
static void gather_update(struct fixture *f, size_t slot, size_t first, bool fresh, bool probe) {
    size_t window = f->options.window;
    fixture_update(f, slot, first, window, window, window, fresh);
    f->operations[f->plan.count - 1].probe = probe;
}

static void gather(struct members *all, size_t m, size_t t) {
    enum { REST_EVERY = 4, UPDATE_EVERY = 3, MEASURE_EVERY = 2, PROBE_EVERY = 5 };
    struct fixture *f = all->fixtures[m];
    size_t window = f->options.window, slot = t % SLOTS, step = t / SLOTS;
    size_t positions = model_ring(&f->model, window);
    bool enough = step + 1 >= window && comes(all, m, t, UPDATE_EVERY);
    fixture_random_input(f, all->x[m]);
    fixture_random_target(f, all->y[m]);
    fixture_step(f, slot, step % positions, all->x[m]);
    score_horizons(all, m, slot, step);
    if (enough) {
        fixture_update(f, slot, (step + 1 - window) % positions, window, window, window, false);
        f->operations[f->plan.count - 1].probe = t % 2 && comes(all, m, t, PROBE_EVERY);
    }
    if (f->model.solved && comes(all, m, t, REST_EVERY))
        fixture_solve(f, slot, all->y[m]);
    if (comes(all, m, t, MEASURE_EVERY))
        fixture_measure(f, slot);
}

/* A late score marks a position that later steps use again: they clear its mark. In the same
   sequence there are as many of them as positions. */
static void gather_run(struct members *all, size_t m, size_t run) {
    struct fixture *f = all->fixtures[m];
    size_t window = f->options.window, positions = model_ring(&f->model, window);
    size_t first = run == 3 ? window : 0, steps = run == 3 ? positions : window;
    if (run >= 2)
        fixture_score(f, 0, window - 1, all->y[m], true);
    if (run < 3)
        fixture_forget(f, 0);
    for (size_t t = 0; t < steps; t++) {
        if (run == 0) {
            fixture_random_input(f, all->x[m]);
            fixture_random_target(f, all->y[m]);
        }
        fixture_step(f, 0, (first + t) % positions, all->x[m]);
        if (run == 0)
            fixture_score(f, 0, t, all->y[m], true);
    }
    if (run == 0)
        gather_update(f, 0, 0, true, true);
}

static void put_slot(FILE *file, struct fixture *f) {
    size_t size = slot_record_size(&f->model, f->options.window);
    float *record = calloc(size, sizeof *record);
    assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
    put(file, record, size * sizeof *record);
    free(record);
}

static void put_results(struct row *rows, const struct fixture *f, const struct plan *p) {
    put(rows[ROW_LOSSES].file, f->losses, p->scores * sizeof *f->losses);
    put(rows[ROW_OUTPUTS].file, f->outputs, p->steps * f->model.outputs * sizeof *f->outputs);
    for (size_t n = 0; n < p->updates; n++) {
        FILE *file = rows[ROW_UPDATES].file;
        assert_true(f->updates[n].applied);
        put(file, &f->updates[n].gradient_norm, sizeof f->updates[n].gradient_norm);
        put(file, &f->updates[n].update_ratio, sizeof f->updates[n].update_ratio);
        put(file, &f->updates[n].plasticity, sizeof f->updates[n].plasticity);
        put(file, &f->updates[n].growth, sizeof f->updates[n].growth);
        put(file, &f->updates[n].layer, sizeof f->updates[n].layer);
    }
    put(rows[ROW_MEASURES].file, f->measures,
        p->measures * f->model.architecture.layer_count * sizeof *f->measures);
}

static void open_rows(struct row *rows) {
    for (size_t k = 0; k < ROWS; k++)
        assert_non_null(rows[k].file = open_memstream(&rows[k].bytes, &rows[k].size));
}

static void put_rows(FILE *file, struct row *rows) {
    for (size_t k = 0; k < ROWS; k++) {
        fclose(rows[k].file);
        put(file, rows[k].bytes, rows[k].size);
        free(rows[k].bytes);
    }
}

/* The parameters and moments, and the statistics over updates. */
static void put_learned(FILE *file, struct fixture *f) {
    size_t moments = optimizer_moments(&f->options.optimizer);
    size_t activities = engine_activity_size(&f->model);
    float *values = calloc(f->model.parameters, sizeof *values);
    double *activity = calloc(activities, sizeof *activity);
    for (size_t k = 0; k < 1 + moments; k++) {
        fixture_read(f, k ? ENGINE_MOMENTS + k - 1 : ENGINE_PARAMETERS, values);
        put(file, values, f->model.parameters * sizeof *values);
    }
    assert_int_equal(f->ops->read(f->engine, ENGINE_ACTIVITY, 0, activity, NULL), 0);
    put(file, activity, activities * sizeof *activity);
    free(activity);
    free(values);
}

/* A member with its own start values, rate, clip, and constants of optimizer and norms. */
static void open_member(struct members *all, size_t m) {
    const double rate = 0.01, less = 0.01;
    const struct played *played = all->played;
    const struct optimizer_kind *kind = optimizer_kind(played->optimizer);
    struct optimizer optimizer = fixture_optimizer(played->optimizer, rate);
    struct architecture model =
        played->other && m % OTHERS == OTHERS - 1 ? *played->other : played->model;
    for (const struct kind_key *key = kind->keys; key->name && m; key++)
        if (!key->boolean)
            *(double *)(void *)((char *)&optimizer + key->offset) *= 1.0 - less * (double)m;
    for (size_t n = 0; n < model.layer_count && m; n++)
        model.layers[n].norm_momentum = 1.0F / (float)(m + 1);
    all->rates[m] = rate / (double)(m + 1);
    all->clips[m] = 1.0 / (double)(m + 1);
    optimizer.pull = played->pull;
    optimizer.rate = kind->rateless ? RATE_AUTO : all->rates[m];
    fixture_open(&all->fixtures[m], &model, &optimizer, played->window, SLOTS, SEED + m);
}

/* Plays the gathered plans. */
static void play_all(struct members *all) {
    struct plan plans[FIXTURES_TOGETHER];
    for (size_t m = 0; m < all->count; m++)
        plans[m] = all->fixtures[m]->plan;
    if (all->played->together)
        fixture_play_together(all->fixtures, all->count, all->rates, all->clips);
    for (size_t m = 0; m < all->count && !all->played->together; m++)
        if (plans[m].count)
            fixture_play(all->fixtures[m], all->rates[m], all->clips[m]);
    for (size_t m = 0; m < all->count; m++)
        put_results(all->rows[m], all->fixtures[m], &plans[m]);
}

static void play(FILE *file, const struct played *played) {
    struct members *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->played = played;
    all->count = played->members ? played->members : 1;
    size_t at_once = played->at_once ? played->at_once : AT_ONCE;
    for (size_t m = 0; m < all->count; m++) {
        open_member(all, m);
        open_rows(all->rows[m]);
    }
    for (size_t t = 0; t < played->steps * SLOTS; t++) {
        bool last = t + 1 == played->steps * SLOTS;
        for (size_t m = 0; m < all->count; m++)
            if (!played->out_of_step || t % (all->count + 2) != m)
                gather(all, m, t);
        if (t % at_once == at_once - 1 || (last && at_once < SIZE_MAX))
            play_all(all);
    }
    for (size_t run = 0; run < played->runs; run++) {
        for (size_t m = 0; m < all->count; m++)
            gather_run(all, m, run);
        if (at_once < SIZE_MAX)
            play_all(all);
    }
    play_all(all);
    for (size_t m = 0; m < all->count; m++) {
        put_rows(file, all->rows[m]);
        put_learned(file, all->fixtures[m]);
        put_slot(file, all->fixtures[m]);
        fixture_close(&all->fixtures[m]);
    }
    free(all);
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
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure ends this process, not its test alone */
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

FILE *played_in_scope(const struct played *played, const char *scope, const char *multiprocessors,
                      const char *seed) {
    return played_results(played, (const char *[]){"RUNNEL_SCOPE", scope, "HOSTCUDA_SMS",
                                                   multiprocessors, "HOSTCUDA_SEED", seed, NULL});
}

void played_check(FILE *expected, const struct played *played, const char *scope,
                  const char *multiprocessors, const char *seed) {
    char what[128];
    snprintf(what, sizeof what, "%s: RUNNEL_SCOPE=%s HOSTCUDA_SMS=%s HOSTCUDA_SEED=%s",
             played->name, scope, multiprocessors, seed);
    FILE *found = played_in_scope(played, scope, multiprocessors, seed);
    played_same(expected, found, what);
    fclose(found);
}
