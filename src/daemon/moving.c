#include "moving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "journalling.h"
#include "learner/learner_state.h"
#include "model/safetensors.h"
#include "parts.h"
#include "parts/words.h"
#include "pieces.h"
#include "run.h"
#include "store/carry.h"
#include "store/parameters_file.h"
#include "store/stream_state.h"

/* Bytes of an export in addition to its numbers: names, shapes, scalers, vocabularies. */
enum { EXPORT_HEAD = 16 << 20, PATH_SIZE = 64 };

struct moving {
    struct pieces adopted, imported; /* parts from a client */
    struct pieces replayed;
    uint64_t replayed_at;  /* position of the last replayed part */
    moving_may *may_adopt; /* NULL: always */
};

int moving_open(struct daemon *daemon, struct error *error) {
    daemon->moving = calloc(1, sizeof *daemon->moving);
    return daemon->moving ? 0 : error_no_memory(error);
}

void moving_ask(struct daemon *daemon, moving_may *may_adopt) {
    daemon->moving->may_adopt = may_adopt;
}

void moving_close(struct daemon *daemon) {
    if (daemon->moving) {
        pieces_free(&daemon->moving->adopted);
        pieces_free(&daemon->moving->imported);
        pieces_free(&daemon->moving->replayed);
    }
    free(daemon->moving);
    daemon->moving = NULL;
}

void moving_lost(struct daemon *daemon, const struct carry *carry) {
    const char *key;
    size_t key_size;
    if (!carry_lost(carry, &key, &key_size))
        return;
    checkpoints_forgot(daemon, key, key_size);
    checkpoints_changed(daemon);
}

/* ---- A stream ---- */

int moving_export(struct daemon *daemon, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    const json_t *stream = json_object_get(request, "stream");
    const char *key = json_string_value(stream);
    size_t key_size = json_string_length(stream);
    char quoted[TEXT_QUOTE_SIZE];
    struct carry *carry;
    struct carry_blob blob;
    if (!key || key_size > WIRE_KEY_MAX)
        return error_set(error, EX_USAGE,
                         "export: expected a stream of at most %d bytes, or no stream, for example "
                         "{\"command\": \"export\", \"stream\": \"host-3\"}",
                         WIRE_KEY_MAX);
    if (checkpoints_check(daemon, 0, error))
        return run_abort(daemon, error);
    if (carry_open(&carry, daemon->config, daemon->learner, NULL, error))
        return -1;
    int status = carry_export(carry, key, key_size, &blob, error);
    if (status < 0)
        status = run_abort(daemon, error);
    else if (status)
        status = error_set(error, EX_USAGE, "stream %s not found in memory",
                           text_quote(quoted, key, key_size));
    else if (!(answer->blob = malloc(blob.size)))
        status = error_no_memory(error);
    if (status == 0) {
        memcpy(answer->blob, blob.bytes, blob.size);
        answer->blob_size = blob.size;
        json_object_update_new(answer->fields, json_pack("{s:O, s:I}", "stream", stream, "bytes",
                                                         (json_int_t)blob.size));
    }
    carry_close(&carry);
    return status;
}

static int announce_adopted(struct daemon *daemon, const json_t *stream,
                            struct control_answer *answer) {
    char quoted[TEXT_QUOTE_SIZE];
    text_quote(quoted, json_string_value(stream), json_string_length(stream));
    announce_logged(daemon, log_info, "adopt", json_pack("{s:O}", "stream", stream),
                    "adopted stream %s with its state from another daemon", quoted);
    json_object_set(answer->fields, "stream", (json_t *)stream);
    return 0;
}

/* Adopts the stream once all parts have arrived. */
static int adopt(struct daemon *daemon, struct carry *carry, const struct pieces *pieces,
                 struct control_answer *answer, struct error *error) {
    const char *key;
    size_t key_size;
    moving_may *may = daemon->moving->may_adopt;
    if (carry_look(carry, pieces->bytes, pieces->size, &key, &key_size, error) ||
        (may && may(daemon, key, key_size, error)))
        return -1;
    int status = carry_adopt(carry, pieces->bytes, pieces->size, error);
    moving_lost(daemon, carry);
    if (status)
        return status < 0 ? run_abort(daemon, error) : -1;
    checkpoints_changed(daemon);
    /* The reply must hold after a crash. */
    if (journalling_sync(daemon, error))
        return run_fail(daemon, error);
    carry_look(carry, pieces->bytes, pieces->size, &key, &key_size, error);
    json_t *stream = json_stringn(key, key_size);
    status = announce_adopted(daemon, stream, answer);
    json_decref(stream);
    return status;
}

static int add_adopted(struct daemon *daemon, struct pieces *pieces, const json_t *request,
                       struct error *error) {
    struct stream_state *state;
    if (stream_state_open(&state, daemon->config, daemon->learner, error))
        return -1;
    int status = pieces_take(pieces, request, stream_state_size(state), error);
    stream_state_close(&state);
    return status;
}

/* Replies that more parts are expected. */
static int reply_part(const struct pieces *pieces, struct control_answer *answer) {
    json_object_set_new(answer->fields, "part", json_integer((json_int_t)pieces->part));
    return 0;
}

int moving_adopt(void *context, const json_t *request, struct control_answer *answer,
                 struct error *error) {
    struct daemon *daemon = context;
    struct pieces *pieces = &daemon->moving->adopted;
    struct carry *carry;
    int status = add_adopted(daemon, pieces, request, error);
    if (status <= 0)
        return status ? -1 : reply_part(pieces, answer);
    status = carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error);
    if (status == 0)
        status = adopt(daemon, carry, pieces, answer, error);
    carry_close(&carry);
    pieces_free(pieces);
    return status;
}

/* The parts of an adoption follow each other in the journal. If a rollback has left out one of
   them, the adoption did not take place. */
int moving_replay_adopt(struct daemon *daemon, const json_t *command, struct error *error) {
    struct pieces *pieces = &daemon->moving->replayed;
    struct stream_state *state;
    uint64_t position = learner_counters(daemon->learner).position + 1;
    if (position != daemon->moving->replayed_at + 1)
        pieces_free(pieces);
    daemon->moving->replayed_at = position;
    int status = add_adopted(daemon, pieces, command, error);
    if (status <= 0)
        return status && error->status != EX_USAGE ? -1 : 0;
    if (stream_state_open(&state, daemon->config, daemon->learner, error))
        return -1;
    status = stream_state_adopt(state, pieces->bytes, pieces->size, error);
    stream_state_close(&state);
    pieces_free(pieces);
    if (status > 0) /* an earlier version accepted more */
        log_warning("ignored an adoption: %s", error->text);
    return status < 0 ? -1 : 0;
}

/* ---- Parameters ---- */

/* Writes the bytes to a file without a name, since parameters are read from a file. */
static int read_bytes(struct daemon *daemon, const struct pieces *pieces, float *values,
                      struct error *error) {
    char path[PATH_SIZE];
    int file = memfd_create("parameters", MFD_CLOEXEC);
    struct safetensors_file to = {file, "the parameters"};
    if (stream_state_is(pieces->bytes, pieces->size)) {
        if (file >= 0)
            close(file);
        return error_set(
            error, EX_USAGE,
            "not parameters: this file contains the state of a stream (use `runnel-ctl adopt`)");
    }
    if (file < 0)
        return error_set(error, EX_OSERR, "cannot read the parameters: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int status = safetensors_to_file(&to, pieces->bytes, pieces->size, error);
    if (status == 0 &&
        (status = parameters_file_import(path, daemon->learner, values, error)) != 0) {
        const struct error why = *error; /* the temporary path means nothing to a client */
        bool named = !strncmp(why.text, path, strlen(path));
        error_set(error, why.status, "the parameters%s%s", named ? "" : ": ",
                  why.text + (named ? strlen(path) : 0));
    }
    close(file);
    return status;
}

static int import(struct daemon *daemon, const struct pieces *pieces, struct error *error) {
    struct carry *carry = NULL;
    float *values = calloc(parameters_file_numbers(daemon->learner) + 1, sizeof *values);
    int status = values ? read_bytes(daemon, pieces, values, error) : error_no_memory(error);
    if (status == 0)
        status = carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error);
    if (status == 0) {
        status = carry_write_parameters(carry, values, true, error);
        status = status < 0 ? run_abort(daemon, error) : status ? -1 : 0;
    }
    carry_close(&carry);
    free(values);
    return status;
}

int moving_import(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    struct daemon *daemon = context;
    struct pieces *pieces = &daemon->moving->imported;
    size_t numbers = parameters_file_numbers(daemon->learner);
    if (words_lexicons(learner_host(daemon->learner)))
        return error_set(
            error, EX_USAGE,
            "import: a model with a vocabulary cannot replace its parameters at run time, because "
            "their rows belong to words; use model.initial, which also loads the words");
    int status = pieces_take(pieces, request, numbers * sizeof(float) + EXPORT_HEAD, error);
    if (status <= 0)
        return status ? -1 : reply_part(pieces, answer);
    status = import(daemon, pieces, error);
    pieces_free(pieces);
    if (status)
        return -1;
    checkpoints_changed(daemon);
    if (journalling_sync(daemon, error))
        return run_fail(daemon, error);
    announce_logged(daemon, log_info, "import",
                    json_pack("{s:I}", "parameters", (json_int_t)numbers),
                    "imported %zu parameters, which replace the learned ones", numbers);
    json_object_set_new(answer->fields, "parameters", json_integer((json_int_t)numbers));
    return 0;
}

static bool read_command(const json_t *command, struct parameters_file *file) {
    const char *name = json_string_value(json_object_get(command, "file"));
    const json_t *bytes = json_object_get(command, "bytes"), *crc = json_object_get(command, "crc");
    *file = (struct parameters_file){.bytes = (uint64_t)json_integer_value(bytes),
                                     .checksum = (uint32_t)json_integer_value(crc)};
    snprintf(file->name, sizeof file->name, "%s", name ? name : "");
    return name && json_is_integer(bytes) && json_is_integer(crc) && !strchr(name, '/');
}

static int write_values(struct daemon *daemon, const float *values, bool begins,
                        struct error *error) {
    for (size_t m = 0; m < learner_members(daemon->learner); m++) {
        if (learner_write_parameters(daemon->learner, m, values, begins, error))
            return -1;
        values += learner_member_model(daemon->learner, m)->parameters;
    }
    return 0;
}

int moving_replay_import(struct daemon *daemon, const json_t *command, struct error *error) {
    struct parameters_file file;
    if (!read_command(command, &file))
        return error_set(error, EX_IOERR,
                         "the journal has invalid parameters, or those of a newer version");
    float *values = calloc(parameters_file_numbers(daemon->learner) + 1, sizeof *values);
    int status = values ? parameters_file_read(daemon->config->state_directory, &file,
                                               daemon->learner, values, error)
                        : error_no_memory(error);
    if (status == 0)
        status =
            write_values(daemon, values, json_is_true(json_object_get(command, "begins")), error);
    free(values);
    return status;
}
