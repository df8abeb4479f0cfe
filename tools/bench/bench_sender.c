#include "bench_sender.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/error.h"

enum { BLOCKED_MS = 50 }; /* how long a send may block before the thread looks up */

static const char KEY[] = "bench";

struct bench_sender {
    const struct architecture *architecture;
    const struct bench_data *data;
    void *socket;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted, flowing, ending; /* under the lock */
    uint64_t sent;                /* the thread's while it flows, else under the lock */
};

/* Say that nothing is being sent, and sleep until something is to be. False: the thread is to end.
 */
static bool await_flow(struct bench_sender *sender) {
    pthread_mutex_lock(&sender->lock);
    sender->flowing = false;
    pthread_cond_broadcast(&sender->changed);
    while (!sender->wanted && !sender->ending)
        pthread_cond_wait(&sender->changed, &sender->lock);
    sender->flowing = true;
    pthread_cond_broadcast(&sender->changed);
    bool ending = sender->ending;
    pthread_mutex_unlock(&sender->lock);
    return !ending;
}

static bool is_wanted(struct bench_sender *sender) {
    return __atomic_load_n(&sender->wanted, __ATOMIC_RELAXED);
}

/* [key][x] or [key][x][y]. False: the socket was full for BLOCKED_MS, nothing was sent. */
static bool send_example(struct bench_sender *sender) {
    const struct bench_data *data = sender->data;
    struct example e = bench_data_example(data, sender->architecture, KEY, sender->sent);
    if (zmq_send(sender->socket, e.key, e.key_size, ZMQ_SNDMORE) < 0)
        return false;
    zmq_send(sender->socket, e.x, data->inputs * sizeof(union value), e.y ? ZMQ_SNDMORE : 0);
    if (e.y)
        zmq_send(sender->socket, e.y, data->targets * sizeof(union value), 0);
    sender->sent++;
    return true;
}

static void *send_all(void *context) {
    struct bench_sender *sender = context;
    while (await_flow(sender))
        while (is_wanted(sender))
            send_example(sender);
    return NULL;
}

int bench_sender_open(struct bench_sender **sender, void *zmq_context, const char *endpoint,
                      const struct architecture *architecture, const struct bench_data *data,
                      struct error *error) {
    struct bench_sender *s = *sender = calloc(1, sizeof *s);
    int wait = BLOCKED_MS, linger = 0;
    if (!s)
        return error_set(error, EX_OSERR, "out of memory for a sender");
    s->architecture = architecture;
    s->data = data;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->socket = zmq_socket(zmq_context, ZMQ_PUSH);
    if (!s->socket || zmq_setsockopt(s->socket, ZMQ_SNDTIMEO, &wait, sizeof wait) ||
        zmq_setsockopt(s->socket, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_connect(s->socket, endpoint)) {
        error_set(error, EX_UNAVAILABLE, "%s: %s", endpoint, zmq_strerror(errno));
    } else if (pthread_create(&s->thread, NULL, send_all, s) == 0) {
        s->started = true;
        return 0;
    } else {
        error_set(error, EX_OSERR, "cannot start a thread to send from");
    }
    bench_sender_close(sender);
    return -1;
}

void bench_sender_close(struct bench_sender **sender) {
    struct bench_sender *s = *sender;
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        __atomic_store_n(&s->wanted, false, __ATOMIC_RELAXED);
        s->ending = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    if (s->socket)
        zmq_close(s->socket);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *sender = NULL;
}

void bench_sender_flow(struct bench_sender *sender, bool flowing) {
    pthread_mutex_lock(&sender->lock);
    __atomic_store_n(&sender->wanted, flowing, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&sender->changed);
    while (sender->flowing != flowing)
        pthread_cond_wait(&sender->changed, &sender->lock);
    pthread_mutex_unlock(&sender->lock);
}

uint64_t bench_sender_sent(struct bench_sender *sender) {
    pthread_mutex_lock(&sender->lock);
    uint64_t sent = sender->sent;
    pthread_mutex_unlock(&sender->lock);
    return sent;
}
