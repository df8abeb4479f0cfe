#include "feed_delivery.h"

#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/text.h"

/* ---- Progress ---- */

#define PROGRESS_INTERVAL 0.25 /* seconds between two updates of the line */
#define RATE_MEMORY 3.0        /* seconds over which the rate is averaged */
#define WAIT_QUIETLY 1.0       /* seconds without a daemon until a message */

enum { LINE_SIZE = 256, DURATION_SIZE = 32, TERMINAL_WIDTH = 80 };

static struct {
    const char *program;
    bool quiet, verbose, terminal;
    bool drawn; /* a line is on the terminal */
    bool waiting_reported;
    double begun, shown;
    double rate;  /* examples per second, averaged */
    double rated; /* time of the average */
    uint64_t examples_rated;
} console;

/* Begins messages in the name of `program`. `line`: false if standard output may be the same
   terminal. */
static void progress_start(const char *program, bool quiet, bool verbose, bool line) {
    console.program = program;
    console.quiet = quiet;
    console.verbose = verbose;
    console.terminal = line && isatty(STDERR_FILENO) == 1;
    progress_begin();
}

void progress_begin(void) {
    console.begun = console.shown = clock_seconds();
}

/* Clears the line, until it is shown again. */
static void progress_clear(void) {
    if (console.drawn)
        fputs("\r\033[K", stderr);
    console.drawn = false;
    console.shown = 0;
}

static void print_message(char *text) {
    text_clean(text);
    progress_clear();
    fprintf(stderr, "%s: %s\n", console.program, text);
}

void progress_warn(const char *format, ...) {
    char text[ERROR_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    print_message(text);
}

void feed_print(const char *format, ...) {
    if (console.quiet)
        return;
    char text[ERROR_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    print_message(text);
}

void feed_detail(const char *format, ...) {
    if (console.quiet || !console.verbose)
        return;
    char text[ERROR_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    print_message(text);
}

/* Without a progress line, prints one message after a while if no daemon is connected. */
static void progress_waiting(const struct progress *progress) {
    if (console.terminal || console.waiting_reported ||
        clock_seconds() - console.begun < WAIT_QUIETLY)
        return;
    console.waiting_reported = true;
    const char *why = wire_unreachable(progress->waiting);
    feed_print("waiting for %s%s%s", progress->waiting, why ? ": " : "", why ? why : "");
}

static bool progress_due(void) {
    return console.terminal && !console.quiet &&
           clock_seconds() - console.shown >= PROGRESS_INTERVAL;
}

static void update_rate(const struct progress *progress, double now) {
    bool first = console.rated < console.begun;
    double since = now - (first ? console.begun : console.rated);
    if (since <= 0)
        return;
    double newest = (double)(progress->examples - console.examples_rated) / since;
    double share = first ? 1 : 1 - exp(-since / RATE_MEMORY);
    console.rate += share * (newest - console.rate);
    console.examples_rated = progress->examples;
    console.rated = now;
}

static int terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
                                                                       : TERMINAL_WIDTH;
}

void progress_show(const struct progress *progress) {
    if (!console.terminal || console.quiet)
        return;
    double now = clock_seconds();
    update_rate(progress, now);
    char line[LINE_SIZE], left[FORMAT_SIZE];
    int used = 0;
    if (progress->waiting && progress->examples == 0)
        used = snprintf(line, sizeof line, "waiting for %s", progress->waiting);
    else
        used = snprintf(line, sizeof line, "%llu examples  %.*f/s",
                        (unsigned long long)progress->examples, console.rate < 10 ? 1 : 0,
                        console.rate);
    if (progress->waiting && progress->examples > 0 && used < LINE_SIZE)
        used +=
            snprintf(line + used, LINE_SIZE - (size_t)used, "  waiting for %s", progress->waiting);
    else if (progress->done > 0 && used < LINE_SIZE)
        snprintf(line + used, LINE_SIZE - (size_t)used, "  %.0f%%  ETA %s",
                 100 * fmin(progress->done, 1),
                 format_left(left, (now - console.begun) * (1 / fmin(progress->done, 1) - 1)));
    fprintf(stderr, "\r%.*s\033[K", terminal_width() - 1, line);
    console.drawn = true;
    console.shown = now;
}

/* Prints "sent 1000 examples in 2.0 s, 500 per second". Adds "(12000 steps)" if examples have
   several steps, and the daemon's answers unless `counts` is NULL. */
static void progress_summary(const struct progress *progress, const char *where, uint64_t skipped,
                             const struct runnel_counts *counts) {
    char steps[DURATION_SIZE] = "", bad[DURATION_SIZE + LINE_SIZE] = "", back[LINE_SIZE] = "";
    double seconds = clock_seconds() - console.begun;
    if (progress->steps > progress->examples)
        snprintf(steps, sizeof steps, " (%llu steps)", (unsigned long long)progress->steps);
    if (skipped)
        snprintf(bad, sizeof bad, "; %llu bad %s skipped", (unsigned long long)skipped,
                 skipped == 1 ? "line was" : "lines were");
    if (counts)
        snprintf(back, sizeof back, "; %llu acknowledged (%llu duplicate%s), %llu rejected",
                 (unsigned long long)counts->acknowledged, (unsigned long long)counts->duplicates,
                 counts->duplicates == 1 ? "" : "s", (unsigned long long)counts->rejected);
    feed_print("%s %llu example%s%s in %.1f s, %.*f per second%s%s", where,
               (unsigned long long)progress->examples, progress->examples == 1 ? "" : "s", steps,
               seconds, progress->examples < 100 * seconds ? 1 : 0,
               seconds > 0 ? (double)progress->examples / seconds : 0.0, back, bad);
}

/* ---- Print ----

   Examples as JSON lines, as runneld and `runnel-feed json` accept them. */

/* Prints the fewest digits that give the same float32 again. */
static void print_real(float value) {
    enum { DIGITS_MIN = 6, DIGITS_MAX = FLT_DECIMAL_DIG, ROOM = 32 };
    char text[ROOM];
    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    fputs(isnan(value) ? "null" : text, stdout);
}

static char *quoted(const char *bytes, size_t size) {
    json_t *value = json_stringn(bytes ? bytes : "", size);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    return text;
}

static void print_word(const char **word) {
    char *text = quoted(*word + 1, (unsigned char)**word);
    fputs(text ? text : "null", stdout);
    free(text);
    *word += 1 + (unsigned char)**word;
}

/* `word`: the next one, if numbers are words. */
static void print_value(const unsigned char *bytes, enum value_kind kind, const char **word) {
    if (kind == VALUE_CLASS) {
        uint32_t id;
        memcpy(&id, bytes, sizeof id);
        if (id == WIRE_NO_CLASS)
            fputs("null", stdout);
        else if (id == WIRE_WORD && *word)
            print_word(word);
        else
            printf("%u", id);
        return;
    }
    float value;
    memcpy(&value, bytes, sizeof value);
    print_real(value);
}

/* Prints [1, 2] for one step or one number per step, else [[1, 2], [3, 4]]. */
static void print_values(const void *values, size_t steps, const struct shape *shape,
                         const char **word) {
    const unsigned char *bytes = values;
    bool nested = steps > 1 && shape->count > 1;
    for (size_t i = 0; i < steps * shape->count; i++, bytes += VALUE_SIZE) {
        bool first = i % shape->count == 0;
        fputs(i == 0 ? (nested ? "[[" : "[") : nested && first ? "], [" : ", ", stdout);
        print_value(bytes, shape->kind, word);
    }
    fputs(nested ? "]]" : "]", stdout);
}

static void print_header(const struct runnel_example *e, uint64_t producer) {
    if (e->flags & WIRE_END)
        fputs(", \"end\": true", stdout);
    if (e->flags & WIRE_DO_NOT_LEARN)
        fputs(", \"learn\": false", stdout);
    if (producer)
        printf(", \"producer\": \"%llx\"", (unsigned long long)producer);
    printf(", \"epoch\": %u, \"sequence\": %llu", e->epoch, (unsigned long long)e->sequence);
    if (e->time != 0)
        printf(", \"time\": %.6f", e->time);
}

static int print_failed(struct error *error) {
    return error_set(error, EX_IOERR, "standard output: cannot write: %s", strerror(errno));
}

/* Prints the example. A missing number or class is null; a number has as many digits as its 32 bits
   need. Fails with EX_IOERR. */
static int print_example(const struct runnel_example *e, size_t steps, const struct shape *x,
                         const struct shape *y, uint64_t producer, struct error *error) {
    if (e->json) {
        fwrite(e->json, 1, e->json_size, stdout);
        return putchar('\n') == EOF ? print_failed(error) : 0;
    }
    char *text = quoted(e->key, e->key_size);
    char *note = quoted(e->note, e->note_size);
    if (!text || !note) {
        free(text);
        free(note);
        return error_no_memory(error);
    }
    bool label = e->flags & WIRE_LABEL;
    size_t rows = x->count && !label ? e->x_size / (x->count * VALUE_SIZE) : steps;
    const char *word = e->words;
    printf("{\"stream\": %s, ", text);
    free(text);
    if (label)
        printf("\"label_of\": %llu, \"label_epoch\": %u", (unsigned long long)e->label_sequence,
               e->label_epoch);
    else
        fputs("\"x\": ", stdout);
    if (!label)
        print_values(e->x, rows, x, &word);
    if (e->y) {
        fputs(", \"y\": ", stdout);
        print_values(e->y, steps, y, &word);
    }
    if (e->headed)
        print_header(e, producer);
    if (e->note)
        printf(", \"note\": %s", note);
    free(note);
    return puts("}") == EOF ? print_failed(error) : 0;
}

/* Checks that everything was written. */
static int print_finish(struct error *error) {
    return fflush(stdout) == EOF || ferror(stdout) ? print_failed(error) : 0;
}

/* See delivery_pause. */
#define LATE_SECONDS 1.0

/* Time that a daemon gets to read after a signal. */
#define STOP_SECONDS 5.0

enum { TIMES_SIZE = 32 };

static void show(struct delivery *delivery) {
    if (!progress_due())
        return;
    delivery->progress.done = delivery->done(delivery->context);
    progress_show(&delivery->progress);
}

/* Whether the final wait may continue. With a router, the first signal shortens it, and another one
   ends it. A push has a fixed time from the beginning. */
static bool may_close(struct delivery *delivery, bool connected) {
    bool first = delivery->to.kind == RUNNEL_ROUTER && delivery->signals == 0 && feed_signals;
    if (first) {
        delivery->signals = feed_signals;
        delivery->until = clock_seconds() + (connected ? STOP_SECONDS : 0);
    }
    return feed_signals == delivery->signals && clock_seconds() < delivery->until;
}

/* Reports the number of settled examples to the source. */
static void settle(struct delivery *delivery) {
    uint64_t count = delivery->progress.examples;
    if (!delivery->settled)
        return;
    if (delivery->sender)
        count = runnel_sender_settled(delivery->sender);
    bool refused = delivery->strict && delivery->sender &&
                   runnel_sender_counts(delivery->sender)->rejected > 0;
    if (count > delivery->reported && !refused)
        delivery->settled(delivery->source, delivery->reported = count);
}

/* Called while the sender waits: shows the endpoint. */
static bool waiting(void *context, bool connected) {
    struct delivery *delivery = context;
    delivery->progress.waiting = connected ? NULL : delivery->to.endpoint;
    if (!connected && !delivery->started)
        progress_waiting(&delivery->progress);
    settle(delivery);
    show(delivery);
    return delivery->closing ? may_close(delivery, connected) : feed_signals == 0;
}

static void report_lost(struct delivery *delivery) {
    if (delivery->to.kind == RUNNEL_ROUTER) {
        feed_print("%s: connection closed; unacknowledged examples will be sent again",
                   delivery->to.endpoint);
        return;
    }
    delivery->lost++;
    progress_warn("%s: the daemon closed the connection; examples in transit may be lost",
                  delivery->to.endpoint);
}

static void report_outdated(struct delivery *delivery, const struct runnel_report *report) {
    if (!delivery->outdated_reported)
        progress_warn(
            "%s: the daemon has examples of stream %.*s with a greater epoch than %lu, and treats "
            "this one as outdated; if it was not learned before, pass a greater --epoch",
            delivery->to.endpoint, (int)report->key_size, report->key,
            (unsigned long)report->epoch);
    delivery->outdated_reported = true;
}

/* A number that this call uses for the first time is already in use, or has another example at the
   daemon. */
static void note_clash(struct delivery *delivery, const struct runnel_report *report,
                       const char *what) {
    if (*delivery->clash.text)
        return;
    error_set(&delivery->clash, EX_DATAERR,
              "stream %.*s, number %llu of epoch %lu: %s; another sender uses the same producer "
              "(--producer %llx) and epoch: give each its own --producer, or none for a random one",
              (int)report->key_size, report->key, (unsigned long long)report->sequence,
              (unsigned long)report->epoch, what, (unsigned long long)delivery->to.producer);
}

static int check_clash(const struct delivery *delivery, struct error *error) {
    return *delivery->clash.text
               ? error_set(error, delivery->clash.status, "%s", delivery->clash.text)
               : 0;
}

static int check_strict(const struct delivery *delivery, struct error *error) {
    if (!delivery->strict || !delivery->sender)
        return 0;
    const struct runnel_counts *counts = runnel_sender_counts(delivery->sender);
    return counts->rejected
               ? error_set(error, EX_DATAERR, "the daemon rejected an example: %s (--strict)",
                           counts->reason)
               : 0;
}

static void report_duplicate(struct delivery *delivery, const struct runnel_report *report) {
    if (delivery->to.fresh && report->foreign)
        note_clash(delivery, report, "the daemon already had it before this call sent it");
    else if (report->outdated)
        report_outdated(delivery, report);
}

static void report_rejected(struct delivery *delivery, const struct runnel_report *report) {
    if (!strcmp(report->why, "conflict"))
        note_clash(delivery, report, "the daemon has another example with this number");
    else if (runnel_sender_counts(delivery->sender)->rejected == 1)
        feed_print("the daemon rejected an example: %s (stream %.*s, number %llu)%s%s%s",
                   report->why, (int)report->key_size, report->key,
                   (unsigned long long)report->sequence, report->sentence ? ": " : "",
                   report->sentence ? report->sentence : "",
                   delivery->maps && !strcmp(report->why, "json")
                       ? "; --field COLUMN=PATH sends only named fields"
                       : "");
}

static void on_report(void *context, const struct runnel_report *report) {
    struct delivery *delivery = context;
    const char *endpoint = delivery->to.endpoint;
    switch (report->kind) {
    case RUNNEL_REPORT_HINDERED:
        feed_print("%s: %s", endpoint, report->why);
        break;
    case RUNNEL_REPORT_LOST:
        report_lost(delivery);
        break;
    case RUNNEL_REPORT_BACK:
        feed_print("%s: reconnected after %.1f s; unacknowledged examples were sent again",
                   endpoint, report->seconds);
        break;
    case RUNNEL_REPORT_SILENT:
        feed_print(
            "%s: no answer for %.0f s (a paused or busy daemon does not answer); reconnecting",
            endpoint, report->seconds);
        break;
    case RUNNEL_REPORT_FRUITLESS:
        feed_print("%s: the daemon repeatedly closes the connection without an answer; are the "
                   "examples too large for its model?",
                   endpoint);
        break;
    case RUNNEL_REPORT_ACKNOWLEDGED:
        break;
    case RUNNEL_REPORT_DUPLICATE:
        report_duplicate(delivery, report);
        break;
    case RUNNEL_REPORT_REJECTED:
        report_rejected(delivery, report);
        break;
    }
}

static int fail(struct error *error, const struct runnel_error *why) {
    return error_set(error, why->status, "%s", why->text);
}

/* Waits while a source waits for its broker. */
static int wait_with(void *context, int descriptor, bool writable, double seconds,
                     struct error *error) {
    struct delivery *delivery = context;
    struct runnel_error why;
    struct pollfd item = {.fd = descriptor, .events = (short)(POLLIN | (writable ? POLLOUT : 0))};
    int ready = 0;
    if (!delivery->sender || descriptor < 0) {
        if (delivery->sender && runnel_sender_poll(delivery->sender, seconds, &why) < 0)
            return fail(error, &why);
        ready = delivery->sender ? 0 : poll(&item, 1, (int)clock_milliseconds(seconds)) > 0;
    } else {
        ready = runnel_sender_poll_with(delivery->sender, descriptor, writable, seconds, &why);
        if (ready < 0)
            return fail(error, &why);
    }
    return delivery_listen(delivery, error) < 0 ? -1 : ready;
}

/* Called while a source waits for input. An error here returns when the next example is sent. */
static void meanwhile(void *context) {
    struct error ignored;
    delivery_listen(context, &ignored);
}

int delivery_open(struct delivery *delivery, double wait, struct error *error) {
    const struct destination *to = &delivery->to;
    const struct runnel_peer peer = {to->endpoint, to->keys.server, to->keys.own};
    const struct runnel_sender_options options = {.kind = to->kind,
                                                  .bind = to->bind,
                                                  .report = on_report,
                                                  .tick = waiting,
                                                  .context = delivery};
    struct runnel_error why;
    if (!delivery->print && (runnel_sender_open(&delivery->sender, &peer, &options, &why) < 0 ||
                             runnel_sender_wait(delivery->sender, wait, &why) < 0))
        return fail(error, &why);
    if (delivery->sender)
        runnel_sender_identify(delivery->sender, to->producer);
    feed_meanwhile = meanwhile;
    feed_meanwhile_context = delivery;
    feed_awaiter = wait_with;
    delivery->progress.waiting = NULL;
    delivery->started = true;
    progress_begin();
    return 0;
}

int delivery_schema(struct delivery *delivery, const char *text, struct error *error) {
    struct runnel_error why;
    delivery->schema = !delivery->print && delivery->to.kind == RUNNEL_ROUTER;
    return delivery->print || runnel_sender_schema(delivery->sender, text, &why) == 0
               ? 0
               : fail(error, &why);
}

int delivery_send(struct delivery *delivery, const struct runnel_example *example, size_t steps,
                  struct error *error) {
    struct runnel_error why;
    if (delivery->print &&
        print_example(example, steps, delivery->x, delivery->y, delivery->to.producer, error) < 0)
        return -1;
    if (!delivery->print && runnel_send(delivery->sender, example, &why) < 0)
        return fail(error, &why);
    if (check_clash(delivery, error))
        return -1;
    delivery->progress.waiting = NULL;
    delivery->progress.examples++;
    delivery->progress.steps += steps;
    return 0;
}

bool delivery_refused(const struct delivery *delivery) {
    return delivery->schema && delivery->counts.acknowledged + delivery->counts.rejected == 0;
}

int delivery_settle(struct delivery *delivery, struct error *error) {
    struct runnel_error why;
    int status = runnel_sender_flush(delivery->sender, INFINITY, &why);
    delivery->counts = *runnel_sender_counts(delivery->sender);
    return status < 0 ? fail(error, &why) : 0;
}

int delivery_listen(struct delivery *delivery, struct error *error) {
    struct runnel_error why;
    if (!delivery->print && runnel_sender_poll(delivery->sender, 0, &why) < 0)
        return fail(error, &why);
    settle(delivery);
    show(delivery);
    return check_strict(delivery, error) < 0 ? -1 : check_clash(delivery, error);
}

int delivery_pause(struct delivery *delivery, double *due, struct error *error) {
    double now = clock_seconds();
    if (now > *due + LATE_SECONDS)
        *due = now;
    for (; now < *due; now = clock_seconds()) {
        double until = fmin(*due, now + (double)FEED_TICK_MS / 1000);
        struct timespec deadline = {.tv_sec = (time_t)until};
        deadline.tv_nsec = (long)((until - (double)deadline.tv_sec) * (double)NS_PER_SECOND);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
        if (delivery_listen(delivery, error) < 0)
            return -1;
    }
    return 0;
}

/* Checks the daemon's answers after everything was sent. */
static int check_result(const struct delivery *delivery, struct error *error) {
    const struct runnel_counts *counts = &delivery->counts;
    if (check_clash(delivery, error))
        return -1;
    if (counts->rejected)
        return error_set(error, EX_DATAERR, "the daemon rejected %llu example%s; the first: %s",
                         (unsigned long long)counts->rejected, counts->rejected == 1 ? "" : "s",
                         counts->reason);
    if (counts->outdated)
        return error_set(error, EX_DATAERR,
                         "the daemon did not learn %llu example%s: the epoch is lower than that of "
                         "the stream; pass a greater --epoch to learn %s",
                         (unsigned long long)counts->outdated, counts->outdated == 1 ? "" : "s",
                         counts->outdated == 1 ? "it" : "them");
    if (delivery->lost == 0)
        return 0;
    char times[TIMES_SIZE] = "once";
    if (delivery->lost > 1)
        snprintf(times, sizeof times, "%llu times", (unsigned long long)delivery->lost);
    return error_set(error, EX_IOERR,
                     "the daemon closed the connection %s; examples in transit may be lost", times);
}

static int close_sender(struct delivery *delivery, struct error *error) {
    struct runnel_error why, closed;
    double linger = delivery->linger;
    int status = 0;
    if (!delivery->sender)
        return 0;
    runnel_sender_poll(delivery->sender, 0, NULL);
    if (feed_signals)
        linger = runnel_sender_connected(delivery->sender) ? fmin(linger, STOP_SECONDS) : 0;
    delivery->closing = true;
    delivery->signals = feed_signals;
    delivery->until = INFINITY;
    if (delivery->to.kind == RUNNEL_ROUTER) {
        status = runnel_sender_flush(delivery->sender, linger, &why);
        linger = 0;
    }
    delivery->counts = *runnel_sender_counts(delivery->sender);
    settle(delivery);
    if (runnel_sender_close(&delivery->sender, linger, &closed) == 0 && status == 0)
        return 0;
    return fail(error, status < 0 && why.status != RUNNEL_STOPPED ? &why : &closed);
}

int delivery_close(struct delivery *delivery, int status, uint64_t skipped, struct error *error) {
    bool interrupted = status < 0 && error->status == FEED_INTERRUPTED;
    struct error late = {0};
    int closed = delivery->print ? print_finish(&late) : close_sender(delivery, &late);
    if (delivery->print && closed == 0)
        settle(delivery);
    feed_meanwhile = NULL;
    feed_awaiter = NULL;
    progress_clear();
    if (interrupted && !delivery->started)
        return error_set(
            error, EX_UNAVAILABLE,
            "no daemon answers at %s; nothing was sent; start runneld, or use --connect "
            "with its examples socket",
            delivery->to.endpoint);
    int why = status < 0 ? error->status : closed < 0 ? late.status : 0;
    bool refused = why == EX_DATAERR && delivery_refused(delivery);
    if (delivery->started && !refused &&
        (delivery->progress.examples > 0 || status == 0 || interrupted))
        progress_summary(&delivery->progress, delivery->print ? "printed" : "sent", skipped,
                         delivery->to.kind == RUNNEL_ROUTER && !delivery->print ? &delivery->counts
                                                                                : NULL);
    if (status < 0 && !interrupted)
        return -1;
    if (closed < 0 && delivery->progress.examples > 0) {
        *error = late;
        return -1;
    }
    return check_result(delivery, error);
}

/* ---- Call ---- */

static void on_signal(int number) {
    (void)number;
    feed_signals++;
}

int feed_call_start(struct feed_call *call, const char *program, bool line, struct error *error) {
    const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    if (key_options_check(&call->to.keys, error))
        return -1;
    if (call->producer &&
        (wire_producer_parse(call->producer, &call->to.producer) || call->to.producer == 0))
        return error_set(error, EX_USAGE,
                         "--producer: expected 1 to 16 hexadecimal digits, not 0, got '%s'",
                         call->producer);
    progress_start(program, call->quiet, call->verbose, line);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaction(caught[i], &action, NULL);
    return 0;
}

int feed_call_end(const struct command_line *line, int status, const struct error *error) {
    if (status == 0 || error->status == FEED_INTERRUPTED)
        return EX_OK;
    if (error->status == EX_USAGE)
        return options_complain(line, "%s", error->text);
    fprintf(stderr, "%s: %s\n", line->name, error->text);
    return error->status;
}
