#include "carry.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base64.h"
#include "common/error.h"
#include "common/streams.h"
#include "common/wire.h"
#include "config/config.h"
#include "learner/changes.h"
#include "learner/learner_state.h"
#include "store/journal.h"
#include "store/parameters_file.h"
#include "store/stream_state.h"

/* A piece and a key, each byte of which can need six in JSON. */
enum { COMMAND_SIZE = (WIRE_PIECE + 2) / 3 * 4 + 6 * WIRE_KEY_MAX + 256 };

struct carry {
    const struct config *config;
    struct learner *learner;
    struct journal *journal; /* NULL: nothing is appended */
    struct stream_state *state;
    char *text; /* text of a command with a piece */
};

int carry_open(struct carry **carry, const struct config *config, struct learner *learner,
               struct journal *journal, struct error *error) {
    struct carry *opened = *carry = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    *opened = (struct carry){.config = config, .learner = learner, .journal = journal};
    opened->text = malloc(COMMAND_SIZE);
    int status = opened->text ? stream_state_open(&opened->state, config, learner, error)
                              : error_no_memory(error);
    if (status)
        carry_close(carry);
    return status;
}

void carry_close(struct carry **carry) {
    if (*carry) {
        stream_state_close(&(*carry)->state);
        free((*carry)->text);
    }
    free(*carry);
    *carry = NULL;
}

/* Appends the command and frees it; NULL: out of memory. It always fits into the journal. */
static int append(struct carry *carry, enum journal_kind kind, json_t *command,
                  struct error *error) {
    char *text = json_dumps(command, JSON_COMPACT);
    json_decref(command);
    if (!text)
        return error_no_memory(error);
    learner_set_position(carry->learner, journal_append_command(carry->journal, kind, text));
    free(text);
    return 0;
}

/* ---- Streams ---- */

int carry_export(struct carry *carry, const char *key, size_t key_size, struct carry_blob *blob,
                 struct error *error) {
    uint32_t slot = streams_find(learner_streams_table(carry->learner), key, key_size);
    blob->order = slot == STREAMS_NONE ? 0 : changes_of(learner_changes(carry->learner), slot);
    return stream_state_export(carry->state, key, key_size, &blob->bytes, &blob->size, error);
}

static bool wants(const struct carry_visitor *visitor, const char *key, size_t key_size) {
    return !visitor->wants || visitor->wants(visitor->context, key, key_size);
}

static int visit(struct carry *carry, uint32_t slot, const struct carry_visitor *visitor,
                 struct error *error) {
    struct carry_blob blob;
    size_t key_size;
    const char *key = streams_key(learner_streams_table(carry->learner), slot, &key_size);
    return wants(visitor, key, key_size) &&
                   (carry_export(carry, key, key_size, &blob, error) ||
                    visitor->visit(visitor->context, key, key_size, &blob, error))
               ? -1
               : 0;
}

int carry_each(struct carry *carry, const struct carry_visitor *visitor, struct error *error) {
    const struct streams *streams = learner_streams_table(carry->learner);
    int status = learner_flush(carry->learner, error);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE && status == 0;
         slot = streams_newer(streams, slot))
        status = visit(carry, slot, visitor, error);
    return status ? -1 : 0;
}

/* Changed slots, by the entry that changed them. */
struct changed {
    uint64_t entry;
    uint32_t slot;
};

static int by_entry(const void *a, const void *b) {
    const struct changed *one = a, *other = b;
    return (one->entry > other->entry) - (one->entry < other->entry);
}

static size_t find_changed(const struct carry *carry, uint64_t since, struct changed *found) {
    const struct streams *streams = learner_streams_table(carry->learner);
    const struct changes *changes = learner_changes(carry->learner);
    size_t count = 0;
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        if (changes_of(changes, slot) > since)
            found[count++] = (struct changed){changes_of(changes, slot), slot};
    qsort(found, count, sizeof *found, by_entry);
    return count;
}

static int visit_removed(const struct carry *carry, uint64_t since,
                         const struct carry_visitor *visitor, struct error *error) {
    const struct changes *changes = learner_changes(carry->learner);
    const struct streams *left = changes_left(changes);
    for (uint32_t slot = streams_oldest(left); slot != STREAMS_NONE;
         slot = streams_newer(left, slot)) {
        size_t key_size;
        const char *key = streams_key(left, slot, &key_size);
        if (changes_left_with(changes, slot) > since && wants(visitor, key, key_size) &&
            visitor->gone(visitor->context, key, key_size, error))
            return -1;
    }
    return 0;
}

int carry_changed(struct carry *carry, uint64_t since, const struct carry_visitor *visitor,
                  struct error *error) {
    const struct streams *streams = learner_streams_table(carry->learner);
    if (learner_flush(carry->learner, error))
        return -1;
    if (since < changes_known(learner_changes(carry->learner)))
        return 1;
    struct changed *found = malloc((streams_count(streams) + 1) * sizeof *found);
    if (!found)
        return error_no_memory(error);
    size_t count = find_changed(carry, since, found);
    int status = 0;
    for (size_t n = 0; n < count && status == 0; n++)
        status = visit(carry, found[n].slot, visitor, error);
    free(found);
    return status || !visitor->gone ? status : visit_removed(carry, since, visitor, error);
}

uint64_t carry_position(const struct carry *carry) {
    return learner_counters(carry->learner).position;
}

void carry_settle(struct carry *carry, uint64_t position) {
    learner_changes_settle(carry->learner, position);
}

int carry_look(const struct carry *carry, const void *bytes, size_t size, const char **key,
               size_t *key_size, struct error *error) {
    return stream_state_look(carry->state, bytes, size, key, key_size, error);
}

/* Appends a command with the piece, in the form that jansson writes. */
static void append_piece(struct carry *carry, const char *key, size_t part, size_t parts,
                         const unsigned char *piece, size_t size) {
    char *text = carry->text;
    text += sprintf(text,
                    "{\"command\":\"adopt\",\"stream\":%s,\"part\":%zu,\"parts\":%zu,"
                    "\"blob\":\"",
                    key, part, parts);
    base64_write(piece, size, text);
    strcpy(text + base64_size(size), "\"}");
    learner_set_position(carry->learner,
                         journal_append_command(carry->journal, JOURNAL_ADOPT, carry->text));
}

/* Appends the blob in pieces that fit into a request of the control socket. */
static int append_adoption(struct carry *carry, const unsigned char *bytes, size_t size,
                           struct error *error) {
    const char *key;
    size_t key_size, parts = (size + WIRE_PIECE - 1) / WIRE_PIECE;
    if (carry_look(carry, bytes, size, &key, &key_size, error))
        return -1;
    json_t *name = json_stringn(key, key_size);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    if (!quoted)
        return error_no_memory(error);
    for (size_t part = 0; part < parts; part++) {
        size_t left = size - part * WIRE_PIECE;
        append_piece(carry, quoted, part + 1, parts, bytes + part * WIRE_PIECE,
                     left < WIRE_PIECE ? left : WIRE_PIECE);
    }
    free(quoted);
    return 0;
}

int carry_adopt(struct carry *carry, const void *bytes, size_t size, struct error *error) {
    int status = stream_state_adopt(carry->state, bytes, size, error);
    return status || !carry->journal ? status : append_adoption(carry, bytes, size, error);
}

bool carry_lost(const struct carry *carry, const char **key, size_t *key_size) {
    return stream_state_lost(carry->state, key, key_size);
}

/* Bytes of keys in one command, so that it fits into a request: each can need six in JSON. */
enum { FORGET_KEYS = WIRE_PIECE / 6 };

static int append_forgotten(struct carry *carry, json_t **keys, struct error *error) {
    json_t *command = json_pack("{s:s, s:o}", "command", "forget", "streams", *keys);
    *keys = json_array();
    return append(carry, JOURNAL_FORGET, command, error);
}

static int forget(struct carry *carry, const struct carry_visitor *visitor, json_t **keys,
                  struct error *error) {
    const struct streams *streams = learner_streams_table(carry->learner);
    size_t bytes = 0;
    for (uint32_t slot = streams_oldest(streams), newer; slot != STREAMS_NONE; slot = newer) {
        size_t key_size;
        const char *key = streams_key(streams, slot, &key_size);
        newer = streams_newer(streams, slot);
        if (!wants(visitor, key, key_size))
            continue;
        if (json_array_append_new(*keys, json_stringn(key, key_size)))
            return error_no_memory(error);
        bytes += key_size + sizeof "\"\",";
        if (learner_forget(carry->learner, key, key_size, error) < 0)
            return -1;
        if (bytes < FORGET_KEYS || !carry->journal)
            continue;
        bytes = 0;
        if (append_forgotten(carry, keys, error))
            return -1;
    }
    return json_array_size(*keys) && carry->journal ? append_forgotten(carry, keys, error) : 0;
}

int carry_forget(struct carry *carry, const struct carry_visitor *visitor, struct error *error) {
    json_t *keys = json_array();
    if (learner_flush(carry->learner, error)) {
        json_decref(keys);
        return -1;
    }
    int status = forget(carry, visitor, &keys, error);
    json_decref(keys);
    return status;
}

/* ---- Parameters ---- */

size_t carry_parameters(const struct carry *carry) {
    return parameters_file_numbers(carry->learner);
}

int carry_read_parameters(struct carry *carry, float *values, struct error *error) {
    if (learner_flush(carry->learner, error))
        return -1;
    for (size_t m = 0; m < learner_members(carry->learner); m++) {
        const struct model *model = learner_member_model(carry->learner, m);
        for (size_t n = 0; n < model->tensor_count; n++)
            if (learner_read_parameters(carry->learner, m, n, values + model->tensors[n].offset,
                                        error))
                return -1;
        values += model->parameters;
    }
    return 0;
}

/* Writes the file before the command that names it. */
static int write_file(struct carry *carry, const float *values, bool begins, json_t **command,
                      struct error *error) {
    struct parameters_file file;
    if (parameters_file_write(carry->config->state_directory, journal_position(carry->journal) + 1,
                              carry->learner, carry->config->compatible, values, &file, error))
        return -1;
    *command =
        json_pack("{s:s, s:s, s:I, s:I, s:b}", "command", "import", "file", file.name, "bytes",
                  (json_int_t)file.bytes, "crc", (json_int_t)file.checksum, "begins", begins);
    return *command ? 0 : error_no_memory(error);
}

int carry_write_parameters(struct carry *carry, const float *values, bool begins,
                           struct error *error) {
    json_t *command = NULL;
    for (size_t n = 0; n < carry_parameters(carry); n++)
        if (!isfinite(values[n]))
            return error_set(error, EX_DATAERR,
                             "the parameters contain numbers that are not finite"),
                   1;
    if (carry->journal && write_file(carry, values, begins, &command, error))
        return 1;
    for (size_t m = 0; m < learner_members(carry->learner); m++) {
        if (learner_write_parameters(carry->learner, m, values, begins, error)) {
            json_decref(command);
            return -1;
        }
        values += learner_member_model(carry->learner, m)->parameters;
    }
    return carry->journal ? append(carry, JOURNAL_IMPORT, command, error) : 0;
}
