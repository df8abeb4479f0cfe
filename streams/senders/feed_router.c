#include "feed_router.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/keys.h"
#include "feed_dealer.h"
#include "feed_window.h"
#include "streams/feed.h"
#include "streams/feed_progress.h"

/* Seconds without an answer after which a connection may be dead without a sign of it. It doubles
   until there is an answer: a daemon that is paused has none, and each connection fills another
   queue of its. */
#define SILENCE_FIRST 60.0

/* Connections without an answer after which it is worth a sentence. */
enum { FRUITLESS = 5 };

struct router {
    const char *endpoint;
    struct dealer *dealer;
    struct window *window;
    uint64_t next; /* number of the example to be sent next on this connection */
    struct outlet_waiter waiter;
    double heard, silence; /* the last answer, or what makes one due; seconds */
    double lost_at;        /* when the daemon went away, 0 = it is there */
    int fruitless;
    uint32_t epoch; /* the greatest that was sent */
    bool outdated_said;
    struct router_figures figures;
};

int router_open(struct router **result, const char *endpoint, const struct key_client *keys,
                const struct outlet_waiter *waiter, struct error *error) {
    struct router *router = *result = calloc(1, sizeof *router);
    if (!router)
        return error_no_memory(error);
    router->endpoint = endpoint;
    router->waiter = *waiter;
    router->silence = SILENCE_FIRST;
    if (window_open(&router->window, error) == 0 &&
        dealer_open(&router->dealer, endpoint, keys, error) == 0)
        return 0;
    struct error ignored;
    struct router_figures none;
    router_close(result, 0, &none, &ignored);
    return -1;
}

/* ---- answers ---- */

/* What docs/protocol.md calls the reasons, from 1. */
static const char *reason_name(uint16_t reason) {
    static const char *const NAMES[] = {"unknown", "frames", "json",    "key",     "x_size",
                                        "x_value", "y_size", "y_value", "y_given", "header"};
    return NAMES[reason < sizeof NAMES / sizeof NAMES[0] ? reason : 0];
}

static void take_rejection(struct router *router, const char *key, size_t key_size,
                           const struct wire_acknowledgement *answer) {
    if (router->figures.rejected++ > 0)
        return;
    router->figures.reason = reason_name(answer->reason);
    feed_say("the daemon rejects an example: %s (stream %.*s, number %llu)", router->figures.reason,
             (int)key_size, key, (unsigned long long)answer->sequence);
}

/* A call that goes on behind another gets duplicates too, but those of its newest epoch have no
   greater one before them. */
static void take_duplicate(struct router *router, const char *key, size_t key_size,
                           const struct wire_acknowledgement *answer) {
    router->figures.duplicates++;
    if (answer->reason != WIRE_OLD_EPOCH)
        return;
    router->figures.outdated += answer->epoch == router->epoch;
    if (!router->outdated_said)
        progress_warn("%s: the daemon has examples of stream %.*s with a greater epoch than %lu, "
                      "and takes this one for an old one: unless it was learned before, only a "
                      "greater --epoch has it learned",
                      router->endpoint, (int)key_size, key, (unsigned long)answer->epoch);
    router->outdated_said = true;
}

static int take_answer(struct router *router, const char *key, size_t key_size,
                       const struct wire_acknowledgement *answer, struct error *error) {
    router->heard = clock_seconds();
    router->silence = SILENCE_FIRST;
    router->fruitless = 0;
    dealer_useful(router->dealer);
    bool known = window_answer(router->window, router->next, key, key_size, answer);
    if (!known && answer->status == WIRE_REJECTED)
        return error_set(error, EX_PROTOCOL,
                         "%s: the daemon rejects an example (%s) and does not say which",
                         router->endpoint, reason_name(answer->reason));
    if (!known)
        return 0;
    if (router->next < window_oldest(router->window)) /* what follows was answered before */
        router->next = window_oldest(router->window);
    if (answer->status == WIRE_REJECTED)
        take_rejection(router, key, key_size, answer);
    else
        router->figures.acknowledged++;
    if (answer->status == WIRE_DUPLICATE)
        take_duplicate(router, key, key_size, answer);
    return 0;
}

/* The next frame of a message that has come; its size, also where that is more than `size`. A peer
   that is killed in the middle of a message leaves one whose rest never comes: libzmq goes on
   saying that there is more of it. */
static size_t receive_frame(void *socket, void *bytes, size_t size, int *more) {
    size_t option = sizeof *more;
    int got;
    do
        got = zmq_recv(socket, bytes, size, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *more = 0;
    if (got < 0)
        return 0;
    zmq_getsockopt(socket, ZMQ_RCVMORE, more, &option);
    return (size_t)got;
}

/* Take in all answers that are there. What is none is passed over. */
static int receive(struct router *router, struct error *error) {
    char key[WIRE_KEY_MAX + 1];
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE + 1], ignored[1];
    struct wire_acknowledgement answer;
    void *socket = dealer_socket(router->dealer);
    int got;
    while (socket && (got = zmq_recv(socket, key, sizeof key, ZMQ_DONTWAIT)) >= 0) {
        int more = 0;
        size_t option = sizeof more;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option);
        size_t size = more ? receive_frame(socket, bytes, sizeof bytes, &more) : 0;
        while (more)
            receive_frame(socket, ignored, sizeof ignored, &more);
        bool good =
            got <= WIRE_KEY_MAX && wire_acknowledgement_unpack(&answer, bytes, size) == NULL;
        if (good && take_answer(router, key, (size_t)got, &answer, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- sending ---- */

/* 1: sent. 0: the queue is full. -1: the connection is over. */
static int transmit(void *socket, const struct window_example *example) {
    const char *bytes = example->bytes;
    for (int i = 0; i < example->frames; bytes += example->frame_size[i++]) {
        int more = i + 1 < example->frames ? ZMQ_SNDMORE : 0, sent;
        do
            sent = zmq_send(socket, bytes, example->frame_size[i], more | ZMQ_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
            return i == 0 && errno == EAGAIN ? 0 : -1;
    }
    return 1;
}

static bool unsent(const struct router *router) {
    return dealer_connected(router->dealer) && router->next < window_end(router->window);
}

static bool unanswered(const struct router *router) {
    return window_oldest(router->window) < router->next;
}

/* End the connection; the next one begins with the oldest example. */
static void disconnect(struct router *router) {
    bool lost = dealer_connected(router->dealer) && unanswered(router);
    dealer_drop(router->dealer);
    router->next = window_oldest(router->window);
    if (lost && router->lost_at == 0) {
        router->waiter.lost(router->waiter.context);
        router->lost_at = clock_seconds();
    }
    if (lost && ++router->fruitless == FRUITLESS)
        feed_say("%s: the daemon ends the connection again and again without an answer; are the "
                 "examples larger than any of its model?",
                 router->endpoint);
}

/* Nothing is wrong that anybody could see: the daemon may be paused, or behind a dead wire. */
static void connect_anew(struct router *router) {
    feed_say("%s: no answer for %.0f s; a daemon that is paused or busy has none. Connecting again",
             router->endpoint, router->silence);
    router->silence *= 2;
    dealer_drop(router->dealer);
    router->next = window_oldest(router->window);
}

/* Say once that the daemon which went away is back. */
static void welcome(struct router *router) {
    if (router->lost_at == 0 || !dealer_connected(router->dealer))
        return;
    feed_say("%s: back after %.1f s, and sent what is not acknowledged", router->endpoint,
             clock_seconds() - router->lost_at);
    router->lost_at = 0;
}

/* Send what is to be sent, as far as the queue takes it. */
static void push(struct router *router) {
    struct window_example example;
    int status = 1;
    while (unsent(router) && status > 0) {
        if (!unanswered(router))
            router->heard = clock_seconds();
        if (window_get(router->window, router->next, &example))
            status = transmit(dealer_socket(router->dealer), &example);
        router->next += status > 0;
    }
    if (status < 0)
        disconnect(router);
}

static bool is_silent(const struct router *router) {
    return dealer_connected(router->dealer) && unanswered(router) &&
           clock_seconds() - router->heard > router->silence;
}

/* Do all that can be done without waiting. */
static int turn(struct router *router, struct error *error) {
    bool over = dealer_hear(router->dealer);
    if (receive(router, error) < 0)
        return -1;
    if (over)
        disconnect(router);
    if (is_silent(router))
        connect_anew(router);
    if (dealer_renew(router->dealer, error) < 0)
        return -1;
    welcome(router);
    push(router);
    return 0;
}

static int tick(struct router *router, struct error *error) {
    if (dealer_wait(router->dealer, unsent(router), error) < 0 || turn(router, error) < 0)
        return -1;
    router->waiter.tick(router->waiter.context, dealer_connected(router->dealer));
    return 0;
}

static int interrupted(struct error *error) {
    return feed_signals ? error_set(error, FEED_INTERRUPTED, "interrupted") : 0;
}

int router_wait(struct router *router, double seconds, struct error *error) {
    double until = clock_seconds() + seconds;
    while (!dealer_connected(router->dealer)) {
        if (clock_seconds() >= until)
            return error_set(error, EX_UNAVAILABLE,
                             "%s: nobody was there within %g seconds; is runneld running?",
                             router->endpoint, seconds);
        if (tick(router, error) < 0 || interrupted(error) < 0)
            return -1;
    }
    return 0;
}

int router_listen(struct router *router, struct error *error) {
    return turn(router, error);
}

int router_send(struct router *router, const struct message *message, struct error *error) {
    while (!window_has_room(router->window, message))
        if (interrupted(error) < 0 || tick(router, error) < 0)
            return -1;
    if (window_add(router->window, message, error) < 0)
        return -1;
    if (message->header.epoch > router->epoch) {
        router->epoch = message->header.epoch;
        router->figures.outdated = 0;
    }
    push(router);
    return 0;
}

const struct router_figures *router_figures(const struct router *router) {
    return &router->figures;
}

int router_settle(struct router *router, struct error *error) {
    while (window_waiting(router->window) > 0)
        if (interrupted(error) < 0 || tick(router, error) < 0)
            return -1;
    return 0;
}

static int await_answers(struct router *router, double linger, struct error *error) {
    sig_atomic_t signals = 0;
    double until = clock_seconds() + linger;
    int status = 0;
    while (status == 0 && window_waiting(router->window) > 0 && clock_seconds() < until) {
        if (signals == 0 && feed_signals) {
            signals = feed_signals;
            until = fmin(until, clock_seconds() +
                                    (dealer_connected(router->dealer) ? OUTLET_STOP_SECONDS : 0));
        }
        if (feed_signals != signals)
            break;
        status = tick(router, error);
    }
    unsigned long long left = window_waiting(router->window);
    if (status < 0 || left == 0)
        return status;
    return error_set(error, EX_TEMPFAIL, "%s: %llu example%s not acknowledged", router->endpoint,
                     left, left == 1 ? " was" : "s were");
}

int router_close(struct router **pointer, double linger, struct router_figures *figures,
                 struct error *error) {
    struct router *router = *pointer;
    if (!router)
        return 0;
    int status = router->dealer ? await_answers(router, linger, error) : 0;
    *figures = router->figures;
    dealer_close(&router->dealer);
    window_close(&router->window);
    free(router);
    *pointer = NULL;
    return status;
}
