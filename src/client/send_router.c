#include "send_router.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/text.h"
#include "peer.h"
#include "send.h"
#include "send_dealer.h"
#include "send_window.h"

/* Seconds without an answer after which a connection may be dead without a sign of it. It doubles
   until there is an answer: a daemon that is paused has none, and each connection fills another
   queue of its. */
#define SILENCE_FIRST 60.0

enum {
    FRUITLESS = 5,       /* connections without an answer after which it is worth a sentence */
    SENTENCE_SIZE = 256, /* of a rejection's words */
    LAST_SIZE = 16,      /* of the last of too many frames */
};

struct router {
    const struct peer *peer;
    struct dealer *dealer;
    struct window *window;
    uint64_t next; /* number of the example to be sent next on this connection */
    const struct send_hooks *hooks;
    struct runnel_counts *counts;
    double heard, silence; /* the last answer, or what makes one due; seconds */
    double lost_at;        /* when the daemon went away, 0 = it is there */
    int fruitless;
    uint32_t epoch; /* the greatest that was sent */
    bool notes;     /* some were sent */
    char *schema;   /* that connections begin with, or NULL; of this one: */
    bool schema_sent, schema_answered;
    struct error unfit; /* what the daemon has against it: whatever follows fails, too */
};

int router_open(struct router **result, const struct peer *peer, size_t window,
                const struct send_hooks *hooks, struct runnel_counts *counts, struct error *error) {
    struct router *router = *result = calloc(1, sizeof *router);
    if (!router)
        return error_no_memory(error);
    router->peer = peer;
    router->hooks = hooks;
    router->counts = counts;
    router->silence = SILENCE_FIRST;
    if (window_open(&router->window, window, error) == 0 &&
        dealer_open(&router->dealer, peer, hooks, error) == 0)
        return 0;
    router_close(result);
    return -1;
}

static void tell(const struct router *router, enum runnel_report_kind kind, double seconds) {
    send_tell(router->hooks, &(struct runnel_report){.kind = kind, .seconds = seconds});
}

/* ---- answers ---- */

/* What docs/protocol.md calls the reasons, from 1. */
static const char *reason_name(uint16_t reason) {
    static const char *const NAMES[] = {"unknown",     "frames",  "json",     "key",
                                        "x_size",      "x_value", "y_size",   "y_value",
                                        "y_given",     "header",  "conflict", "sequence_jump",
                                        "not_allowed", "schema",  "label",    "vocabulary"};
    return NAMES[reason < sizeof NAMES / sizeof NAMES[0] ? reason : 0];
}

/* A sender that resumes after another gets duplicates too, but those of its newest epoch have no
   greater one before them. */
static void count_answer(struct router *router, const struct wire_acknowledgement *answer,
                         struct runnel_report *report) {
    struct runnel_counts *counts = router->counts;
    switch (answer->status) {
    case WIRE_REJECTED:
        report->kind = RUNNEL_REPORT_REJECTED;
        report->why = reason_name(answer->reason);
        if (counts->rejected++ == 0)
            counts->reason = report->why;
        return;
    case WIRE_DUPLICATE:
        report->kind = RUNNEL_REPORT_DUPLICATE;
        report->outdated = answer->reason == WIRE_OLD_EPOCH;
        counts->duplicates++;
        counts->outdated += report->outdated && answer->epoch == router->epoch;
        break;
    default:
        report->kind = RUNNEL_REPORT_ACKNOWLEDGED;
    }
    counts->foreign += report->foreign;
    counts->acknowledged++;
}

/* The connection is over, or will be: the next one begins with the schema and the oldest example.
 */
static void drop(struct router *router) {
    dealer_drop(router->dealer);
    router->next = window_oldest(router->window);
    router->schema_sent = router->schema_answered = false;
}

/* Whether it is the answer to the schema, the first one of a connection. */
static bool is_of_schema(struct router *router, size_t key_size,
                         const struct wire_acknowledgement *answer) {
    if (!router->schema_sent || router->schema_answered)
        return false;
    router->schema_answered = true;
    return key_size == 0 && answer->epoch == 0 && answer->sequence == 0;
}

/* An older daemon rejects it as JSON, and takes examples all the same. */
static int take_schema_answer(struct router *router, const struct wire_acknowledgement *answer,
                              const char *sentence, struct error *error) {
    if (answer->status != WIRE_REJECTED || !*sentence)
        return 0;
    error_set(&router->unfit, EX_DATAERR, "%s: the daemon does not take these examples: %s",
              router->peer->endpoint, sentence);
    *error = router->unfit;
    return -1;
}

static int take_answer(struct router *router, const char *key, size_t key_size,
                       const struct wire_acknowledgement *answer, const char *sentence,
                       struct error *error) {
    router->heard = clock_seconds();
    router->silence = SILENCE_FIRST;
    router->fruitless = 0;
    dealer_useful(router->dealer);
    if (is_of_schema(router, key_size, answer))
        return take_schema_answer(router, answer, sentence, error);
    bool once = false;
    bool known = window_answer(router->window, router->next, key, key_size, answer, &once);
    /* One that names an example was answered before. */
    if (!known && answer->status == WIRE_REJECTED && !answer->epoch && !answer->sequence)
        return error_set(
            error, EX_PROTOCOL, "%s: the daemon rejects an example (%s) and does not say which%s",
            router->peer->endpoint, reason_name(answer->reason),
            router->notes ? "; an older daemon rejects notes: send none (--no-notes)" : "");
    if (!known)
        return 0;
    if (router->next < window_oldest(router->window)) /* what follows was answered before */
        router->next = window_oldest(router->window);
    struct runnel_report report = {.key = key,
                                   .key_size = key_size,
                                   .epoch = answer->epoch,
                                   .sequence = answer->sequence,
                                   .position = answer->position,
                                   .sentence = *sentence ? sentence : NULL,
                                   .foreign = once && answer->status == WIRE_DUPLICATE};
    count_answer(router, answer, &report);
    send_tell(router->hooks, &report);
    return 0;
}

/* A frame that has come; its size, also where that is more than `size`, or -1. */
static int receive_frame(void *socket, void *bytes, size_t size, int *more) {
    size_t option = sizeof *more;
    int got;
    do
        got = zmq_recv(socket, bytes, size, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *more = 0;
    if (got >= 0)
        zmq_getsockopt(socket, ZMQ_RCVMORE, more, &option);
    return got;
}

/* The next frame of a message, 0 where there is none. A peer that is killed in the middle of a
   message leaves one whose rest never comes: libzmq continues saying that there is more of it. */
static size_t receive_next(void *socket, void *bytes, size_t size, int *more) {
    int got = *more ? receive_frame(socket, bytes, size, more) : 0;
    return got > 0 ? (size_t)got : 0;
}

/* End the sentence after so many bytes, or have none: an answer that is no rejection has numbers
   there. */
static void take_words(char sentence[SENTENCE_SIZE], size_t size, bool rejected) {
    size = size < SENTENCE_SIZE ? size : SENTENCE_SIZE - 1;
    sentence[rejected ? size : 0] = '\0';
    text_clean(sentence);
}

/* What a control socket says to an example. */
static bool is_control_reply(const void *frame, size_t size) {
    static const char begin[] = "{\"ok\":";
    return size >= sizeof begin - 1 && memcmp(frame, begin, sizeof begin - 1) == 0;
}

static int refuse_control(const struct router *router, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: what is there is a daemon's control socket: examples go to its examples "
                     "socket (examples.bind)",
                     router->peer->endpoint);
}

/* Take in all answers that are there. What is none is skipped. */
static int receive(struct router *router, struct error *error) {
    char key[WIRE_KEY_MAX + 1];
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE + 1];
    char last[LAST_SIZE];
    char sentence[SENTENCE_SIZE];
    struct wire_acknowledgement answer;
    void *socket = dealer_socket(router->dealer);
    int got, more;
    while (socket && (got = receive_frame(socket, key, sizeof key, &more)) >= 0) {
        size_t size = receive_next(socket, bytes, sizeof bytes, &more);
        size_t words = receive_next(socket, sentence, sizeof sentence - 1, &more);
        bool control = is_control_reply(key, (size_t)got) || is_control_reply(bytes, size) ||
                       is_control_reply(sentence, words);
        while (more) {
            size_t rest = receive_next(socket, last, sizeof last, &more);
            control = !more && is_control_reply(last, rest);
        }
        bool good =
            got <= WIRE_KEY_MAX && wire_acknowledgement_unpack(&answer, bytes, size) == NULL;
        if (!good && control)
            return refuse_control(router, error);
        take_words(sentence, words, good && answer.status == WIRE_REJECTED);
        if (good && take_answer(router, key, (size_t)got, &answer, sentence, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- sending ---- */

static bool unsent(const struct router *router) {
    return dealer_connected(router->dealer) && router->next < window_end(router->window);
}

static bool unanswered(const struct router *router) {
    return window_oldest(router->window) < router->next;
}

/* End the connection; the next one begins with the oldest example. */
static void disconnect(struct router *router) {
    bool lost = dealer_connected(router->dealer) && unanswered(router);
    drop(router);
    if (lost && router->lost_at == 0) {
        tell(router, RUNNEL_REPORT_LOST, 0);
        router->lost_at = clock_seconds();
    }
    if (lost && ++router->fruitless == FRUITLESS)
        tell(router, RUNNEL_REPORT_FRUITLESS, 0);
}

/* No error is visible: the daemon may be paused, or the connection dead. */
static void connect_again(struct router *router) {
    tell(router, RUNNEL_REPORT_SILENT, router->silence);
    router->silence *= 2;
    drop(router);
}

/* Say once that the daemon which went away is back. */
static void welcome(struct router *router) {
    if (router->lost_at == 0 || !dealer_connected(router->dealer))
        return;
    tell(router, RUNNEL_REPORT_BACK, clock_seconds() - router->lost_at);
    router->lost_at = 0;
}

/* 1: sent, or there is none to send. 0: the queue is full, or nobody is there. */
static int send_schema(struct router *router) {
    struct frames frames = {0};
    if (!router->schema || router->schema_sent)
        return 1;
    if (!dealer_connected(router->dealer))
        return 0;
    frames_add(&frames, router->schema, strlen(router->schema));
    int status = frames_send(&frames, dealer_socket(router->dealer));
    router->schema_sent = status > 0;
    return status;
}

/* Send what is to be sent, as far as the queue takes it. */
static void push(struct router *router) {
    struct frames frames;
    int status = send_schema(router);
    while (unsent(router) && status > 0) {
        if (!unanswered(router))
            router->heard = clock_seconds();
        if (window_get(router->window, router->next, &frames)) {
            status = frames_send(&frames, dealer_socket(router->dealer));
            if (status > 0)
                window_sent(router->window, router->next);
        }
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
    if (*router->unfit.text) {
        *error = router->unfit;
        return -1;
    }
    bool over = dealer_hear(router->dealer);
    if (receive(router, error) < 0)
        return -1;
    if (over)
        disconnect(router);
    if (is_silent(router))
        connect_again(router);
    if (dealer_renew(router->dealer, error) < 0)
        return -1;
    welcome(router);
    push(router);
    return 0;
}

int router_poll(struct router *router, double seconds, struct send_other *other,
                struct error *error) {
    if ((seconds > 0 || other) &&
        dealer_wait(router->dealer, seconds, unsent(router), other, error) < 0)
        return -1;
    return turn(router, error);
}

uint64_t router_settled(const struct router *router) {
    return window_oldest(router->window);
}

bool router_connected(const struct router *router) {
    return dealer_connected(router->dealer);
}

static int tick(struct router *router, double seconds, struct error *error) {
    if (router_poll(router, fmin(seconds, SEND_TICK_SECONDS), NULL, error) < 0)
        return -1;
    return send_tick(router->hooks, router_connected(router), error);
}

int router_send(struct router *router, const struct runnel_example *example, struct error *error) {
    while (!window_has_room(router->window, example))
        if (tick(router, SEND_TICK_SECONDS, error) < 0)
            return -1;
    if (window_add(router->window, example, router->hooks->producer, error) < 0)
        return -1;
    router->notes |= (example->flags & RUNNEL_NOTE) != 0;
    if (example->epoch > router->epoch) {
        router->epoch = example->epoch;
        router->counts->outdated = 0;
    }
    push(router);
    return 0;
}

int router_schema(struct router *router, const char *text, struct error *error) {
    char *copy = strdup(text);
    if (!copy)
        return error_no_memory(error);
    free(router->schema);
    router->schema = copy;
    router->schema_sent = router->schema_answered = false;
    router->unfit = (struct error){0};
    return turn(router, error);
}

int router_flush(struct router *router, double seconds, struct error *error) {
    double until = clock_seconds() + seconds, left = seconds;
    while (window_waiting(router->window) > 0 && left > 0) {
        if (tick(router, left, error) < 0)
            return -1;
        left = until - clock_seconds();
    }
    unsigned long long count = window_waiting(router->window);
    return count == 0 ? 0
                      : error_set(error, EX_TEMPFAIL, "%s: %llu example%s not acknowledged",
                                  router->peer->endpoint, count, count == 1 ? " was" : "s were");
}

void router_close(struct router **pointer) {
    struct router *router = *pointer;
    if (!router)
        return;
    dealer_close(&router->dealer);
    window_close(&router->window);
    free(router->schema);
    free(router);
    *pointer = NULL;
}
