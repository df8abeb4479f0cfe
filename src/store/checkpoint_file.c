#include "checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "common/finite.h"
#include "common/streams.h"
#include "common/wire.h"
#include "learner/learner_state.h"
#include "parts/anomalies.h"
#include "parts/words.h"

#define FORMAT "runnel-checkpoint-4"
#define FORMAT_BEFORE "runnel-checkpoint-3" /* the same, without entries added since */

static enum engine_block block_of(const struct checkpoint_entry *of) {
    return of->block == 0 ? ENGINE_PARAMETERS : (enum engine_block)(ENGINE_MOMENTS + of->block - 1);
}

/* ---- Writing ---- */

/* A file with a running checksum. */
struct summed_file {
    struct safetensors_file file;
    uint64_t end; /* start of the checksum */
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

/* Overwrites the zeros in its place. */
static int write_checksum(const struct summed_file *summed, struct error *error) {
    const int64_t checksum = (int64_t)summed->checksum;
    ssize_t written =
        pwrite(summed->file.descriptor, &checksum, sizeof checksum, (off_t)summed->end);
    if (written == (ssize_t)sizeof checksum)
        return 0;
    return error_set(error, EX_IOERR, "%s cannot be written: %s", summed->file.path,
                     written < 0 ? strerror(errno) : "the disk is full");
}

static int writer_sink(void *context, const void *bytes, size_t size, struct error *error) {
    return safetensors_put(context, bytes, size, error);
}

/* Writes the words of one vocabulary, by ids. */
static int put_lexicon(const struct learner *learner, uint32_t n, struct safetensors_writer *writer,
                       struct error *error) {
    const struct learner_lexicon lexicon = words_lexicon(learner_host(learner), n);
    uint32_t *places = calloc(lexicon.size + 1, sizeof *places), place = 0;
    int status = places ? 0 : error_no_memory(error);
    for (uint32_t id = streams_oldest(lexicon.words); places && id != STREAMS_NONE;
         id = streams_newer(lexicon.words, id))
        places[id] = place++;
    for (uint32_t id = 0; id < lexicon.size && status == 0; id++) {
        unsigned char row[CHECKPOINT_WORD_SIZE] = {0};
        size_t size;
        const char *word = streams_key(lexicon.words, id, &size);
        memcpy(row, &n, sizeof n);
        memcpy(row + CHECKPOINT_WORD_PLACE, &places[id], sizeof *places);
        memcpy(row + CHECKPOINT_WORD_APPEARED, &lexicon.appeared[id], sizeof *lexicon.appeared);
        row[CHECKPOINT_WORD_LENGTH] = (unsigned char)size;
        memcpy(row + CHECKPOINT_WORD_BYTES, word, size);
        status = safetensors_put(writer, row, sizeof row, error);
    }
    free(places);
    return status;
}

static int put_keys(const struct learner *learner, struct safetensors_writer *writer,
                    struct error *error) {
    const struct streams *streams = learner_streams_table(learner);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        unsigned char row[CHECKPOINT_KEY_SIZE] = {0};
        size_t size;
        const char *key = streams_key(streams, slot, &size);
        row[0] = (unsigned char)size;
        memcpy(row + 1, key, size);
        if (safetensors_put(writer, row, sizeof row, error))
            return -1;
    }
    return 0;
}

/* Writes the numbers of a place: all rows of STATE_ONCE, otherwise those of a slot. */
static int put_place(const struct checkpoint_layout *layout, size_t entry,
                     const struct state_place *place, safetensors_sink *sink, void *context,
                     struct error *error) {
    const struct state_row *row = place->row;
    size_t size = checkpoint_piece_size(&layout->entries[entry], &layout->of[entry]);
    if (row->read)
        return row->read(place, layout->buffer, error) || sink(context, layout->buffer, size, error)
                   ? -1
                   : 0;
    const void *at;
    for (size_t n = 0; (at = row->at(place, n)); n++) {
        if (sink(context, at, size * (row->used ? row->used(place, n) : 1), error))
            return -1;
        if (!row->used)
            break;
    }
    return 0;
}

int checkpoint_put_row(const struct checkpoint_layout *layout, size_t entry, uint32_t slot,
                       safetensors_sink *sink, void *context, struct error *error) {
    const struct checkpoint_entry *of = &layout->of[entry];
    const struct state_place place = {of->self, of->row, of->member, slot};
    return put_place(layout, entry, &place, sink, context, error);
}

static int put_kept(const struct checkpoint_layout *layout, size_t n,
                    struct safetensors_writer *writer, struct error *error) {
    const struct checkpoint_entry *of = &layout->of[n];
    struct checkpoint_slots slots = checkpoint_slots(layout->learner, of->row);
    uint32_t slot = 0;
    if (of->row->flags & STATE_ONCE)
        return checkpoint_put_row(layout, n, slot, writer_sink, writer, error);
    while (checkpoint_next_slot(&slots, &slot))
        if (checkpoint_put_row(layout, n, slot, writer_sink, writer, error))
            return -1;
    return 0;
}

static int put_entry(const struct checkpoint_layout *layout, size_t n,
                     struct safetensors_writer *writer, struct error *error) {
    static const char no_checksum[CHECKPOINT_CHECKSUM_SIZE];
    const struct checkpoint_entry *of = &layout->of[n];
    struct learner *learner = layout->learner;
    switch (of->kind) {
    case ENTRY_TENSOR:
        return learner_read(learner, of->member, block_of(of), of->tensor, layout->buffer, error) ||
                       safetensors_put(writer, layout->buffer, layout->entries[n].size, error)
                   ? -1
                   : 0;
    case ENTRY_KEPT:
        return put_kept(layout, n, writer, error);
    case ENTRY_WORDS:
        for (uint32_t k = 0; k < words_lexicons(learner_host(learner)); k++)
            if (put_lexicon(learner, k, writer, error))
                return -1;
        return 0;
    case ENTRY_KEYS:
        return put_keys(learner, writer, error);
    default:
        return safetensors_put(writer, no_checksum, sizeof no_checksum, error);
    }
}

static int start(const struct checkpoint_layout *layout, struct safetensors_writer **writer,
                 const struct config *config, double time, struct summed_file *summed,
                 struct error *error) {
    enum { NUMBER_SIZE = 40 };
    char description[CHECKPOINT_DESCRIPTION_SIZE], examples[NUMBER_SIZE], when[NUMBER_SIZE],
        memory[NUMBER_SIZE], share[CHECKPOINT_SHARE_SIZE];
    checkpoint_describe(config, description);
    snprintf(examples, sizeof examples, "%" PRIu64, learner_counters(layout->learner).examples);
    snprintf(when, sizeof when, "%.6f", time);
    snprintf(memory, sizeof memory, "%zu", config->anomaly.memory);
    checkpoint_share(config, share);
    const struct safetensors_text metadata[] = {
        {"format", FORMAT},
        {"version", PACKAGE_VERSION},
        {"name", config->name},
        {"digest", config->compatible},
        {"lasting", config->lasting},
        {"optimizer", config->optimizer},
        {"description", description},
        {"device", learner_fingerprint(layout->learner)},
        {"examples", examples},
        {"time", when},
        {CHECKPOINT_MEMORY, memory},
        {CHECKPOINT_SHARE, share}, /* only if streams share memories */
    };
    bool shares = anomalies_shared(learner_host(layout->learner)) > 0;
    return safetensors_start(writer, layout->entries, layout->count, metadata,
                             sizeof metadata / sizeof *metadata - !shares, summed_sink, summed,
                             error);
}

static int write_entries(const struct checkpoint_layout *layout, const struct config *config,
                         double time, struct summed_file *summed, struct error *error) {
    struct safetensors_writer *writer;
    if (start(layout, &writer, config, time, summed, error))
        return -1;
    summed->end = safetensors_file_size(writer) - CHECKPOINT_CHECKSUM_SIZE;
    for (size_t n = 0; n < layout->count; n++)
        if (put_entry(layout, n, writer, error)) {
            safetensors_abandon(&writer);
            return -1;
        }
    return safetensors_finish(&writer, error) || write_checksum(summed, error) ? -1 : 0;
}

int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error) {
    struct summed_file summed = {.file = {descriptor, path}, .end = UINT64_MAX};
    struct checkpoint_layout layout;
    int status = checkpoint_layout_open(&layout, learner, learner_streams(learner), error);
    if (status == 0) {
        status = write_entries(&layout, config, time, &summed, error);
        *bytes = summed.end + CHECKPOINT_CHECKSUM_SIZE;
    }
    checkpoint_layout_close(&layout);
    return status;
}

/* ---- Checking a file ---- */

static int read_bytes(int descriptor, const char *path, void *bytes, size_t size,
                      struct error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t count = read(descriptor, (char *)bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, EX_IOERR, "%s cannot be read: %s", path,
                             count < 0 ? strerror(errno) : "it is truncated");
        done += (size_t)count;
    }
    return 0;
}

static int sum_file(int descriptor, const char *path, uint64_t size, struct error *error) {
    enum { PIECE_SIZE = 1 << 16 };
    unsigned char piece[PIECE_SIZE];
    uint32_t sum = 0;
    for (uint64_t left = size - CHECKPOINT_CHECKSUM_SIZE; left;) {
        size_t part = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
        if (read_bytes(descriptor, path, piece, part, error))
            return -1;
        sum = libdeflate_crc32(sum, piece, part);
        left -= part;
    }
    int64_t kept;
    if (read_bytes(descriptor, path, &kept, sizeof kept, error))
        return -1;
    if (kept == (int64_t)sum)
        return 0;
    return error_set(error, EX_IOERR, "%s is damaged: checksum mismatch", path);
}

static int check_sum(const struct safetensors *file, const char *path, uint64_t *bytes,
                     struct error *error) {
    const struct safetensors_entry *checksum = safetensors_find(file, "checksum");
    const struct safetensors_entry *last = safetensors_at(file, safetensors_count(file) - 1);
    if (checksum != last || checksum->size != CHECKPOINT_CHECKSUM_SIZE)
        return error_set(error, EX_IOERR, "%s is damaged: missing checksum", path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    int status;
    if (size < 0 || lseek(descriptor, 0, SEEK_SET) != 0)
        status = error_set(error, EX_IOERR, "%s cannot be read: %s", path, strerror(errno));
    else if (size < CHECKPOINT_CHECKSUM_SIZE)
        status = error_set(error, EX_IOERR, "%s is damaged: it is truncated", path);
    else
        status = sum_file(descriptor, path, (uint64_t)size, error);
    if (descriptor >= 0)
        close(descriptor);
    *bytes = (uint64_t)size;
    return status;
}

/* The checksum is the last entry in every format. Fills in `report` without its warnings. */
static int verify(const struct safetensors *file, const char *path,
                  struct checkpoint_report *report, struct error *error) {
    const char *format = safetensors_metadata(file, "format");
    const char *examples = safetensors_metadata(file, "examples");
    const char *time = safetensors_metadata(file, "time");
    if (!format || !safetensors_count(file) || !examples || !time)
        return error_set(error, EX_IOERR, "%s is a safetensors file, but not a checkpoint", path);
    if (check_sum(file, path, &report->bytes, error))
        return -1;
    report->examples = strtoull(examples, NULL, 10);
    report->time = strtod(time, NULL);
    return 0;
}

/* ---- Reading ---- */

static int damaged(const struct checkpoint_source *source, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: %s", source->path, what);
}

static int invalid(const struct checkpoint_source *source, const char *name, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: invalid numbers in %s", source->path, name);
}

/* Reads bytes of an entry, starting at byte `first`. */
static int fetch(const struct checkpoint_source *source, const struct safetensors_entry *entry,
                 uint64_t first, void *bytes, size_t size, struct error *error) {
    if (source->file)
        return safetensors_read(source->file, entry, first, bytes, size, error);
    if (first > entry->size || size > entry->size - first)
        return error_set(error, EX_IOERR, "%s is damaged: %s is too short", source->path,
                         entry->name);
    if (size)
        memcpy(bytes, source->blob + entry->begin + first, size);
    return 0;
}

/* Reads in place. `index` is the number of the row, unless a count precedes its numbers. */
static int fill_pieces(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                       size_t n, const struct state_place *place, uint64_t index,
                       struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    struct checkpoint_entry *of = &layout->of[n];
    const struct state_row *row = place->row;
    size_t size = checkpoint_piece_size(entry, of);
    void *at;
    for (size_t piece = 0; (at = row->at(place, piece)); piece++) {
        size_t count = row->used ? row->used(place, piece) : 1;
        if (row->used && count > entry->shape[0] - of->used)
            return error_set(error, EX_IOERR, "%s is damaged: %s has too few rows", source->path,
                             of->name);
        if (fetch(source, entry, (row->used ? of->used : index) * size, at, count * size, error))
            return -1;
        if (!row->used)
            break;
        of->used += count;
    }
    return row->filled ? row->filled(place) : 0;
}

/* Reads the part of a row that continues when windows start from scratch. */
static int fetch_lasting(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t n, const struct state_place *place, uint64_t index,
                         struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    size_t file_row = checkpoint_row_size(entry), number = file_row / entry->shape[1];
    size_t size = place->row->lasting(place) * number;
    memset(layout->buffer, 0, state_row_size(place) * number);
    if (size > file_row)
        return invalid(source, entry->name, error);
    return fetch(source, entry, index * file_row, layout->buffer, size, error);
}

static int fill(struct checkpoint_layout *layout, const struct checkpoint_source *source, size_t n,
                uint64_t index, uint32_t slot, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    const struct checkpoint_entry *of = &layout->of[n];
    const struct state_place place = {of->self, of->row, of->member, slot};
    size_t size = checkpoint_piece_size(entry, of);
    int status;
    if (of->lacked) {
        if (of->row->lacked)
            of->row->lacked(&place);
        return 0;
    }
    if (of->row->at)
        status = fill_pieces(layout, source, n, &place, index, error);
    else if (layout->begins && of->row->lasting
                 ? fetch_lasting(layout, source, n, &place, index, error)
                 : fetch(source, entry, index * size, layout->buffer, size, error))
        return -1;
    else
        status = of->row->write(&place, layout->buffer, error);
    return status > 0 ? invalid(source, of->name, error) : status;
}

static int check_filled(const struct checkpoint_layout *layout,
                        const struct checkpoint_source *source, uint32_t slot,
                        struct error *error) {
    const char *name = learner_slot_filled(layout->learner, slot);
    return name ? invalid(source, name, error) : 0;
}

int checkpoint_fill_slot(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t row, uint32_t slot, struct error *error) {
    for (size_t n = 0; n < layout->count; n++)
        if (checkpoint_is_row(&layout->of[n]) && fill(layout, source, n, row, slot, error))
            return -1;
    return check_filled(layout, source, slot, error);
}

int checkpoint_check_used(const struct checkpoint_layout *layout,
                          const struct checkpoint_source *source, struct error *error) {
    for (size_t n = 0; n < layout->count; n++) {
        const struct checkpoint_entry *of = &layout->of[n];
        if (of->kind == ENTRY_KEPT && of->row->used && !of->lacked &&
            of->used != layout->entries[n].shape[0])
            return error_set(error, EX_IOERR, "%s is damaged: %s has too many rows", source->path,
                             of->name);
    }
    return 0;
}

static int read_tensor(const struct checkpoint_layout *layout,
                       const struct checkpoint_source *source, size_t n, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    const struct checkpoint_entry *of = &layout->of[n];
    if (fetch(source, entry, 0, layout->buffer, entry->size, error))
        return -1;
    if (of->block == 0 && !finite_floats(layout->buffer, entry->size / sizeof(float)))
        return error_set(error, EX_IOERR, "%s has numbers that are not finite in tensor %s",
                         source->path, entry->name);
    return learner_write(layout->learner, of->member, block_of(of), of->tensor, layout->buffer,
                         error);
}

enum { NOT_A_WORD = -2 };

/* Reads row `at` into a vocabulary, and stores its place in the order of use in `places`, from the
   vocabulary's first row on. */
static int read_word(struct learner *learner, const unsigned char *row, size_t at,
                     uint32_t *lexicon, size_t *first, uint32_t *places, size_t count) {
    uint32_t n, place;
    uint64_t appeared;
    memcpy(&n, row, sizeof n);
    memcpy(&place, row + CHECKPOINT_WORD_PLACE, sizeof place);
    memcpy(&appeared, row + CHECKPOINT_WORD_APPEARED, sizeof appeared);
    if (n < *lexicon || !wire_is_utf8(row + CHECKPOINT_WORD_BYTES, row[CHECKPOINT_WORD_LENGTH]))
        return NOT_A_WORD;
    if (n > *lexicon)
        *first = at;
    *lexicon = n;
    if (place >= count - *first || places[*first + place] ||
        words_add(learner_host(learner), n, (const char *)row + CHECKPOINT_WORD_BYTES,
                  row[CHECKPOINT_WORD_LENGTH], appeared))
        return NOT_A_WORD;
    places[*first + place] = (uint32_t)(at - *first) + 1;
    return 0;
}

/* Reads the words by ids, then restores their order of use. */
static int read_lexicons(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         const struct safetensors_entry *entry, uint32_t *places,
                         struct error *error) {
    struct learner *learner = layout->learner;
    uint32_t lexicon = 0;
    size_t first = 0, count = entry->shape[0];
    for (size_t at = 0; at < count; at++) {
        unsigned char row[CHECKPOINT_WORD_SIZE];
        if (fetch(source, entry, at * sizeof row, row, sizeof row, error))
            return -1;
        if (read_word(learner, row, at, &lexicon, &first, places, count))
            return invalid(source, entry->name, error);
    }
    for (size_t n = 0, at = 0; n < words_lexicons(learner_host(learner)); n++) {
        size_t size = words_lexicon(learner_host(learner), n).size;
        for (size_t k = 0; k < size; k++, at++)
            if (!places[at] || words_use(learner_host(learner), n, places[at] - 1))
                return invalid(source, entry->name, error);
    }
    words_written(learner_host(learner));
    return 0;
}

static int read_words(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                      size_t n, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    uint32_t *places = calloc(entry->shape[0] + 1, sizeof *places);
    int status =
        places ? read_lexicons(layout, source, entry, places, error) : error_no_memory(error);
    free(places);
    return status;
}

static int read_stream(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                       size_t keys, size_t row, struct error *error) {
    struct learner *learner = layout->learner;
    unsigned char key[CHECKPOINT_KEY_SIZE];
    const char *name = (const char *)key + 1;
    if (fetch(source, &layout->entries[keys], row * sizeof key, key, sizeof key, error))
        return -1;
    if (!wire_is_utf8(name, key[0]) ||
        streams_find(learner_streams_table(learner), name, key[0]) != STREAMS_NONE)
        return damaged(source, "invalid or duplicate key of a stream", error);
    return checkpoint_fill_slot(layout, source, row, learner_add_stream(learner, name, key[0]),
                                error);
}

static int read_streams(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                        size_t keys, struct error *error) {
    for (size_t row = 0; row < layout->streams; row++)
        if (read_stream(layout, source, keys, row, error))
            return -1;
    for (size_t shared = 0; shared < anomalies_shared(learner_host(layout->learner)); shared++) {
        uint32_t slot = learner_shared_slot(layout->learner, shared);
        for (size_t n = 0; n < layout->count; n++) {
            const struct checkpoint_entry *of = &layout->of[n];
            if (of->kind == ENTRY_KEPT && of->row->flags & STATE_SHARED &&
                fill(layout, source, n, shared, slot, error))
                return -1;
        }
        if (check_filled(layout, source, slot, error))
            return -1;
    }
    return checkpoint_check_used(layout, source, error);
}

/* Reads words before streams, then tensors with their derived values, and state without a
   stream. */
static int read_once(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                     size_t *keys, struct error *error) {
    for (size_t n = 0; n < layout->count; n++) {
        const struct checkpoint_entry *of = &layout->of[n];
        if ((of->kind == ENTRY_TENSOR && !of->lacked && read_tensor(layout, source, n, error)) ||
            (of->kind == ENTRY_WORDS && read_words(layout, source, n, error)) ||
            (of->kind == ENTRY_KEPT && of->row->flags & STATE_ONCE &&
             fill(layout, source, n, 0, 0, error)))
            return -1;
        if (of->kind == ENTRY_KEYS)
            *keys = n;
    }
    return 0;
}

/* ---- Comparing a file with the layout ---- */

static int check_format(const struct checkpoint_source *source, struct error *error) {
    const char *format = safetensors_metadata(source->file, "format");
    const char *version = safetensors_metadata(source->file, "version");
    if (!strcmp(format, FORMAT) || !strcmp(format, FORMAT_BEFORE))
        return 0;
    return error_set(error, EX_CONFIG,
                     "%s has the format %.40s of runneld %.40s, expected %s: continue with that "
                     "version, or set another state.directory",
                     source->path, format, version ? version : "?", FORMAT);
}

/* Opens the layout for the file's number of streams, and checks each entry against it. */
static int check_entries(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         struct learner *learner, const struct config *config,
                         struct checkpoint_report *report, struct error *error) {
    const struct safetensors_entry *keys = safetensors_find(source->file, "streams.keys");
    if (!keys || keys->rank != 2 || keys->shape[0] > config->learning.max_streams)
        return damaged(source, "missing streams, or too many", error);
    bool begins = layout->begins, moments = layout->moments, started = false;
    if (checkpoint_layout_open(layout, learner, keys->shape[0], error))
        return -1;
    layout->begins = begins;
    layout->moments = moments;
    size_t count = checkpoint_mark_lacked(layout, source->file);
    if (!begins && safetensors_count(source->file) != count)
        return error_set(error, EX_IOERR, "%s is damaged: expected %zu tensors, got %zu",
                         source->path, count, safetensors_count(source->file));
    checkpoint_mark_changed(layout, source->file, config, report);
    for (size_t n = 0; n < layout->count; n++) {
        struct safetensors_entry *wanted = &layout->entries[n];
        const struct checkpoint_entry *of = &layout->of[n];
        const struct safetensors_entry *found = safetensors_find(source->file, wanted->name);
        if (of->lacked && !started && checkpoint_is_start(layout, of)) {
            if (learner_start(learner, error))
                return -1;
            started = true;
        }
        if (of->lacked)
            continue;
        if (found && (of->kind == ENTRY_WORDS || (of->kind == ENTRY_KEPT && of->row->used)))
            wanted->shape[0] = found->shape[0];
        if (!found || found->type != wanted->type || found->rank != wanted->rank ||
            memcmp(found->shape, wanted->shape, wanted->rank * sizeof *wanted->shape))
            return error_set(error, EX_IOERR,
                             "%s is damaged: tensor %s is missing, or has another type or shape",
                             source->path, wanted->name);
        wanted->begin = found->begin;
        wanted->size = found->size;
    }
    return 0;
}

static void compare_device(const struct checkpoint_source *source, const struct learner *learner,
                           struct checkpoint_report *report) {
    const char *then = safetensors_metadata(source->file, "device");
    const char *now = learner_fingerprint(learner);
    if (then && !strcmp(then, now))
        return;
    checkpoint_warn(report,
                    "%s was written on another device (%.100s; now %.100s): learning resumes with "
                    "different rounding",
                    source->path, then ? then : "?", now);
}

static int find_position(const struct checkpoint_source *source, uint64_t *position,
                         struct error *error) {
    uint64_t counters[CHECKPOINT_COUNTERS];
    const struct safetensors_entry *entry = safetensors_find(source->file, "learner.counters");
    if (!entry || entry->size != sizeof counters)
        return damaged(source, "missing counters", error);
    if (safetensors_read(source->file, entry, 0, counters, sizeof counters, error))
        return -1;
    *position = counters[CHECKPOINT_COUNTERS - 1];
    return 0;
}

static int read_all(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                    const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    size_t keys = 0;
    if (check_entries(layout, source, learner, config, report, error) ||
        read_once(layout, source, &keys, error))
        return -1;
    learner_once_filled(learner);
    if (read_streams(layout, source, keys, error))
        return -1;
    learner_resumed(learner);
    return 0;
}

int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    struct checkpoint_source source = {.path = path};
    struct checkpoint_layout layout = {0};
    int status = -1;
    if (safetensors_open(&source.file, path, error) || verify(source.file, path, report, error))
        status = error->status == EX_IOERR ? CHECKPOINT_NOT_WHOLE : -1;
    else if (check_format(&source, error))
        status = -1;
    else if (checkpoint_check_digest(&layout, &source, config, report, error))
        status = CHECKPOINT_OTHER;
    else
        status = learner ? read_all(&layout, &source, config, learner, report, error)
                         : find_position(&source, &report->position, error);
    if (status == 0 && learner)
        compare_device(&source, learner, report);
    safetensors_close(&source.file);
    checkpoint_layout_close(&layout);
    return status;
}
