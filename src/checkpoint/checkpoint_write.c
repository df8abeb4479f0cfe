#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "checkpoint_writing.h"
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

/* ---- Streams ---- */

/* What streams share has a row of its own, and contexts after those of the streams. */
static int put_shared(struct writing *writing, enum checkpoint_part part, struct error *error) {
    for (size_t n = 0; n < learner_shared(writing->learner); n++)
        if (writing_watch(writing, part, learner_shared_slot(writing->learner, n), error))
            return -1;
    return 0;
}

static int put_rows(struct writing *writing, const struct checkpoint_entry *of,
                    struct error *error) {
    const struct streams *streams = learner_streams_table(writing->learner);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        if (writing_row(writing, of, slot, error))
            return -1;
    return of->part == PART_CONTEXTS ? put_shared(writing, PART_CONTEXTS, error) : 0;
}

static int put_entry(struct writing *writing, const struct checkpoint_entry *of,
                     struct error *error) {
    static const char no_checksum[CHECKPOINT_CHECKSUM_SIZE];
    if (of->rows)
        return put_rows(writing, of, error);
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
    default:
        return safetensors_put(writing->writer, no_checksum, sizeof no_checksum, error);
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
        {"lasting", config->lasting},  {"optimizer", config->optimizer},
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
