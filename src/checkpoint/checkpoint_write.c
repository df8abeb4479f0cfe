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
    float *buffer;
};

static int put_tensors(struct writing *writing, struct error *error) {
    const struct model *model = learner_model(writing->learner);
    for (size_t block = 0; block < writing->layout->blocks; block++)
        for (size_t n = 0; n < (block ? model->learned_count : model->tensor_count); n++) {
            size_t size = tensor_size(&model->tensors[n]) * sizeof(float);
            if (learner_read(writing->learner, checkpoint_block(block), n, writing->buffer,
                             error) ||
                safetensors_put(writing->writer, writing->buffer, size, error))
                return -1;
        }
    return 0;
}

static int put_counters(struct writing *writing, struct error *error) {
    struct learner_counters c = learner_counters(writing->learner);
    struct learner_rates r = learner_rates(writing->learner);
    uint64_t updates;
    const uint64_t counters[CHECKPOINT_COUNTERS] = {c.examples, c.steps,     c.updates,
                                                    c.skipped,  c.forgotten, c.position};
    const double rates[CHECKPOINT_RATES] = {r.rate, r.clip, r.configured_rate, r.configured_clip};
    if (learner_read(writing->learner, ENGINE_UPDATES, 0, &updates, error) ||
        safetensors_put(writing->writer, &updates, sizeof updates, error) ||
        safetensors_put(writing->writer, counters, sizeof counters, error))
        return -1;
    return safetensors_put(writing->writer, rates, sizeof rates, error);
}

/* What is put for one stream: one row of one part. */
typedef int put_row(struct writing *writing, uint32_t slot, struct error *error);

static int put_key(struct writing *writing, uint32_t slot, struct error *error) {
    unsigned char row[CHECKPOINT_KEY] = {0};
    size_t size;
    const char *key = streams_key(learner_streams_table(writing->learner), slot, &size);
    row[0] = (unsigned char)size;
    memcpy(row + 1, key, size);
    return safetensors_put(writing->writer, row, sizeof row, error);
}

static int put_window(struct writing *writing, uint32_t slot, struct error *error) {
    struct learner_window w = learner_window(writing->learner, slot);
    const int64_t row[CHECKPOINT_WINDOW] = {w.next, w.length, w.closed, w.terms, w.open};
    return safetensors_put(writing->writer, row, sizeof row, error);
}

static int put_held(struct writing *writing, uint32_t slot, struct error *error) {
    size_t size = learner_model(writing->learner)->architecture.input.size;
    const float *held = learner_held(writing->learner, slot);
    return safetensors_put(writing->writer, held, size * sizeof *held, error);
}

static int put_scale(struct writing *writing, uint32_t slot, struct error *error) {
    size_t size = learner_model(writing->learner)->architecture.input.size;
    const double *scale = learner_scale(writing->learner, slot);
    return safetensors_put(writing->writer, scale, 2 * size * sizeof *scale, error);
}

static int put_record(struct writing *writing, uint32_t slot, struct error *error) {
    size_t part = writing->layout->parts[PART_RECORDS];
    size_t size = writing->layout->entries[part].shape[1] * sizeof(float);
    if (learner_read(writing->learner, ENGINE_SLOT, slot, writing->buffer, error))
        return -1;
    return safetensors_put(writing->writer, writing->buffer, size, error);
}

static int put_rows(struct writing *writing, put_row *put, struct error *error) {
    const struct streams *streams = learner_streams_table(writing->learner);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        if (put(writing, slot, error))
            return -1;
    return 0;
}

static int put_scaler(struct writing *writing, struct error *error) {
    const struct scaler *scaler = learner_scaler(writing->learner);
    size_t size = scaler ? scaler_size(scaler) : 0;
    for (enum checkpoint_part part = PART_COUNTS; part <= PART_SQUARES; part++)
        for (size_t k = 0; k < size; k++) {
            struct scaler_number number = scaler_read(scaler, k);
            const void *value = part == PART_COUNTS  ? (const void *)&number.count
                                : part == PART_MEANS ? &number.mean
                                                     : &number.squares;
            if (safetensors_put(writing->writer, value, sizeof(double), error))
                return -1;
        }
    for (size_t k = 0; k < size && writing->layout->parts[PART_FIRST] != SIZE_MAX; k++)
        if (safetensors_put(writing->writer, scaler_first(scaler, k), SCALER_FIRST * sizeof(float),
                            error))
            return -1;
    return 0;
}

/* In the order of the layout. */
static int put_all(struct writing *writing, struct error *error) {
    static const char no_checksum[CHECKPOINT_CHECKSUM_SIZE];
    bool hold = writing->layout->parts[PART_HELD] != SIZE_MAX;
    bool scales = writing->layout->parts[PART_SCALES] != SIZE_MAX;
    if (put_tensors(writing, error) || put_counters(writing, error) ||
        put_rows(writing, put_key, error) || put_rows(writing, put_window, error) ||
        (hold && put_rows(writing, put_held, error)) ||
        (scales && put_rows(writing, put_scale, error)) || put_scaler(writing, error) ||
        put_rows(writing, put_record, error))
        return -1;
    return safetensors_put(writing->writer, no_checksum, sizeof no_checksum, error);
}

/* ---- All of it ---- */

static int start(struct writing *writing, struct checkpoint_layout *layout,
                 const struct config *config, double time, struct summed_file *summed,
                 struct error *error) {
    enum { NUMBER_SIZE = 40 };
    char description[CHECKPOINT_DESCRIPTION_SIZE], examples[NUMBER_SIZE], when[NUMBER_SIZE];
    checkpoint_describe(config, description);
    snprintf(examples, sizeof examples, "%" PRIu64, learner_counters(writing->learner).examples);
    snprintf(when, sizeof when, "%.6f", time);
    const struct safetensors_text metadata[] = {
        {"format", CHECKPOINT_FORMAT}, {"version", PACKAGE_VERSION},
        {"name", config->name},        {"digest", config->digest},
        {"description", description},  {"device", learner_device(writing->learner)},
        {"examples", examples},        {"time", when},
    };
    return safetensors_start(&writing->writer, layout->entries, layout->count, metadata,
                             sizeof metadata / sizeof *metadata, summed_sink, summed, error);
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
    const struct model *model = learner_model(learner);
    struct summed_file summed = {.file = {descriptor, path}, .end = UINT64_MAX};
    struct checkpoint_layout *layout = malloc(sizeof *layout);
    float *buffer = malloc(checkpoint_buffer_size(config, model) * sizeof *buffer);
    int status = -1;
    if (layout && buffer) {
        struct writing writing = {.layout = layout, .learner = learner, .buffer = buffer};
        checkpoint_layout(layout, config, model, learner_streams(learner));
        status = write_entries(&writing, layout, config, time, &summed, error);
        *bytes = summed.end + CHECKPOINT_CHECKSUM_SIZE;
    } else {
        error_set(error, EX_UNAVAILABLE, "out of memory while writing %s", path);
    }
    free(layout);
    free(buffer);
    return status;
}
