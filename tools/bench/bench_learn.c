#include "bench_learn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "bench_latency.h"
#include "common/clock.h"
#include "common/error.h"
#include "config/config.h"
#include "learner/learner_export.h"

static const char KEY[] = "bench";

struct bench_learner {
    const struct model *model;
    const struct bench_data *data;
    const char *digest;
    struct learner *learner;
    size_t stride;
    uint64_t next; /* example */
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
                       double *example, struct error *error) {
    uint64_t block = common_multiple(learner->stride, together), count = 0;
    if (bench_learner_run(learner, learner->stride, together, error))
        return -1;
    double begin = clock_seconds(), now = begin;
    for (; now < begin + seconds; now = clock_seconds(), count += block)
        if (bench_learner_run(learner, block, together, error))
            return -1;
    *example = (now - begin) / (double)count;
    return 0;
}

int bench_learner_latency(struct bench_learner *learner, double seconds,
                          struct latencies *latencies, struct error *error) {
    double first = clock_seconds(), begin = first;
    while (begin < first + seconds) {
        if (bench_learner_run(learner, 1, 1, error))
            return -1;
        double end = clock_seconds();
        latencies_add(latencies, end - begin);
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

size_t bench_learner_threads(const struct bench_learner *learner) {
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
