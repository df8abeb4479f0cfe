#include "inquiry.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "common/keys.h"
#include "common/threads.h"
#include "probe.h"

const char *const finding_wants_keys =
    "the daemon requires keys: use --server-key with its public key, and --key with your secret "
    "key";
const char *const finding_without_keys = "the daemon has no keys: remove --server-key";
const char *const finding_denied =
    "the daemon denies access to this key (see security.allow and security.quota.connections of "
    "its configuration)";

/* ---- Kinds of sockets ---- */

enum { NAMES_MAX = 3 };

/* What one of our sockets expects of its peer. */
struct quest {
    int type;
    const char *peers[NAMES_MAX]; /* kinds that it accepts */
    const char *wanted;           /* description of the expected peer */
    const char *other, *hint;     /* another kind of daemon socket, and its advice */
    int trial;                    /* kind to try against an encrypted peer */
};

static const struct quest quests[] = {
    {ZMQ_SUB, {"PUB", "XPUB"}, "runneld's statistics socket", "", "", ZMQ_SUB},
    {ZMQ_REQ,
     {"REP", "ROUTER"},
     "runneld's control socket",
     "PUB",
     ": use the control socket, by default tcp://127.0.0.1:5572",
     ZMQ_DEALER},
    {ZMQ_PUSH,
     {"PULL"},
     "runneld's examples socket of kind pull",
     "ROUTER",
     ": the daemon has examples.socket: router, use --socket router",
     ZMQ_PUSH},
    {ZMQ_DEALER,
     {"ROUTER", "REP", "DEALER"},
     "runneld's examples socket of kind router",
     "PULL",
     ": use --socket push, or set examples.socket: router for acknowledgements",
     ZMQ_DEALER},
};

/* The kinds that are tried against an encrypted peer, and the kinds that accept them. */
static const struct {
    int type;
    const char *found;
} trials[] = {{ZMQ_SUB, "PUB"}, {ZMQ_DEALER, "REP or ROUTER"}, {ZMQ_PUSH, "PULL"}};

enum { TRIALS = sizeof trials / sizeof *trials };

static const struct quest *quest_of(int type) {
    const struct quest *quest = quests;
    while (quest->type != type)
        quest++;
    return quest;
}

static void find(struct finding *finding, enum finding_kind kind, const char *why) {
    finding->kind = kind;
    snprintf(finding->why, sizeof finding->why, "%s", why);
}

static void find_kind(struct finding *finding, const struct quest *quest, const char *type) {
    bool other = *quest->other && strstr(type, quest->other) != NULL;
    finding->kind = FINDING_REFUSED;
    snprintf(finding->why, sizeof finding->why, "the peer is %s %s socket, not %s%s",
             *type == 'X' ? "an" : "a", type, quest->wanted, other ? quest->hint : "");
}

/* ---- Handshakes of other kinds ---- */

enum { NEVER_MS = INT_MAX, EVENT_SIZE = 6, NAME_SIZE = 32 };

enum outcome { PENDING, AGREED, DENIED, FAILED };

struct trial {
    void *socket, *monitor;
    enum outcome outcome;
};

static int begin_trial(struct trial *trial, void *context, int type, const char *endpoint,
                       const struct key_client *keys) {
    const int zero = 0, never = NEVER_MS, ipv6 = strchr(endpoint, '[') != NULL;
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "inproc://trial-%d", type);
    trial->socket = zmq_socket(context, type);
    trial->monitor = zmq_socket(context, ZMQ_PAIR);
    return !trial->socket || !trial->monitor ||
                   zmq_setsockopt(trial->socket, ZMQ_LINGER, &zero, sizeof zero) ||
                   zmq_setsockopt(trial->socket, ZMQ_RECONNECT_IVL, &never, sizeof never) ||
                   zmq_setsockopt(trial->socket, ZMQ_IPV6, &ipv6, sizeof ipv6) ||
                   keys_apply(keys, trial->socket) ||
                   zmq_socket_monitor(trial->socket, name,
                                      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                                          ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) < 0 ||
                   zmq_connect(trial->monitor, name) || zmq_connect(trial->socket, endpoint)
               ? -1
               : 0;
}

static void end_trial(struct trial *trial) {
    if (trial->socket) {
        zmq_socket_monitor(trial->socket, NULL, 0);
        zmq_close(trial->socket);
    }
    if (trial->monitor)
        zmq_close(trial->monitor);
}

static void read_trial(struct trial *trial) {
    unsigned char frame[EVENT_SIZE], address[1];
    uint16_t event;
    while (trial->outcome == PENDING &&
           zmq_recv(trial->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == EVENT_SIZE) {
        memcpy(&event, frame, sizeof event);
        zmq_recv(trial->monitor, address, sizeof address, ZMQ_DONTWAIT);
        trial->outcome = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED     ? AGREED
                         : event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ? DENIED
                                                                    : FAILED;
    }
}

/* Wait until one handshake succeeds, all have failed, or the time is over. */
static void await_trials(struct trial all[TRIALS], int stop) {
    long left = (long)(INQUIRY_SECONDS * 1e3), step = 50;
    bool pending = true, agreed = false;
    for (; pending && !agreed && left > 0; left -= step) {
        zmq_pollitem_t items[TRIALS + 1] = {{.fd = stop, .events = ZMQ_POLLIN}};
        int first = stop < 0; /* -1 is not a valid descriptor for libzmq */
        for (int i = 0; i < TRIALS; i++)
            items[i + 1] = (zmq_pollitem_t){.socket = all[i].monitor, .events = ZMQ_POLLIN};
        zmq_poll(items + first, TRIALS + 1 - first, step);
        if (items[0].revents)
            return;
        pending = agreed = false;
        for (int i = 0; i < TRIALS; i++) {
            read_trial(&all[i]);
            pending |= all[i].outcome == PENDING;
            agreed |= all[i].outcome == AGREED;
        }
    }
}

static void evaluate_trials(struct finding *finding, const struct quest *quest,
                            const struct trial all[TRIALS]) {
    int failed = 0;
    for (int i = 0; i < TRIALS; i++) {
        failed += all[i].outcome == FAILED;
        if (all[i].outcome == DENIED) {
            find(finding, FINDING_REFUSED, finding_denied);
            return;
        }
        if (all[i].outcome != AGREED)
            continue;
        if (trials[i].type != quest->trial)
            find_kind(finding, quest, trials[i].found);
        return;
    }
    if (failed == TRIALS)
        find(finding, FINDING_HINDERED,
             "the daemon aborts the handshake: --server-key is not its public key");
}

static void try_kinds(struct finding *finding, const char *endpoint, const struct quest *quest,
                      const struct key_client *keys, int stop) {
    struct trial all[TRIALS] = {0};
    void *context = zmq_ctx_new();
    bool begun = context != NULL;
    for (int i = 0; i < TRIALS && begun; i++)
        begun = begin_trial(&all[i], context, trials[i].type, endpoint, keys) == 0;
    if (begun) {
        await_trials(all, stop);
        evaluate_trials(finding, quest, all);
    }
    for (int i = 0; i < TRIALS; i++)
        end_trial(&all[i]);
    if (context)
        while (zmq_ctx_term(context) < 0 && errno == EINTR)
            ;
}

/* ---- The inquiry ---- */

static bool fits(const struct quest *quest, const char *type) {
    for (int i = 0; i < NAMES_MAX && quest->peers[i]; i++)
        if (strcmp(quest->peers[i], type) == 0)
            return true;
    return !*type; /* not known yet */
}

void inquire(struct finding *finding, const char *endpoint, int type, const struct key_client *keys,
             int stop) {
    const struct quest *quest = quest_of(type);
    struct probe probe;
    *finding = (struct finding){.kind = FINDING_NOTHING};
    probe_ask(&probe, endpoint, INQUIRY_SECONDS, stop);
    switch (probe.answer) {
    case PROBE_NOBODY:
        break;
    case PROBE_CLOSES:
        find(finding, FINDING_HINDERED, "the peer closes the connection before its greeting");
        break;
    case PROBE_SILENT:
        find(finding, FINDING_HINDERED, "the peer accepts the connection but sends nothing");
        break;
    case PROBE_FOREIGN:
        find(finding, FINDING_REFUSED, "the peer does not speak ZeroMQ (ZMTP 3)");
        break;
    case PROBE_OTHER:
        find(finding, FINDING_REFUSED,
             "the peer requires an authentication method that runneld does not have");
        break;
    case PROBE_PLAIN:
        if (keys->on)
            find(finding, FINDING_REFUSED, finding_without_keys);
        else if (!fits(quest, probe.type))
            find_kind(finding, quest, probe.type);
        break;
    case PROBE_CURVE:
        if (keys->on)
            try_kinds(finding, endpoint, quest, keys, stop);
        else
            find(finding, FINDING_REFUSED, finding_wants_keys);
        break;
    }
}

struct inquiry {
    pthread_t thread;
    int over, stop; /* eventfds; `over` is the caller's */
    const char *endpoint;
    int type;
    const struct key_client *keys;
    struct finding finding;
};

static void *run(void *context) {
    struct inquiry *inquiry = context;
    inquire(&inquiry->finding, inquiry->endpoint, inquiry->type, inquiry->keys, inquiry->stop);
    eventfd_write(inquiry->over, 1);
    return NULL;
}

int inquiry_open(struct inquiry **result, const char *endpoint, int type,
                 const struct key_client *keys, int over) {
    struct inquiry *inquiry = calloc(1, sizeof *inquiry);
    if (!inquiry)
        return -1;
    inquiry->endpoint = endpoint;
    inquiry->type = type;
    inquiry->keys = keys;
    inquiry->over = over;
    inquiry->stop = eventfd(0, EFD_CLOEXEC);
    int reason = inquiry->stop < 0 ? errno : threads_start(&inquiry->thread, run, inquiry);
    if (!reason) {
        *result = inquiry;
        return 0;
    }
    if (inquiry->stop >= 0)
        close(inquiry->stop);
    free(inquiry);
    errno = reason;
    return -1;
}

const struct finding *inquiry_finding(const struct inquiry *inquiry) {
    struct pollfd item = {.fd = inquiry->over, .events = POLLIN};
    return poll(&item, 1, 0) > 0 ? &inquiry->finding : NULL;
}

void inquiry_close(struct inquiry **pointer) {
    struct inquiry *inquiry = *pointer;
    if (!inquiry)
        return;
    eventfd_write(inquiry->stop, 1);
    pthread_join(inquiry->thread, NULL);
    eventfd_t count;
    eventfd_read(inquiry->over, &count);
    close(inquiry->stop);
    free(inquiry);
    *pointer = NULL;
}
