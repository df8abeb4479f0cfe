#include "send_router.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/text.h"
#include "common/wire.h"
#include "monitor.h"
#include "peer.h"
#include "runnel.h"
#include "send.h"

/* ---- The window ----

   Examples in order that were sent but not answered yet: they may have to be sent again. The
   n-th example ever added has number n, from 0. */

enum {
    WINDOW_EXAMPLES = 10000, /* default */
    WINDOW_BYTES = 64 << 20, /* bytes; one larger example is accepted, too */
};

struct held {
    bool answered;
    bool sent, sent_again;
    uint32_t epoch;
    uint64_t sequence;
    size_t key_size, size; /* sizes of the key, which follows, and of the frames after it */
    size_t frame_size[SEND_FRAMES];
    int frames;
    char bytes[];
};

struct window {
    uint64_t oldest, end, waiting;
    size_t bytes;
    /* position of the next answer of each status */
    uint64_t next_answered[WIRE_REJECTED + 1];
    size_t examples;
    struct held *ring[]; /* (examples,) example n has index n modulo `examples` */
};

/* Open a window for this number of examples; 0: WINDOW_EXAMPLES. */
static int window_open(struct window **window, size_t examples, struct error *error) {
    if (examples == 0)
        examples = WINDOW_EXAMPLES;
    *window = examples < SIZE_MAX / sizeof(struct held *) - sizeof **window
                  ? calloc(1, sizeof **window + examples * sizeof(struct held *))
                  : NULL;
    if (!*window)
        return error_no_memory(error);
    (*window)->examples = examples;
    return 0;
}

static struct held **at(struct window *window, uint64_t number) {
    return &window->ring[number % window->examples];
}

static void window_close(struct window **pointer) {
    struct window *window = *pointer;
    for (uint64_t n = window ? window->oldest : 0; window && n < window->end; n++)
        free(*at(window, n));
    free(window);
    *pointer = NULL;
}

static size_t frames_size(const struct runnel_example *e) {
    size_t y_size = e->y ? e->y_size : 0;
    size_t words_size = e->flags & WIRE_WORDS ? e->words_size : 0;
    size_t note_size = e->flags & WIRE_NOTE ? e->note_size : 0;
    return e->json ? e->json_size
                   : e->key_size + e->x_size + y_size + words_size + note_size + SEND_HEADER_SIZE;
}

static size_t held_size(size_t key_size, size_t size) {
    return sizeof(struct held) + key_size + size;
}

static bool window_has_room(const struct window *window, const struct runnel_example *example) {
    size_t size = held_size(example->key_size, frames_size(example));
    uint64_t count = window->end - window->oldest;
    return count == 0 || (count < window->examples && window->bytes + size <= WINDOW_BYTES);
}

/* Add a copy of the example. It needs a header that is unique in its stream, and room. For JSON
   the header only repeats the numbers in the text. */
static int window_add(struct window *window, const struct runnel_example *e, uint64_t producer,
                      struct error *error) {
    unsigned char header[SEND_HEADER_SIZE];
    struct frames frames;
    struct held *held = calloc(1, held_size(e->key_size, frames_size(e)));
    if (!held)
        return error_no_memory(error);
    held->epoch = e->epoch;
    held->sequence = e->sequence;
    held->key_size = e->key_size;
    memcpy(held->bytes, e->key, e->key_size);
    frames_make(&frames, e, true, producer, header);
    for (int i = 0; i < frames.count; i++) {
        held->frame_size[held->frames++] = frames.sizes[i];
        if (frames.sizes[i])
            memcpy(held->bytes + held->key_size + held->size, frames.bytes[i], frames.sizes[i]);
        held->size += frames.sizes[i];
    }
    window->bytes += held_size(held->key_size, held->size);
    window->waiting++;
    *at(window, window->end++) = held;
    return 0;
}

/* The frames of example `number`. False: it was answered. */
static bool window_get(const struct window *window, uint64_t number, struct frames *frames) {
    const struct held *held = window->ring[number % window->examples];
    const char *bytes = held->bytes + held->key_size;
    frames->count = 0;
    for (int i = 0; i < held->frames; bytes += held->frame_size[i++])
        frames_add(frames, bytes, held->frame_size[i]);
    return !held->answered;
}

/* Count that example `number`, from window_get, was sent. */
static void window_sent(struct window *window, uint64_t number) {
    struct held *held = *at(window, number);
    held->sent_again = held->sent;
    held->sent = true;
}

/* Answers do not contain the key if the key itself is invalid. */
static bool is_of(const struct held *held, const char *key, size_t key_size,
                  const struct wire_acknowledgement *answer) {
    bool same = held->key_size == key_size && memcmp(held->bytes, key, key_size) == 0;
    bool invalid = held->key_size > WIRE_KEY_MAX || !wire_is_utf8(held->bytes, held->key_size);
    return !held->answered && held->sequence == answer->sequence && held->epoch == answer->epoch &&
           (same || (key_size == 0 && answer->status == WIRE_REJECTED && invalid));
}

static void settle(struct window *window, uint64_t number) {
    (*at(window, number))->answered = true;
    window->waiting--;
    while (window->oldest < window->end && (*at(window, window->oldest))->answered) {
        struct held *oldest = *at(window, window->oldest++);
        window->bytes -= held_size(oldest->key_size, oldest->size);
        free(oldest);
    }
}

/* Find the example below number `sent` that the answer belongs to, and settle it. `once` is true
   if it was sent only once. False: no waiting example matches. Rejections arrive immediately,
   other answers once the disk has their examples, and both in order: so the next example of a
   status usually matches at once. */
static bool window_answer(struct window *window, uint64_t sent, const char *key, size_t key_size,
                          const struct wire_acknowledgement *answer, bool *once) {
    uint64_t *next = &window->next_answered[answer->status == WIRE_REJECTED ? WIRE_REJECTED : 0];
    uint64_t first = window->oldest, count = sent - first;
    uint64_t start = *next > first && *next < sent ? *next - first : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = first + (start + i) % count;
        if (!is_of(*at(window, number), key, key_size, answer))
            continue;
        *next = number + 1;
        *once = !(*at(window, number))->sent_again;
        settle(window, number);
        return true;
    }
    return false;
}

/* ---- The DEALER socket ----

   This client must detect broken connections. libzmq would connect again by itself and continue
   after the messages that the broken connection has lost. Every connection therefore has its own
   socket, which never connects again by itself. */

/* Delay from the end of a connection, or of an attempt, to the next attempt; doubled each time. */
#define RETRY_FIRST 0.1
#define RETRY_MAX 2.0
#define BETWEEN_SECONDS 0.02 /* longest wait without a socket */

/* Prevent libzmq from connecting again. -1 would do so, but libzmq 4.3 may then abort if a peer
   dies in the middle of a message. */
enum { NEVER_MS = INT_MAX, CONNECT_MS = 30000 };

struct dealer {
    const struct peer *peer;
    const struct send_hooks *hooks;
    void *context, *socket;
    struct monitor *monitor;
    bool connected;
    bool refused; /* permanently: see monitor_reason */
    bool hindrance_reported;
    double retry_at, retry; /* CLOCK_MONOTONIC; seconds */
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* Answers are read quickly and must not be dropped. */
static int set_options(const struct dealer *dealer) {
    void *socket = dealer->socket;
    return peer_set_sending(dealer->peer, socket) || set(socket, ZMQ_RCVHWM, 0) ||
                   set(socket, ZMQ_RECONNECT_IVL, NEVER_MS) ||
                   set(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS)
               ? -1
               : 0;
}

static int begin(struct dealer *dealer, struct error *error) {
    dealer->socket = zmq_socket(dealer->context, ZMQ_DEALER);
    if (!dealer->socket || set_options(dealer) < 0 ||
        monitor_attach(dealer->monitor, dealer->context, dealer->socket) < 0)
        return error_set(error, EX_OSERR, "cannot open a ZeroMQ socket: %s", zmq_strerror(errno));
    return send_attach(dealer->peer, dealer->socket, false, error);
}

static void end(struct dealer *dealer) {
    if (dealer->monitor)
        monitor_detach(dealer->monitor);
    if (dealer->socket)
        zmq_close(dealer->socket);
    dealer->socket = NULL;
    dealer->connected = false;
}

static void dealer_close(struct dealer **pointer) {
    struct dealer *dealer = *pointer;
    if (!dealer)
        return;
    end(dealer);
    monitor_close(&dealer->monitor);
    if (dealer->context)
        while (zmq_ctx_term(dealer->context) < 0 && errno == EINTR)
            ;
    free(dealer);
    *pointer = NULL;
}

/* Open a dealer like push_open, but only connect. Peer and hooks must outlive it. */
static int dealer_open(struct dealer **result, const struct peer *peer,
                       const struct send_hooks *hooks, struct error *error) {
    struct dealer *dealer = *result = calloc(1, sizeof *dealer);
    if (!dealer)
        return error_no_memory(error);
    dealer->peer = peer;
    dealer->hooks = hooks;
    dealer->retry = RETRY_FIRST;
    dealer->context = zmq_ctx_new();
    struct error why;
    if (!dealer->context)
        error_set(error, EX_OSERR, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    else if (monitor_open(&dealer->monitor, peer->endpoint, ZMQ_DEALER, false, &peer->keys, &why) <
             0)
        error_set(error, EX_OSERR, "%s", why.text);
    else if (begin(dealer, error) == 0)
        return 0;
    dealer_close(result);
    return -1;
}

/* Process the monitor's events without waiting. True: the connection, or the attempt, has ended;
   call dealer_drop. */
static bool dealer_process(struct dealer *dealer) {
    struct monitor_event event;
    bool over = false;
    while (monitor_next(dealer->monitor, &event))
        switch (event.kind) {
        case MONITOR_READY:
            dealer->connected = true;
            break;
        case MONITOR_CLOSED:
        case MONITOR_MISSED:
            over = true;
            break;
        case MONITOR_REFUSED:
            dealer->refused = true;
            break;
        case MONITOR_HINDERED:
            if (!dealer->hindrance_reported)
                send_report(dealer->hooks,
                            &(struct runnel_report){.kind = RUNNEL_REPORT_HINDERED,
                                                    .why = monitor_reason(dealer->monitor)});
            dealer->hindrance_reported = true;
            break;
        case MONITOR_OPENED:
            break;
        }
    return over;
}

/* End the connection. The delay before the next one grows until there is an answer. */
static void dealer_drop(struct dealer *dealer) {
    end(dealer);
    dealer->retry_at = clock_seconds() + dealer->retry;
    dealer->retry = fmin(2 * dealer->retry, RETRY_MAX);
}

/* Begin the next connection if it is time: 1, else 0. -1 (EX_UNAVAILABLE) if the daemon has
   permanently refused the last one. */
static int dealer_renew(struct dealer *dealer, struct error *error) {
    if (dealer->refused)
        return error_set(error, EX_UNAVAILABLE, "%s: %s", dealer->peer->endpoint,
                         monitor_reason(dealer->monitor));
    if (dealer->socket || clock_seconds() < dealer->retry_at)
        return 0;
    if (begin(dealer, error) == 0)
        return 1;
    dealer_drop(dealer);
    return -1;
}

/* Wait at most `seconds`, or until there is an event or a message or, with `room`, the queue has
   room, or `other` (NULL: none) is ready. Errors: EX_IOERR. */
static int dealer_wait(struct dealer *dealer, double seconds, bool room, struct send_other *other,
                       struct error *error) {
    zmq_pollitem_t items[MONITOR_ITEMS + 2];
    monitor_items(dealer->monitor, items);
    int count = MONITOR_ITEMS;
    if (dealer->socket)
        items[count++] = (zmq_pollitem_t){.socket = dealer->socket,
                                          .events = (short)(ZMQ_POLLIN | (room ? ZMQ_POLLOUT : 0))};
    else
        seconds = fmin(seconds, BETWEEN_SECONDS);
    if (send_wait(items, count, other, seconds) < 0)
        return error_set(error, EX_IOERR, "%s: cannot wait: %s", dealer->peer->endpoint,
                         zmq_strerror(errno));
    return 0;
}

/* Seconds without an answer after which the connection may be dead. Doubled until there is an
   answer: a paused daemon does not answer, and each connection fills another queue of it. */
#define SILENCE_FIRST 60.0

enum {
    FRUITLESS = 5,       /* connections without an answer before a report */
    SENTENCE_SIZE = 256, /* bytes of the explanation in a rejection */
    LAST_SIZE = 16,      /* bytes of the last of too many frames */
};

struct router {
    const struct peer *peer;
    struct dealer *dealer;
    struct window *window;
    uint64_t next; /* number of the next example to send on this connection */
    const struct send_hooks *hooks;
    struct runnel_counts *counts;
    double last_answer, silence; /* last answer, or the request for one; seconds */
    double lost_at;              /* time of the disconnection, 0 = connected */
    int fruitless;
    uint32_t epoch; /* greatest epoch sent */
    bool notes;     /* whether notes were sent */
    /* The first message of connections, or NULL; the flags are for the current connection. */
    char *schema;
    bool schema_sent, schema_answered;
    struct error unfit; /* the daemon's objection to the schema: all later calls fail, too */
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

static void report_event(const struct router *router, enum runnel_report_kind kind,
                         double seconds) {
    send_report(router->hooks, &(struct runnel_report){.kind = kind, .seconds = seconds});
}

/* ---- Answers ---- */

/* The names of docs/reference/protocol.md for the reasons, from 1. */
static const char *reason_name(uint16_t reason) {
    static const char *const NAMES[] = {"unknown",     "frames",  "json",     "key",
                                        "x_size",      "x_value", "y_size",   "y_value",
                                        "y_given",     "header",  "conflict", "sequence_jump",
                                        "not_allowed", "schema",  "label",    "vocabulary"};
    return NAMES[reason < sizeof NAMES / sizeof NAMES[0] ? reason : 0];
}

/* A sender that resumes also gets duplicates, but its newest epoch then has no greater one in
   the daemon. */
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

/* Drop the connection. The next one begins with the schema and the oldest example. */
static void drop(struct router *router) {
    dealer_drop(router->dealer);
    router->next = router->window->oldest;
    router->schema_sent = router->schema_answered = false;
}

/* Whether this is the answer to the schema: the first answer of a connection. */
static bool is_of_schema(struct router *router, size_t key_size,
                         const struct wire_acknowledgement *answer) {
    if (!router->schema_sent || router->schema_answered)
        return false;
    router->schema_answered = true;
    return key_size == 0 && answer->epoch == 0 && answer->sequence == 0;
}

/* An older daemon rejects the schema as JSON, but accepts examples. */
static int process_schema_answer(struct router *router, const struct wire_acknowledgement *answer,
                                 const char *sentence, struct error *error) {
    if (answer->status != WIRE_REJECTED || !*sentence)
        return 0;
    error_set(&router->unfit, EX_DATAERR, "%s: the daemon rejects these examples: %s",
              router->peer->endpoint, sentence);
    *error = router->unfit;
    return -1;
}

static int process_answer(struct router *router, const char *key, size_t key_size,
                          const struct wire_acknowledgement *answer, const char *sentence,
                          struct error *error) {
    router->last_answer = clock_seconds();
    router->silence = SILENCE_FIRST;
    router->fruitless = 0;
    router->dealer->retry = RETRY_FIRST;
    if (is_of_schema(router, key_size, answer))
        return process_schema_answer(router, answer, sentence, error);
    bool once = false;
    bool known = window_answer(router->window, router->next, key, key_size, answer, &once);
    /* A rejection with numbers belongs to an example that was answered before. */
    if (!known && answer->status == WIRE_REJECTED && !answer->epoch && !answer->sequence)
        return error_set(error, EX_PROTOCOL,
                         "%s: the daemon rejects an unidentified example (%s)%s",
                         router->peer->endpoint, reason_name(answer->reason),
                         router->notes ? "; an older daemon rejects notes: use --no-notes" : "");
    if (!known)
        return 0;
    if (router->next < router->window->oldest) /* the examples up to there were answered before */
        router->next = router->window->oldest;
    struct runnel_report report = {.key = key,
                                   .key_size = key_size,
                                   .epoch = answer->epoch,
                                   .sequence = answer->sequence,
                                   .position = answer->position,
                                   .sentence = *sentence ? sentence : NULL,
                                   .foreign = once && answer->status == WIRE_DUPLICATE};
    count_answer(router, answer, &report);
    send_report(router->hooks, &report);
    return 0;
}

/* Receive a frame. Returns its size, also if it is larger than `size`, or -1. */
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

/* The size of the next frame of a message, 0 at its end. A peer that is killed while it sends
   leaves an incomplete message: libzmq continues to report more frames. */
static size_t receive_next(void *socket, void *bytes, size_t size, int *more) {
    int got = *more ? receive_frame(socket, bytes, size, more) : 0;
    return got > 0 ? (size_t)got : 0;
}

/* Terminate the sentence after `size` bytes. It is empty unless the answer is a rejection: other
   answers have numbers in this frame. */
static void cut_words(char sentence[SENTENCE_SIZE], size_t size, bool rejected) {
    size = size < SENTENCE_SIZE ? size : SENTENCE_SIZE - 1;
    sentence[rejected ? size : 0] = '\0';
    text_clean(sentence);
}

/* A control socket's answer to an example. */
static bool is_control_reply(const void *frame, size_t size) {
    static const char begin[] = "{\"ok\":";
    return size >= sizeof begin - 1 && memcmp(frame, begin, sizeof begin - 1) == 0;
}

static int refuse_control(const struct router *router, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the peer is the daemon's control socket; send examples to its "
                     "examples socket (examples.bind)",
                     router->peer->endpoint);
}

/* Process all answers in the queue. Invalid ones are skipped. */
static int receive(struct router *router, struct error *error) {
    char key[WIRE_KEY_MAX + 1];
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE + 1];
    char last[LAST_SIZE];
    char sentence[SENTENCE_SIZE];
    struct wire_acknowledgement answer;
    void *socket = router->dealer->socket;
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
        cut_words(sentence, words, good && answer.status == WIRE_REJECTED);
        if (good && process_answer(router, key, (size_t)got, &answer, sentence, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- Sending ---- */

/* No example is sent before the daemon has answered the schema. */
static bool awaits_schema(const struct router *router) {
    return router->schema_sent && !router->schema_answered;
}

static bool unsent(const struct router *router) {
    return router->dealer->connected && router->next < router->window->end &&
           !awaits_schema(router);
}

static bool unanswered(const struct router *router) {
    return router->window->oldest < router->next || awaits_schema(router);
}

/* End the connection. The next one begins with the oldest example. */
static void disconnect(struct router *router) {
    bool lost = router->dealer->connected && unanswered(router);
    drop(router);
    if (lost && router->lost_at == 0) {
        report_event(router, RUNNEL_REPORT_LOST, 0);
        router->lost_at = clock_seconds();
    }
    if (lost && ++router->fruitless == FRUITLESS)
        report_event(router, RUNNEL_REPORT_FRUITLESS, 0);
}

/* Report once that the daemon is connected again. */
static void welcome(struct router *router) {
    if (router->lost_at == 0 || !router->dealer->connected)
        return;
    report_event(router, RUNNEL_REPORT_BACK, clock_seconds() - router->lost_at);
    router->lost_at = 0;
}

/* 1: sent, or without a schema. 0: the queue is full, or the peer is missing. */
static int send_schema(struct router *router) {
    struct frames frames = {0};
    if (!router->schema || router->schema_sent)
        return 1;
    if (!router->dealer->connected)
        return 0;
    frames_add(&frames, router->schema, strlen(router->schema));
    int status = frames_send(&frames, router->dealer->socket);
    router->schema_sent = status > 0;
    router->last_answer = clock_seconds();
    return status;
}

/* Send examples until the queue is full. */
static void push(struct router *router) {
    struct frames frames;
    int status = send_schema(router);
    while (unsent(router) && status > 0) {
        if (!unanswered(router))
            router->last_answer = clock_seconds();
        if (window_get(router->window, router->next, &frames)) {
            status = frames_send(&frames, router->dealer->socket);
            if (status > 0)
                window_sent(router->window, router->next);
        }
        router->next += status > 0;
    }
    if (status < 0)
        disconnect(router);
}

static bool is_silent(const struct router *router) {
    return router->dealer->connected && unanswered(router) &&
           clock_seconds() - router->last_answer > router->silence;
}

/* Do everything that is possible without waiting. */
static int turn(struct router *router, struct error *error) {
    if (*router->unfit.text) {
        *error = router->unfit;
        return -1;
    }
    bool over = dealer_process(router->dealer);
    if (receive(router, error) < 0)
        return -1;
    if (over)
        disconnect(router);
    if (is_silent(router)) { /* the daemon may be paused, or the connection dead */
        report_event(router, RUNNEL_REPORT_SILENT, router->silence);
        router->silence *= 2;
        drop(router);
    }
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
    return router->window->oldest;
}

bool router_connected(const struct router *router) {
    return router->dealer->connected;
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
    while (router->window->waiting > 0 && left > 0) {
        if (tick(router, left, error) < 0)
            return -1;
        left = until - clock_seconds();
    }
    unsigned long long count = router->window->waiting;
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
