/* runnel-ctl: talk to the control socket of a running daemon. See runnel-ctl(1). */
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "ctl_file.h"
#include "ctl_print.h"
#include "ctl_request.h"
#include "ctl_time.h"
#include "tools/shared/tool.h"

/* Seconds. A rollback learns again what may have taken days. */
#define TIMEOUT 10.0
#define ROLLBACK_TIMEOUT (7 * 86400.0)

enum {
    TEXT_SIZE = 1024,
    SAFETENSORS_PREFIX = 8, /* bytes: the length of the JSON that follows */
};

struct options {
    const char *endpoint;
    struct key_options keys;
    double timeout;
    bool json, timeout_given;
    const char *to; /* rollback */
    struct option_list without, spans;
    bool dry_run;
};

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's control socket (default " WIRE_CONTROL ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"timeout", 't', "SECONDS", "wait so long for an answer (default 10)",
     OPTION_SECONDS(struct options, timeout), OPTION_GIVEN(struct options, timeout_given)},
    {"json", 'j', NULL, "print the daemon's reply as it came, one line of JSON",
     OPTION_FLAG(struct options, json)},
    OPTIONS_LAST,
};

static const struct option_row rollback_rows[] = {
    {"to", 0, "POSITION|TIME",
     "leave out what came after that entry of the journal, or after that time: @SECONDS since "
     "1970, "
     "or 2026-01-31T12:00[:00][Z|+09:00]",
     OPTION_TEXT(struct options, to)},
    {"without", 0, "STREAM", "of that only what came of this stream; may be repeated",
     OPTION_LIST(struct options, without, OPTION_LIST_MAX), .unique = true},
    {"without-span", 0, "FIRST-LAST", "of that only these entries of the journal; may be repeated",
     OPTION_LIST(struct options, spans, OPTION_LIST_MAX), .unique = true},
    {"dry-run", 'n', NULL, "only say what it would go back to",
     OPTION_FLAG(struct options, dry_run)},
    OPTIONS_END,
};

/* The arguments are those after the command's name, as many as it takes. */
struct command {
    struct command_row row;
    int (*print)(const struct options *options, char **arguments, const struct runnel_reply *reply);
    /* the request; NULL: the command's name alone */
    json_t *(*build)(const struct options *options, const char *name, char **arguments);
    /* may be NULL; OPTIONS_GO_ON or the exit status */
    int (*check)(const struct options *options, char **arguments);
    double timeout; /* 0 = as for all */
};

/* A value is JSON where it can be (0.001, true, "text"), else it is text. */
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

static int print_set(const struct options *o, char **arguments, const struct runnel_reply *reply) {
    (void)o, (void)reply;
    printf("%s is now %s\n", arguments[0], arguments[1]);
    return EX_OK;
}

/* "3 SOMETHING", "?" for a number that the reply does not have. */
static const char *count_of(char text[FORMAT_SIZE], const struct runnel_reply *reply,
                            const char *key) {
    double value;
    return member_number(reply->json, key, &value) ? format_grouped(text, value) : "?";
}

static int print_checkpoint(const struct options *o, char **arguments,
                            const struct runnel_reply *reply) {
    (void)o, (void)arguments;
    const char *path = member_string(reply->json, "path");
    char clean[TEXT_SIZE], examples[FORMAT_SIZE], size[FORMAT_SIZE];
    double bytes = 0;
    member_number(reply->json, "bytes", &bytes);
    printf("%s: %s examples, %s\n", text_copy(clean, sizeof clean, path ? path : "checkpoint"),
           count_of(examples, reply, "examples"), format_bytes(size, bytes));
    return EX_OK;
}

/* The state that the daemon is in now. */
static int print_state(const struct options *o, char **arguments,
                       const struct runnel_reply *reply) {
    (void)o, (void)arguments;
    const char *state = member_string(reply->json, "state");
    char clean[TEXT_SIZE];
    printf("%s\n", text_copy(clean, sizeof clean, state ? state : "done"));
    return EX_OK;
}

static int print_reset(const struct options *o, char **arguments,
                       const struct runnel_reply *reply) {
    (void)o, (void)arguments, (void)reply;
    printf("reset: what was learned is forgotten\n");
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
    printf("forgot stream '%s': its state, and the numbers of its examples\n",
           text_copy(clean, sizeof clean, arguments[0]));
    return EX_OK;
}

/* "4711" or "4711-4720" */
static bool read_span(const char *text, uint64_t *first, uint64_t *last) {
    const char *dash = strchr(text, '-');
    char begin[FORMAT_SIZE];
    snprintf(begin, sizeof begin, "%.*s", dash ? (int)(dash - text) : (int)strlen(text), text);
    return position_read(begin, first) && position_read(dash ? dash + 1 : begin, last) &&
           *first > 0 && *first <= *last;
}

static int check_rollback(const struct options *o, char **arguments) {
    (void)arguments;
    uint64_t first, last;
    double time;
    if (!o->to && !o->without.count && !o->spans.count)
        return complain_usage("rollback takes --to, --without or --without-span");
    if (o->to && !position_read(o->to, &first) && !time_read(o->to, &time))
        return complain_usage("--to: '%s' is neither an entry's position nor a time such as "
                              "2026-01-31T12:00 or @1769860800",
                              o->to);
    for (size_t i = 0; i < o->spans.count; i++)
        if (!read_span(o->spans.values[i], &first, &last))
            return complain_usage("--without-span: '%s' is not FIRST-LAST, two positions",
                                  o->spans.values[i]);
    return OPTIONS_GO_ON;
}

static json_t *build_rollback(const struct options *o, const char *name, char **arguments) {
    (void)arguments;
    json_t *request = json_pack("{s:s}", "command", name);
    json_t *without = json_array(), *spans = json_array();
    uint64_t first, last;
    double time;
    if (o->to && position_read(o->to, &first))
        json_object_set_new(request, "to", json_integer((json_int_t)first));
    else if (o->to && time_read(o->to, &time))
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

static int print_rollback(const struct options *o, char **arguments,
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
        printf("it would go back to what was learned up to entry %s, and leave out what you name "
               "from entry %s on; nothing has changed\n",
               restored, first);
    else
        printf("left out %s examples and %s commands, from entry %s on; went back to what was "
               "learned up to entry %s, and learned %s entries again in %s\n",
               count_of(examples, reply, "left_out"),
               count_of(commands, reply, "commands_left_out"), first, restored,
               count_of(replayed, reply, "replayed"), format_duration(text, seconds));
    if (o->without.count && !o->to && after > 0)
        printf("what came of it up to entry %s stays learned: the daemon can go back no further\n",
               format_grouped(text, after));
    return EX_OK;
}

static int check_export(const struct options *o, char **arguments) {
    if (strcmp(arguments[0], "-") != 0)
        return OPTIONS_GO_ON;
    if (o->json)
        return complain_usage("standard output cannot take both the parameters and --json");
    if (isatty(STDOUT_FILENO))
        return complain_usage("standard output is a terminal; parameters are binary");
    return OPTIONS_GO_ON;
}

/* Whether the bytes begin as safetensors do: the length of a JSON object, and the object. */
static bool is_safetensors(const unsigned char *bytes, size_t size) {
    uint64_t length;
    if (size < SAFETENSORS_PREFIX + 2)
        return false;
    memcpy(&length, bytes, sizeof length);
    return length >= 2 && length <= size - SAFETENSORS_PREFIX && bytes[SAFETENSORS_PREFIX] == '{';
}

static int print_export(const struct options *o, char **arguments,
                        const struct runnel_reply *reply) {
    const unsigned char *bytes = reply->bytes;
    size_t size = reply->bytes_size;
    char text[FORMAT_SIZE], examples[FORMAT_SIZE];
    if (!is_safetensors(bytes, size))
        return complain(EX_SOFTWARE, "the daemon at %s sent no safetensors; nothing is written",
                        o->endpoint);
    int status = file_write(arguments[0], bytes, size);
    if (status == EX_OK && strcmp(arguments[0], "-") != 0 && !o->json)
        printf("%s: parameters after %s examples, %s\n", arguments[0],
               count_of(examples, reply, "examples"), format_bytes(text, (double)size));
    return status;
}

#define SETTABLE "learning.optimizer.rate learning.clip statistics.every"

static const struct command commands[] = {
    {{"status", "", .summary = "who it is, how far it has learned, its loss and its speed"},
     .print = print_reply_status},
    {{"set", "KEY VALUE", "change learning.optimizer.rate, learning.clip or statistics.every",
      .complete = COMPLETE_WORDS, .words = SETTABLE},
     .print = print_set,
     .build = build_set},
    {{"checkpoint", "", .summary = "write a checkpoint now, and wait until it is on the disk"},
     .print = print_checkpoint},
    {{"export", "FILE", "write the parameters to FILE as safetensors; - is standard output",
      .complete = COMPLETE_FILE},
     .print = print_export,
     .check = check_export},
    {{"pause", "", .summary = "take no examples for a while: they wait in their queues"},
     .print = print_state},
    {{"resume", "", .summary = "take examples again"}, .print = print_state},
    {{"reset", "", .summary = "forget all that was learned; asks nothing"}, .print = print_reset},
    {{"forget", "STREAM",
      .summary = "forget a stream's state and the numbers of its examples; asks nothing"},
     .print = print_forget,
     .build = build_forget},
    {{"rollback", "",
      .summary = "take back what was learned: go back to a checkpoint, and learn "
                 "again what the journal has since, without what is left out"},
     .print = print_rollback,
     .build = build_rollback,
     .check = check_rollback,
     .timeout = ROLLBACK_TIMEOUT},
    {{"shutdown", "", .summary = "learn what waits, write a checkpoint, end; asks nothing"},
     .print = print_state},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* Whether a daemon is there that can be waited for; complains if not. */
static int find_daemon(const struct options *o, const struct runnel_peer *peer) {
    struct runnel_request *request = NULL;
    struct runnel_reply reply;
    json_t *body = json_pack("{s:s}", "command", "status");
    int status = request_send(&request, peer, o->timeout, body, false, &reply);
    json_decref(body);
    runnel_request_close(&request);
    return status;
}

static int run(const struct options *o, const struct command *command, char **arguments) {
    if (command->build != build_rollback &&
        (o->to || o->without.count || o->spans.count || o->dry_run))
        return complain_usage("--to, --without, --without-span and --dry-run are of rollback");
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
    status = patient ? find_daemon(o, &peer) : EX_OK;
    if (status == EX_OK)
        status = request_send(&request, &peer, patient ? command->timeout : o->timeout, body,
                              o->json, &reply);
    json_decref(body);
    if (status != EX_OK) {
        runnel_request_close(&request);
        return status;
    }
    /* An export is written even if the reply is not read. */
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
        .ending = "Exit status: 0 it worked, 64 usage, 69 no daemon answered, 70 the daemon "
                  "refused or failed (it says why), 74 the file or standard output could not be "
                  "written.",
        .commands_heading = "Commands",
        .commands = names,
        .groups = {{NULL, rows, &options}, {"Of rollback:", rollback_rows, &options}},
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
