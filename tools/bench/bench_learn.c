#include "bench_learn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "bench_series.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/threads.h"
#include "config/config.h"
#include "cpu/memory.h"
#include "cpu/network.h"
#include "engine/engine_threads.h"
#include "learner/learner_export.h"

static const char KEY[] = "bench";
static const double MICROSECONDS = 1e6;

struct bench_learner {
    const struct model *model;
    const struct bench_data *data;
    const char *digest;
    struct learner *learner;
    size_t stride;
    uint64_t next; /* next example */
    struct stopwatch stopwatch;
    struct bench_learned learned;
};

static void observe(void *context, const struct learned *learned) {
    struct bench_learner *bench = context;
    bench->learned.examples++;
    bench->learned.updates += learned->updates;
    bench->learned.skipped += learned->skipped;
    if (learned->scored)
        bench->learned.loss = learned->loss;
}

int bench_learner_open(struct bench_learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       const struct bench_data *data, size_t plan, struct error *error) {
    struct bench_learner *opened = *learner = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, EX_OSERR, "out of memory for a learner");
    opened->model = model;
    opened->data = data;
    opened->digest = config->digest;
    opened->stride = config->learning.stride;
    struct learner_observer observer = {.context = opened, .learned = observe};
    if (learner_open(&opened->learner, config, model, engine, plan, &observer, error)) {
        bench_learner_close(learner);
        return -1;
    }
    opened->learned.wall = engine != &cpu_engine || bench_engine_threads(opened) > 1;
    stopwatch_open(&opened->stopwatch, opened->learned.wall);
    return 0;
}

void bench_learner_close(struct bench_learner **learner) {
    if (*learner)
        learner_close(&(*learner)->learner);
    free(*learner);
    *learner = NULL;
}

int bench_learner_run(struct bench_learner *learner, uint64_t count, size_t together,
                      struct error *error) {
    for (uint64_t taken = 1; taken <= count; taken++) {
        struct example example =
            bench_data_example(learner->data, &learner->model->architecture, KEY, learner->next++);
        if (learner_take(learner->learner, &example, error) ||
            (taken % together == 0 && learner_flush(learner->learner, error)))
            return -1;
    }
    return learner_flush(learner->learner, error);
}

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

int bench_learner_time(struct bench_learner *learner, double seconds, size_t together,
                       struct series *us, struct error *error) {
    uint64_t block = common_multiple(learner->stride, together);
    if (bench_learner_run(learner, learner->stride, together, error))
        return -1;
    double begin = clock_seconds(), ran = clock_thread_seconds(), now;
    stopwatch_lap(&learner->stopwatch);
    do {
        if (bench_learner_run(learner, block, together, error))
            return -1;
        series_add(us, stopwatch_lap(&learner->stopwatch) / (double)block * MICROSECONDS);
        now = clock_seconds();
    } while (now < begin + seconds);
    learner->learned.seconds += now - begin;
    learner->learned.ran += clock_thread_seconds() - ran;
    return 0;
}

int bench_learner_latency(struct bench_learner *learner, double seconds, struct series *latencies,
                          struct error *error) {
    double first = clock_seconds(), begin = first;
    while (begin < first + seconds) {
        if (bench_learner_run(learner, 1, 1, error))
            return -1;
        double end = clock_seconds();
        series_add(latencies, end - begin);
        begin = end;
    }
    return 0;
}

int bench_learner_export(struct bench_learner *learner, const char *path, struct error *error) {
    struct safetensors_memory memory;
    if (learner_export(learner->learner, learner->digest, &memory, error))
        return -1;
    FILE *file = fopen(path, "wbe");
    bool good = file && fwrite(memory.bytes, 1, memory.size, file) == memory.size;
    if (file)
        good = fclose(file) == 0 && good;
    free(memory.bytes);
    return good ? 0 : error_set(error, EX_IOERR, "%s: %s", path, strerror(errno));
}

struct bench_learned bench_learner_learned(const struct bench_learner *learner) {
    return learner->learned;
}

size_t bench_engine_threads(const struct bench_learner *learner) {
    return learner_thread_count(learner->learner);
}

const char *bench_learner_device(const struct bench_learner *learner) {
    return learner_device(learner->learner);
}

/* The engine describes itself as "cpu NAME, ...". */
void bench_learner_instructions(const struct bench_learner *learner, char *name, size_t size) {
    const char *text = learner_device(learner->learner), *space = strchr(text, ' ');
    const char *begin = space ? space + 1 : text;
    snprintf(name, size, "%.*s", (int)strcspn(begin, ","), begin);
}

/* On a GPU as "cuda NAME (..., scope NAME), ...". */
enum scope bench_learner_scope(const struct bench_learner *learner) {
    const char *text = strstr(learner_device(learner->learner), "scope ");
    int scope = text ? SCOPE_GRID : SCOPE_AUTO;
    while (scope && !strstr(text, scope_name((enum scope)scope)))
        scope--;
    return (enum scope)scope;
}

/* ---- Time of the engine's parts ---- */

struct bench_split {
    const struct bench_data *data;
    const struct kernels *kernels;
    struct threads *threads; /* threads that share the network; NULL: one */
    struct network network;
    struct optimizer optimizer;
    double clip;
    size_t window, stride;
    float *state;                /* (state,) before a window: zero */
    float *kept;                 /* data of the learning rule */
    const union value **inputs;  /* (window,) */
    const union value **targets; /* (window, horizons) */
    uint64_t updates;
    size_t next; /* row of the data */
    struct stopwatch stopwatch;
};

static const struct kernels *find_kernels(const char *instructions) {
#ifdef RUNNEL_X86
    if (strcmp(instructions, kernels_avx512.name) == 0)
        return &kernels_avx512;
    if (strcmp(instructions, kernels_avx2.name) == 0)
        return &kernels_avx2;
#else
    (void)instructions;
#endif
    return &kernels_baseline;
}

static int write_parameters(struct bench_split *split, const struct config *config,
                            const struct model *model, struct error *error) {
    struct network *n = &split->network;
    float *values = calloc(model->parameters, sizeof *values);
    int status = values ? 0 : error_set(error, EX_OSERR, "out of memory for the starting values");
    for (size_t i = 0; i < model->tensor_count && status == 0; i++) {
        const struct tensor *tensor = &model->tensors[i];
        status = model_initialize(model, tensor, config->seed, values, error);
        network_copy(n, n->parameters, tensor, values, false);
    }
    split->kernels->refresh(n);
    free(values);
    return status;
}

static size_t kept_bytes(const struct network *n) {
    return n->kept.rows * n->kept.row * sizeof(float);
}

int bench_split_open(struct bench_split **split, const struct config *config,
                     const struct model *model, const struct bench_data *data,
                     const char *instructions, struct error *error) {
    struct bench_split *opened = *split = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, EX_OSERR, "out of memory for a network");
    opened->data = data;
    opened->kernels = find_kernels(instructions);
    opened->optimizer = config->learning.optimizer;
    opened->clip = config->learning.clip;
    opened->window = config->learning.window;
    opened->stride = config->learning.stride;
    /* each of several members has its own */
    bool lone = !config->members_given || config->member_count < 2;
    if ((lone && engine_threads_open(&opened->threads, config, &cpu_engine, error)) ||
        network_open(&opened->network, model, config->learning.rule, opened->window,
                     optimizer_moments(&opened->optimizer), opened->threads, error) ||
        write_parameters(opened, config, model, error))
        goto fail;
    stopwatch_open(&opened->stopwatch, opened->threads);
    opened->state = memory_reserve(opened->network.state * sizeof *opened->state);
    opened->kept = memory_reserve(kept_bytes(&opened->network));
    opened->inputs = calloc(opened->window, sizeof *opened->inputs);
    opened->targets = calloc(opened->window * model->horizons, sizeof *opened->targets);
    if (opened->state && opened->kept && opened->inputs && opened->targets)
        return 0;
    error_set(error, EX_OSERR, "out of memory for a network");
fail:
    bench_split_close(split);
    return -1;
}

void bench_split_close(struct bench_split **split) {
    struct bench_split *s = *split;
    if (!s)
        return;
    memory_release(s->state, s->network.state * sizeof *s->state);
    memory_release(s->kept, kept_bytes(&s->network));
    network_close(&s->network);
    threads_close(&s->threads);
    free(s->inputs);
    free(s->targets);
    free(s);
    *split = NULL;
}

/* The next window of the data. With `target: next` an x is also the target of earlier steps. */
static void choose_window(struct bench_split *split) {
    const struct bench_data *data = split->data;
    const struct output *output = &split->network.model->architecture.output;
    size_t horizons = split->network.model->horizons;
    bool next = output_is_next(output) && !data->rows;
    for (size_t t = 0; t < split->window; t++) {
        size_t row = split->next;
        split->inputs[t] =
            data->rows ? data->rows + row * data->features : data->x + row * data->inputs;
        for (size_t h = 0; h < horizons; h++) {
            size_t following = (row + output_ahead(output, h)) % data->count;
            split->targets[t * horizons + h] =
                next ? data->x + following * data->inputs : data->y + row * data->targets;
        }
        split->next = (row + 1) % data->count;
    }
}

static void forward(struct bench_split *split, size_t first, size_t count) {
    struct network_steps steps = {first, count, split->state, split->inputs + first};
    split->kernels->forward(&split->network, &steps, 0);
}

static void add_lap(struct bench_split *split, struct series *us) {
    double seconds = stopwatch_lap(&split->stopwatch);
    series_add(us, seconds / (double)split->stride * MICROSECONDS);
}

/* Plays `stride` examples and one update, forward step by step, or all steps at once. */
static void play_cycle(struct bench_split *split, bool alone, const struct split_series *us) {
    size_t window = split->window, stride = split->stride;
    size_t terms = stride * split->network.model->horizons;
    struct network_steps steps = {0, window, split->state, split->inputs};
    struct network_targets targets = {window - stride, split->targets, terms};
    choose_window(split);
    stopwatch_lap(&split->stopwatch);
    if (alone)
        for (size_t t = 0; t < stride; t++)
            forward(split, t, 1);
    else
        forward(split, 0, stride);
    add_lap(split, alone ? us->forward : us->together);
    if (stride < window)
        split->kernels->forward(&split->network, &steps, targets.from);
    struct network_gradient g =
        split->kernels->backward(&split->network, &steps, &targets, split->kept);
    add_lap(split, us->backward);
    double norm = sqrt(g.squares);
    split->kernels->optimize(&split->network, &split->optimizer, split->optimizer.rate,
                             split->clip > 0 && norm > split->clip ? split->clip / norm : 1,
                             ++split->updates);
    add_lap(split, us->optimizer);
}

void bench_split_time(struct bench_split *split, double seconds, const struct split_series *us) {
    threads_pin_caller(split->threads);
    double begin = clock_seconds();
    do {
        play_cycle(split, true, us);
        play_cycle(split, false, us);
    } while (clock_seconds() < begin + seconds);
}
