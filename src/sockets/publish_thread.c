#include "publish_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/error.h"
#include "config/config.h"
#include "publish_queue.h"
#include "security.h"

enum {
    SUBSCRIPTIONS_A_TURN = 256, /* then messages are sent again, */
    MESSAGES_A_TURN = 256,      /* and the other way round */
    USELESS_MAX = 64,           /* subscriptions of a connection that fit no topic */
};

/* What one connection subscribes to. */
struct record {
    int descriptor;            /* -1: of those who cannot be told apart, */
    uint64_t number;           /* 0 */
    uint32_t prefixes[TOPICS]; /* bit n: the topic's first n bytes are subscribed to */
    unsigned useless;          /* subscriptions that fit no topic */
};

struct publish_thread {
    void *socket;
    struct publish_queue *queue;
    struct security *security;
    pthread_t thread;
    int wake, news; /* eventfds: to the thread, from it */
    atomic_bool stop, asleep, status_owed;
    atomic_uint wanted; /* bit n: topic n */
    struct record *records;
    size_t count, room;
};

/* ---- What is wanted ---- */

static void tell(struct publish_thread *thread, bool status) {
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
    enum { ROOM_FIRST = 16 };
    if (thread->count == thread->room) {
        size_t room = thread->room ? 2 * thread->room : ROOM_FIRST;
        struct record *larger = realloc(thread->records, room * sizeof *larger);
        if (!larger)
            return NULL;
        thread->records = larger;
        thread->room = room;
    }
    struct record *record = &thread->records[thread->count++];
    *record = (struct record){.descriptor = descriptor, .number = number};
    return record;
}

/* Drop the records of connections that are gone. Those who cannot be told apart are gone when
   nobody is there. */
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

/* One frame of a subscriber: 1 PREFIX subscribes, 0 PREFIX ends it. True: `status` was subscribed
   to. */
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

/* The sender of a report. */
struct sender {
    const char *property; /* of its connection: the same text in all its messages, while one of them
                             is not closed; NULL = none is known */
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

/* `gone`: it is a report without a sender, libzmq's own of a connection that has ended. */
static bool take_report(struct publish_thread *thread, zmq_msg_t *message, struct sender *sender,
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
    /* It has gone since, or it is so new that libzmq, whose listener reports a connection only
       after it has handed it to another thread, has not reported it yet: it must not go unheard. */
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

/* Returns whether more may wait. */
static bool take_reports(struct publish_thread *thread) {
    bool status = false, gone = false, more = true;
    int taken = 0;
    struct sender sender = {.descriptor = -1};
    zmq_msg_t messages[2]; /* the newest, and the one before */
    zmq_msg_init(&messages[0]);
    zmq_msg_init(&messages[1]);
    while (taken < SUBSCRIPTIONS_A_TURN &&
           (more = zmq_msg_recv(&messages[taken % 2], thread->socket, ZMQ_DONTWAIT) >= 0)) {
        bool ended = false;
        status |= take_report(thread, &messages[taken % 2], &sender, &ended);
        gone |= ended;
        taken++;
    }
    zmq_msg_close(&messages[0]);
    zmq_msg_close(&messages[1]);
    if (gone)
        forget_gone(thread);
    if (taken > 0)
        tell(thread, status);
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

/* Sleeps only when nothing has come since it said that it sleeps. */
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
        more = take_reports(thread);
    }
    send_messages(thread, -1);
    return NULL;
}

int publish_thread_start(struct publish_thread **result, void *socket, struct publish_queue *queue,
                         struct security *security, struct error *error) {
    struct publish_thread *thread = *result = calloc(1, sizeof *thread);
    if (!thread)
        return error_set(error, EX_OSERR, "out of memory for the statistics socket");
    thread->socket = socket;
    thread->queue = queue;
    thread->security = security;
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = thread->wake < 0 || thread->news < 0 ? errno : 0;
    if (!failed) {
        sigset_t all, before; /* signals are the daemon's loop's */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        failed = pthread_create(&thread->thread, NULL, serve, thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!failed)
        return 0;
    thread->stop = true; /* it never ran */
    publish_thread_stop(result);
    return error_set(error, EX_OSERR, "cannot start to publish: %s", strerror(failed));
}

void publish_thread_stop(struct publish_thread **pointer) {
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

void publish_thread_wake(struct publish_thread *thread) {
    if (atomic_exchange(&thread->asleep, false))
        eventfd_write(thread->wake, 1);
}

int publish_thread_descriptor(const struct publish_thread *thread) {
    return thread->news;
}

bool publish_thread_news(struct publish_thread *thread) {
    eventfd_t news;
    eventfd_read(thread->news, &news);
    return atomic_exchange(&thread->status_owed, false);
}

bool publish_thread_wanted(const struct publish_thread *thread, enum topic topic) {
    return thread->wanted >> topic & 1;
}
