#include "control.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "config.h"
#include "endpoint.h"
#include "error.h"
#include "report.h"
#include "text.h"

enum {
    NAMES_SIZE = 256,
    REPLIES_MAX = 100, /* that may wait for one client */
    JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(15),
};

struct control {
    void *socket;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    const struct control_command *commands;
    void *context;
    bool waiting;
    char *request; /* (CONTROL_REQUEST_MAX,) */
};

int control_open(struct control **control, void *zmq_context, const struct socket_config *config,
                 const struct control_command *commands, void *context, struct error *error) {
    static const struct endpoint_option options[] = {
        {ZMQ_MAXMSGSIZE, CONTROL_REQUEST_MAX},
        {ZMQ_SNDHWM, REPLIES_MAX},
        {ZMQ_RCVHWM, REPLIES_MAX},
    };
    struct control *c = calloc(1, sizeof *c);
    *control = c;
    if (!c || !(c->request = malloc(CONTROL_REQUEST_MAX))) {
        control_close(control);
        return error_set(error, EX_OSERR, "no memory for the control socket");
    }
    c->commands = commands;
    c->context = context;
    const char *key = config->connect ? "control.connect" : "control.bind";
    if (endpoint_open(&c->socket, zmq_context, ZMQ_REP, config, key, options,
                      sizeof options / sizeof *options, error)) {
        control_close(control);
        return -1;
    }
    endpoint_name(c->socket, config, c->endpoint);
    return 0;
}

void control_close(struct control **control) {
    if (!*control)
        return;
    endpoint_close(&(*control)->socket);
    free((*control)->request);
    free(*control);
    *control = NULL;
}

void *control_socket(const struct control *control) {
    return control->socket;
}

const char *control_endpoint(const struct control *control) {
    return control->endpoint;
}

bool control_waiting(const struct control *control) {
    return control->waiting;
}

/* Take all frames of a request; only the first is kept. Returns the number of frames, 0 when
   nothing waits. */
static size_t receive(struct control *control, size_t *size) {
    size_t frames = 0;
    int more = 1;
    for (size_t more_size = sizeof more; more; frames++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, control->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            return 0;
        }
        if (frames == 0) {
            *size = zmq_msg_size(&frame);
            if (*size <= CONTROL_REQUEST_MAX)
                memcpy(control->request, zmq_msg_data(&frame), *size);
        }
        zmq_msg_close(&frame);
        zmq_getsockopt(control->socket, ZMQ_RCVMORE, &more, &more_size);
    }
    return frames;
}

static void command_names(const struct control *control, char names[NAMES_SIZE]) {
    names[0] = 0;
    for (const struct control_command *c = control->commands; c->name; c++) {
        if (c != control->commands)
            strncat(names, ", ", NAMES_SIZE - strlen(names) - 1);
        strncat(names, c->name, NAMES_SIZE - strlen(names) - 1);
    }
}

static const struct control_command *find(const struct control *control, const json_t *request,
                                          struct error *error) {
    char names[NAMES_SIZE], quoted[TEXT_QUOTE_SIZE];
    command_names(control, names);
    const json_t *name = json_object_get(request, "command");
    if (!json_is_string(name)) {
        error_set(error, EX_USAGE,
                  "a request is one JSON object such as {\"command\": \"status\"}; commands are %s",
                  names);
        return NULL;
    }
    for (const struct control_command *c = control->commands; c->name; c++)
        if (!strcmp(c->name, json_string_value(name)))
            return c;
    error_set(error, EX_USAGE, "unknown command %s; commands are %s",
              text_quote(quoted, json_string_value(name), json_string_length(name)), names);
    return NULL;
}

static int run(struct control *control, size_t frames, size_t size, struct control_answer *answer,
               struct error *error) {
    if (frames != 1 || size > CONTROL_REQUEST_MAX)
        return error_set(error, EX_USAGE,
                         "a request is one frame of JSON of at most %d bytes; this one had %zu "
                         "frames, the first of %zu bytes",
                         CONTROL_REQUEST_MAX, frames, size);
    json_error_t parse_error;
    json_t *request = json_loadb(control->request, size, JSON_REJECT_DUPLICATES, &parse_error);
    if (!request)
        return error_set(error, EX_USAGE, "the request is not JSON: column %d: %s",
                         parse_error.column, parse_error.text);
    const struct control_command *command = find(control, request, error);
    int result = command ? command->run(control->context, request, answer, error) : -1;
    json_decref(request);
    return result;
}

/* A reply must leave whatever happens, else REP takes no further request. */
static void send_reply(struct control *control, json_t *fields, const struct error *error,
                       const unsigned char *blob, size_t blob_size) {
    static const char failed[] = "{\"ok\":false,\"error\":\"no memory for the reply; try again\"}";
    json_t *reply = json_pack("{s:b}", "ok", !error);
    if (reply && error)
        json_object_set_new(reply, "error", report_text(error->text, strlen(error->text)));
    if (reply && !error && fields)
        json_object_update(reply, fields);
    char *text = reply ? json_dumps(reply, JSON_FLAGS) : NULL;
    const char *frame = text ? text : failed;
    zmq_send(control->socket, frame, strlen(frame), ZMQ_DONTWAIT | (blob ? ZMQ_SNDMORE : 0));
    if (blob)
        zmq_send(control->socket, blob, blob_size, ZMQ_DONTWAIT);
    free(text);
    json_decref(reply);
}

bool control_handle(struct control *control) {
    size_t size = 0;
    if (control->waiting)
        return false;
    size_t frames = receive(control, &size);
    if (frames == 0)
        return false;
    struct error error = {0};
    struct control_answer answer = {.fields = json_object()};
    int result = run(control, frames, size, &answer, &error);
    if (result == 0 && answer.later)
        control->waiting = true;
    else
        send_reply(control, answer.fields, result ? &error : NULL, result ? NULL : answer.blob,
                   answer.blob_size);
    json_decref(answer.fields);
    free(answer.blob);
    return true;
}

void control_reply(struct control *control, json_t *fields, const struct error *error) {
    if (control->waiting)
        send_reply(control, fields, error, NULL, 0);
    json_decref(fields);
    control->waiting = false;
}
