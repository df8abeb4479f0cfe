/* Measures the handover of streams: the export of all of a learner's streams, their adoption by
   another one with a journal until that is durable, and their replay. Without a broker. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/example.h"
#include "common/options.h"
#include "config/config.h"
#include "engine/engines.h"
#include "learner/learner.h"
#include "model/model.h"
#include "store/carry.h"
#include "store/checkpoint.h"
#include "store/journal.h"

enum { STEPS = 20, PLAN = 256, KEY_SIZE = 32, OVERRIDE_SIZE = 64, STREAMS_MOST = 1 << 24 };

struct options {
    uint64_t streams;
    const char *directory;
};

struct side {
    struct learner *learner;
    struct checkpoint *checkpoint;
    struct journal *journal;
    struct carry *carry;
};

/* Blobs in one array. */
struct blobs {
    unsigned char *bytes;
    size_t size, capacity, count, *sizes;
};

static void observe(void *context, const struct learned *learned) {
    (void)context, (void)learned;
}

static int open_learner(struct side *side, const struct config *config, const struct model *model,
                        struct error *error) {
    struct engines_choice engine;
    const struct learner_observer observer = {.learned = observe};
    return engines_choose(&engine, config->device, config, error) ||
                   learner_open(&side->learner, config, model, engine.ops, PLAN, &observer, error)
               ? -1
               : 0;
}

static int open_journal(struct side *side, const char *directory, const struct config *config,
                        const struct model *model, struct error *error) {
    const struct journal_options options = {
        .sync = config->journal.sync,
        .keep = JOURNAL_KEEP_ALL,
        .input_bytes = config->architecture.input.size * sizeof(float),
        .target_bytes = model->target_size * sizeof(float),
        .steps_max = EXAMPLE_STEPS_MAX,
        .name = config->name,
        .digest = config->compatible,
    };
    return checkpoint_open(&side->checkpoint, directory, error) ||
                   journal_open(&side->journal, directory, &options, error)
               ? -1
               : 0;
}

static void close_side(struct side *side) {
    carry_close(&side->carry);
    journal_close(&side->journal);
    checkpoint_close(&side->checkpoint);
    learner_close(&side->learner);
}

static int learn(struct learner *learner, const struct config *config, uint64_t streams,
                 struct error *error) {
    float *x = calloc(config->architecture.input.size, sizeof *x);
    int status = x ? 0 : error_no_memory(error);
    for (uint64_t n = 0; status == 0 && n < STEPS * streams; n++) {
        char key[KEY_SIZE];
        for (size_t k = 0; k < config->architecture.input.size; k++)
            x[k] = sinf((float)(n / streams + k) + (float)(n % streams));
        const struct example example = {
            .key = key,
            .key_size = (size_t)snprintf(key, sizeof key, "stream-%07" PRIu64, n % streams),
            .steps = 1,
            .x = x,
            .learn = true,
        };
        status = learner_take(learner, &example, error);
    }
    free(x);
    return status ? -1 : learner_flush(learner, error);
}

static int keep(void *context, const char *key, size_t key_size, const struct carry_blob *blob,
                struct error *error) {
    struct blobs *blobs = context;
    (void)key, (void)key_size;
    if (blobs->size + blob->size > blobs->capacity) {
        size_t capacity = 2 * blobs->capacity + blob->size;
        unsigned char *larger = realloc(blobs->bytes, capacity);
        if (!larger)
            return error_no_memory(error);
        blobs->bytes = larger;
        blobs->capacity = capacity;
    }
    memcpy(blobs->bytes + blobs->size, blob->bytes, blob->size);
    blobs->size += blob->size;
    blobs->sizes[blobs->count++] = blob->size;
    return 0;
}

static int adopt_all(struct side *side, const struct blobs *blobs, struct error *error) {
    const unsigned char *bytes = blobs->bytes;
    for (size_t n = 0; n < blobs->count; bytes += blobs->sizes[n++])
        if (carry_adopt(side->carry, bytes, blobs->sizes[n], error))
            return -1;
    return 0;
}

static int measure(struct side *from, struct side *to, const struct config *config,
                   struct blobs *blobs, struct error *error) {
    const struct carry_visitor all = {.context = blobs, .visit = keep};
    struct journal_figures figures;
    double begun = clock_seconds();
    if (carry_open(&from->carry, config, from->learner, NULL, error) ||
        carry_each(from->carry, &all, error))
        return -1;
    double exported = clock_seconds();
    if (carry_open(&to->carry, config, to->learner, to->journal, error) ||
        adopt_all(to, blobs, error))
        return -1;
    double adopted = clock_seconds();
    if (journal_sync(to->journal, error))
        return -1;
    double durable = clock_seconds();
    journal_figures(to->journal, &figures);
    printf("%zu streams of %zu bytes: exported in %.3f s, adopted in %.3f s, durable after %.3f s "
           "more, in a journal of %.1f MB; together %.3f s\n",
           blobs->count, blobs->size / blobs->count, exported - begun, adopted - exported,
           durable - adopted, (double)figures.bytes / 1e6, durable - begun);
    return 0;
}

static int run(const struct options *options, const char *path, struct error *error) {
    struct side from = {0}, to = {0};
    struct blobs blobs = {.sizes = calloc(options->streams, sizeof *blobs.sizes)};
    struct model *model = malloc(sizeof *model);
    struct config *config = malloc(sizeof *config);
    char streams[OVERRIDE_SIZE];
    const char *overrides[] = {streams};
    int status = -1;
    snprintf(streams, sizeof streams, "learning.max_streams=%" PRIu64, options->streams);
    if (!model || !config || !blobs.sizes) {
        error_no_memory(error);
    } else if (config_load(config, path, overrides, 1, error) == 0) {
        model_build(model, &config->architecture);
        if (open_learner(&from, config, model, error) == 0 &&
            open_learner(&to, config, model, error) == 0 &&
            open_journal(&to, options->directory, config, model, error) == 0 &&
            learn(from.learner, config, options->streams, error) == 0)
            status = measure(&from, &to, config, &blobs, error);
    }
    close_side(&from);
    close_side(&to);
    free(blobs.bytes);
    free(blobs.sizes);
    free(config);
    free(model);
    return status;
}

static const struct option_row rows[] = {
    {"streams", 'n', "N", "number of streams (default 10000)",
     OPTION_COUNT(struct options, streams, 1, STREAMS_MOST)},
    {"directory", 'd', "DIRECTORY", "a new state directory for the journal",
     OPTION_DIRECTORY(struct options, directory), .required = true},
    OPTIONS_LAST,
};

int main(int argc, char **argv) {
    struct options options = {.streams = 10000};
    const struct command_line line = {
        .name = "move-streams",
        .operands = "CONFIGURATION",
        .summary = "Measure the time to hand over streams of real numbers.",
        .groups = {{NULL, rows, &options}},
    };
    struct error error;
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    return run(&options, operands[0], &error) ? complain(error.status, "%s", error.text) : EX_OK;
}
