#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "checkpoint_internal.h"
#include "learner/scaler.h"
#include "learner/streams.h"
#include "learner/truth.h"

/* ---- A file whose bytes are summed as they are written ---- */

struct summed_file {
    struct safetensors_file file;
    uint64_t end; /* where the checksum begins */
    uint64_t written;
    uint32_t checksum;
};

static int summed_sink(void *context, const void *bytes, size_t size, struct error *error) {
    struct summed_file *summed = context;
    uint64_t left = summed->end - summed->written;
    summed->checksum = libdeflate_crc32(summed->checksum, bytes, size < left ? size : left);
    summed->written += size < left ? size : left;
    return safetensors_to_file(&summed->file, bytes, size, error);
}

/* Over the zeros that keep its place. */
static int write_checksum(const struct summed_file *summed, struct error *error) {
    const int64_t checksum = (int64_t)summed->checksum;
    ssize_t written =
        pwrite(summed->file.descriptor, &checksum, sizeof checksum, (off_t)summed->end);
    if (written == (ssize_t)sizeof checksum)
        return 0;
    return error_set(error, EX_IOERR, "%s cannot be written: %s", summed->file.path,
                     written < 0 ? strerror(errno) : "the disk is full");
}

/* ---- Parts ---- */

struct writing {
    const struct checkpoint_layout *layout;
    struct learner *learner;
    struct safetensors_writer *writer;
    void *buffer;
};

static int put_tensor(struct writing *writing, const struct checkpoint_entry *of,
                      struct error *error) {
    const struct model *model = learner_member_model(writing->learner, of->member);
    size_t size = tensor_size(&model->tensors[of->tensor]) * sizeof(float);
    if (learner_read(writing->learner, of->member, checkpoint_block(of->block), of->tensor,
                     writing->buffer, error))
        return -1;
    return safetensors_put(writing->writer, writing->buffer, size, error);
}

static int put_solution(struct writing *writing, size_t member, struct error *error) {
    const struct least_squares ls = engine_solution(learner_member_model(writing->learner, member));
    if (learner_read(writing->learner, member, ENGINE_SOLUTION, 0, writing->buffer, error))
        return -1;
    return safetensors_put(writing->writer, writing->buffer,
                           least_squares_size(&ls) * sizeof(double), error);
}

static int put_updates(struct writing *writing, size_t member, struct error *error) {
    uint64_t updates;
    if (learner_read(writing->learner, member, ENGINE_UPDATES, 0, &updates, error))
        return -1;
    return safetensors_put(writing->writer, &updates, sizeof updates, error);
}

static int put_counters(struct writing *writing, struct error *error) {
    struct learner_counters c = learner_counters(writing->learner);
    const uint64_t counters[CHECKPOINT_COUNTERS] = {c.examples, c.steps,     c.updates,
                                                    c.skipped,  c.forgotten, c.position};
    return safetensors_put(writing->writer, counters, sizeof counters, error);
}

static int put_rates(struct writing *writing, size_t member, struct error *error) {
    struct learner_rates r = learner_rates(writing->learner, member);
    const double rates[CHECKPOINT_RATES] = {r.rate, r.clip, r.configured_rate, r.configured_clip};
    return safetensors_put(writing->writer, rates, sizeof rates, error);
}

static int put_backwards(struct writing *writing, struct error *error) {
    const uint64_t count = learner_backwards(writing->learner);
    return safetensors_put(writing->writer, &count, sizeof count, error);
}

static int put_coverage(struct writing *writing, struct error *error) {
    const struct truth_coverage c = truth_coverage(learner_truth(writing->learner));
    const double numbers[CHECKPOINT_COVERAGE] = {c.numbers, c.held, c.recent_weight, c.recent_held};
    return safetensors_put(writing->writer, numbers, sizeof numbers, error);
}

static int put_thresholds(struct writing *writing, struct error *error) {
    const struct learner_thresholds t = learner_thresholds(writing->learner);
    const double numbers[CHECKPOINT_THRESHOLDS] = {t.threshold, t.configured};
    return safetensors_put(writing->writer, numbers, sizeof numbers, error);
}

/* `part` as of the scaler of inputs. */
static int put_scaler(struct writing *writing, struct scaler *scaler, enum checkpoint_part part,
                      struct error *error) {
    for (size_t k = 0; k < scaler_size(scaler); k++) {
        struct scaler_number number = scaler_read(scaler, k);
        const void *value = part == PART_COUNTS  ? (const void *)&number.count
                            : part == PART_MEANS ? &number.mean
                                                 : &number.squares;
        if (part != PART_FIRST && safetensors_put(writing->writer, value, sizeof(double), error))
            return -1;
    }
    for (size_t k = 0; part == PART_FIRST && k < scaler_size(scaler); k++)
        if (safetensors_put(writing->writer, scaler_first(scaler, k), SCALER_FIRST * sizeof(float),
                            error))
            return -1;
    return 0;
}

/* Of one vocabulary, by ids. */
static int put_lexicon(struct writing *writing, uint32_t n, struct error *error) {
    const struct learner_lexicon lexicon = learner_lexicon(writing->learner, n);
    uint32_t *places = calloc(lexicon.size + 1, sizeof *places), place = 0;
    int status = places ? 0 : error_no_memory(error);
    for (uint32_t id = streams_oldest(lexicon.words); places && id != STREAMS_NONE;
         id = streams_newer(lexicon.words, id))
        places[id] = place++;
    for (uint32_t id = 0; id < lexicon.size && status == 0; id++) {
        unsigned char row[CHECKPOINT_WORD] = {0};
        size_t size;
        const char *word = streams_key(lexicon.words, id, &size);
        memcpy(row, &n, sizeof n);
        memcpy(row + 4, &places[id], sizeof *places);
        memcpy(row + 8, &lexicon.appeared[id], sizeof *lexicon.appeared);
        row[16] = (unsigned char)size;
        memcpy(row + 17, word, size);
        status = safetensors_put(writing->writer, row, sizeof row, error);
    }
    free(places);
    return status;
}

static int put_words(struct writing *writing, struct error *error) {
    for (uint32_t n = 0; n < learner_lexicons(writing->learner); n++)
        if (put_lexicon(writing, n, error))
            return -1;
    return 0;
}

/* ---- What is put for one stream: one row of one part ---- */

static int put_key(struct writing *writing, uint32_t slot, struct error *error) {
    unsigned char row[CHECKPOINT_KEY] = {0};
    size_t size;
    const char *key = streams_key(learner_streams_table(writing->learner), slot, &size);
    row[0] = (unsigned char)size;
    memcpy(row + 1, key, size);
    return safetensors_put(writing->writer, row, sizeof row, error);
}

static int put_window(struct writing *writing, size_t member, uint32_t slot, struct error *error) {
    struct learner_window w = learner_window(writing->learner, member, slot);
    const int64_t row[CHECKPOINT_WINDOW] = {w.next, w.length, w.closed, w.terms, w.open};
    return safetensors_put(writing->writer, row, sizeof row, error);
}

static int put_record(struct writing *writing, size_t member, uint32_t slot, struct error *error) {
    size_t size = learner_record_size(writing->learner, member) * sizeof(float);
    if (learner_read(writing->learner, member, ENGINE_SLOT, slot, writing->buffer, error))
        return -1;
    return safetensors_put(writing->writer, writing->buffer, size, error);
}

static int put_open(struct writing *writing, uint32_t slot, struct error *error) {
    for (size_t place = 0; place < learner_places(writing->learner); place++) {
        const struct learner_open *open = learner_open_step(writing->learner, slot, place);
        const int64_t row[CHECKPOINT_OPEN] = {(int64_t)open->producer,
                                              (int64_t)open->sequence,
                                              open->epoch,
                                              open->steps,
                                              open->known,
                                              open->terms};
        if (safetensors_put(writing->writer, row, sizeof row, error))
            return -1;
    }
    return 0;
}

static int put_open_times(struct writing *writing, uint32_t slot, struct error *error) {
    for (size_t place = 0; place < learner_places(writing->learner); place++) {
        double time = learner_open_step(writing->learner, slot, place)->time;
        if (safetensors_put(writing->writer, &time, sizeof time, error))
            return -1;
    }
    return 0;
}

static int put_truth(struct writing *writing, enum checkpoint_part part, uint32_t slot,
                     struct error *error) {
    const struct truth_state s = truth_state(learner_truth(writing->learner), slot);
    if (part == PART_SAID)
        return safetensors_put(writing->writer, s.said, s.said_size * sizeof(double), error);
    if (part == PART_LEVELS)
        return safetensors_put(writing->writer, s.levels, s.levels_size * sizeof(double), error);
    return safetensors_put(writing->writer, s.errors, s.errors_size * sizeof(float), error);
}

static int put_watch(struct writing *writing, enum checkpoint_part part, uint32_t slot,
                     struct error *error) {
    const struct anomaly_state s = learner_anomaly(writing->learner, slot);
    if (part == PART_WATCH)
        return safetensors_put(writing->writer, s.numbers, s.numbers_size * sizeof(double), error);
    if (part == PART_ALARMS)
        return safetensors_put(writing->writer, s.alarms, s.alarms_size * sizeof(double), error);
    if (part == PART_HOLDS)
        return s.holds
                   ? safetensors_put(writing->writer, s.held, s.held_size * sizeof(double), error)
                   : 0;
    for (size_t m = 0; m < s.memories; m++) {
        const struct anomaly_contexts c = learner_contexts(writing->learner, slot, m);
        if (safetensors_put(writing->writer, c.floats, c.count * ANOMALY_CONTEXT * sizeof(float),
                            error))
            return -1;
    }
    return 0;
}

static int put_row(struct writing *writing, const struct checkpoint_entry *of, uint32_t slot,
                   struct error *error) {
    size_t size = learner_model(writing->learner)->architecture.input.size;
    size_t target = learner_model(writing->learner)->target_size;
    size_t places = learner_places(writing->learner);
    const struct learner_forecast forecast = learner_forecast(writing->learner, slot);
    struct safetensors_writer *writer = writing->writer;
    switch (of->part) {
    case PART_KEYS:
        return put_key(writing, slot, error);
    case PART_WINDOWS:
        return put_window(writing, of->member, slot, error);
    case PART_HELD:
        return safetensors_put(writer, learner_held(writing->learner, slot), size * sizeof(float),
                               error);
    case PART_TIMES:
        return safetensors_put(writer, learner_times(writing->learner, slot),
                               LEARNER_TIMES * sizeof(double), error);
    case PART_SCALES:
        return safetensors_put(writer, learner_scale(writing->learner, slot, 0),
                               places * 2 * target * sizeof(double), error);
    case PART_BASES:
        return safetensors_put(writer, learner_base(writing->learner, slot, 0),
                               places * target * sizeof(float), error);
    case PART_LASTS:
        return safetensors_put(writer, learner_last(writing->learner, slot), target * sizeof(float),
                               error);
    case PART_OPEN:
        return put_open(writing, slot, error);
    case PART_OPEN_TIMES:
        return put_open_times(writing, slot, error);
    case PART_EXPERTS:
        return safetensors_put(writer, forecast.experts, forecast.experts_size * sizeof(double),
                               error);
    case PART_MIXTURE:
        return safetensors_put(writer, forecast.mixture, forecast.mixture_size * sizeof(double),
                               error);
    case PART_BASELINE:
        return safetensors_put(writer, learner_baseline(writing->learner, slot),
                               learner_baseline_size(writing->learner) * sizeof(double), error);
    case PART_SAID:
    case PART_LEVELS:
    case PART_ERRORS:
        return put_truth(writing, of->part, slot, error);
    case PART_WATCH:
    case PART_HOLDS:
    case PART_CONTEXTS:
    case PART_ALARMS:
        return put_watch(writing, of->part, slot, error);
    default:
        return put_record(writing, of->member, slot, error);
    }
}

/* What streams share has a row of its own, and contexts after those of the streams. */
static int put_shared(struct writing *writing, enum checkpoint_part part, struct error *error) {
    for (size_t n = 0; n < learner_shared(writing->learner); n++)
        if (put_watch(writing, part, learner_shared_slot(writing->learner, n), error))
            return -1;
    return 0;
}

static int put_rows(struct writing *writing, const struct checkpoint_entry *of,
                    struct error *error) {
    const struct streams *streams = learner_streams_table(writing->learner);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        if (put_row(writing, of, slot, error))
            return -1;
    return of->part == PART_CONTEXTS ? put_shared(writing, PART_CONTEXTS, error) : 0;
}

static int put_entry(struct writing *writing, const struct checkpoint_entry *of,
                     struct error *error) {
    static const char no_checksum[CHECKPOINT_CHECKSUM_SIZE];
    switch (of->part) {
    case PART_TENSOR:
        return put_tensor(writing, of, error);
    case PART_UPDATES:
        return put_updates(writing, of->member, error);
    case PART_SOLUTION:
        return put_solution(writing, of->member, error);
    case PART_COUNTERS:
        return put_counters(writing, error);
    case PART_RATES:
        return put_rates(writing, of->member, error);
    case PART_BACKWARDS:
        return put_backwards(writing, error);
    case PART_COVERAGE:
        return put_coverage(writing, error);
    case PART_THRESHOLDS:
        return put_thresholds(writing, error);
    case PART_WORDS:
        return put_words(writing, error);
    case PART_COUNTS:
    case PART_MEANS:
    case PART_SQUARES:
    case PART_FIRST:
        return put_scaler(writing, learner_scaler_state(writing->learner), of->part, error);
    case PART_TARGET_COUNTS:
    case PART_TARGET_MEANS:
    case PART_TARGET_SQUARES:
    case PART_TARGET_FIRST:
        return put_scaler(writing, learner_output_scaler(writing->learner),
                          PART_COUNTS + (of->part - PART_TARGET_COUNTS), error);
    case PART_SHARED:
        return put_shared(writing, PART_WATCH, error);
    case PART_CHECKSUM:
        return safetensors_put(writing->writer, no_checksum, sizeof no_checksum, error);
    default:
        return put_rows(writing, of, error);
    }
}

static int put_all(struct writing *writing, struct error *error) {
    for (size_t n = 0; n < writing->layout->count; n++)
        if (put_entry(writing, &writing->layout->of[n], error))
            return -1;
    return 0;
}

/* ---- All of it ---- */

static int start(struct writing *writing, struct checkpoint_layout *layout,
                 const struct config *config, double time, struct summed_file *summed,
                 struct error *error) {
    enum { NUMBER_SIZE = 40 };
    char description[CHECKPOINT_DESCRIPTION_SIZE], examples[NUMBER_SIZE], when[NUMBER_SIZE],
        memory[NUMBER_SIZE], share[CHECKPOINT_SHARE_SIZE];
    checkpoint_describe(config, description);
    snprintf(examples, sizeof examples, "%" PRIu64, learner_counters(writing->learner).examples);
    snprintf(when, sizeof when, "%.6f", time);
    snprintf(memory, sizeof memory, "%zu", config->anomaly.memory);
    checkpoint_share(config, share);
    const struct safetensors_text metadata[] = {
        {"format", CHECKPOINT_FORMAT}, {"version", PACKAGE_VERSION},
        {"name", config->name},        {"digest", config->compatible},
        {"description", description},  {"device", learner_device(writing->learner)},
        {"examples", examples},        {"time", when},
        {CHECKPOINT_MEMORY, memory},   {CHECKPOINT_SHARE, share}, /* only where there are some */
    };
    bool shares = learner_shared(writing->learner) > 0;
    return safetensors_start(&writing->writer, layout->entries, layout->count, metadata,
                             sizeof metadata / sizeof *metadata - !shares, summed_sink, summed,
                             error);
}

static int write_entries(struct writing *writing, struct checkpoint_layout *layout,
                         const struct config *config, double time, struct summed_file *summed,
                         struct error *error) {
    if (start(writing, layout, config, time, summed, error))
        return -1;
    summed->end = safetensors_file_size(writing->writer) - CHECKPOINT_CHECKSUM_SIZE;
    if (put_all(writing, error)) {
        safetensors_abandon(&writing->writer);
        return -1;
    }
    if (safetensors_finish(&writing->writer, error))
        return -1;
    return write_checksum(summed, error);
}

int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error) {
    struct summed_file summed = {.file = {descriptor, path}, .end = UINT64_MAX};
    struct checkpoint_layout layout;
    struct writing writing = {.layout = &layout, .learner = learner};
    int status = checkpoint_layout_open(&layout, learner, learner_streams(learner), error);
    if (status == 0 && !(writing.buffer = malloc(checkpoint_buffer_size(&layout))))
        status = error_set(error, EX_UNAVAILABLE, "out of memory while writing %s", path);
    if (status == 0) {
        status = write_entries(&writing, &layout, config, time, &summed, error);
        *bytes = summed.end + CHECKPOINT_CHECKSUM_SIZE;
    }
    free(writing.buffer);
    checkpoint_layout_close(&layout);
    return status;
}
