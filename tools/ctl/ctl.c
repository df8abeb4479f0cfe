/* runnel-ctl: talk to the control socket of a running daemon. See runnel-ctl(1). */
#include "build-config.h"

#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/wire.h"
#include "ctl_file.h"
#include "ctl_print.h"
#include "ctl_request.h"
#include "tools/shared/tool.h"

#define TIMEOUT 10.0 /* seconds */

enum {
    GO_ON = -1,
    TEXT_SIZE = 1024,
    SAFETENSORS_PREFIX = 8, /* bytes: the length of the JSON that follows */
};

static const char help[] =
    "Usage: runnel-ctl [OPTION]... COMMAND\n"
    "Ask a running runneld, or tell it what to do.\n"
    "\n"
    "Commands:\n"
    "  status           who it is, how far it has learned, its loss and its speed\n"
    "  set KEY VALUE    change learning.optimizer.rate, learning.clip or statistics.every\n"
    "  checkpoint       write a checkpoint now, and wait until it is on the disk\n"
    "  export FILE      write the parameters to FILE as safetensors; - is standard output\n"
    "  pause, resume    stop taking examples for a while: they wait in their queues\n"
    "  reset            forget all that was learned; asks nothing\n"
    "  shutdown         learn what waits, write a checkpoint, end; asks nothing\n"
    "\n"
    "  -c, --connect=ENDPOINT   the daemon's control socket\n"
    "                           (default " WIRE_CONTROL ")\n"
    "      --key=FILE           your secret key, where the daemon wants to know who you are\n"
    "      --server-key=KEY     the daemon's public key, or the file that has it\n"
    "  -t, --timeout=SECONDS    wait so long for an answer (default 10)\n"
    "  -j, --json               print the daemon's reply as it came, one line of JSON\n"
    "  -h, --help               print this and end\n"
    "  -V, --version            print the version and end\n"
    "\n"
    "Exit status: 0 it worked, 64 usage, 69 no daemon answered, 70 the daemon refused or\n"
    "failed (it says why), 74 the file or standard output could not be written.\n";

struct options {
    const char *endpoint;
    struct tool_keys keys;
    double timeout;
    bool json;
};

/* The arguments are those after the command's name, as many as it takes. */
struct command {
    const char *name, *arguments;
    int argument_count;
    json_t *(*build)(const char *name, char **arguments); /* the request */
    int (*check)(const struct options *options,
                 char **arguments); /* may be NULL; GO_ON or status */
    int (*print)(const struct options *options, char **arguments, struct reply *reply);
};

static json_t *build_plain(const char *name, char **arguments) {
    (void)arguments;
    return json_pack("{s:s}", "command", name);
}

/* A value is JSON where it can be (0.001, true, "text"), else it is text. */
static json_t *build_set(const char *name, char **arguments) {
    json_t *value = json_loads(arguments[1], JSON_DECODE_ANY, NULL);
    if (!value || json_is_object(value) || json_is_array(value)) {
        json_decref(value);
        value = json_string(arguments[1]);
    }
    return json_pack("{s:s, s:s, s:o}", "command", name, "key", arguments[0], "value", value);
}

static int print_reply_status(const struct options *o, char **arguments, struct reply *reply) {
    (void)o, (void)arguments;
    print_status(reply->body);
    return EX_OK;
}

static int print_set(const struct options *o, char **arguments, struct reply *reply) {
    (void)o, (void)reply;
    printf("%s is now %s\n", arguments[0], arguments[1]);
    return EX_OK;
}

/* "3 SOMETHING", "?" for a number that the reply does not have. */
static const char *count_of(char text[TOOL_NUMBER_SIZE], const struct reply *reply,
                            const char *key) {
    double value;
    return tool_number(reply->body, key, &value) ? tool_format_grouped(text, value) : "?";
}

static int print_checkpoint(const struct options *o, char **arguments, struct reply *reply) {
    (void)o, (void)arguments;
    const char *path = tool_string(reply->body, "path");
    char clean[TEXT_SIZE], examples[TOOL_NUMBER_SIZE], size[TOOL_NUMBER_SIZE];
    double bytes = 0;
    tool_number(reply->body, "bytes", &bytes);
    printf("%s: %s examples, %s\n", tool_clean(clean, sizeof clean, path ? path : "checkpoint"),
           count_of(examples, reply, "examples"), tool_format_bytes(size, bytes));
    return EX_OK;
}

/* The state that the daemon is in now. */
static int print_state(const struct options *o, char **arguments, struct reply *reply) {
    (void)o, (void)arguments;
    const char *state = tool_string(reply->body, "state");
    char clean[TEXT_SIZE];
    printf("%s\n", tool_clean(clean, sizeof clean, state ? state : "done"));
    return EX_OK;
}

static int print_reset(const struct options *o, char **arguments, struct reply *reply) {
    (void)o, (void)arguments, (void)reply;
    printf("reset: what was learned is forgotten\n");
    return EX_OK;
}

static int check_export(const struct options *o, char **arguments) {
    if (strcmp(arguments[0], "-") != 0)
        return GO_ON;
    if (o->json)
        return tool_usage("standard output cannot take both the parameters and --json");
    if (isatty(STDOUT_FILENO))
        return tool_usage("standard output is a terminal; parameters are binary");
    return GO_ON;
}

/* Whether the bytes begin as safetensors do: the length of a JSON object, and the object. */
static bool is_safetensors(const unsigned char *bytes, size_t size) {
    uint64_t length;
    if (size < SAFETENSORS_PREFIX + 2)
        return false;
    memcpy(&length, bytes, sizeof length);
    return length >= 2 && length <= size - SAFETENSORS_PREFIX && bytes[SAFETENSORS_PREFIX] == '{';
}

static int print_export(const struct options *o, char **arguments, struct reply *reply) {
    const unsigned char *bytes = zmq_msg_data(&reply->bytes);
    size_t size = zmq_msg_size(&reply->bytes);
    char text[TOOL_NUMBER_SIZE], examples[TOOL_NUMBER_SIZE];
    if (!is_safetensors(bytes, size))
        return tool_fail(EX_SOFTWARE, "the daemon at %s sent no safetensors; nothing is written",
                         o->endpoint);
    int status = file_write(arguments[0], bytes, size);
    if (status == EX_OK && strcmp(arguments[0], "-") != 0 && !o->json)
        printf("%s: parameters after %s examples, %s\n", arguments[0],
               count_of(examples, reply, "examples"), tool_format_bytes(text, (double)size));
    return status;
}

static const struct command commands[] = {
    {"status", "", 0, build_plain, NULL, print_reply_status},
    {"set", " KEY VALUE", 2, build_set, NULL, print_set},
    {"checkpoint", "", 0, build_plain, NULL, print_checkpoint},
    {"export", " FILE", 1, build_plain, check_export, print_export},
    {"pause", "", 0, build_plain, NULL, print_state},
    {"resume", "", 0, build_plain, NULL, print_state},
    {"reset", "", 0, build_plain, NULL, print_reset},
    {"shutdown", "", 0, build_plain, NULL, print_state},
};

static int run(const struct options *o, const struct command *command, char **arguments) {
    int status = command->check ? command->check(o, arguments) : GO_ON;
    if (status != GO_ON)
        return status;
    json_t *body = command->build(command->name, arguments);
    if (!body)
        return tool_usage("'%s' is not UTF-8", arguments[0]);
    struct reply reply;
    status = request_send(o->endpoint, &o->keys.client, o->timeout, body, o->json, &reply);
    json_decref(body);
    if (status != EX_OK)
        return status;
    /* An export is written whoever reads the reply. */
    if (!o->json || command->print == print_export)
        status = command->print(o, arguments, &reply);
    reply_clear(&reply);
    int finished = tool_finish_output();
    return status == EX_OK ? finished : status;
}

static int take_option(struct options *o, int option) {
    switch (option) {
    case 'c':
        o->endpoint = optarg;
        return GO_ON;
    case 't':
        return tool_parse_seconds(optarg, &o->timeout)
                   ? GO_ON
                   : tool_usage("--timeout is '%s', but must be seconds, 0 or more", optarg);
    case 'j':
        o->json = true;
        return GO_ON;
    default:
        return tool_key_option(&o->keys, option) ? GO_ON : tool_common_option(option, help);
    }
}

static int take_command(const struct options *o, int count, char **words) {
    if (count == 0)
        return tool_usage("a command is missing");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command *command = &commands[i];
        if (strcmp(words[0], command->name) != 0)
            continue;
        if (count != 1 + command->argument_count)
            return tool_usage("the command is: %s%s", command->name, command->arguments);
        return run(o, command, words + 1);
    }
    return tool_usage("there is no command '%s'; there are status, set, checkpoint, export, pause, "
                      "resume, reset and shutdown",
                      words[0]);
}

int main(int argc, char **argv) {
    static const struct option names[] = {
        {"connect", required_argument, NULL, 'c'},
        {"timeout", required_argument, NULL, 't'},
        {"json", no_argument, NULL, 'j'},
        TOOL_KEY_OPTIONS,
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.endpoint = WIRE_CONTROL, .timeout = TIMEOUT};
    int option, status = GO_ON;
    setlocale(LC_CTYPE, "");
    while (status == GO_ON && (option = getopt_long(argc, argv, "c:t:jhV", names, NULL)) != -1)
        status = take_option(&options, option);
    if (status == GO_ON && !tool_keys_ready(&options.keys))
        return EX_USAGE;
    return status == GO_ON ? take_command(&options, argc - optind, argv + optind) : status;
}
