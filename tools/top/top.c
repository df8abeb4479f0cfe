/* runnel-top: daemons learning, on one screen. See runnel-top(1). */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/wire.h"
#include "top_act.h"
#include "top_frame.h"
#include "top_keys.h"
#include "top_session.h"
#include "top_terminal.h"

#define FRAME_EVERY 0.05 /* seconds between two frames, at least */
#define SETTLE 0.02      /* seconds that a loss waits for the state that comes with it */
#define CLOCK_EVERY 1.0  /* seconds: times shown advance when nothing comes */
#define WAIT_MOST 15.0   /* seconds for --once without --wait */

enum {
    OWN_ITEMS = 2, /* signals and keys */
    ITEMS_MAX = OWN_ITEMS + 1 + SESSION_WATCHED,
    ONCE_ROWS = 24,
    ONCE_COLUMNS = 80,
    SIZE_MAX_SHOWN = 1000, /* rows and columns of a printed frame */
};

struct options {
    struct option_list endpoints, controls, server_keys;
    const char *key;
    bool log, once;
    double silence, wait; /* wait: NAN = not given */
};

static const struct option_row option_rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, SESSION_WATCHED)},
    {"control", 0, "ENDPOINT",
     "its control socket, for keys that act; the first goes with the first --connect (default: "
     "where the daemon says)",
     OPTION_LIST(struct options, controls, SESSION_WATCHED)},
    {"key", 0, "FILE", "your secret key, where a daemon wants to know who you are",
     OPTION_FILE(struct options, key)},
    {"server-key", 0, "KEY",
     "the daemon's public key, or the file that has it; the first goes with the first --connect, "
     "one alone with all",
     OPTION_LIST(struct options, server_keys, SESSION_WATCHED), .complete = COMPLETE_FILE},
    {"log", 'l', NULL, "begin with a logarithmic axis of the loss",
     OPTION_FLAG(struct options, log)},
    {"once", 0, NULL,
     "print one frame and end: when all daemons have sent messages, after 15 seconds at most",
     OPTION_FLAG(struct options, once)},
    {"wait", 'w', "SECONDS", "with --once: collect for so long",
     OPTION_SECONDS(struct options, wait)},
    {"silence", 's', "SECONDS", "say so when no message comes for so long; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

struct top {
    struct session session;
    struct canvas canvas;
    struct terminal *terminal;
    double drawn; /* clock_seconds() of the last frame */
    double news;  /* of the first news since then; INFINITY = there are none */
};

static int wake = -1; /* eventfd: a signal has come */
static volatile sig_atomic_t ending, resized;

static void die(int number) {
    terminal_abandon();
    signal(number, SIG_DFL);
    raise(number);
}

/* A second request to end means that the terminal takes no more output. */
static void on_signal(int number) {
    int saved = errno;
    uint64_t one = 1;
    if (number == SIGWINCH || number == SIGCONT)
        resized = 1;
    else if (ending)
        die(number);
    else
        ending = 1;
    if (write(wake, &one, sizeof one) < 0)
        errno = saved; /* full: then it wakes anyhow */
    errno = saved;
}

static int catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0)
        return complain(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &(struct sigaction){.sa_handler = die}, NULL);
    return EX_OK;
}

/* OPTIONS_GO_ON, or EX_USAGE. */
static int check_options(struct options *o) {
    if (o->endpoints.count == 0)
        o->endpoints = (struct option_list){.values = {WIRE_STATISTICS}, .count = 1};
    if (o->controls.count > o->endpoints.count)
        return complain_usage("there are more --control than --connect");
    if (o->server_keys.count > 1 && o->server_keys.count != o->endpoints.count)
        return complain_usage("give one --server-key, or one for each --connect");
    if (!o->once && !isnan(o->wait))
        return complain_usage("--wait is for --once");
    if (!o->once && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return complain_usage(
            "this is no terminal: --once prints one frame, runnel-watch prints lines");
    return OPTIONS_GO_ON;
}

static const char *of_list(const struct option_list *list, size_t i, bool one_for_all) {
    return i < list->count ? list->values[i] : one_for_all && list->count ? list->values[0] : NULL;
}

static int open_watched(struct session *s, const struct options *o) {
    for (size_t i = 0; i < o->endpoints.count; i++) {
        struct key_options keys = {.own = o->key, .server = of_list(&o->server_keys, i, true)};
        if (!key_options_ready(&keys))
            return EX_USAGE;
        struct watched *w = calloc(1, sizeof *w);
        if (!w)
            return complain(EX_UNAVAILABLE, "out of memory");
        s->watched[s->count++] = w;
        w->endpoint = o->endpoints.values[i];
        w->control = of_list(&o->controls, i, false);
        w->keys = keys;
        int status = watched_open(w, o->silence);
        if (status != EX_OK)
            return status;
    }
    return EX_OK;
}

static void close_watched(struct session *s) {
    control_close(&s->control);
    for (size_t i = 0; i < s->count; i++) {
        watched_close(s->watched[i]);
        free(s->watched[i]);
    }
    s->count = 0;
}

/* Wait until there is something to do, `seconds` at most. Keys are read only on a terminal,
   and its end is ours. */
static void wait_for_news(struct top *t, double seconds) {
    struct session *s = &t->session;
    struct pollfd items[ITEMS_MAX] = {{.fd = wake, .events = POLLIN},
                                      {.fd = STDIN_FILENO, .events = POLLIN}};
    nfds_t count = t->terminal ? OWN_ITEMS : OWN_ITEMS - 1;
    for (size_t i = 0; i < s->count; i++)
        items[count++] =
            (struct pollfd){.fd = link_descriptor(s->watched[i]->link), .events = POLLIN};
    if (s->control) {
        items[count++] = (struct pollfd){.fd = control_descriptor(s->control), .events = POLLIN};
        seconds = fmin(seconds, fmax(0, control_left(s->control)));
    }
    for (size_t i = 0; i < s->count; i++)
        seconds = fmin(seconds, health_next(&s->watched[i]->health));
    poll(items, count, clock_milliseconds(seconds));
    uint64_t signals;
    if (items[0].revents && read(wake, &signals, sizeof signals) < 0 && errno != EAGAIN)
        ending = 1;
    if (t->terminal && items[1].revents & (POLLERR | POLLHUP | POLLNVAL))
        ending = 1;
}

static bool take_keys(struct top *t) {
    bool any = false;
    for (int key; t->terminal && (key = terminal_key(t->terminal)) != KEY_NONE; any = true)
        keys_take(&t->session, key);
    return any;
}

/* Returns whether a key was pressed, which is answered at once. */
static bool take_news(struct top *t) {
    struct session *s = &t->session;
    bool news = act_step(s), pressed = take_keys(t);
    for (size_t i = 0; i < s->count; i++)
        news |= watched_take(s->watched[i]);
    if (news || pressed)
        t->news = fmin(t->news, clock_seconds());
    return pressed;
}

static int draw(struct top *t) {
    int rows, columns;
    if (resized)
        terminal_resized(t->terminal);
    resized = 0;
    terminal_size(&rows, &columns);
    if (canvas_reset(&t->canvas, rows, columns))
        return complain(EX_UNAVAILABLE, "out of memory");
    frame_draw(&t->canvas, &t->session, true);
    terminal_show(t->terminal, &t->canvas);
    t->drawn = clock_seconds();
    t->news = INFINITY;
    return EX_OK;
}

static bool is_settled(const struct session *s) {
    for (size_t i = 0; i < s->count; i++)
        if (!watched_settled(s->watched[i]))
            return false;
    return true;
}

/* When the next frame is due. */
static double frame_due(const struct top *t) {
    double news = t->news + (is_settled(&t->session) ? 0 : SETTLE);
    return fmin(t->drawn + CLOCK_EVERY, fmax(news, t->drawn + FRAME_EVERY));
}

static int run(struct top *t) {
    int status = draw(t);
    while (status == EX_OK && !ending && !t->session.ending) {
        wait_for_news(t, fmax(0, frame_due(t) - clock_seconds()));
        bool pressed = take_news(t);
        if (pressed || resized || clock_seconds() >= frame_due(t))
            status = draw(t);
    }
    return status;
}

static int size_of(const char *name, int otherwise) {
    const char *text = getenv(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    return value >= 1 && value <= SIZE_MAX_SHOWN && !*end ? (int)value : otherwise;
}

/* Why it admits nobody; NULL when it does, or nothing is known. */
static const char *reason(const struct watched *w) {
    return w->refused || w->hindered ? link_refusal(w->link) : NULL;
}

/* Whether it is worth while to wait any longer: with a time to wait, as long as more may come. */
static bool is_worth_waiting(const struct session *s, bool for_time) {
    for (size_t i = 0; i < s->count; i++) {
        const struct watched *w = s->watched[i];
        if (for_time ? !w->refused : !reason(w) && !watched_complete(w))
            return true;
    }
    return false;
}

static int explain(const struct watched *w) {
    const char *why = reason(w), *unreachable = wire_unreachable(w->endpoint);
    return why ? complain(EX_UNAVAILABLE, "%s: %s", w->endpoint, why)
           : unreachable
               ? complain(EX_UNAVAILABLE, "no message came from %s: %s", w->endpoint, unreachable)
               : complain(EX_UNAVAILABLE, "no message came from %s", w->endpoint);
}

static int print_frame(struct top *t) {
    struct session *s = &t->session;
    int rows = ONCE_ROWS, columns = ONCE_COLUMNS;
    if (isatty(STDOUT_FILENO))
        terminal_size(&rows, &columns);
    if (canvas_reset(&t->canvas, size_of("LINES", rows), size_of("COLUMNS", columns)))
        return complain(EX_UNAVAILABLE, "out of memory");
    frame_draw(&t->canvas, s, false);
    canvas_write(&t->canvas, stdout);
    int status = EX_OK;
    for (size_t i = 0; i < s->count; i++)
        if (!s->watched[i]->health.heard_ever)
            status = explain(s->watched[i]);
    return status == EX_OK ? complain_output() : status;
}

static int run_once(struct top *t, double wait) {
    double end = clock_seconds() + (isnan(wait) ? WAIT_MOST : wait);
    while (!ending && clock_seconds() < end && is_worth_waiting(&t->session, !isnan(wait))) {
        wait_for_news(t, fmin(CLOCK_EVERY, end - clock_seconds()));
        take_news(t);
    }
    return print_frame(t);
}

static int watch(const struct options *o) {
    struct top t = {.drawn = -INFINITY, .news = INFINITY};
    t.session.log = o->log;
    t.session.together = o->endpoints.count > 1;
    t.canvas.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    int status = open_watched(&t.session, o);
    if (status == EX_OK)
        status = catch_signals();
    if (status == EX_OK && !o->once)
        status = terminal_open(&t.terminal);
    if (status == EX_OK)
        status = o->once ? run_once(&t, o->wait) : run(&t);
    terminal_close(&t.terminal);
    close_watched(&t.session);
    canvas_close(&t.canvas);
    return status;
}

int main(int argc, char **argv) {
    struct options options = {.silence = HEALTH_SILENCE, .wait = NAN};
    const struct command_line line = {
        .name = "runnel-top",
        .operands = "",
        .summary = "Show on one screen how running runnelds learn: loss, layers, speed, health, "
                   "events.",
        .ending = "On the screen ? shows the keys and q ends. Exit status: 0 ended as asked, 64 "
                  "usage, 69 no terminal, no sockets, or (--once) no message from a daemon, 74 "
                  "output failed.",
        .groups = {{NULL, option_rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status == OPTIONS_GO_ON)
        status = check_options(&options);
    return status == OPTIONS_GO_ON ? watch(&options) : status;
}
