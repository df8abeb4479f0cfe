#include "publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "common/threads.h"
#include "config/config.h"
#include "endpoint.h"
#include "security/security.h"

/* ---- Queue ----

   Messages from the thread that writes them to the thread that sends them, in a ring of bytes.
   The writer waits at most for a copy and does not allocate. Messages without room are dropped. */

/* The header of a message in the ring. */
struct head {
    size_t size;
    unsigned topic;
};

struct publish_queue {
    pthread_mutex_t lock; /* held for a copy */
    size_t capacity, first, used;
    unsigned char bytes[];
};

/* Open a queue for `capacity` bytes; unused bytes take no memory. NULL: out of memory. */
static struct publish_queue *publish_queue_open(size_t capacity) {
    struct publish_queue *queue = malloc(sizeof *queue + capacity);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    queue->capacity = capacity;
    queue->first = queue->used = 0;
    return queue;
}

static void publish_queue_close(struct publish_queue **queue) {
    if (*queue)
        pthread_mutex_destroy(&(*queue)->lock);
    free(*queue);
    *queue = NULL;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void put(struct publish_queue *queue, const void *bytes, size_t size) {
    size_t at = (queue->first + queue->used) % queue->capacity;
    size_t part = smaller(size, queue->capacity - at);
    memcpy(queue->bytes + at, bytes, part);
    memcpy(queue->bytes, (const unsigned char *)bytes + part, size - part);
    queue->used += size;
}

static void take(struct publish_queue *queue, void *bytes, size_t size) {
    size_t part = smaller(size, queue->capacity - queue->first);
    memcpy(bytes, queue->bytes + queue->first, part);
    memcpy((unsigned char *)bytes + part, queue->bytes, size - part);
    queue->first = (queue->first + size) % queue->capacity;
    queue->used -= size;
}

/* Append a message. False: no room. */
static bool publish_queue_put(struct publish_queue *queue, unsigned topic, const void *bytes,
                              size_t size) {
    const struct head head = {size, topic};
    pthread_mutex_lock(&queue->lock);
    bool room = queue->capacity - queue->used >= sizeof head &&
                queue->capacity - queue->used - sizeof head >= size;
    if (queue->used == 0)
        queue->first = 0; /* reuse the same memory */
    if (room) {
        put(queue, &head, sizeof head);
        put(queue, bytes, size);
    }
    pthread_mutex_unlock(&queue->lock);
    return room;
}

/* Remove the oldest message and initialize `message` with its bytes. False: the queue is empty,
   or out of memory, which loses the message. */
static bool publish_queue_take(struct publish_queue *queue, unsigned *topic, zmq_msg_t *message) {
    struct head head;
    bool taken = false;
    pthread_mutex_lock(&queue->lock);
    if (queue->used > 0) {
        take(queue, &head, sizeof head);
        *topic = head.topic;
        taken = zmq_msg_init_size(message, head.size) == 0;
        if (taken) {
            take(queue, zmq_msg_data(message), head.size);
        } else {
            queue->first = (queue->first + head.size) % queue->capacity;
            queue->used -= head.size;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

static bool publish_queue_is_empty(struct publish_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool empty = queue->used == 0;
    pthread_mutex_unlock(&queue->lock);
    return empty;
}

/* ---- Thread ----

   The thread that owns the statistics socket sends the messages of the queue, and tracks
   subscriptions.

   libzmq's reports are not always correct: an unsubscription from a connection that never
   subscribed looks like one of the last subscriber. Each connection therefore has its own
   record, changed only by its own reports, and removed with the connection. A topic is wanted if
   any record subscribes to it. */

enum {
    SUBSCRIPTIONS_A_TURN = 256, /* subscriptions before messages are sent again */
    MESSAGES_A_TURN = 256,      /* messages before subscriptions are read again */
    USELESS_MAX = 64,           /* subscriptions of a connection that match no topic */
    /* Unread subscriptions of a connection. libzmq reads and stores all of them before it sends
       again: a flood of them delays all subscribers until they are removed. */
    SUBSCRIPTIONS_WAITING = 64,
};

/* The subscriptions of one connection. */
struct record {
    int descriptor;            /* -1: shared by all unidentified connections */
    uint64_t number;           /* 0 */
    uint32_t prefixes[TOPICS]; /* bit n: the first n bytes of the topic are subscribed to */
    unsigned useless;          /* subscriptions that match no topic */
};

struct publish_thread {
    void *socket;
    struct publish_queue *queue;
    struct security *security;
    pthread_t thread;
    int wake, news; /* eventfds: to the thread, and from it */
    atomic_bool stop, asleep, status_owed;
    atomic_uint wanted; /* bit n: topic n has a subscriber */
    struct record *records;
    size_t count, room;
};

/* ---- Subscriptions ---- */

static void notify(struct publish_thread *thread, bool status) {
    unsigned wanted = 0;
    for (size_t i = 0; i < thread->count; i++)
        for (unsigned t = 0; t < TOPICS; t++)
            wanted |= thread->records[i].prefixes[t] ? 1u << t : 0;
    if (status)
        thread->status_owed = true;
    if (atomic_exchange(&thread->wanted, wanted) != wanted || status)
        eventfd_write(thread->news, 1);
}

static struct record *find(struct publish_thread *thread, int descriptor, uint64_t number) {
    for (size_t i = 0; i < thread->count; i++)
        if (thread->records[i].descriptor == descriptor && thread->records[i].number == number)
            return &thread->records[i];
    return NULL;
}

static struct record *add(struct publish_thread *thread, int descriptor, uint64_t number) {
    if (!array_reserve(&thread->records, &thread->room, thread->count + 1, sizeof *thread->records))
        return NULL;
    struct record *record = &thread->records[thread->count++];
    *record = (struct record){.descriptor = descriptor, .number = number};
    return record;
}

/* Remove the records of closed connections. The shared record is removed when no connection is
   open. */
static void forget_gone(struct publish_thread *thread) {
    size_t kept = 0;
    for (size_t i = 0; i < thread->count; i++) {
        struct record *r = &thread->records[i];
        bool gone = r->number ? security_connection(thread->security, SOCKET_STATISTICS,
                                                    r->descriptor) != r->number
                              : thread->security &&
                                    security_connections(thread->security, SOCKET_STATISTICS) == 0;
        if (!gone)
            thread->records[kept++] = *r;
    }
    thread->count = kept;
}

/* Process one frame of a subscriber: 1 PREFIX subscribes, 0 PREFIX unsubscribes. True: it
   subscribed to `status`. */
static bool note(struct record *record, const unsigned char *frame, size_t size) {
    bool status = false, useless = frame[0] == 1;
    size_t length = size - 1;
    for (unsigned t = 0; t < TOPICS; t++) {
        if (length > strlen(topic_names[t]) || memcmp(topic_names[t], frame + 1, length))
            continue;
        uint32_t bit = UINT32_C(1) << length;
        if (frame[0])
            record->prefixes[t] |= bit;
        else
            record->prefixes[t] &= ~bit;
        useless = false;
        status |= frame[0] && t == TOPIC_STATUS;
    }
    record->useless += useless;
    return status;
}

static size_t count_subscriptions(const struct record *record) {
    size_t count = record->useless;
    for (unsigned t = 0; t < TOPICS; t++)
        count += (size_t)__builtin_popcount(record->prefixes[t]);
    return count;
}

/* The sender of a subscription. */
struct sender {
    /* A property of its connection: the same text in all its messages, while one of them is
       open; NULL = unknown. */
    const char *property;
    int descriptor;
    uint64_t number;
};

static void find_sender(struct publish_thread *thread, zmq_msg_t *message, struct sender *sender) {
    const char *property = zmq_msg_gets(message, "__fd");
    if (property && property == sender->property)
        return;
    int descriptor = property ? zmq_msg_get(message, ZMQ_SRCFD) : -1;
    uint64_t number =
        descriptor < 0 ? 0 : security_connection(thread->security, SOCKET_STATISTICS, descriptor);
    *sender = (struct sender){property, descriptor, number};
}

/* `gone`: the message has no sender: libzmq reports the end of a connection. */
static bool process_report(struct publish_thread *thread, zmq_msg_t *message, struct sender *sender,
                           bool *gone) {
    const unsigned char *frame = zmq_msg_data(message);
    size_t size = zmq_msg_size(message);
    if (size == 0 || frame[0] > 1)
        return false;
    find_sender(thread, message, sender);
    int descriptor = sender->descriptor;
    uint64_t number = sender->number;
    *gone |= descriptor < 0 && frame[0] == 0;
    bool unknown = descriptor >= 0 && number == 0 && thread->security;
    if (*gone || (unknown && frame[0] == 0))
        return false;
    /* The connection has closed, or is so new that libzmq has not reported it yet (its listener
       does so after handing it to another thread). Do not ignore its subscription. */
    if (unknown)
        descriptor = -1;
    struct record *record = find(thread, descriptor, number);
    if (!record && frame[0] == 1)
        record = add(thread, descriptor, number);
    bool status = record && note(record, frame, size);
    if (record)
        security_subscribed(thread->security, message, count_subscriptions(record));
    if (record && record->useless > USELESS_MAX)
        security_end_subscriber(thread->security, descriptor, number);
    return status;
}

/* Returns whether more subscriptions may wait. */
static bool process_reports(struct publish_thread *thread) {
    bool status = false, gone = false, more = true;
    int taken = 0;
    struct sender sender = {.descriptor = -1};
    zmq_msg_t messages[2]; /* the newest, and the previous one */
    zmq_msg_init(&messages[0]);
    zmq_msg_init(&messages[1]);
    while (taken < SUBSCRIPTIONS_A_TURN &&
           (more = zmq_msg_recv(&messages[taken % 2], thread->socket, ZMQ_DONTWAIT) >= 0)) {
        bool ended = false;
        status |= process_report(thread, &messages[taken % 2], &sender, &ended);
        gone |= ended;
        taken++;
    }
    zmq_msg_close(&messages[0]);
    zmq_msg_close(&messages[1]);
    if (gone)
        forget_gone(thread);
    if (taken > 0)
        notify(thread, status);
    return more;
}

/* ---- Sending ---- */

static void send_messages(struct publish_thread *thread, int most) {
    unsigned topic;
    zmq_msg_t message;
    for (int n = 0; n != most && publish_queue_take(thread->queue, &topic, &message); n++) {
        const char *name = topic_names[topic];
        if (zmq_send(thread->socket, name, strlen(name), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
            zmq_msg_send(&message, thread->socket, ZMQ_DONTWAIT) < 0)
            zmq_msg_close(&message);
    }
}

/* ---- The thread ---- */

/* Sleep only if nothing has arrived since `asleep` was set. */
static bool wait_for_work(struct publish_thread *thread, bool more) {
    eventfd_t wakes;
    zmq_pollitem_t items[] = {{.socket = thread->socket, .events = ZMQ_POLLIN},
                              {.fd = thread->wake, .events = ZMQ_POLLIN}};
    thread->asleep = true;
    bool idle = !more && publish_queue_is_empty(thread->queue) && !thread->stop;
    int ready = zmq_poll(items, sizeof items / sizeof *items, idle ? -1 : 0);
    thread->asleep = false;
    eventfd_read(thread->wake, &wakes);
    return (ready >= 0 || errno == EINTR) && !thread->stop;
}

static void *serve(void *context) {
    struct publish_thread *thread = context;
    bool more = false;
    while (wait_for_work(thread, more)) {
        send_messages(thread, MESSAGES_A_TURN);
        more = process_reports(thread);
    }
    send_messages(thread, -1);
    return NULL;
}

/* Hand the messages of the queue to libzmq, and stop the thread. */
static void publish_thread_stop(struct publish_thread **pointer) {
    struct publish_thread *thread = *pointer;
    if (!thread)
        return;
    if (!thread->stop) {
        thread->stop = true;
        eventfd_write(thread->wake, 1);
        pthread_join(thread->thread, NULL);
    }
    if (thread->wake >= 0)
        close(thread->wake);
    if (thread->news >= 0)
        close(thread->news);
    free(thread->records);
    free(thread);
    *pointer = NULL;
}

/* Start the thread, which owns the socket until publish_thread_stop and reads the queue. Errors:
   EX_OSERR. */
static int publish_thread_start(struct publish_thread **result, void *socket,
                                struct publish_queue *queue, struct security *security,
                                struct error *error) {
    struct publish_thread *thread = *result = calloc(1, sizeof *thread);
    if (!thread)
        return error_set(error, EX_OSERR, "out of memory for the statistics socket");
    thread->socket = socket;
    thread->queue = queue;
    thread->security = security;
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = thread->wake < 0 || thread->news < 0 ? errno : 0;
    if (!failed)
        failed = threads_start(&thread->thread, serve, thread);
    if (!failed)
        return 0;
    thread->stop = true; /* the thread was not created */
    publish_thread_stop(result);
    return error_set(error, EX_OSERR, "cannot start the publishing thread: %s", strerror(failed));
}

/* Notify the thread of a message in the queue. */
static void publish_thread_wake(struct publish_thread *thread) {
    if (atomic_exchange(&thread->asleep, false))
        eventfd_write(thread->wake, 1);
}

static bool publish_thread_news(struct publish_thread *thread) {
    eventfd_t news;
    eventfd_read(thread->news, &news);
    return atomic_exchange(&thread->status_owed, false);
}

static bool publish_thread_wanted(const struct publish_thread *thread, enum topic topic) {
    return thread->wanted >> topic & 1;
}

enum {
    RUN_SIZE = 17,
    SUBSCRIPTION_MAX =
        1024, /* bytes of a subscriber's frame: a prefix of a topic, or a handshake */
};

struct publish {
    void *socket; /* owned by the thread */
    struct publish_queue *queue;
    struct publish_thread *thread;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    char run[RUN_SIZE];
    uint64_t sequences[TOPICS], dropped;
    struct json_text text; /* the current message */
    bool replaying;
};

static void draw_run(char run[RUN_SIZE]) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)(clock_unix() * (double)NS_PER_SECOND);
    snprintf(run, RUN_SIZE, "%016llx", (unsigned long long)number);
}

int publish_open(struct publish **publish, void *zmq_context, struct security *security,
                 const struct socket_config *config, struct error *error) {
    static const struct endpoint_option options[] = {
        {ZMQ_SNDHWM, PUBLISH_QUEUE},
        {ZMQ_TCP_MAXRT, ENDPOINT_UNREAD_MS},
        {ZMQ_RCVBUF, ENDPOINT_SMALL_BUFFER},
        {ZMQ_RCVHWM, SUBSCRIPTIONS_WAITING},
        {ZMQ_XPUB_VERBOSER, 1}, /* reports every subscription, not only a topic's first and last */
        {ZMQ_MAXMSGSIZE, SUBSCRIPTION_MAX},
    };
    struct publish *p = calloc(1, sizeof *p);
    *publish = p;
    if (!p)
        return error_set(error, EX_OSERR, "out of memory for the statistics socket");
    draw_run(p->run);
    const char *key = config->connect ? "statistics.connect" : "statistics.bind";
    if (endpoint_open(&p->socket, zmq_context, security, ZMQ_XPUB, config, key, options,
                      sizeof options / sizeof *options, error)) {
        publish_close(publish);
        return -1;
    }
    endpoint_name(p->socket, config, p->endpoint);
    if (!(p->queue = publish_queue_open(PUBLISH_BYTES)))
        error_set(error, EX_OSERR, "out of memory for the statistics socket");
    if (p->queue && publish_thread_start(&p->thread, p->socket, p->queue, security, error) == 0)
        return 0;
    publish_close(publish);
    return -1;
}

int publish_renew(struct publish *publish, struct security *security,
                  const struct socket_config *config, struct error *error) {
    const char *key = config->connect ? "statistics.connect" : "statistics.bind";
    struct error again;
    publish_thread_stop(&publish->thread);
    int result = endpoint_renew(publish->socket, security, config, key, publish->endpoint, error);
    /* Start it after a failure, too: messages may still wait for publishing. */
    if (publish_thread_start(&publish->thread, publish->socket, publish->queue, security,
                             result ? &again : error))
        result = -1;
    return result;
}

void publish_close(struct publish **publish) {
    if (!*publish)
        return;
    publish_thread_stop(&(*publish)->thread);
    publish_queue_close(&(*publish)->queue);
    endpoint_close(&(*publish)->socket);
    json_text_free(&(*publish)->text);
    free(*publish);
    *publish = NULL;
}

int publish_descriptor(const struct publish *publish) {
    return publish->thread->news;
}

const char *publish_endpoint(const struct publish *publish) {
    return publish->endpoint;
}

bool publish_subscriptions(struct publish *publish) {
    return publish_thread_news(publish->thread);
}

bool publish_wanted(const struct publish *publish, enum topic topic) {
    return publish->thread && publish_thread_wanted(publish->thread, topic);
}

const char *publish_run(const struct publish *publish) {
    return publish->run;
}

struct json_text *publish_begin(struct publish *publish, enum topic topic, uint64_t examples,
                                uint64_t steps) {
    return publish_begin_at(publish, topic, examples, steps, clock_unix());
}

struct json_text *publish_begin_at(struct publish *publish, enum topic topic, uint64_t examples,
                                   uint64_t steps, double time) {
    if (!publish_wanted(publish, topic))
        return NULL;
    const struct each_fields fields = {
        .run = publish->run,
        .sequence = publish->sequences[topic] + 1,
        .examples = examples,
        .steps = steps,
        .time = time,
        .replaying = true,
    };
    struct json_text *text = &publish->text;
    json_text_begin(text);
    fields_write(text, FIELDS_OF_EACH, &fields, publish->replaying ? FIELD_HAS(NEED_REPLAY) : 0);
    return text;
}

void publish_mark_replaying(struct publish *publish, bool replaying) {
    publish->replaying = replaying;
}

uint64_t publish_dropped(const struct publish *publish) {
    return publish->dropped;
}

void publish_send(struct publish *publish, enum topic topic) {
    const struct json_text *text = &publish->text;
    if (!json_text_end(&publish->text))
        return;
    publish->sequences[topic]++;
    if (!publish_queue_put(publish->queue, topic, text->bytes, text->size))
        publish->dropped++;
    publish_thread_wake(publish->thread);
}
