/* A SUB socket for a daemon's statistics, its monitor, and the checks of messages that all
   subscribers need (runnel.h, "subscribing"). */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/topics.h"
#include "common/wire.h"
#include "monitor.h"
#include "peer.h"
#include "runnel.h"

/* ---- Track ----

   Finds missing messages of a daemon: each topic counts its messages (`sequence`), and another
   run restarts all counts. A topic without subscribers does not count: examples learned in the
   meantime are a gap (runnel.h). */

enum { TRACK_RUN_SIZE = 64 };

/* The initial value is TRACK_BEGIN. */
struct track {
    json_t *run; /* run of the newest message; owned */
    char run_text[TRACK_RUN_SIZE], run_before[TRACK_RUN_SIZE];
    struct {
        bool counted; /* whether `sequence` is known */
        uint64_t sequence;
    } topics[TOPICS];
    struct runnel_gap gap;
};

#define TRACK_BEGIN ((struct track){.gap = {NAN, NAN}})

#define SEQUENCE_MAX 9007199254740992.0 /* 2^53 */

/* After a reduction, the smaller interval counts from here. */
void runnel_gap_status(struct runnel_gap *gap, double every, double examples) {
    if (every < gap->every && examples > gap->newest && examples - gap->newest <= gap->every)
        gap->newest = examples;
    gap->every = every;
}

bool runnel_gap_loss(struct runnel_gap *gap, double examples, double unheard[2]) {
    double last = gap->newest;
    gap->newest = examples;
    if (!(examples - last > gap->every))
        return false;
    unheard[0] = last;
    unheard[1] = examples;
    return true;
}

static double number(const json_t *body, const char *key) {
    const json_t *member = json_object_get(body, key);
    return json_is_number(member) ? json_number_value(member) : NAN;
}

static void write_run(char text[TRACK_RUN_SIZE], const json_t *run) {
    char *dumped = json_dumps(run, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, TRACK_RUN_SIZE, "%s",
             json_is_string(run) ? json_string_value(run)
             : dumped            ? dumped
                                 : "");
    free(dumped);
}

static void track_run(struct track *track, const json_t *body, struct runnel_news *news) {
    json_t *run = json_object_get(body, "run");
    if (!run || json_equal(run, track->run))
        return;
    memcpy(track->run_before, track->run_text, sizeof track->run_before);
    write_run(track->run_text, run);
    news->restarted = track->run != NULL;
    if (news->restarted) {
        news->run = track->run_text;
        news->run_before = track->run_before;
        memset(track->topics, 0, sizeof track->topics);
    }
    json_decref(track->run);
    track->run = json_incref(run);
}

/* A number that is not greater than the last is a repetition: the daemon sends its newest
   `status` again to each new subscriber. */
static void track_sequence(struct track *track, enum topic topic, const json_t *body,
                           struct runnel_news *news) {
    double value = number(body, "sequence");
    if (!(value >= 0 && value <= SEQUENCE_MAX))
        return;
    uint64_t sequence = (uint64_t)value, last = track->topics[topic].sequence;
    bool counted = track->topics[topic].counted;
    if (counted && sequence > last + 1)
        news->missed = sequence - last - 1;
    if (!counted || sequence > last)
        track->topics[topic].sequence = sequence;
    track->topics[topic].counted = true;
}

static void track_status(struct track *track, const json_t *body) {
    double every = number(body, "every"), examples = number(body, "examples");
    if (!isnan(every) && !isnan(examples))
        runnel_gap_status(&track->gap, every, examples);
}

static void track_loss(struct track *track, const json_t *body, struct runnel_news *news) {
    double examples = number(body, "examples");
    if (!isnan(examples))
        runnel_gap_loss(&track->gap, examples, news->unheard);
}

/* Process a message of the topic: set the fields of `news` about missing messages. */
static void track_message(struct track *track, enum topic topic, const json_t *body,
                          struct runnel_news *news) {
    track_run(track, body, news);
    track_sequence(track, topic, body, news);
    if (topic == TOPIC_STATUS)
        track_status(track, body);
    if (topic == TOPIC_LOSS)
        track_loss(track, body, news);
}

enum {
    FRAMES_MAX = 3,         /* topic, JSON, and one more to detect too many */
    MESSAGE_MAX = 64 << 20, /* bytes: a prediction may have thousands of steps */
    BODY_MAX = 1 << 20,     /* bytes of other messages, which contain at most numbers of layers */
    HEARTBEAT_MS = 5000,    /* a lost host is detected within two of them */
    RECONNECT_MS = 200,
    RECONNECT_MAX_MS = 2000,
    RECONNECT_LOCAL_MS = 50,
    PATIENT_MS = 3000,
    QUEUE_MESSAGES = 10000,
};

struct runnel_subscriber {
    struct peer peer;
    void *context, *socket;
    struct monitor *monitor;
    bool patient;        /* uses the long intervals of a hindered subscriber */
    bool connected;      /* the handshake is complete */
    double last_message; /* time of the newest message, or of the beginning: clock_seconds */
    bool received_any;
    int descriptor; /* epoll descriptor of socket, monitor and `more` */
    int more;       /* eventfd: there may be news that libzmq's descriptors do not signal */
    bool more_signalled;
    struct track track;
    json_t *json; /* the newest message */
    bool unparsed;
    char *text; /* (room,) */
    size_t room;
};

static int set_option(struct runnel_subscriber *s, int option, int value) {
    return zmq_setsockopt(s->socket, option, &value, sizeof value);
}

/* Whether the daemon is on this machine. */
static bool is_local(const char *endpoint) {
    static const char *const begins[] = {"ipc://", "tcp://127.",
                                         "tcp://localhost:", "tcp://[::1]:"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(endpoint, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* A restarted daemon continues at once with the waiting examples, and messages before the new
   connection are lost. On this machine attempts to connect are cheap; elsewhere the intervals
   grow. A hindered subscriber usually has a permanent reason, such as a wrong key: frequent
   attempts would only fill the daemon's log. libzmq adds a random time of up to the same length. */
static int set_reconnection(struct runnel_subscriber *s) {
    bool local = is_local(s->peer.endpoint);
    int first = s->patient ? PATIENT_MS : local ? RECONNECT_LOCAL_MS : RECONNECT_MS;
    return set_option(s, ZMQ_RECONNECT_IVL, first) ||
           set_option(s, ZMQ_RECONNECT_IVL_MAX, s->patient || local ? 0 : RECONNECT_MAX_MS);
}

/* A socket reads its intervals when it connects. */
static void set_patience(struct runnel_subscriber *s, bool patient) {
    if (s->patient == patient)
        return;
    s->patient = patient;
    if (set_reconnection(s) == 0 && zmq_disconnect(s->socket, s->peer.endpoint) == 0)
        zmq_connect(s->socket, s->peer.endpoint);
}

static int set_options(struct runnel_subscriber *s, const char *const *topics) {
    int64_t largest = MESSAGE_MAX;
    if (peer_set_options(&s->peer, s->socket) || set_option(s, ZMQ_RCVHWM, QUEUE_MESSAGES) ||
        set_reconnection(s) || set_option(s, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) ||
        zmq_setsockopt(s->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest))
        return -1;
    for (int i = 0; topics ? topics[i] != NULL : i < TOPICS; i++) {
        const char *topic = topics ? topics[i] : topic_names[i];
        if (zmq_setsockopt(s->socket, ZMQ_SUBSCRIBE, topic, strlen(topic)))
            return -1;
    }
    return 0;
}

static int gather(struct runnel_subscriber *s) {
    int all[MONITOR_DESCRIPTORS + 2] = {peer_descriptor(s->socket), s->more};
    monitor_descriptors(s->monitor, all + 2);
    s->descriptor = peer_gather(all, sizeof all / sizeof *all);
    return s->descriptor < 0 ? -1 : 0;
}

static int begin(struct runnel_subscriber *s, const char *const *topics,
                 struct runnel_error *error) {
    struct error why;
    s->more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->more < 0 || !(s->context = zmq_ctx_new()) ||
        !(s->socket = zmq_socket(s->context, ZMQ_SUB)) || set_options(s, topics))
        return peer_fail(error, EX_UNAVAILABLE, "cannot open a socket: %s", zmq_strerror(errno));
    if (monitor_open(&s->monitor, s->peer.endpoint, ZMQ_SUB, false, &s->peer.keys, &why))
        return peer_fail(error, why.status, "%s", why.text);
    if (monitor_attach(s->monitor, s->context, s->socket) || gather(s))
        return peer_fail(error, EX_UNAVAILABLE, "cannot monitor the socket: %s",
                         zmq_strerror(errno));
    return peer_connect(&s->peer, s->socket, RUNNEL_STATISTICS " or ipc:///run/runnel/statistics",
                        error);
}

int runnel_subscriber_open(struct runnel_subscriber **subscriber, const struct runnel_peer *peer,
                           const char *const *topics, struct runnel_error *error) {
    struct runnel_subscriber *s = *subscriber = calloc(1, sizeof *s);
    if (!s)
        return peer_fail(error, EX_UNAVAILABLE, "out of memory");
    s->track = TRACK_BEGIN;
    s->descriptor = s->more = -1;
    s->last_message = clock_seconds();
    if (peer_open(&s->peer, peer, error) == 0 && begin(s, topics, error) == 0)
        return 0;
    runnel_subscriber_close(subscriber);
    return -1;
}

void runnel_subscriber_close(struct runnel_subscriber **subscriber) {
    struct runnel_subscriber *s = *subscriber;
    if (!s)
        return;
    if (s->descriptor >= 0)
        close(s->descriptor);
    monitor_close(&s->monitor);
    if (s->socket)
        zmq_close(s->socket);
    if (s->context)
        while (zmq_ctx_term(s->context) < 0 && errno == EINTR)
            ;
    if (s->more >= 0)
        close(s->more);
    json_decref(s->track.run);
    json_decref(s->json);
    free(s->text);
    peer_close(&s->peer);
    free(s);
    *subscriber = NULL;
}

int runnel_subscriber_descriptor(const struct runnel_subscriber *s) {
    return s->descriptor;
}

void runnel_subscriber_unparsed(struct runnel_subscriber *s) {
    s->unparsed = true;
}

bool runnel_subscriber_wait(struct runnel_subscriber *s, double seconds) {
    struct pollfd item = {.fd = s->descriptor, .events = POLLIN};
    return poll(&item, 1, seconds < 0 ? -1 : clock_milliseconds(seconds)) > 0;
}

/* ---- Messages ---- */

/* Receive the frames of one message. Returns their number (frames beyond FRAMES_MAX are
   dropped), or 0 without a message. */
static int receive_frames(struct runnel_subscriber *s, zmq_msg_t frames[FRAMES_MAX]) {
    int count = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t *frame = &frames[count < FRAMES_MAX ? count : FRAMES_MAX - 1];
        if (zmq_msg_recv(frame, s->socket, ZMQ_DONTWAIT) < 0)
            break;
        more = zmq_msg_more(frame);
    }
    return count < FRAMES_MAX ? count : FRAMES_MAX;
}

/* Copy the text, with a NUL after it. False: out of memory. */
static bool keep_text(struct runnel_subscriber *s, const char *text, size_t size) {
    if (!array_reserve(&s->text, &s->room, size + 1, 1))
        return false;
    memcpy(s->text, text, size);
    s->text[size] = '\0';
    return true;
}

/* False: unknown topic. */
static bool parse(struct runnel_subscriber *s, zmq_msg_t frames[FRAMES_MAX], int count,
                  struct runnel_news *news) {
    if (count != 2) {
        news->problem = "expected two frames, topic and JSON";
        return true;
    }
    enum topic topic = topic_find(zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]));
    size_t size = zmq_msg_size(&frames[1]);
    if (topic == TOPICS)
        return false;
    news->topic = topic_names[topic];
    if (size > BODY_MAX && topic != TOPIC_PREDICTION && topic != TOPIC_VECTOR) {
        news->problem = "the message is larger than 1 MiB";
        return true;
    }
    if (!keep_text(s, zmq_msg_data(&frames[1]), size)) {
        news->problem = "out of memory";
        return true;
    }
    news->text = s->text;
    news->size = size;
    if (s->unparsed)
        return true;
    s->json = json_loadb(s->text, size, 0, NULL);
    if (!json_is_object(s->json)) {
        news->problem = s->json ? "the JSON is not an object" : "the second frame is not JSON";
        news->text = NULL;
        return true;
    }
    news->json = s->json;
    track_message(&s->track, topic, s->json, news);
    return true;
}

static bool receive(struct runnel_subscriber *s, struct runnel_news *news) {
    zmq_msg_t frames[FRAMES_MAX];
    for (int i = 0; i < FRAMES_MAX; i++)
        zmq_msg_init(&frames[i]);
    int count;
    bool known;
    do {
        json_decref(s->json);
        s->json = NULL;
        count = receive_frames(s, frames);
        known = count > 0 && parse(s, frames, count, news);
    } while (count > 0 && !known);
    for (int i = 0; i < FRAMES_MAX; i++)
        zmq_msg_close(&frames[i]);
    if (!known)
        return false;
    s->last_message = clock_seconds();
    s->received_any = true;
    news->kind = RUNNEL_MESSAGE;
    return true;
}

/* ---- The connection ---- */

static bool process_event(struct runnel_subscriber *s, const struct monitor_event *event,
                          struct runnel_news *news) {
    switch (event->kind) {
    case MONITOR_READY:
        s->connected = true;
        news->kind = RUNNEL_CONNECTED;
        return true;
    case MONITOR_CLOSED:
        if (!s->connected)
            return false;
        s->connected = false;
        set_patience(s, false);
        news->kind = RUNNEL_DISCONNECTED;
        return true;
    case MONITOR_HINDERED:
        set_patience(s, true);
        news->kind = RUNNEL_HINDERED;
        news->why = monitor_reason(s->monitor);
        return true;
    case MONITOR_REFUSED:
        news->kind = RUNNEL_REFUSED;
        news->why = monitor_reason(s->monitor);
        return true;
    case MONITOR_OPENED:
    case MONITOR_MISSED:
        break;
    }
    return false;
}

static bool look(struct runnel_subscriber *s, struct runnel_news *news) {
    struct monitor_event event;
    while (monitor_next(s->monitor, &event))
        if (process_event(s, &event, news))
            return true;
    return false;
}

/* libzmq's descriptors signal new events, not those that remain. */
static void signal_more(struct runnel_subscriber *s, bool more) {
    eventfd_t count;
    if (more != s->more_signalled &&
        (more ? eventfd_write(s->more, 1) : eventfd_read(s->more, &count)) == 0)
        s->more_signalled = more;
}

/* A message arrives over a connection, and before its end. */
enum runnel_kind runnel_subscriber_next(struct runnel_subscriber *s, struct runnel_news *news) {
    *news = (struct runnel_news){.kind = RUNNEL_NOTHING, .topic = "", .unheard = {NAN, NAN}};
    bool some =
        s->connected ? receive(s, news) || look(s, news) : look(s, news) || receive(s, news);
    signal_more(s, some);
    return news->kind;
}

int runnel_subscriber_check(const struct runnel_subscriber *s, double seconds,
                            struct runnel_error *error) {
    const char *endpoint = s->peer.endpoint, *reason = monitor_reason(s->monitor);
    double quiet = clock_seconds() - s->last_message;
    if (s->connected && quiet < seconds)
        return 0;
    if (s->connected)
        return peer_fail(error, EX_UNAVAILABLE, "no data from %s for %.0f s", endpoint, quiet);
    if (reason)
        return peer_fail(error, EX_UNAVAILABLE, "%s: %s", endpoint, reason);
    if (s->received_any)
        return peer_fail(error, EX_UNAVAILABLE, "connection to %s lost; trying to connect again",
                         endpoint);
    reason = wire_unreachable(endpoint);
    return peer_fail(
        error, EX_UNAVAILABLE,
        "no daemon answers at %s%s%s%s; start runneld, or use --connect with its statistics "
        "socket",
        endpoint, reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
}
