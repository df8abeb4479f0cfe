#include "feed_progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"
#include "feed.h"
#include "runnel.h"

#define PROGRESS_INTERVAL 0.25 /* seconds between two versions of the line */
#define RATE_MEMORY 3.0        /* seconds over which the rate is averaged */
#define WAIT_QUIETLY 1.0       /* seconds without the daemon before that is worth a sentence */

enum { LINE_SIZE = 256, DURATION_SIZE = 32, TERMINAL_WIDTH = 80 };

static struct {
    const char *program;
    bool quiet, verbose, terminal;
    bool drawn; /* a line is on the terminal */
    bool waiting_said;
    double begun, shown;
    double rate;  /* examples per second, averaged */
    double rated; /* when */
    uint64_t examples_rated;
} console;

void progress_start(const char *program, bool quiet, bool verbose, bool line) {
    console.program = program;
    console.quiet = quiet;
    console.verbose = verbose;
    console.terminal = line && isatty(STDERR_FILENO) == 1;
    progress_begin();
}

void progress_begin(void) {
    console.begun = console.shown = clock_seconds();
}

void progress_clear(void) {
    if (console.drawn)
        fputs("\r\033[K", stderr);
    console.drawn = false;
    console.shown = 0;
}

static void say(const char *format, va_list arguments) {
    char text[ERROR_TEXT_SIZE];
    vsnprintf(text, sizeof text, format, arguments);
    text_clean(text);
    progress_clear();
    fprintf(stderr, "%s: %s\n", console.program, text);
}

void progress_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void feed_say(const char *format, ...) {
    if (console.quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void feed_detail(const char *format, ...) {
    if (console.quiet || !console.verbose)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void progress_waiting(const struct progress *progress) {
    if (console.terminal || console.waiting_said || clock_seconds() - console.begun < WAIT_QUIETLY)
        return;
    console.waiting_said = true;
    const char *why = wire_unreachable(progress->waiting);
    feed_say("waiting for %s%s%s", progress->waiting, why ? ": " : "", why ? why : "");
}

bool progress_due(void) {
    return console.terminal && !console.quiet &&
           clock_seconds() - console.shown >= PROGRESS_INTERVAL;
}

/* "45 s", "3:07", "2:05:00" */
static const char *duration(char text[DURATION_SIZE], double seconds) {
    enum { MINUTE = 60, HOUR = 3600 };
    unsigned long long s = seconds < 1e15 ? (unsigned long long)(seconds + 0.5) : 0;
    if (s < MINUTE)
        snprintf(text, DURATION_SIZE, "%llu s", s);
    else if (s < HOUR)
        snprintf(text, DURATION_SIZE, "%llu:%02llu", s / MINUTE, s % MINUTE);
    else
        snprintf(text, DURATION_SIZE, "%llu:%02llu:%02llu", s / HOUR, s % HOUR / MINUTE,
                 s % MINUTE);
    return text;
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
    char line[LINE_SIZE], left[DURATION_SIZE];
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
                 duration(left, (now - console.begun) * (1 / fmin(progress->done, 1) - 1)));
    fprintf(stderr, "\r%.*s\033[K", terminal_width() - 1, line);
    console.drawn = true;
    console.shown = now;
}

void progress_summary(const struct progress *progress, const char *where, uint64_t skipped,
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
    feed_say("%s %llu example%s%s in %.1f s, %.*f per second%s%s", where,
             (unsigned long long)progress->examples, progress->examples == 1 ? "" : "s", steps,
             seconds, progress->examples < 100 * seconds ? 1 : 0,
             seconds > 0 ? (double)progress->examples / seconds : 0.0, back, bad);
}
