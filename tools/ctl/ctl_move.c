#include "build-config.h"

#include "ctl_move.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base64.h"
#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "common/wire.h"
#include "ctl_request.h"
#include "tools/shared/tool.h"

#define STATE_MAGIC "RNSTREAM"

/* Of the state of a stream: after the magic its format, and the checksum of all that follows. */
enum { TEXT_SIZE = 1024, STATE_FORMAT = 1, STATE_FORMAT_AT = 8, STATE_SUM_AT = 12, STATE_AT = 16 };

bool move_is_state(const unsigned char *bytes, size_t size) {
    return size > strlen(STATE_MAGIC) && memcmp(bytes, STATE_MAGIC, strlen(STATE_MAGIC)) == 0;
}

/* All of it, to be freed; NULL after a complaint, with its exit code. */
static unsigned char *read_file(const char *path, size_t *size, int *status) {
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    unsigned char *bytes = NULL;
    size_t capacity = 0, got = 1;
    *size = 0;
    while (file && got > 0) {
        if (capacity - *size == 0) {
            unsigned char *larger = realloc(bytes, capacity += capacity + BUFSIZ);
            if (!larger)
                break;
            bytes = larger;
        }
        *size += got = fread(bytes + *size, 1, capacity - *size, file);
    }
    bool whole = file && got == 0 && !ferror(file);
    *status = EX_OK;
    if (!whole)
        *status = complain(EX_NOINPUT, "%s cannot be read: %s", path, strerror(errno));
    if (file && file != stdin)
        fclose(file);
    if (whole && *size > 0)
        return bytes;
    if (whole)
        *status = complain(EX_DATAERR, "%s is empty", path);
    free(bytes);
    return NULL;
}

static json_t *piece_of(const char *name, const unsigned char *bytes, size_t size, size_t part,
                        size_t parts) {
    static char text[(WIRE_PIECE + 2) / 3 * 4];
    size_t at = part * WIRE_PIECE, piece = size - at < WIRE_PIECE ? size - at : WIRE_PIECE;
    base64_write(bytes + at, piece, text);
    return json_pack("{s:s, s:I, s:I, s:o}", "command", name, "part", (json_int_t)part + 1, "parts",
                     (json_int_t)parts, "blob", json_stringn_nocheck(text, base64_size(piece)));
}

/* One after the other; `reply` is that to the last. */
static int send_all(const struct options *o, const char *name, const unsigned char *bytes,
                    size_t size, struct runnel_request **request, struct runnel_reply *reply) {
    struct runnel_peer peer = tool_peer(o->endpoint, &o->keys);
    size_t parts = (size + WIRE_PIECE - 1) / WIRE_PIECE;
    int status = EX_OK;
    for (size_t part = 0; part < parts && status == EX_OK; part++) {
        json_t *body = piece_of(name, bytes, size, part, parts);
        status =
            request_send(request, &peer, o->timeout, body, o->json && part + 1 == parts, reply);
        json_decref(body);
    }
    return status;
}

/* The size of a safetensors file's head, and that head as JSON: which says where numbers end. */
static bool has_all_parameters(const unsigned char *bytes, size_t size) {
    uint64_t head, end = 0;
    const char *name;
    json_t *tensor;
    memcpy(&head, bytes, sizeof head);
    size -= sizeof head;
    json_t *tensors =
        head <= size ? json_loadb((const char *)bytes + sizeof head, head, 0, NULL) : NULL;
    json_object_foreach(tensors, name, tensor) {
        json_int_t last =
            json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
        end = last > 0 && (uint64_t)last > end ? (uint64_t)last : end;
    }
    bool whole = tensors && end == size - head;
    json_decref(tensors);
    return whole;
}

/* Of a format that is not known here the daemon says so. */
static bool has_all_state(const unsigned char *bytes, size_t size) {
    uint32_t format, sum;
    if (size < STATE_AT)
        return false;
    memcpy(&format, bytes + STATE_FORMAT_AT, sizeof format);
    memcpy(&sum, bytes + STATE_SUM_AT, sizeof sum);
    return format != STATE_FORMAT || libdeflate_crc32(0, bytes + STATE_AT, size - STATE_AT) == sum;
}

/* A file of the other kind, or that is damaged, is not sent. */
static int check_file(const char *name, const char *path, const unsigned char *bytes, size_t size) {
    bool adopts = strcmp(name, "adopt") == 0, state = move_is_state(bytes, size);
    bool parameters = size > sizeof(uint64_t) && bytes[sizeof(uint64_t)] == '{';
    if (!state && !parameters)
        return complain(EX_DATAERR, "%s is no %s: runnel-ctl export FILE%s writes one", path,
                        adopts ? "state of a stream" : "safetensors file with parameters",
                        adopts ? " STREAM" : "");
    if (adopts && !state && parameters)
        return complain(EX_DATAERR,
                        "%s has parameters, and no state of a stream: runnel-ctl import takes it; "
                        "runnel-ctl export FILE STREAM writes the state of a stream",
                        path);
    if (!adopts && state)
        return complain(EX_DATAERR,
                        "%s is the state of a stream, and has no parameters: runnel-ctl adopt "
                        "takes it; runnel-ctl export FILE writes parameters",
                        path);
    if (state ? !has_all_state(bytes, size) : !has_all_parameters(bytes, size))
        return complain(EX_DATAERR,
                        "%s is damaged: %s; nothing was sent, export it again (runnel-ctl export)",
                        path,
                        state ? "its checksum does not fit its bytes"
                              : "it has not as many bytes as its head says");
    return EX_OK;
}

static int send_file(const struct options *o, const char *name, const char *path,
                     struct runnel_request **request, struct runnel_reply *reply) {
    size_t size;
    int status;
    unsigned char *bytes = read_file(path, &size, &status);
    if (bytes)
        status = check_file(name, path, bytes, size);
    if (status == EX_OK) {
        status = send_all(o, name, bytes, size, request, reply);
        if (status == EX_SOFTWARE)
            complain(status, "the file that was sent: %s", path);
    }
    free(bytes);
    return status;
}

int move_adopt(const struct options *o, char **arguments) {
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    char clean[TEXT_SIZE];
    int status = send_file(o, "adopt", arguments[0], &request, &reply);
    if (status == EX_OK && !o->json) {
        const char *stream = member_string(reply.json, "stream");
        printf("adopted stream '%s'\n", text_copy(clean, sizeof clean, stream ? stream : "?"));
    }
    runnel_request_close(&request);
    int finished = complain_output();
    return status == EX_OK ? finished : status;
}

int move_import(const struct options *o, char **arguments) {
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    char text[FORMAT_SIZE];
    int status = send_file(o, "import", arguments[0], &request, &reply);
    if (status == EX_OK && !o->json) {
        double count = 0;
        member_number(reply.json, "parameters", &count);
        printf("%s parameters of %s are in place of what was learned\n",
               format_grouped(text, count), arguments[0]);
    }
    runnel_request_close(&request);
    int finished = complain_output();
    return status == EX_OK ? finished : status;
}
