/* runnel-ctl: sends commands to a running daemon. See runnel-ctl(1). */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libdeflate.h>
#include <locale.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/sync.h"
#include "common/text.h"
#include "common/wire.h"
#include "ctl_backup.h"
#include "ctl_print.h"
#include "ctl_time.h"
#include "runnel.h"
#include "tools/shared/tool.h"

/* ---- Options ---- */

struct options {
    const char *endpoint;
    struct key_options keys;
    double timeout;
    bool json, timeout_given;
    const char *to; /* rollback, abnormal */
    struct option_list without, spans;
    bool dry_run;
    const char *at;     /* normal, abnormal */
    const char *reason; /* normal */
    const char *from;   /* abnormal */
    uint64_t span;      /* 0 = not given */
    const char *state;  /* backup, restore */
};

static const struct option_row rollback_rows[] = {
    {"to", 0, "POSITION|TIME",
     "leave out all entries after this journal position or time: @SECONDS since 1970, or "
     "2026-01-31T12:00[:00][Z|+09:00]; abnormal: last data time to leave out",
     OPTION_TEXT(struct options, to)},
    {"without", 0, "STREAM", "leave out only entries of this stream; may be repeated",
     OPTION_LIST(struct options, without, OPTION_LIST_MAX), .unique = true},
    {"without-span", 0, "FIRST-LAST", "leave out only these journal entries; may be repeated",
     OPTION_LIST(struct options, spans, OPTION_LIST_MAX), .unique = true},
    {"dry-run", 'n', NULL, "print the position to which the daemon would return, without a change",
     OPTION_FLAG(struct options, dry_run)},
    OPTIONS_END,
};

static bool rollback_is_asked(const struct options *o) {
    return o->to || o->without.count || o->spans.count || o->dry_run;
}

/* "4711" or "4711-4720" */
static bool read_span(const char *text, uint64_t *first, uint64_t *last) {
    const char *dash = strchr(text, '-');
    char begin[FORMAT_SIZE];
    snprintf(begin, sizeof begin, "%.*s", dash ? (int)(dash - text) : (int)strlen(text), text);
    return ctl_time_read_position(begin, first) &&
           ctl_time_read_position(dash ? dash + 1 : begin, last) && *first > 0 && *first <= *last;
}

/* See `check` in struct command. */
static int rollback_check(const struct options *o, char **arguments) {
    (void)arguments;
    uint64_t first, last;
    double time;
    if (!o->to && !o->without.count && !o->spans.count)
        return complain_usage("rollback requires --to, --without or --without-span");
    if (o->to && !ctl_time_read_position(o->to, &first) && !ctl_time_read(o->to, &time))
        return complain_usage("--to: expected a journal position or a time such as "
                              "2026-01-31T12:00 or @1769860800, got '%s'",
                              o->to);
    for (size_t i = 0; i < o->spans.count; i++)
        if (!read_span(o->spans.values[i], &first, &last))
            return complain_usage("--without-span: expected two positions FIRST-LAST, got '%s'",
                                  o->spans.values[i]);
    return OPTIONS_GO_ON;
}

static json_t *rollback_build(const struct options *o, const char *name, char **arguments) {
    (void)arguments;
    json_t *request = json_pack("{s:s}", "command", name);
    json_t *without = json_array(), *spans = json_array();
    uint64_t first, last;
    double time;
    if (o->to && ctl_time_read_position(o->to, &first))
        json_object_set_new(request, "to", json_integer((json_int_t)first));
    else if (o->to && ctl_time_read(o->to, &time))
        json_object_set_new(request, "to_time", json_real(time));
    for (size_t i = 0; i < o->without.count; i++)
        json_array_append_new(without, json_string(o->without.values[i]));
    for (size_t i = 0; i < o->spans.count; i++)
        if (read_span(o->spans.values[i], &first, &last))
            json_array_append_new(spans, json_pack("[I, I]", (json_int_t)first, (json_int_t)last));
    bool good = json_array_size(without) == o->without.count;
    json_object_set_new(request, "without", without);
    json_object_set_new(request, "spans", spans);
    if (o->dry_run)
        json_object_set_new(request, "dry_run", json_true());
    if (good)
        return request;
    json_decref(request);
    return NULL;
}

static int rollback_print(const struct options *o, char **arguments,
                          const struct runnel_reply *reply) {
    (void)arguments;
    char examples[FORMAT_SIZE], commands[FORMAT_SIZE], first[FORMAT_SIZE], restored[FORMAT_SIZE];
    char replayed[FORMAT_SIZE], text[FORMAT_SIZE];
    double seconds = 0, after = 0;
    member_number(reply->json, "seconds", &seconds);
    member_number(reply->json, "after", &after);
    count_of(first, reply, "first");
    count_of(restored, reply, "restored");
    if (o->dry_run)
        printf("dry run: would return to the state after entry %s and leave out the selected "
               "entries from entry %s on\n",
               restored, first);
    else
        printf("left out %s example%s and %s command%s from entry %s on; returned to the state "
               "after entry %s and relearned %s %s in %s\n",
               count_of(examples, reply, "left_out"), s_of(reply, "left_out"),
               count_of(commands, reply, "commands_left_out"), s_of(reply, "commands_left_out"),
               first, restored, count_of(replayed, reply, "replayed"),
               *s_of(reply, "replayed") ? "entries" : "entry", format_duration(text, seconds));
    if (o->without.count && !o->to && after > 0)
        printf("entries of %s up to entry %s stay learned: the oldest checkpoint contains them\n",
               o->without.count == 1 ? "this stream" : "these streams",
               format_grouped(text, after));
    return EX_OK;
}

/* ---- Alarms ----

   The commands normal and abnormal: feedback on alarms. */

enum { TEXT_SIZE = 1024 };

#define SPAN_MOST 1000000000

static const struct option_row alarms_rows[] = {
    {"at", 0, "TIME",
     "data time of the alarm (default: the stream's newest alarm): @SECONDS since 1970, or "
     "2026-01-31T12:00[:00][Z|+09:00]",
     OPTION_TEXT(struct options, at)},
    {"reason", 0, "NAME", "normal: novelty or level (default: that of the newest alarm)",
     OPTION_TEXT(struct options, reason)},
    {"from", 0, "TIME", "abnormal: begin at this data time instead of at an alarm",
     OPTION_TEXT(struct options, from)},
    {"span", 0, "N", "abnormal: number of examples of the stream (default 32); not with --to",
     OPTION_COUNT(struct options, span, 1, SPAN_MOST)},
    OPTIONS_END,
};

static int check_time(const char *option, const char *text) {
    double time;
    if (!text || ctl_time_read(text, &time))
        return OPTIONS_GO_ON;
    return complain_usage("%s: expected a time such as 2026-01-31T12:00 or @1769860800, got '%s'",
                          option, text);
}

/* See `check` in struct command. */
static int alarms_check(const struct options *o, char **arguments) {
    (void)arguments;
    if (o->at && o->from)
        return complain_usage("--at and --from cannot be used together");
    if (o->span > 0 && o->to)
        return complain_usage("--span and --to cannot be used together");
    int status = check_time("--at", o->at);
    if (status == OPTIONS_GO_ON)
        status = check_time("--from", o->from);
    return status == OPTIONS_GO_ON ? check_time("--to", o->to) : status;
}

static void put_time(json_t *request, const char *name, const char *text) {
    double time;
    if (request && text && ctl_time_read(text, &time))
        json_object_set_new(request, name, json_real(time));
}

static json_t *normal_build(const struct options *o, const char *name, char **arguments) {
    json_t *request = json_pack("{s:s, s:s}", "command", name, "stream", arguments[0]);
    put_time(request, "at", o->at);
    if (request && o->reason)
        json_object_set_new(request, "reason", json_string(o->reason));
    return request;
}

static int normal_print(const struct options *o, char **arguments,
                        const struct runnel_reply *reply) {
    (void)o;
    char clean[TEXT_SIZE], when[FORMAT_SIZE];
    double at = 0, score = 0;
    member_number(reply->json, "score", &score);
    bool timed = member_number(reply->json, "data_time", &at);
    printf("marked as normal: stream '%s'%s%s, alarm score %.3g\n",
           text_copy(clean, sizeof clean, arguments[0]), timed ? ", " : "",
           timed ? format_date(when, at) : "", score);
    return EX_OK;
}

static int silence_check(const struct options *o, char **arguments) {
    (void)o;
    double seconds;
    if (ctl_time_read_duration(arguments[1], &seconds))
        return OPTIONS_GO_ON;
    return complain_usage("silence: expected a duration such as 10m, 2h or 1d, or 0, got '%s'",
                          arguments[1]);
}

static json_t *silence_build(const struct options *o, const char *name, char **arguments) {
    (void)o;
    double seconds = 0;
    ctl_time_read_duration(arguments[1], &seconds);
    return json_pack("{s:s, s:s, s:f}", "command", name, "stream", arguments[0], "seconds",
                     seconds);
}

static int silence_print(const struct options *o, char **arguments,
                         const struct runnel_reply *reply) {
    (void)o;
    char clean[TEXT_SIZE], when[FORMAT_SIZE];
    double until;
    bool silenced = member_number(reply->json, "until", &until);
    printf("%s stream '%s'%s%s\n", silenced ? "silenced" : "ended the silence of",
           text_copy(clean, sizeof clean, arguments[0]), silenced ? " until " : "",
           silenced ? format_date(when, until) : "");
    return EX_OK;
}

static json_t *abnormal_build(const struct options *o, const char *name, char **arguments) {
    json_t *request = normal_build(o, name, arguments);
    put_time(request, "from", o->from);
    put_time(request, "to", o->to);
    if (request && o->span > 0)
        json_object_set_new(request, "count", json_integer((json_int_t)o->span));
    if (request && o->dry_run)
        json_object_set_new(request, "dry_run", json_true());
    return request;
}

static int abnormal_print(const struct options *o, char **arguments,
                          const struct runnel_reply *reply) {
    char clean[TEXT_SIZE], examples[FORMAT_SIZE], restored[FORMAT_SIZE], replayed[FORMAT_SIZE];
    char text[FORMAT_SIZE], begin[FORMAT_SIZE], end[FORMAT_SIZE];
    double seconds = 0, from = 0, to = 0;
    bool timed = member_number(reply->json, "from", &from) && member_number(reply->json, "to", &to);
    member_number(reply->json, "seconds", &seconds);
    printf("%s: stream '%s', %s example%s", o->dry_run ? "dry run: would be abnormal" : "abnormal",
           text_copy(clean, sizeof clean, arguments[0]), count_of(examples, reply, "left_out"),
           s_of(reply, "left_out"));
    if (timed)
        printf(" of data from %s to %s", format_date(begin, from), format_date(end, to));
    if (o->dry_run)
        printf("; the daemon would return to the state after entry %s\n",
               count_of(restored, reply, "restored"));
    else
        printf("; returned to the state after entry %s and relearned %s %s in %s\n",
               count_of(restored, reply, "restored"), count_of(replayed, reply, "replayed"),
               *s_of(reply, "replayed") ? "entries" : "entry", format_duration(text, seconds));
    return EX_OK;
}

/* ---- Request ---- */

enum { ERROR_SIZE = 2048 };

static int fail(const struct runnel_error *error) {
    char clean[ERROR_SIZE];
    text_copy(clean, sizeof clean, error->text);
    return error->status == EX_USAGE ? complain_usage("%s", clean)
                                     : complain(error->status, "%s", clean);
}

/* Like runnel_request_wait; reports the endpoint after a second without a daemon. */
static int wait_for_reply(struct runnel_request *request, const char *endpoint,
                          struct runnel_reply *reply, struct runnel_error *error) {
    double until = clock_seconds() + 1;
    bool reported = false;
    int status;
    while ((status = runnel_request_next(request, reply, error)) == 0) {
        double left = runnel_request_left(request), quiet = until - clock_seconds();
        bool silent = !reported && !runnel_request_sent(request);
        if (silent && quiet <= 0) {
            complain(EX_OK, "waiting for %s", endpoint);
            reported = true;
            silent = false;
        }
        struct pollfd item = {.fd = runnel_request_descriptor(request), .events = POLLIN};
        poll(&item, 1, (int)clock_milliseconds(silent && quiet < left ? quiet : left));
    }
    return status < 0 ? -1 : 0;
}

/* Sends the request and waits at most `timeout` seconds for connection and reply. A `*request` that
   is not NULL is the open connection of the previous request. Returns EX_OK with `reply` filled,
   valid until request_close. Else prints an error and returns EX_USAGE (not an endpoint),
   EX_UNAVAILABLE (no daemon, no answer or an invalid answer) or EX_SOFTWARE (the daemon rejected
   the request or failed). `raw` copies the reply's JSON to standard output first. */
static int request_send(struct runnel_request **request, const struct runnel_peer *peer,
                        double timeout, const json_t *body, bool raw, struct runnel_reply *reply) {
    struct runnel_error error;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return complain(EX_UNAVAILABLE, "out of memory");
    int status = *request ? runnel_request_again(*request, text, timeout, &error)
                          : runnel_request_open(request, peer, text, timeout, &error);
    free(text);
    if (status)
        return fail(&error);
    status = wait_for_reply(*request, peer->endpoint, reply, &error);
    if (raw && reply->text) {
        fwrite(reply->text, 1, reply->size, stdout);
        putchar('\n');
    }
    return status ? fail(&error) : EX_OK;
}

/* ---- File ----

   Writes a file completely or not at all. */

#define TEMPORARY ".XXXXXX"

static int write_all(int file, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t written = write(file, (const char *)bytes + done, size - done);
        if (written < 0 && errno != EINTR)
            return -1;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* mkostemp creates files for the user alone; an export gets the mode that open would set. */
static mode_t usual_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int fill(int file, const void *bytes, size_t size) {
    int failed = write_all(file, bytes, size) || fchmod(file, usual_mode()) || fsync(file);
    int saved = errno;
    if (close(file) && !failed)
        return -1;
    errno = saved;
    return failed ? -1 : 0;
}

/* Writes to a temporary file in the same directory, syncs and renames it, so that a reader finds
   either the old or the whole new file. Does not replace anything but a regular file, such as a
   device. "-" is standard output. Returns EX_OK, or prints an error and returns EX_IOERR; then
   `path` is unchanged. */
static int file_write(const char *path, const void *bytes, size_t size) {
    if (strcmp(path, "-") == 0) {
        if (write_all(STDOUT_FILENO, bytes, size))
            return complain(EX_IOERR, "cannot write to standard output: %s", strerror(errno));
        return EX_OK;
    }
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return complain(EX_IOERR, "cannot write %s: it is not a regular file", path);
    char *temporary = malloc(strlen(path) + sizeof TEMPORARY);
    if (!temporary)
        return complain(EX_IOERR, "out of memory");
    strcat(strcpy(temporary, path), TEMPORARY);
    int file = mkostemp(temporary, O_CLOEXEC), status = EX_OK;
    if (file < 0) {
        status = complain(EX_IOERR, "cannot create a temporary file beside %s: %s", path,
                          strerror(errno));
    } else if (fill(file, bytes, size) || rename(temporary, path)) {
        status = complain(EX_IOERR, "cannot write %s: %s", path, strerror(errno));
        unlink(temporary);
    } else if (sync_directory_of(path)) { /* syncs the rename */
        status = complain(EX_IOERR, "wrote %s, but cannot sync its directory: %s", path,
                          strerror(errno));
    }
    free(temporary);
    return status;
}

/* ---- Move ----

   The commands adopt and import: send a file to the daemon in pieces. */

#define STATE_MAGIC "RNSTREAM"

/* A stream state: the magic, its format, the checksum of the rest, the rest. */
enum { STATE_FORMAT = 1, STATE_FORMAT_AT = 8, STATE_SUM_AT = 12, STATE_AT = 16 };

static bool move_is_state(const unsigned char *bytes, size_t size) {
    return size > strlen(STATE_MAGIC) && memcmp(bytes, STATE_MAGIC, strlen(STATE_MAGIC)) == 0;
}

/* The whole file, which the caller frees. NULL after an error, with its exit code. */
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
        *status = complain(EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
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

/* Sends the pieces one after another; `reply` is that to the last. */
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

/* The header of a safetensors file contains the end of each tensor. */
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

/* The daemon rejects a format that is unknown here. */
static bool has_all_state(const unsigned char *bytes, size_t size) {
    uint32_t format, sum;
    if (size < STATE_AT)
        return false;
    memcpy(&format, bytes + STATE_FORMAT_AT, sizeof format);
    memcpy(&sum, bytes + STATE_SUM_AT, sizeof sum);
    return format != STATE_FORMAT || libdeflate_crc32(0, bytes + STATE_AT, size - STATE_AT) == sum;
}

/* Files of the other kind and damaged files are not sent. */
static int check_file(const char *name, const char *path, const unsigned char *bytes, size_t size) {
    bool adopts = strcmp(name, "adopt") == 0, state = move_is_state(bytes, size);
    bool parameters = size > sizeof(uint64_t) && bytes[sizeof(uint64_t)] == '{';
    if (!state && !parameters)
        return complain(EX_DATAERR, "%s is not a %s: create one with 'runnel-ctl export FILE%s'",
                        path, adopts ? "stream state" : "safetensors file of parameters",
                        adopts ? " STREAM" : "");
    if (adopts && !state && parameters)
        return complain(EX_DATAERR,
                        "%s is not a stream state: this file contains parameters (use 'runnel-ctl "
                        "import', or export a stream state with 'runnel-ctl export FILE STREAM')",
                        path);
    if (!adopts && state)
        return complain(EX_DATAERR,
                        "%s does not contain parameters: this file is a stream state (use "
                        "'runnel-ctl adopt', or export parameters with 'runnel-ctl export FILE')",
                        path);
    if (state ? !has_all_state(bytes, size) : !has_all_parameters(bytes, size))
        return complain(EX_DATAERR,
                        "%s is damaged: %s; nothing was sent; export it again (runnel-ctl export)",
                        path, state ? "checksum mismatch" : "its size does not match its header");
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
            complain(status, "the daemon rejected the file %s", path);
    }
    free(bytes);
    return status;
}

/* See `act` in struct command. */
static int move_adopt(const struct options *o, char **arguments) {
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

static int move_import(const struct options *o, char **arguments) {
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    char text[FORMAT_SIZE];
    int status = send_file(o, "import", arguments[0], &request, &reply);
    if (status == EX_OK && !o->json) {
        double count = 0;
        member_number(reply.json, "parameters", &count);
        printf("imported %s parameters from %s\n", format_grouped(text, count), arguments[0]);
    }
    runnel_request_close(&request);
    int finished = complain_output();
    return status == EX_OK ? finished : status;
}

/* ---- The program ---- */

/* Seconds. A rollback may relearn days of examples. */
#define TIMEOUT 10.0
#define ROLLBACK_TIMEOUT (7 * 86400.0)

enum {
    PATH_SIZE = 4096,
    CONFIG_LINE_SIZE = 65536, /* bytes of a configuration line */
    SAFETENSORS_PREFIX = 8,   /* bytes: the length of the JSON that follows */
};

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's control socket (default " WIRE_CONTROL ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"timeout", 't', "SECONDS", "maximum time to wait for an answer (default 10)",
     OPTION_SECONDS(struct options, timeout), OPTION_GIVEN(struct options, timeout_given)},
    {"json", 'j', NULL, "print the daemon's reply unchanged, one line of JSON",
     OPTION_FLAG(struct options, json)},
    OPTIONS_LAST,
};

static const struct option_row state_rows[] = {
    {"state", 0, "DIRECTORY",
     "backup: state directory to copy (default: that of the running daemon); restore: state "
     "directory to create",
     OPTION_DIRECTORY(struct options, state)},
    OPTIONS_END,
};

/* `arguments` are those after the command's name. */
struct command {
    struct command_row row;
    /* replaces all below: returns the exit status */
    int (*act)(const struct options *options, char **arguments);
    int (*print)(const struct options *options, char **arguments, const struct runnel_reply *reply);
    /* builds the request; NULL: the command's name alone */
    json_t *(*build)(const struct options *options, const char *name, char **arguments);
    /* returns OPTIONS_GO_ON or the exit status; may be NULL */
    int (*check)(const struct options *options, char **arguments);
    double timeout; /* 0 = default */
};

/* The value is parsed as JSON if possible (0.001, true, "text"), else it is text. */
static json_t *build_set(const struct options *o, const char *name, char **arguments) {
    (void)o;
    json_t *value = json_loads(arguments[1], JSON_DECODE_ANY, NULL);
    if (!value || json_is_object(value) || json_is_array(value)) {
        json_decref(value);
        value = json_string(arguments[1]);
    }
    return json_pack("{s:s, s:s, s:o}", "command", name, "key", arguments[0], "value", value);
}

static int print_reply_status(const struct options *o, char **arguments,
                              const struct runnel_reply *reply) {
    (void)o, (void)arguments;
    print_status(reply->json);
    return EX_OK;
}

/* YAML as the daemon reads it. */
static int print_config(const struct options *o, char **arguments,
                        const struct runnel_reply *reply) {
    (void)arguments;
    const char *yaml = member_string(reply->json, "yaml");
    if (!yaml)
        return complain(EX_SOFTWARE, "the daemon at %s sent no configuration", o->endpoint);
    for (const char *line = yaml; *line;) {
        char clean[CONFIG_LINE_SIZE], whole[CONFIG_LINE_SIZE];
        int length = (int)strcspn(line, "\n");
        snprintf(whole, sizeof whole, "%.*s", length, line);
        printf("%s\n", text_copy(clean, sizeof clean, whole));
        line += length + (line[length] == '\n');
    }
    return EX_OK;
}

static int print_set(const struct options *o, char **arguments, const struct runnel_reply *reply) {
    (void)o, (void)reply;
    printf("%s is now %s\n", arguments[0], arguments[1]);
    return EX_OK;
}

static int print_checkpoint(const struct options *o, char **arguments,
                            const struct runnel_reply *reply) {
    (void)o, (void)arguments;
    const char *path = member_string(reply->json, "path");
    char clean[TEXT_SIZE], examples[FORMAT_SIZE], size[FORMAT_SIZE];
    double bytes = 0;
    member_number(reply->json, "bytes", &bytes);
    printf("%s: %s example%s, %s\n", text_copy(clean, sizeof clean, path ? path : "checkpoint"),
           count_of(examples, reply, "examples"), s_of(reply, "examples"),
           format_bytes(size, bytes));
    return EX_OK;
}

static int print_state(const struct options *o, char **arguments,
                       const struct runnel_reply *reply) {
    (void)o, (void)arguments;
    const char *state = member_string(reply->json, "state");
    char clean[TEXT_SIZE];
    if (state && strcmp(state, "draining") == 0)
        state = "the daemon is stopping";
    printf("%s\n", text_copy(clean, sizeof clean, state ? state : "done"));
    return EX_OK;
}

static json_t *build_reset(const struct options *o, const char *name, char **arguments) {
    (void)o;
    return arguments[0] ? json_pack("{s:s, s:s}", "command", name, "member", arguments[0])
                        : json_pack("{s:s}", "command", name);
}

static int print_reset(const struct options *o, char **arguments,
                       const struct runnel_reply *reply) {
    (void)o, (void)reply;
    char clean[TEXT_SIZE];
    if (arguments[0])
        printf("reset: forgot everything that member %s had learned\n",
               text_copy(clean, sizeof clean, arguments[0]));
    else
        printf("reset: forgot everything learned\n");
    return EX_OK;
}

static json_t *build_forget(const struct options *o, const char *name, char **arguments) {
    (void)o;
    return json_pack("{s:s, s:s}", "command", name, "stream", arguments[0]);
}

static int print_forget(const struct options *o, char **arguments,
                        const struct runnel_reply *reply) {
    (void)o, (void)reply;
    char clean[TEXT_SIZE];
    printf("forgot stream '%s': its state and the numbers of its examples\n",
           text_copy(clean, sizeof clean, arguments[0]));
    return EX_OK;
}

static int check_export(const struct options *o, char **arguments) {
    if (strcmp(arguments[0], "-") != 0)
        return OPTIONS_GO_ON;
    if (o->json)
        return complain_usage("--json cannot be used with an export to standard output");
    if (isatty(STDOUT_FILENO))
        return complain_usage("cannot write parameters to a terminal: they are binary");
    return OPTIONS_GO_ON;
}

static json_t *build_export(const struct options *o, const char *name, char **arguments) {
    (void)o;
    return arguments[1] ? json_pack("{s:s, s:s}", "command", name, "stream", arguments[1])
                        : json_pack("{s:s}", "command", name);
}

/* Whether the bytes begin with the length of a JSON object and that object. */
static bool is_safetensors(const unsigned char *bytes, size_t size) {
    uint64_t length;
    if (size < SAFETENSORS_PREFIX + 2)
        return false;
    memcpy(&length, bytes, sizeof length);
    return length >= 2 && length <= size - SAFETENSORS_PREFIX && bytes[SAFETENSORS_PREFIX] == '{';
}

/* An older daemon sends the parameters instead. */
static int print_state_of(const struct options *o, char **arguments,
                          const struct runnel_reply *reply) {
    char text[FORMAT_SIZE], clean[TEXT_SIZE];
    if (!move_is_state(reply->bytes, reply->bytes_size))
        return complain(EX_SOFTWARE,
                        "the daemon at %s did not send a stream state; nothing was written",
                        o->endpoint);
    int status = file_write(arguments[0], reply->bytes, reply->bytes_size);
    if (status == EX_OK && strcmp(arguments[0], "-") != 0 && !o->json)
        printf("%s: state of stream '%s', %s\n", arguments[0],
               text_copy(clean, sizeof clean, arguments[1]),
               format_bytes(text, (double)reply->bytes_size));
    return status;
}

static int print_export(const struct options *o, char **arguments,
                        const struct runnel_reply *reply) {
    if (arguments[1])
        return print_state_of(o, arguments, reply);
    const unsigned char *bytes = reply->bytes;
    size_t size = reply->bytes_size;
    char text[FORMAT_SIZE], examples[FORMAT_SIZE];
    if (!is_safetensors(bytes, size))
        return complain(EX_SOFTWARE,
                        "the daemon at %s did not send a safetensors file; nothing was written",
                        o->endpoint);
    int status = file_write(arguments[0], bytes, size);
    if (status == EX_OK && strcmp(arguments[0], "-") != 0 && !o->json)
        printf("%s: parameters after %s example%s, %s\n", arguments[0],
               count_of(examples, reply, "examples"), s_of(reply, "examples"),
               format_bytes(text, (double)size));
    return status;
}

/* Checks that a daemon answers, else prints an error. Copies its state directory unless `state` is
   NULL. */
static int find_daemon(const struct options *o, char state[PATH_SIZE]) {
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    struct runnel_peer peer = tool_peer(o->endpoint, &o->keys);
    json_t *body = json_pack("{s:s}", "command", "status");
    int status = request_send(&request, &peer, o->timeout, body, false, &reply);
    json_decref(body);
    if (status == EX_OK && state) {
        const char *path = member_string(reply.json, "state_directory");
        snprintf(state, PATH_SIZE, "%s", path ? path : "");
    }
    runnel_request_close(&request);
    return status;
}

/* Removes slashes at the end. */
static char *directory_of(char *path) {
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = '\0';
    return path;
}

static int backup(const struct options *o, char **arguments) {
    char state[PATH_SIZE];
    int status = o->state ? EX_OK : find_daemon(o, state);
    return status == EX_OK ? backup_make(o->state ? o->state : state, directory_of(arguments[0]))
                           : status;
}

static int restore(const struct options *o, char **arguments) {
    char state[PATH_SIZE];
    if (!o->state)
        return complain_usage("restore requires --state (the state directory to create)");
    if (o->dry_run)
        return complain_usage("--dry-run is not supported with restore");
    int status = rollback_is_asked(o) ? rollback_check(o, arguments) : OPTIONS_GO_ON;
    if (status != OPTIONS_GO_ON)
        return status;
    json_t *request = rollback_is_asked(o) ? rollback_build(o, "rollback", arguments) : NULL;
    if (rollback_is_asked(o) && !request)
        return complain_usage("a stream's key is not UTF-8");
    snprintf(state, sizeof state, "%s", o->state);
    status = backup_restore(directory_of(arguments[0]), directory_of(state), request);
    json_decref(request);
    return status;
}

#define SETTABLE "learning.optimizer.rate learning.clip anomaly.threshold statistics.every"

static const struct command commands[] = {
    {{"status", "", .summary = "print identity, progress, loss and speed"},
     .print = print_reply_status},
    {{"config", "",
      .summary = "print the active configuration as YAML, with the values changed at run time"},
     .print = print_config},
    {{"set", "KEY VALUE",
      "change learning.optimizer.rate, learning.clip, anomaly.threshold or statistics.every",
      .complete = COMPLETE_WORDS, .words = SETTABLE},
     .print = print_set,
     .build = build_set},
    {{"checkpoint", "", .summary = "write a checkpoint now and wait until it is on disk"},
     .print = print_checkpoint},
    {{"export", "FILE [STREAM]",
      "write the parameters to FILE as safetensors, or the state of one stream; - is standard "
      "output",
      .complete = COMPLETE_FILE},
     .print = print_export,
     .build = build_export,
     .check = check_export},
    {{"adopt", "FILE", "continue a stream here from FILE, which another daemon exported",
      .complete = COMPLETE_FILE},
     .act = move_adopt},
    {{"import", "FILE",
      "replace the learned parameters with those of FILE; does not ask for confirmation",
      .complete = COMPLETE_FILE},
     .act = move_import},
    {{"pause", "", .summary = "stop reading examples; they wait in their queues"},
     .print = print_state},
    {{"resume", "", .summary = "read examples again"}, .print = print_state},
    {{"reset", "[MEMBER]",
      .summary = "discard all learning, or that of one member, without confirmation"},
     .print = print_reset,
     .build = build_reset},
    {{"forget", "STREAM",
      .summary =
          "forget a stream's state and the numbers of its examples; does not ask for confirmation"},
     .print = print_forget,
     .build = build_forget},
    {{"normal", "STREAM",
      .summary = "mark an alarm of the stream (--at, or the newest) as normal: it no longer counts "
                 "as novel, or as unusual together"},
     .print = normal_print,
     .build = normal_build,
     .check = alarms_check},
    {{"abnormal", "STREAM",
      .summary = "unlearn the examples of the stream at an alarm (--at, or the newest), or from a "
                 "time on"},
     .print = abnormal_print,
     .build = abnormal_build,
     .check = alarms_check,
     .timeout = ROLLBACK_TIMEOUT},
    {{"silence", "STREAM DURATION",
      .summary = "silence the incidents of the stream for 10m, 2h or 1d of its data; 0 ends it"},
     .print = silence_print,
     .build = silence_build,
     .check = silence_check},
    {{"rollback", "",
      .summary = "unlearn: return to a checkpoint and relearn the journal since then, without the "
                 "entries to leave out"},
     .print = rollback_print,
     .build = rollback_build,
     .check = rollback_check,
     .timeout = ROLLBACK_TIMEOUT},
    {{"backup", "DIRECTORY", "copy the daemon's checkpoints and journal to a new directory",
      .complete = COMPLETE_DIRECTORY},
     .act = backup},
    {{"restore", "DIRECTORY", "create a state directory (--state) from a backup",
      .complete = COMPLETE_DIRECTORY},
     .act = restore},
    {{"shutdown", "",
      .summary =
          "learn all waiting examples, write a checkpoint and end; does not ask for confirmation"},
     .print = print_state},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int run(const struct options *o, const struct command *command, char **arguments) {
    bool abnormal = command->build == abnormal_build;
    if ((o->without.count || o->spans.count || (!abnormal && rollback_is_asked(o))) &&
        command->build != rollback_build && command->act != restore)
        return complain_usage("--to, --without, --without-span and --dry-run require rollback");
    if (o->at && !abnormal && command->build != normal_build)
        return complain_usage("--at requires normal or abnormal");
    if (o->reason && command->build != normal_build)
        return complain_usage("--reason requires normal");
    if ((o->from || o->span) && !abnormal)
        return complain_usage("--from and --span require abnormal");
    if (o->state && command->act != backup && command->act != restore)
        return complain_usage("--state requires backup or restore");
    if (command->act)
        return command->act(o, arguments);
    int status = command->check ? command->check(o, arguments) : OPTIONS_GO_ON;
    if (status != OPTIONS_GO_ON)
        return status;
    json_t *body = command->build ? command->build(o, command->row.name, arguments)
                                  : json_pack("{s:s}", "command", command->row.name);
    if (!body)
        return complain_usage("an argument of %s is not UTF-8", command->row.name);
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    struct runnel_peer peer = tool_peer(o->endpoint, &o->keys);
    bool patient = command->timeout > 0 && !o->timeout_given;
    status = patient ? find_daemon(o, NULL) : EX_OK;
    if (status == EX_OK)
        status = request_send(&request, &peer, patient ? command->timeout : o->timeout, body,
                              o->json, &reply);
    json_decref(body);
    if (status != EX_OK) {
        runnel_request_close(&request);
        return status;
    }
    /* An export is written even if the reply is not printed. */
    if (!o->json || command->print == print_export)
        status = command->print(o, arguments, &reply);
    runnel_request_close(&request);
    int finished = complain_output();
    return status == EX_OK ? finished : status;
}

int main(int argc, char **argv) {
    struct options options = {.endpoint = WIRE_CONTROL, .timeout = TIMEOUT};
    const struct command_row *names[COMMANDS + 1] = {0};
    struct command_line line = {
        .name = "runnel-ctl",
        .operands = "COMMAND",
        .summary = "Query and control a running runneld.",
        .ending =
            "Exit status: 0 success, 64 usage error, 69 no answer from a daemon, 70 the daemon "
            "rejected the command or failed (it reports why), 74 cannot write the file or standard "
            "output. backup and restore: also 65, 66, 73, 75, see runnel-ctl(1).",
        .commands_heading = "Commands",
        .commands = names,
        .groups = {{NULL, rows, &options},
                   {"Options of normal and abnormal:", alarms_rows, &options},
                   {"Options of rollback (with restore, the daemon does this when it starts):",
                    rollback_rows, &options},
                   {"Options of backup and restore:", state_rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = &commands[i].row;
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    if (!key_options_ready(&options.keys) || !(line.command = options_command(&line, *operands)))
        return EX_USAGE;
    status = options_operands(&line, operands + 1);
    if (status != OPTIONS_GO_ON)
        return status;
    return run(&options, (const struct command *)line.command, operands + 1);
}
