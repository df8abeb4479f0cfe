#include "control.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/text.h"
#include "config/config.h"
#include "endpoint.h"
#include "security/security.h"

#define LINGER NS_PER_SECOND /* time for the client to read the last reply */

enum {
    NAMES_SIZE = 256,
    REPLIES_MAX = 100, /* unsent replies to one client */
    ENVELOPE_MAX = 8,  /* frames before a request: the client, routers on the way, an empty one */
    DROPPED_A_TURN = 1000,                    /* requests without a recipient of the reply */
    REQUESTS_BYTES = 3 * CONTROL_REQUEST_MAX, /* bytes of unread requests of one client */
    BLOBS_MAX = 64 << 20, /* bytes of second frames that wait for several clients */
    JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(15),
};

/* A ROUTER socket that implements REP's side of the protocol (RFC 28). libzmq's own REP (4.3.4)
   loses the reply to a client if a previous client, now gone, had left a message without an
   envelope. */
struct control {
    void *socket;
    struct security *security;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    const struct control_command *commands;
    void *context;
    bool waiting;
    uint64_t last_reply; /* time of the reply after which the daemon ends; 0 = not sent */
    int reader;          /* descriptor of the client that it was sent to */
    uint64_t connection; /* number of its connection; 0: it is gone */
    zmq_msg_t envelope[ENVELOPE_MAX]; /* envelope of the last request */
    size_t envelope_frames;
    char *request; /* (CONTROL_REQUEST_MAX,) */
};

int control_open(struct control **control, void *zmq_context, struct security *security,
                 const struct socket_config *config, const struct control_command *commands,
                 void *context, struct error *error) {
    static const struct endpoint_option options[] = {
        {ZMQ_MAXMSGSIZE, CONTROL_REQUEST_MAX},
        {ZMQ_SNDHWM, REPLIES_MAX},
        {ZMQ_ROUTER_MANDATORY, 1}, /* reports clients that are gone */
        {ZMQ_RCVHWM, 0},           /* security.h limits waiting data */
        {ZMQ_TCP_MAXRT, ENDPOINT_UNREAD_MS},
        {ZMQ_RCVBUF, ENDPOINT_SMALL_BUFFER},
    };
    struct control *c = calloc(1, sizeof *c);
    *control = c;
    if (!c)
        return error_set(error, EX_OSERR, "out of memory for the control socket");
    for (size_t i = 0; i < ENVELOPE_MAX; i++)
        zmq_msg_init(&c->envelope[i]);
    if (!(c->request = malloc(CONTROL_REQUEST_MAX))) {
        control_close(control);
        return error_set(error, EX_OSERR, "out of memory for the control socket");
    }
    c->security = security;
    c->commands = commands;
    c->context = context;
    const char *key = config->connect ? "control.connect" : "control.bind";
    if (endpoint_open(&c->socket, zmq_context, security, ZMQ_ROUTER, config, key, options,
                      sizeof options / sizeof *options, error)) {
        control_close(control);
        return -1;
    }
    endpoint_name(c->socket, config, c->endpoint);
    security_limit_messages(security, SOCKET_CONTROL, REQUESTS_BYTES, false);
    return 0;
}

int control_renew(struct control *control, struct security *security,
                  const struct socket_config *config, struct error *error) {
    const char *key = config->connect ? "control.connect" : "control.bind";
    return endpoint_renew(control->socket, security, config, key, control->endpoint, error);
}

/* Wait until the client has read the reply. A client that receives the end of the connection
   together with the reply drops both: libzmq immediately ends the pipe of a client with
   ZMQ_IMMEDIATE. */
static void await_reader(const struct control *control) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    while (control->connection && clock_ns() < control->last_reply + LINGER &&
           security_connection(control->security, SOCKET_CONTROL, control->reader) ==
               control->connection)
        nanosleep(&pause, NULL);
}

void control_close(struct control **control) {
    if (!*control)
        return;
    if ((*control)->last_reply)
        await_reader(*control);
    for (size_t i = 0; i < ENVELOPE_MAX; i++)
        zmq_msg_close(&(*control)->envelope[i]);
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

/* Receive all frames of one message: the envelope, which ends with an empty frame, and the first
   frame of the request. False: no message. */
static bool receive(struct control *control, size_t *frames, size_t *size) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    bool enveloped = false, more = true;
    size_t bytes = 0;
    *frames = *size = control->envelope_frames = 0;
    while (more && zmq_msg_recv(&frame, control->socket, ZMQ_DONTWAIT) >= 0) {
        more = zmq_msg_more(&frame);
        bytes += zmq_msg_size(&frame);
        if (!more)
            security_taken(control->security, SOCKET_CONTROL, zmq_msg_get(&frame, ZMQ_SRCFD), bytes,
                           *frames + control->envelope_frames + 1);
        if (!enveloped) {
            enveloped = control->envelope_frames > 0 && zmq_msg_size(&frame) == 0;
            if (control->envelope_frames < ENVELOPE_MAX)
                zmq_msg_move(&control->envelope[control->envelope_frames], &frame);
            control->envelope_frames++;
        } else if ((*frames)++ == 0) {
            *size = zmq_msg_size(&frame);
            if (*size <= CONTROL_REQUEST_MAX)
                memcpy(control->request, zmq_msg_data(&frame), *size);
        }
    }
    zmq_msg_close(&frame);
    return !more;
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
                  "expected one JSON object such as {\"command\": \"status\"}; commands: %s",
                  names);
        return NULL;
    }
    for (const struct control_command *c = control->commands; c->name; c++)
        if (!strcmp(c->name, json_string_value(name)))
            return c;
    error_set(error, EX_USAGE, "unknown command %s; commands: %s",
              text_quote(quoted, json_string_value(name), json_string_length(name)), names);
    return NULL;
}

static int run(struct control *control, size_t frames, size_t size, struct control_answer *answer,
               struct error *error) {
    if (frames != 1 || size > CONTROL_REQUEST_MAX)
        return error_set(error, EX_USAGE,
                         "expected one frame of JSON of at most %d bytes, got %zu frames, the "
                         "first of %zu bytes",
                         CONTROL_REQUEST_MAX, frames, size);
    json_error_t parse_error;
    json_t *request = json_loadb(control->request, size, JSON_REJECT_DUPLICATES, &parse_error);
    if (!request)
        return error_set(error, EX_USAGE, "not JSON: column %d: %s", parse_error.column,
                         parse_error.text);
    const struct control_command *command = find(control, request, error);
    int result = command ? command->run(control->context, request, answer, error) : -1;
    json_decref(request);
    return result;
}

/* ---- Second frames ---- */

/* Bytes of second frames that libzmq has not sent yet. The counter outlives the socket: libzmq
   frees the last ones with the context. */
static _Atomic size_t blobs_waiting;

struct blob {
    size_t size;
    unsigned char *bytes;
};

static void release_blob(void *bytes, void *hint) {
    struct blob *blob = hint;
    (void)bytes;
    blobs_waiting -= blob->size;
    free(blob->bytes);
    free(blob);
}

/* Send the bytes and take ownership of them. */
static void send_blob(struct control *control, unsigned char *bytes, size_t size) {
    zmq_msg_t message;
    struct blob *blob = malloc(sizeof *blob);
    if (blob && zmq_msg_init_data(&message, bytes, size, release_blob, blob) == 0) {
        *blob = (struct blob){size, bytes};
        blobs_waiting += size;
        if (zmq_msg_send(&message, control->socket, ZMQ_DONTWAIT) < 0)
            zmq_msg_close(&message);
        return;
    }
    zmq_send(control->socket, "", 0, ZMQ_DONTWAIT);
    free(blob);
    free(bytes);
}

static int check_blob(size_t size, struct error *error) {
    size_t waiting = blobs_waiting;
    if (waiting == 0 || waiting + size <= BLOBS_MAX)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "too many replies (%zu MB) wait for clients that do not read them; retry "
                     "later",
                     waiting >> 20);
}

/* libzmq drops a reply to a client that is gone. */
static void send_reply(struct control *control, json_t *fields, const struct error *error,
                       unsigned char *blob, size_t blob_size) {
    static const char failed[] =
        "{\"ok\":false,\"error\":\"out of memory for the reply; retry later\"}";
    json_t *reply = json_pack("{s:b}", "ok", !error);
    if (reply && error)
        json_object_set_new(reply, "error", json_of_text(error->text, strlen(error->text)));
    if (reply && !error && fields)
        json_object_update(reply, fields);
    char *text = reply ? json_dumps(reply, JSON_FLAGS) : NULL;
    const char *frame = text ? text : failed;
    /* expects_reply has sent the first frame */
    for (size_t i = 1; i < control->envelope_frames; i++)
        zmq_msg_send(&control->envelope[i], control->socket, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    zmq_send(control->socket, frame, strlen(frame), ZMQ_DONTWAIT | (blob ? ZMQ_SNDMORE : 0));
    if (blob)
        send_blob(control, blob, blob_size);
    free(text);
    json_decref(reply);
}

/* Begin the reply. False: the client is gone, or accepts no replies; its request is not
   executed. Floods cause many such requests. */
static bool expects_reply(struct control *control) {
    return zmq_msg_send(&control->envelope[0], control->socket, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0;
}

/* Answer a feeder at the wrong socket, or a client that is not a REQ: it would learn nothing
   from silence. Like the message, the answer has no envelope. */
static void explain(struct control *control, struct error *error) {
    control->envelope_frames = 1;
    error_set(error, EX_USAGE,
              "this is the control socket: send an empty frame (as a REQ socket does) and one of "
              "JSON; send examples to the examples socket");
}

/* Receive the next request that can be answered, as REP does; `error`: the request is not
   allowed. */
static bool receive_request(struct control *control, size_t *frames, size_t *size, bool *may_ask,
                            struct error *error) {
    for (int n = 0; n < DROPPED_A_TURN; n++) {
        if (!receive(control, frames, size))
            return false;
        if (control->envelope_frames > ENVELOPE_MAX)
            continue;
        /* libzmq's own first frame contains the client's key only if it was not polled for. */
        *may_ask = security_may_ask(control->security, &control->envelope[1], error);
        if (*may_ask && *frames == 0) {
            *may_ask = false;
            explain(control, error);
        }
        if (expects_reply(control))
            return true;
    }
    return false;
}

bool control_handle(struct control *control) {
    size_t frames, size;
    bool may_ask = false;
    struct error error = {0};
    if (control->waiting || !receive_request(control, &frames, &size, &may_ask, &error))
        return false;
    struct control_answer answer = {.fields = json_object()};
    int result = may_ask ? run(control, frames, size, &answer, &error) : -1;
    if (result == 0 && answer.blob)
        result = check_blob(answer.blob_size, &error);
    if (result) {
        free(answer.blob);
        answer.blob = NULL;
    }
    if (answer.last) {
        control->reader = zmq_msg_get(&control->envelope[1], ZMQ_SRCFD);
        control->connection =
            security_connection(control->security, SOCKET_CONTROL, control->reader);
    }
    if (result == 0 && answer.later)
        control->waiting = true;
    else
        send_reply(control, answer.fields, result ? &error : NULL, answer.blob, answer.blob_size);
    if (answer.last)
        control->last_reply = clock_ns();
    json_decref(answer.fields);
    return true;
}

void control_reply(struct control *control, json_t *fields, const struct error *error) {
    if (control->waiting)
        send_reply(control, fields, error, NULL, 0);
    json_decref(fields);
    control->waiting = false;
}
