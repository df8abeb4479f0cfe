#include "build-config.h"

#include "alert_book.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/text.h"

#define FAR_AWAY 3600.0

const char *const alert_names[ALERT_KINDS] = {
    "silence", "restart", "non-finite", "rising",      "page-hinkley",
    "adwin",   "dead",    "saturated",  "queue",       "rejected",
    "journal", "disk",    "gap",        "input_scale", "worse_than_baseline",
    "anomaly", "idle",
};

const char *const alert_states[ALERT_STATES] = {"began", "still", "over", "passed"};

enum alert_kind alert_find(const char *name, size_t size) {
    int kind = 0;
    while (kind < ALERT_KINDS &&
           (strlen(alert_names[kind]) != size || memcmp(alert_names[kind], name, size) != 0))
        kind++;
    return (enum alert_kind)kind;
}

void book_open(struct book *book, const bool watched[ALERT_KINDS], double interval, double again,
               void (*say)(void *context, const struct alert *alert), void *context) {
    memset(book, 0, sizeof *book);
    book->data_time = NAN;
    book->interval = interval;
    book->again = again;
    book->say = say;
    book->context = context;
    for (int kind = 0; kind < ALERT_KINDS; kind++) {
        book->watched[kind] = watched[kind];
        book->conditions[kind].said_last = (struct moment){-INFINITY, NAN};
    }
}

/* Seconds, on the clock that has moved on further. */
static double elapsed(const struct book *book, struct moment since, double now) {
    return fmax(now - since.now, book->data_time - since.data);
}

static void say(struct book *book, struct condition *c, enum alert_state state, double now) {
    c->alert.state = state;
    c->alert.now = now;
    c->alert.data_time = book->data_time;
    book->say(book->context, &c->alert);
}

static bool is_held_back(const struct condition *c) {
    return c->alert.times > 0;
}

static void say_beginning(struct book *book, struct condition *c, double now) {
    c->said = c->holds;
    c->continued = false;
    c->said_last = (struct moment){now, book->data_time};
    c->reminded = now;
    say(book, c, c->holds ? ALERT_BEGAN : ALERT_PASSED, now);
    c->alert.times = 0;
}

/* What a stream holds back is told at its own time of data, whatever the others are at. */
static void say_held_back(struct book *book, struct condition *c, double now) {
    double newest = book->data_time;
    book->data_time = c->alert.data_since;
    say_beginning(book, c, now);
    book->data_time = newest;
}

static bool may_say(const struct book *book, const struct condition *c, double now) {
    return elapsed(book, c->said_last, now) >= book->interval;
}

/* The time since the last report goes on. */
static void say_continued(struct book *book, struct condition *c, double now) {
    const struct moment last = c->said_last;
    say_beginning(book, c, now);
    c->said_last = last;
    c->continued = true;
}

static void begin(struct book *book, struct condition *c, const struct alert *alert, double calm,
                  const char *format, va_list arguments) {
    c->calm = calm;
    c->renewed = (struct moment){alert->now, book->data_time};
    if (c->holds || !book->watched[alert->kind])
        return;
    uint64_t times = c->alert.times + 1;
    c->holds = true;
    c->alert = *alert;
    c->alert.times = times;
    if (book->stream)
        text_copy(c->alert.stream, sizeof c->alert.stream, book->stream);
    c->alert.data_since = book->data_time;
    vsnprintf(c->alert.text, sizeof c->alert.text, format, arguments);
    if (may_say(book, c, alert->now))
        say_beginning(book, c, alert->now);
}

void book_begin(struct book *book, enum alert_kind kind, double now, double value, double limit,
                const char *format, ...) {
    struct alert alert = {.kind = kind, .value = value, .limit = limit, .now = now, .since = now};
    va_list arguments;
    va_start(arguments, format);
    begin(book, &book->conditions[kind], &alert, INFINITY, format, arguments);
    va_end(arguments);
}

void book_happened(struct book *book, enum alert_kind kind, double now, double calm, double value,
                   const char *format, ...) {
    struct alert alert = {.kind = kind, .value = value, .limit = NAN, .now = now, .since = now};
    va_list arguments;
    va_start(arguments, format);
    begin(book, &book->conditions[kind], &alert, calm, format, arguments);
    va_end(arguments);
    if (calm <= 0)
        book->conditions[kind].holds = book->conditions[kind].said = false;
}

static struct condition *find_stream(struct book *book, const char *stream, double now) {
    struct condition *c = book->streams, *end = c + book->stream_count, *oldest = c;
    for (; c < end; c++) {
        if (strcmp(c->alert.stream, stream) == 0)
            return c;
        oldest = c->said_last.now < oldest->said_last.now ? c : oldest;
    }
    if (book->stream_count < ALERT_STREAMS)
        oldest = &book->streams[book->stream_count++];
    else if (is_held_back(oldest))
        say_held_back(book, oldest, now);
    *oldest = (struct condition){.said_last = {-INFINITY, NAN}};
    return oldest;
}

static void begin_text(struct book *book, struct condition *c, const struct alert *alert,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
static void begin_text(struct book *book, struct condition *c, const struct alert *alert,
                       const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    begin(book, c, alert, 0, format, arguments);
    va_end(arguments);
    if (is_held_back(c) && !c->continued)
        say_continued(book, c, alert->now);
    c->holds = c->said = false;
}

void book_event(struct book *book, const struct alert *event) {
    struct alert alert = *event;
    alert.since = alert.now;
    if (book->watched[alert.kind])
        begin_text(book, find_stream(book, alert.stream, alert.now), &alert, "%s", event->text);
}

void book_over(struct book *book, enum alert_kind kind, double now, const char *format, ...) {
    struct condition *c = &book->conditions[kind];
    if (!c->holds)
        return;
    c->holds = false;
    if (!c->said)
        return;
    c->said = false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->alert.text, sizeof c->alert.text, format, arguments);
    va_end(arguments);
    say(book, c, ALERT_OVER, now);
}

void book_tick(struct book *book, double now) {
    book->ticked = now;
    for (int kind = 0; kind < ALERT_KINDS; kind++) {
        struct condition *c = &book->conditions[kind];
        char calm[FORMAT_SIZE];
        const struct moment since = {c->alert.since, c->alert.data_since};
        if (c->holds && elapsed(book, c->renewed, now) >= c->calm)
            book_over(book, (enum alert_kind)kind, now, "it has not happened again; over after %s",
                      format_duration(calm, elapsed(book, since, now)));
        if (is_held_back(c) && may_say(book, c, now))
            say_beginning(book, c, now);
        if (c->holds && c->said && book->again > 0 && now - c->reminded >= book->again) {
            c->reminded = now;
            say(book, c, ALERT_STILL, now);
        }
    }
    /* Of a stream's own data nothing has come since; that of others says nothing. */
    for (size_t i = 0; i < book->stream_count; i++)
        if (is_held_back(&book->streams[i]) &&
            now - book->streams[i].said_last.now >= book->interval)
            say_held_back(book, &book->streams[i], now);
}

void book_end(struct book *book) {
    for (int kind = 0; kind < ALERT_KINDS; kind++)
        if (is_held_back(&book->conditions[kind]))
            say_beginning(book, &book->conditions[kind], book->ticked);
    for (size_t i = 0; i < book->stream_count; i++)
        if (is_held_back(&book->streams[i]))
            say_held_back(book, &book->streams[i], book->ticked);
}

double book_next(const struct book *book, double now) {
    double next = FAR_AWAY;
    for (int kind = 0; kind < ALERT_KINDS; kind++) {
        const struct condition *c = &book->conditions[kind];
        if (is_held_back(c))
            next = fmin(next, c->said_last.now + book->interval - now);
        if (!c->holds)
            continue;
        next = fmin(next, c->renewed.now + c->calm - now);
        if (c->said && book->again > 0)
            next = fmin(next, c->reminded + book->again - now);
    }
    for (size_t i = 0; i < book->stream_count; i++)
        if (is_held_back(&book->streams[i]))
            next = fmin(next, book->streams[i].said_last.now + book->interval - now);
    return fmax(next, 0);
}
