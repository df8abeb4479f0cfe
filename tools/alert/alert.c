/* runnel-alert: watches daemons and says when something is wrong. See runnel-alert(1). */
#include "build-config.h"

#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "alert_options.h"
#include "alert_replay.h"
#include "alert_say.h"
#include "common/clock.h"
#include "common/complain.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"

enum { MESSAGES_AT_ONCE = 1000 /* of a daemon, between two looks at the others and the clock */ };

struct daemon {
    struct alerts *alerts;
    const char *endpoint;
    struct link *link;
    struct health health;
    struct watcher watcher;
    struct beginning {
        double since, unix_time;
    } beginnings[ALERT_KINDS]; /* of what was said last */
    bool hindrance_said, refused;
};

struct alerts {
    struct options options;
    struct deliver *deliver; /* NULL: alerts are printed and no more */
    struct daemon *daemons;
    size_t count;
    bool broken; /* standard output takes no more */
};

/* What makes Unix times of the book's: in a recording they are. */
static double unix_offset(const struct alerts *a) {
    return a->options.recording ? 0 : clock_unix() - clock_seconds();
}

static void print(struct alerts *a, const struct watcher *watcher, const struct alert *alert,
                  const json_t *json, double offset) {
    char line[SAY_LINE_SIZE];
    if (a->options.json)
        a->broken |= json_dumpf(json, stdout, JSON_COMPACT) < 0 || putchar('\n') < 0;
    else
        a->broken |= puts(say_line(line, watcher, alert, offset)) < 0;
    a->broken |= fflush(stdout) != 0;
}

/* The same number in all reports of an alert, though the two clocks may drift apart: it identifies
   the alert that is over. */
static double unix_since(struct daemon *daemon, const struct alert *alert, double offset) {
    struct beginning *beginning = &daemon->beginnings[alert->kind];
    if (beginning->since != alert->since)
        *beginning = (struct beginning){alert->since, alert->since + offset};
    return beginning->unix_time;
}

static void say(void *context, const struct alert *alert) {
    struct daemon *daemon = context;
    struct alerts *a = daemon->alerts;
    double offset = unix_offset(a);
    json_t *json = say_json(&daemon->watcher, alert, offset, unix_since(daemon, alert, offset));
    if (!a->options.quiet && (json || !a->options.json))
        print(a, &daemon->watcher, alert, json, offset);
    if (a->deliver && json)
        deliver_add(a->deliver, json);
    else
        json_decref(json);
}

static void note(void *context, const char *text) {
    const struct daemon *daemon = context;
    if (daemon->alerts->options.verbose)
        complain(EX_OK, "%s", text);
}

static void open_daemon(struct alerts *a, struct daemon *daemon, const char *endpoint) {
    const struct options *o = &a->options;
    *daemon = (struct daemon){.alerts = a, .endpoint = endpoint};
    watcher_open(&daemon->watcher, endpoint, &o->limits);
    book_open(&daemon->watcher.book, o->watched, o->interval, o->again, say, daemon);
    health_open(&daemon->health, endpoint, 0, note, daemon);
}

static void close_daemon(struct daemon *daemon) {
    link_close(&daemon->link);
}

static void take_message(struct daemon *daemon, const struct message *message) {
    health_message(&daemon->health, message);
    if (message->problem)
        return;
    watcher_message(&daemon->watcher, message, clock_seconds());
    double every = watcher_slow_statistics(&daemon->watcher, message);
    if (every > 0)
        complain(EX_OK,
                 "%s sends its loss every %.0f examples: a drift that is learned away within some "
                 "hundreds is found with statistics.every=5 only (runnel-ctl set "
                 "statistics.every 5)",
                 daemon->endpoint, every);
}

static void take_change(struct daemon *daemon, enum runnel_kind change) {
    health_changed(&daemon->health, change);
    bool new_refusal = change == RUNNEL_REFUSED && !daemon->refused;
    bool new_hindrance = change == RUNNEL_HINDERED && !daemon->hindrance_said;
    daemon->refused |= change == RUNNEL_REFUSED;
    daemon->hindrance_said |= change == RUNNEL_HINDERED;
    if (new_refusal || new_hindrance)
        complain(EX_OK, "%s: %s", daemon->endpoint, link_refusal(daemon->link));
}

static void look_at(struct daemon *daemon) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < MESSAGES_AT_ONCE && !ending_asked() &&
                    (kind = link_next(daemon->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE)
            take_message(daemon, &message);
        else
            take_change(daemon, kind);
        message_clear(&message);
    }
    health_tick(&daemon->health, false);
    double now = clock_seconds();
    watcher_quiet(&daemon->watcher, health_quiet(&daemon->health), daemon->health.connected, now);
    book_tick(&daemon->watcher.book, now);
}

/* Seconds until there is something to do without a message. */
static double next_time(const struct daemon *daemon) {
    double next =
        fmin(health_next(&daemon->health), book_next(&daemon->watcher.book, clock_seconds()));
    double silence = daemon->watcher.limits->silence - health_quiet(&daemon->health);
    if (silence > 0)
        next = fmin(next, silence);
    return next;
}

static void wait_for_messages(struct alerts *a, struct pollfd *items) {
    double seconds = next_time(&a->daemons[0]);
    for (size_t i = 0; i < a->count; i++) {
        items[i] = (struct pollfd){.fd = link_descriptor(a->daemons[i].link), .events = POLLIN};
        seconds = fmin(seconds, next_time(&a->daemons[i]));
    }
    items[a->count] = (struct pollfd){.fd = ending_descriptor(), .events = POLLIN};
    poll(items, a->count + 1, clock_milliseconds(seconds));
}

static bool all_refused(const struct alerts *a) {
    for (size_t i = 0; i < a->count; i++)
        if (!a->daemons[i].refused)
            return false;
    return true;
}

static int watch(struct alerts *a) {
    const struct options *o = &a->options;
    bool topics[TOPICS] = {[TOPIC_STATUS] = true, [TOPIC_LOSS] = true, [TOPIC_EVENT] = true};
    topics[TOPIC_STATE] = o->watched[ALERT_DEAD] || o->watched[ALERT_SATURATED];
    struct pollfd items[ALERT_DAEMONS + 1];
    for (size_t i = 0; i < a->count; i++) {
        struct runnel_peer peer = tool_peer(o->endpoints.values[i], &o->keys);
        int status = link_open(&a->daemons[i].link, &peer, topics);
        if (status != EX_OK)
            return status;
    }
    while (!ending_asked() && !a->broken) {
        for (size_t i = 0; i < a->count; i++)
            look_at(&a->daemons[i]);
        if (all_refused(a))
            return complain(EX_UNAVAILABLE, "no daemon lets this program in");
        if (!ending_asked() && !a->broken)
            wait_for_messages(a, items);
    }
    return EX_OK;
}

static bool take_recorded(void *context, const struct message *message, double now) {
    struct alerts *a = context;
    struct watcher *watcher = &a->daemons[0].watcher;
    watcher_message(watcher, message, now);
    book_tick(&watcher->book, now);
    return !ending_asked() && !a->broken;
}

static int run(struct alerts *a) {
    struct options *o = &a->options;
    a->count = o->endpoints.count;
    a->daemons = calloc(a->count, sizeof *a->daemons);
    if (!a->daemons)
        return complain(EX_UNAVAILABLE, "out of memory");
    for (size_t i = 0; i < a->count; i++)
        open_daemon(a, &a->daemons[i], o->recording ? o->recording : o->endpoints.values[i]);
    int status = EX_OK;
    if (o->deliver.command || o->deliver.url)
        status = deliver_open(&a->deliver, &o->deliver);
    if (status == EX_OK)
        status = o->recording ? replay(o->recording, take_recorded, a) : watch(a);
    for (size_t i = 0; i < a->count; i++)
        book_end(&a->daemons[i].watcher.book);
    deliver_close(&a->deliver);
    for (size_t i = 0; i < a->count; i++)
        close_daemon(&a->daemons[i]);
    free(a->daemons);
    if (a->broken)
        return complain(EX_IOERR, "cannot write to standard output");
    return status;
}

int main(int argc, char **argv) {
    struct alerts alerts = {0};
    int status = options_take(&alerts.options, argc, argv);
    signal(SIGCHLD, SIG_DFL); /* if the parent ignored it, commands would have no status */
    if (status == OPTIONS_GO_ON && (status = ending_catch_signals()) == EX_OK)
        status = run(&alerts);
    options_clear(&alerts.options);
    return status;
}
