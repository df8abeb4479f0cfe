#include "stream_state.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "checkpoint_file.h"
#include "common/streams.h"
#include "common/text.h"
#include "common/wire.h"
#include "learner/learner_state.h"
#include "parts/anomalies.h"
#include "parts/part.h"
#include "parts/words.h"

#define MAGIC "RNSTREAM"

enum { MAGIC_SIZE = 8, SUMMED_FROM = MAGIC_SIZE + 2 * sizeof(uint32_t), PATH_SIZE = 64 };

struct stream_state {
    const struct config *config;
    struct learner *learner;
    struct checkpoint_layout layout;   /* layout of one stream */
    struct safetensors_memory blob;    /* the last export */
    struct safetensors_memory kept;    /* the state that an adoption displaces */
    char share[CHECKPOINT_SHARE_SIZE]; /* hash as in a checkpoint; zeros: nothing is shared */
    char lost[UINT8_MAX];              /* the stream that the last adoption could not restore */
    size_t lost_size;
    bool loses;
};

/* The beginning of all blobs of one learner, after magic, format and checksum. */
struct origin {
    char digest[CONFIG_DIGEST_SIZE], share[CHECKPOINT_SHARE_SIZE];
    uint64_t memory;
};

int stream_state_open(struct stream_state **state, const struct config *config,
                      struct learner *learner, struct error *error) {
    *state = NULL;
    if (words_lexicons(learner_host(learner)))
        return error_set(error, EX_CONFIG,
                         "cannot move streams of a model with a vocabulary, because word ids "
                         "differ between daemons; send ids, or use hash, instead of words");
    struct stream_state *opened = *state = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->config = config;
    opened->learner = learner;
    if (anomalies_shared(learner_host(learner)))
        checkpoint_share(config, opened->share);
    int status = checkpoint_layout_open(&opened->layout, learner, 1, error);
    if (status)
        stream_state_close(state);
    return status;
}

void stream_state_close(struct stream_state **state) {
    if (*state) {
        checkpoint_layout_close(&(*state)->layout);
        free((*state)->blob.bytes);
        free((*state)->kept.bytes);
    }
    free(*state);
    *state = NULL;
}

size_t stream_state_size(const struct stream_state *state) {
    const struct checkpoint_layout *layout = &state->layout;
    size_t size = SUMMED_FROM + sizeof(struct origin) + UINT8_MAX + 2 * sizeof(uint16_t);
    for (size_t n = 0; n < layout->count; n++) {
        const struct state_row *row = layout->of[n].row;
        const struct state_place place = {.self = layout->of[n].self, .row = row};
        if (checkpoint_is_row(&layout->of[n]))
            size += UINT8_MAX + 2 * sizeof(uint64_t) +
                    (row->used ? row->most(&place) : 1) * checkpoint_row_size(&layout->entries[n]);
    }
    return size;
}

/* ---- Export ---- */

static int put(struct safetensors_memory *memory, const void *bytes, size_t size,
               struct error *error) {
    return safetensors_to_memory(memory, bytes, size, error);
}

static int put_origin(const struct stream_state *state, struct safetensors_memory *memory,
                      struct error *error) {
    struct origin origin = {.memory = state->config->anomaly.memory};
    snprintf(origin.digest, sizeof origin.digest, "%s", state->config->compatible);
    return put(memory, origin.digest, sizeof origin.digest, error) ||
                   put(memory, state->share, sizeof origin.share, error) ||
                   put(memory, &origin.memory, sizeof origin.memory, error)
               ? -1
               : 0;
}

static int put_text(struct safetensors_memory *memory, const char *text, size_t size,
                    struct error *error) {
    const unsigned char length = (unsigned char)size;
    return put(memory, &length, sizeof length, error) || put(memory, text, size, error) ? -1 : 0;
}

/* Writes name, size and bytes; the size is known only after writing them. */
static int put_row(const struct checkpoint_layout *layout, size_t n, uint32_t slot, bool moves,
                   struct safetensors_memory *memory, struct error *error) {
    const char *name = layout->of[n].name;
    uint64_t size = 0;
    if (put_text(memory, name, strlen(name), error) || put(memory, &size, sizeof size, error))
        return -1;
    size_t begin = memory->size;
    if (checkpoint_put_row(layout, n, slot, safetensors_to_memory, memory, error))
        return -1;
    size = memory->size - begin;
    memcpy(memory->bytes + begin - sizeof size, &size, sizeof size);
    memset(memory->bytes + begin, 0, moves ? layout->of[n].row->own : 0);
    return 0;
}

static int put_rows(const struct checkpoint_layout *layout, uint32_t slot, bool moves,
                    struct safetensors_memory *memory, struct error *error) {
    uint16_t rows = 0;
    for (size_t n = 0; n < layout->count; n++)
        rows += checkpoint_is_row(&layout->of[n]);
    if (put(memory, &rows, sizeof rows, error))
        return -1;
    for (size_t n = 0; n < layout->count; n++)
        if (checkpoint_is_row(&layout->of[n]) && put_row(layout, n, slot, moves, memory, error))
            return -1;
    return 0;
}

static int export_to(const struct stream_state *state, const char *key, size_t key_size,
                     struct safetensors_memory *memory, struct error *error) {
    uint32_t numbers[] = {STREAM_STATE_FORMAT, 0};
    uint32_t slot = streams_find(learner_streams_table(state->learner), key, key_size);
    memory->size = 0;
    if (slot == STREAMS_NONE)
        return 1;
    if (put(memory, MAGIC, MAGIC_SIZE, error) || put(memory, numbers, sizeof numbers, error) ||
        put_origin(state, memory, error) || put_text(memory, key, key_size, error) ||
        put_rows(&state->layout, slot, memory == &state->blob, memory, error))
        return -1;
    numbers[1] = libdeflate_crc32(0, memory->bytes + SUMMED_FROM, memory->size - SUMMED_FROM);
    memcpy(memory->bytes + MAGIC_SIZE, numbers, sizeof numbers);
    return 0;
}

int stream_state_export(struct stream_state *state, const char *key, size_t key_size,
                        const unsigned char **bytes, size_t *size, struct error *error) {
    if (learner_flush(state->learner, error))
        return -1;
    int status = export_to(state, key, key_size, &state->blob, error);
    *bytes = state->blob.bytes;
    *size = state->blob.size;
    return status;
}

/* ---- Reading a blob ---- */

struct blob {
    const unsigned char *bytes;
    size_t size, at;
};

/* Takes the next bytes; NULL: the blob is too short. */
static const void *next(struct blob *blob, size_t size) {
    const unsigned char *bytes = blob->bytes + blob->at;
    if (size > blob->size - blob->at)
        return NULL;
    blob->at += size;
    return bytes;
}

static bool next_text(struct blob *blob, const char **text, size_t *size) {
    const unsigned char *length = next(blob, 1);
    *size = length ? *length : 0;
    *text = length ? next(blob, *size) : NULL;
    return *text != NULL;
}

static bool next_number(struct blob *blob, void *number, size_t size) {
    const void *bytes = next(blob, size);
    if (bytes)
        memcpy(number, bytes, size);
    return bytes != NULL;
}

static int refuse(struct error *error, const char *what) {
    error_set(error, EX_DATAERR, "the state of the stream is damaged: %s", what);
    return 1;
}

bool stream_state_is(const void *bytes, size_t size) {
    return size >= MAGIC_SIZE && memcmp(bytes, MAGIC, MAGIC_SIZE) == 0;
}

/* A safetensors file begins with the size of its JSON head. */
static bool is_parameters(const struct blob *blob) {
    return blob->size > sizeof(uint64_t) && blob->bytes[sizeof(uint64_t)] == '{';
}

static int read_format(struct blob *blob, struct error *error) {
    uint32_t format, sum;
    if (!stream_state_is(blob->bytes, blob->size) && is_parameters(blob))
        return error_set(
                   error, EX_DATAERR,
                   "not a stream state: this file contains parameters (use `runnel-ctl import`)"),
               1;
    if (!stream_state_is(blob->bytes, blob->size))
        return error_set(error, EX_DATAERR,
                         "not a stream state: `runnel-ctl export FILE STREAM` writes one"),
               1;
    next(blob, MAGIC_SIZE);
    if (!next_number(blob, &format, sizeof format) || !next_number(blob, &sum, sizeof sum))
        return refuse(error, "it is truncated");
    if (format != STREAM_STATE_FORMAT)
        return error_set(error, EX_DATAERR,
                         "the stream state has the format %" PRIu32
                         " of another version, expected %d",
                         format, STREAM_STATE_FORMAT),
               1;
    if (libdeflate_crc32(0, blob->bytes + blob->at, blob->size - blob->at) != sum)
        return refuse(error, "checksum mismatch");
    return 0;
}

static int read_head(const struct stream_state *state, struct blob *blob, struct origin *origin,
                     const char **key, size_t *key_size, struct error *error) {
    int status = read_format(blob, error);
    if (status)
        return status;
    if (!next_number(blob, origin->digest, sizeof origin->digest) ||
        !next_number(blob, origin->share, sizeof origin->share) ||
        !next_number(blob, &origin->memory, sizeof origin->memory) ||
        !next_text(blob, key, key_size) || !wire_is_utf8(*key, *key_size))
        return refuse(error, "missing or invalid stream");
    if (strncmp(origin->digest, state->config->compatible, sizeof origin->digest) != 0) {
        char quoted[TEXT_QUOTE_SIZE];
        return error_set(
                   error, EX_DATAERR,
                   "the state of stream %s has another configuration: model, learning (except rate "
                   "and clip), seed and members must be those of this daemon, %s%s",
                   text_quote(quoted, *key, *key_size), state->config->name,
                   config_hint(state->config, origin->digest)),
               1;
    }
    return 0;
}

int stream_state_look(const struct stream_state *state, const void *bytes, size_t size,
                      const char **key, size_t *key_size, struct error *error) {
    struct blob blob = {.bytes = bytes, .size = size};
    struct origin origin;
    return read_head(state, &blob, &origin, key, key_size, error);
}

/* ---- Adoption ---- */

static size_t entry_named(const struct checkpoint_layout *layout, const char *name, size_t size) {
    for (size_t n = 0; n < layout->count; n++)
        if (checkpoint_is_row(&layout->of[n]) && strlen(layout->of[n].name) == size &&
            memcmp(layout->of[n].name, name, size) == 0)
            return n;
    return SIZE_MAX;
}

/* Returns whether this configuration does not keep the row: predictions or anomalies. */
static bool is_needless(const char *name, size_t size) {
    const struct state_row *row;
    for (size_t n = 0; (row = part_row(n)); n++)
        if (row->flags & (STATE_TRUTH | STATE_WATCH) && strlen(row->name) == size &&
            !memcmp(row->name, name, size))
            return true;
    return false;
}

/* Enters the place of the next row's bytes into the layout. */
static int find_row(struct checkpoint_layout *layout, struct blob *blob, struct origin *origin,
                    struct error *error) {
    const char *name;
    size_t name_size;
    uint64_t size;
    if (!next_text(blob, &name, &name_size) || !next_number(blob, &size, sizeof size))
        return refuse(error, "it is truncated");
    size_t begin = blob->at, n = entry_named(layout, name, name_size);
    if (!next(blob, size))
        return refuse(error, "it is truncated");
    if (size && name_size == strlen(ANOMALY_HELD) && !memcmp(name, ANOMALY_HELD, name_size))
        origin->memory = 0; /* its contexts are of no use */
    if (n == SIZE_MAX)
        return is_needless(name, name_size) ? 0 : refuse(error, "unknown row");
    struct safetensors_entry *entry = &layout->entries[n];
    size_t row = checkpoint_row_size(entry);
    bool used = layout->of[n].row->used;
    layout->of[n].lacked = used ? size % row != 0 : size != row;
    layout->of[n].used = 0;
    entry->begin = begin;
    entry->size = size;
    entry->shape[0] = used ? size / row : 1;
    return 0;
}

/* Rows that an older program or a memory of another size lacks start from scratch. */
static int check_rows(const struct stream_state *state, struct checkpoint_layout *layout,
                      const struct origin *origin, struct error *error) {
    bool fits = origin->memory == state->config->anomaly.memory &&
                memcmp(origin->share, state->share, sizeof state->share) == 0;
    bool sized = true;
    for (size_t n = 0; n < layout->count; n++) {
        const struct checkpoint_entry *of = &layout->of[n];
        bool lacks = checkpoint_is_row(of) && of->lacked && !(of->row->flags & STATE_TRUTH);
        fits &= !lacks || !(of->row->flags & STATE_MEMORY);
        sized &= !lacks || !(of->row->flags & STATE_SIZED);
    }
    for (size_t n = 0; n < layout->count; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        if (!checkpoint_is_row(of))
            continue;
        of->lacked |=
            (checkpoint_is_watched(of) && !fits) || (of->row->flags & STATE_SIZED && !sized);
        if (of->lacked && !(of->row->flags & STATE_LATER))
            return refuse(error, "missing row");
    }
    return 0;
}

static int find_rows(struct stream_state *state, struct blob *blob, struct origin *origin,
                     struct error *error) {
    struct checkpoint_layout *layout = &state->layout;
    uint16_t rows;
    if (!next_number(blob, &rows, sizeof rows))
        return refuse(error, "it is truncated");
    for (size_t n = 0; n < layout->count; n++)
        layout->of[n].lacked = true;
    for (uint16_t n = 0; n < rows; n++)
        if (find_row(layout, blob, origin, error))
            return 1;
    if (blob->at != blob->size)
        return refuse(error, "data after its end");
    return check_rows(state, layout, origin, error);
}

/* Fills a slot in which the stream has begun. 1: the rows are invalid for this learner. */
static int write_slot(struct stream_state *state, const void *bytes, uint32_t slot,
                      struct error *error) {
    const struct checkpoint_source source = {.path = "the state of the stream", .blob = bytes};
    if (checkpoint_fill_slot(&state->layout, &source, 0, slot, error) == 0 &&
        checkpoint_check_used(&state->layout, &source, error) == 0)
        return 0;
    bool damaged = error->status == EX_IOERR;
    error->status = damaged ? EX_DATAERR : error->status;
    return damaged ? 1 : -1;
}

static int find(struct stream_state *state, const void *bytes, size_t size, const char **key,
                size_t *key_size, struct error *error) {
    struct blob blob = {.bytes = bytes, .size = size};
    struct origin origin;
    int status = read_head(state, &blob, &origin, key, key_size, error);
    return status ? status : find_rows(state, &blob, &origin, error);
}

/* Forgets the stream: its earlier state cannot be read back. */
static int lose(struct stream_state *state, uint32_t slot, struct error *error) {
    const char *key = streams_key(learner_streams_table(state->learner), slot, &state->lost_size);
    memcpy(state->lost, key, state->lost_size);
    state->loses = true;
    return learner_forget(state->learner, state->lost, state->lost_size, error);
}

bool stream_state_lost(const struct stream_state *state, const char **key, size_t *key_size) {
    *key = state->lost;
    *key_size = state->lost_size;
    return state->loses;
}

/* Restores the displaced state after an adoption that could not be read. */
static int undo(struct stream_state *state, const struct learner_place *place,
                struct error *error) {
    struct error why = *error;
    const char *key;
    size_t key_size;
    uint32_t slot;
    if (learner_withdraw(state->learner, place, &slot, error))
        return -1;
    if (slot != STREAMS_NONE) {
        int status = find(state, state->kept.bytes, state->kept.size, &key, &key_size, error);
        if (status == 0)
            status = write_slot(state, state->kept.bytes, slot, error);
        learner_restored(state->learner, slot);
        if (status < 0 || (status > 0 && lose(state, slot, error)))
            return -1;
    }
    *error = why;
    return 1;
}

int stream_state_adopt(struct stream_state *state, const void *bytes, size_t size,
                       struct error *error) {
    struct learner *learner = state->learner;
    struct learner_place place;
    const char *key, *displaced;
    size_t key_size, displaced_size;
    int status = find(state, bytes, size, &key, &key_size, error);
    state->loses = false;
    if (status)
        return status;
    if (learner_flush(learner, error) ||
        (learner_displaces(learner, key, key_size, &displaced, &displaced_size) &&
         export_to(state, displaced, displaced_size, &state->kept, error)) ||
        learner_place(learner, key, key_size, &place, error))
        return -1;
    status = write_slot(state, bytes, place.slot, error);
    if (status)
        return status > 0 ? undo(state, &place, error) : -1;
    learner_settle(learner, &place);
    return 0;
}
