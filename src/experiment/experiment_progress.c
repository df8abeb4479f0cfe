#include "experiment_progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"

enum { LINE_SIZE = 512, WIDTH = 80, TEXT_SIZE = 32 };
static const double INTERVAL = 0.25;
static const char PROGRAM[] = "runnel-experiment";

/* What a message of a variant on a stream takes. */
struct cost {
    double seconds;
    uint64_t messages;
};

struct work {
    const struct planned_run *run; /* NULL: none */
    const struct run_watch *watch;
    double begun;
};

struct progress {
    struct progress_options options;
    bool terminal, drawn;
    double shown;
    struct cost *costs; /* (variants, streams) */
    struct cost all;
    struct work *work;  /* (jobs,) */
    uint64_t *messages; /* (streams,) */
    bool *told;         /* (streams,) that messages were rejected */
    size_t total, over, left, turn;
};

static struct cost *cost_of(const struct progress *p, const struct planned_run *run) {
    return &p->costs[run->variant * p->options.plan->spec->stream_count + run->stream];
}

struct progress *progress_open(const struct progress_options *options) {
    struct progress *p = calloc(1, sizeof *p);
    const struct experiment_spec *spec = options->plan->spec;
    if (!p)
        return NULL;
    p->options = *options;
    p->terminal = isatty(STDERR_FILENO) == 1 && !options->quiet;
    p->total = options->plan->run_count;
    p->left = plan_left(options->plan);
    for (size_t n = 0; n < options->plan->run_count; n++)
        p->over += options->plan->runs[n].over;
    p->costs = calloc(spec->variant_count * spec->stream_count + 1, sizeof *p->costs);
    p->work = calloc(options->jobs + 1, sizeof *p->work);
    p->messages = calloc(spec->stream_count + 1, sizeof *p->messages);
    p->told = calloc(spec->stream_count + 1, sizeof *p->told);
    if (!p->costs || !p->work || !p->messages || !p->told)
        progress_close(&p);
    for (size_t n = 0; p && n < spec->stream_count; n++)
        p->messages[n] = options->examples[n].count;
    return p;
}

static void clear_line(struct progress *p) {
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

void progress_close(struct progress **progress) {
    struct progress *p = *progress;
    *progress = NULL;
    if (!p)
        return;
    clear_line(p);
    free(p->messages);
    free(p->told);
    free(p->costs);
    free(p->work);
    free(p);
}

/* ---- Time left ---- */

static void add_cost(struct cost *cost, double seconds, uint64_t messages) {
    cost->seconds += seconds;
    cost->messages += messages;
}

/* Seconds that so many messages of the run take: as others of its variant did, else as all; NaN:
   nobody knows. */
static double seconds_for(const struct progress *p, const struct planned_run *run,
                          const struct cost *now, double messages) {
    const struct cost *cost = cost_of(p, run);
    if (!cost->messages)
        cost = p->all.messages ? &p->all : now;
    return cost->messages ? messages * cost->seconds / (double)cost->messages : NAN;
}

static double time_left(const struct progress *p) {
    struct cost now = {0};
    double at = clock_seconds(), sum = 0;
    for (size_t n = 0; n < p->options.jobs; n++)
        if (p->work[n].run)
            add_cost(&now, at - p->work[n].begun, atomic_load(&p->work[n].watch->messages));
    for (size_t n = 0; n < p->options.plan->run_count; n++) {
        const struct planned_run *run = &p->options.plan->runs[n];
        if (!run->over && !run->left_out)
            sum += seconds_for(p, run, &now, (double)p->messages[run->stream]);
    }
    for (size_t n = 0; n < p->options.jobs; n++)
        if (p->work[n].run)
            sum -= seconds_for(p, p->work[n].run, &now,
                               (double)atomic_load(&p->work[n].watch->messages));
    return fmax(sum / (double)(p->options.jobs < p->left ? p->options.jobs : p->left), 0);
}

static const char *duration(char text[TEXT_SIZE], double seconds) {
    enum { MINUTE = 60, HOUR = 3600 };
    if (!isfinite(seconds))
        return "?";
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < MINUTE)
        snprintf(text, TEXT_SIZE, "%lu s", s);
    else if (s < HOUR)
        snprintf(text, TEXT_SIZE, "%lu:%02lu", s / MINUTE, s % MINUTE);
    else
        snprintf(text, TEXT_SIZE, "%lu:%02lu:%02lu", s / HOUR, s % HOUR / MINUTE, s % MINUTE);
    return text;
}

/* ---- What is shown ---- */

/* "etth1, rate 1e-3, seed 2": of one stream without its name. */
static const char *name_of(const struct progress *p, const struct planned_run *run,
                           char text[LINE_SIZE]) {
    const struct experiment_spec *spec = p->options.plan->spec;
    bool several = spec->stream_count > 1;
    snprintf(text, LINE_SIZE, "%s%s%s, seed %lld", several ? spec->streams[run->stream].name : "",
             several ? ", " : "", spec->variants[run->variant].name, (long long)run->seed);
    return text;
}

void progress_begin(struct progress *p, size_t worker, const struct planned_run *run,
                    const struct run_watch *watch) {
    p->work[worker] = (struct work){watch ? run : NULL, watch, clock_seconds()};
}

static void say_over(struct progress *p, const struct planned_run *run,
                     const struct experiment_outcome *over) {
    const struct experiment_run *outcome = &over->run;
    char name[LINE_SIZE], line[2 * LINE_SIZE], figure[LINE_SIZE] = "";
    const struct experiment_figures *f = &outcome->figures;
    if (outcome->state == EXPERIMENT_FAILED)
        snprintf(figure, sizeof figure, "failed: %.400s", outcome->error);
    else if (isfinite(f->skill))
        snprintf(figure, sizeof figure, "loss %.5g, skill %.4g", f->mean, f->skill);
    else
        snprintf(figure, sizeof figure, "loss %.5g", f->mean);
    snprintf(line, sizeof line, "%s: %zu of %zu: %s: %s%s, %.1f s", PROGRAM, p->over, p->total,
             name_of(p, run, name), figure,
             outcome->state == EXPERIMENT_NONFINITE ? " (not finite)" : "", outcome->seconds);
    text_clean(line);
    fprintf(stderr, "%s\n", line);
}

/* Once of a stream. */
static void say_rejected(struct progress *p, const struct planned_run *run,
                         const struct experiment_outcome *outcome) {
    char line[2 * LINE_SIZE];
    if (!outcome->run.rejected || p->told[run->stream])
        return;
    p->told[run->stream] = true;
    snprintf(line, sizeof line,
             "%s: stream %s: %llu of %llu messages were rejected, the first as %s", PROGRAM,
             p->options.plan->spec->streams[run->stream].name,
             (unsigned long long)outcome->run.rejected,
             (unsigned long long)p->messages[run->stream], outcome->rejected);
    text_clean(line);
    fprintf(stderr, "%s\n", line);
}

void progress_over(struct progress *p, size_t worker, const struct planned_run *run,
                   const struct experiment_outcome *outcome) {
    uint64_t messages = p->messages[run->stream];
    p->work[worker].run = NULL;
    add_cost(cost_of(p, run), outcome->run.seconds, messages);
    add_cost(&p->all, outcome->run.seconds, messages);
    p->over++;
    p->left -= p->left > 0;
    if (p->options.quiet)
        return;
    clear_line(p);
    say_over(p, run, outcome);
    say_rejected(p, run, outcome);
}

static size_t terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH;
}

/* One of those at work, another each time. */
static const struct work *next_work(struct progress *p) {
    for (size_t n = 0; n < p->options.jobs; n++) {
        const struct work *work = &p->work[(p->turn + n) % p->options.jobs];
        if (!work->run)
            continue;
        p->turn = (p->turn + n + 1) % p->options.jobs;
        return work;
    }
    return NULL;
}

void progress_show(struct progress *p) {
    enum { SLOWLY = 8 }; /* a run at work is shown for a few redraws */
    static size_t drawn;
    char line[2 * LINE_SIZE], name[LINE_SIZE], left[TEXT_SIZE];
    double now = clock_seconds();
    if (!p->terminal || now < p->shown + INTERVAL)
        return;
    p->shown = now;
    size_t turn = p->turn;
    const struct work *work = next_work(p);
    if (++drawn % SLOWLY)
        p->turn = turn;
    size_t used = (size_t)snprintf(line, sizeof line, "%zu of %zu runs, %s left", p->over, p->total,
                                   duration(left, time_left(p)));
    if (work) {
        double mean = atomic_load(&work->watch->mean);
        double share =
            (double)atomic_load(&work->watch->messages) / (double)p->messages[work->run->stream];
        used += (size_t)snprintf(line + used, sizeof line - used, "; %s: %.0f%%",
                                 name_of(p, work->run, name), 100 * share);
        if (isfinite(mean) && used < sizeof line)
            snprintf(line + used, sizeof line - used, ", loss %.4g", mean);
    }
    size_t width = terminal_width();
    char shown[2 * LINE_SIZE];
    text_copy(shown, width < sizeof shown ? width : sizeof shown, line);
    fprintf(stderr, "\r\033[K%s", shown);
    fflush(stderr);
    p->drawn = true;
}

void progress_recording(bool quiet, const char *stream, uint64_t examples) {
    if (quiet || isatty(STDERR_FILENO) != 1)
        return;
    if (examples == UINT64_MAX)
        fputs("\r\033[K", stderr);
    else
        fprintf(stderr, "\r\033[Krecording stream %s: %llu examples", stream,
                (unsigned long long)examples);
    fflush(stderr);
}
