#include "feed_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "feed_print.h"
#include "feed_progress.h"

/* Later than this the schedule begins anew, so that a daemon that was away is not flooded. */
#define LATE_SECONDS 1.0

/* Without a rate the clock is looked at once in so many examples. */
enum { UNPACED_EXAMPLES = 256, NS_PER_SECOND = 1000000000, TIMES_SIZE = 32 };

struct feeder {
    struct source *source;
    const struct feed_settings *settings;
    struct sender sender;
    struct router_figures figures;
    struct progress progress;
    bool started;  /* somebody was there to send to */
    uint64_t lost; /* connections, with examples on their way */
    uint64_t pass;
    double due; /* CLOCK_MONOTONIC of the next example */

    /* The example that is being put together: always so with --steps above 1. */
    unsigned char *x, *y;
    struct stream *stream;
    size_t steps;
    double time;
};

static double done(const struct feeder *feeder) {
    const struct feed_settings *settings = feeder->settings;
    const struct source *source = feeder->source;
    double counted = NAN, passed = NAN;
    if (settings->count)
        counted = (double)feeder->progress.examples / (double)settings->count;
    if (settings->repeat && source->type->done)
        passed = ((double)feeder->pass + source->type->done(source)) / (double)settings->repeat;
    return fmax(counted, passed); /* whichever ends first; the other one when one is NAN */
}

static void show(struct feeder *feeder) {
    feeder->progress.done = done(feeder);
    progress_show(&feeder->progress);
}

static double unix_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NS_PER_SECOND;
}

/* The sender waits: say for whom. */
static void waiting(void *context, bool connected) {
    struct feeder *feeder = context;
    feeder->progress.waiting = connected ? NULL : feeder->settings->to.endpoint;
    if (!connected && !feeder->started)
        progress_waiting(&feeder->progress);
    if (progress_due())
        show(feeder);
}

static void lost(void *context) {
    struct feeder *feeder = context;
    const struct sender_options *to = &feeder->settings->to;
    if (to->router) {
        feed_say("%s: the daemon went away; what it has not acknowledged will be sent again",
                 to->endpoint);
        return;
    }
    feeder->lost++;
    progress_warn("%s: the daemon went away; examples that were on their way may be lost",
                  to->endpoint);
}

/* A source waits for its input. What fails here fails again when the next example is sent. */
static void meanwhile(void *context) {
    struct feeder *feeder = context;
    struct feed_error ignored;
    sender_listen(&feeder->sender, &ignored);
    if (progress_due())
        show(feeder);
}

static int send_message(struct feeder *feeder, struct message *message, bool end, double time,
                        struct feed_error *error) {
    const struct feed_settings *settings = feeder->settings;
    struct stream *stream = (struct stream *)message->stream;
    bool numbered = settings->numbered || settings->to.router;
    message->headed = numbered || !settings->learn || end || time > 0;
    if (message->headed)
        message->header = (struct wire_header){
            .flags = (uint8_t)((end ? WIRE_END : 0) | (settings->learn ? 0 : WIRE_DO_NOT_LEARN)),
            .epoch = message->json ? message->header.epoch : settings->epoch,
            .sequence = stream->sequence,
            .time = numbered && !(time > 0) ? unix_time() : time};
    int status = settings->print
                     ? print_message(message, &feeder->source->x, &feeder->source->y, error)
                     : sender_send(&feeder->sender, message, error);
    if (status < 0)
        return -1;
    stream->sequence++;
    feeder->progress.examples++;
    feeder->progress.steps += message->steps;
    return 0;
}

/* Send what has been put together, if anything. */
static int flush(struct feeder *feeder, bool end, struct feed_error *error) {
    if (feeder->steps == 0)
        return 0;
    struct message message = {.stream = feeder->stream,
                              .x = feeder->x,
                              .y = feeder->source->y.count ? feeder->y : NULL,
                              .x_size = feeder->steps * feeder->source->x.count * VALUE_SIZE,
                              .y_size = feeder->steps * feeder->source->y.count * VALUE_SIZE,
                              .steps = feeder->steps};
    feeder->steps = 0;
    return send_message(feeder, &message, end, feeder->time, error);
}

/* Whether --count has been reached. */
static bool enough(const struct feeder *feeder) {
    return feeder->settings->count && feeder->progress.examples >= feeder->settings->count;
}

/* Several steps an example: it is over when it is full, its sequence ends or the stream changes. */
static int bundle(struct feeder *feeder, const struct step *step, struct stream *stream,
                  struct feed_error *error) {
    size_t x_size = feeder->source->x.count * VALUE_SIZE;
    size_t y_size = feeder->source->y.count * VALUE_SIZE;
    if (feeder->steps > 0 && feeder->stream != stream && flush(feeder, false, error) < 0)
        return -1;
    if (enough(feeder))
        return 0;
    if (feeder->steps == 0)
        feeder->time = step->time;
    feeder->stream = stream;
    memcpy(feeder->x + feeder->steps * x_size, step->x, x_size);
    if (y_size)
        memcpy(feeder->y + feeder->steps * y_size, step->y, y_size);
    feeder->steps++;
    return step->end || feeder->steps == feeder->settings->steps ? flush(feeder, step->end, error)
                                                                 : 0;
}

static int take(struct feeder *feeder, const struct step *step, struct feed_error *error) {
    struct stream *stream = step->stream ? step->stream : feeder->settings->stream;
    if (feeder->settings->steps > 1)
        return bundle(feeder, step, stream, error);
    const struct source *source = feeder->source;
    struct message message = {.stream = stream,
                              .x = step->x,
                              .y = source->y.count ? step->y : NULL,
                              .x_size = source->x.count * VALUE_SIZE,
                              .y_size = source->y.count * VALUE_SIZE,
                              .steps = 1,
                              .header.epoch = step->epoch,
                              .json = step->json,
                              .json_size = step->json_size};
    return send_message(feeder, &message, step->end, step->time, error);
}

/* Sleep until the example is due, in short pieces. The deadlines are absolute: no drift. */
static int pace(struct feeder *feeder, struct feed_error *error) {
    double now = feed_now(), tick = FEED_TICK_MS / 1000.0;
    if (now > feeder->due + LATE_SECONDS)
        feeder->due = now;
    while (now < feeder->due) {
        double until = fmin(feeder->due, now + tick);
        struct timespec deadline = {.tv_sec = (time_t)until};
        deadline.tv_nsec = (long)((until - (double)deadline.tv_sec) * NS_PER_SECOND);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
        if (feed_signals)
            return feed_fail(error, FEED_INTERRUPTED, "interrupted");
        now = feed_now();
        if (!feeder->settings->print && sender_listen(&feeder->sender, error) < 0)
            return -1;
        if (progress_due())
            show(feeder);
    }
    return 0;
}

/* Before a step: its time, signals, the progress line. */
static int prepare(struct feeder *feeder, struct feed_error *error) {
    if (feed_signals)
        return feed_fail(error, FEED_INTERRUPTED, "interrupted");
    if (feeder->settings->rate > 0 && feeder->steps == 0) {
        if (pace(feeder, error) < 0)
            return -1;
        feeder->due += 1 / feeder->settings->rate;
    }
    bool look = feeder->progress.examples % UNPACED_EXAMPLES == 0;
    if (look && !feeder->settings->print && sender_listen(&feeder->sender, error) < 0)
        return -1;
    if ((feeder->settings->rate > 0 || look) && progress_due()) {
        feeder->progress.waiting = NULL;
        show(feeder);
    }
    return 0;
}

static int run_pass(struct feeder *feeder, struct feed_error *error) {
    struct source *source = feeder->source;
    while (!enough(feeder)) {
        struct step step = {0};
        if (prepare(feeder, error) < 0)
            return -1;
        int status = source->type->next(source, &step, error);
        if (status < 0) {
            struct feed_error ignored; /* the source's own comes first */
            flush(feeder, false, &ignored);
            return -1;
        }
        if (status == 0)
            return flush(feeder, false, error);
        if (take(feeder, &step, error) < 0)
            return -1;
    }
    return 0;
}

static int run_passes(struct feeder *feeder, struct feed_error *error) {
    const struct feed_settings *settings = feeder->settings;
    struct source *source = feeder->source;
    for (feeder->pass = 0; !enough(feeder); feeder->pass++) {
        uint64_t before = feeder->progress.examples;
        if (run_pass(feeder, error) < 0)
            return -1;
        if (feeder->progress.examples == before)
            return feed_fail(error, EX_DATAERR, "there is no example in it");
        if (settings->repeat && feeder->pass + 1 >= settings->repeat)
            break;
        if (!enough(feeder) && source->type->rewind(source, feeder->pass + 1, error) < 0)
            return -1;
    }
    return 0;
}

/* Wait for the daemon, then send. */
static int start(struct feeder *feeder, struct feed_error *error) {
    const struct feed_settings *settings = feeder->settings;
    if (!settings->print) {
        struct outlet_waiter waiter = {.tick = waiting, .lost = lost, .context = feeder};
        if (sender_open(&feeder->sender, &settings->to, &waiter, error) < 0 ||
            sender_wait(&feeder->sender, settings->wait, error) < 0)
            return -1;
        feeder->progress.waiting = NULL;
        feed_meanwhile = meanwhile;
        feed_meanwhile_context = feeder;
    }
    feeder->started = true;
    progress_begin();
    feeder->due = feed_now();
    if (feeder->source->type->live && settings->rate > 0)
        feeder->due += 1 / settings->rate; /* the first sample covers the time since open */
    return run_passes(feeder, error);
}

/* A source that ends with an error may have been read far before. */
static void count_good(const struct feeder *feeder, struct feed_error *error) {
    size_t used = strlen(error->text);
    unsigned long long examples = feeder->progress.examples;
    if (error->status == EX_DATAERR && examples > 0)
        snprintf(error->text + used, sizeof error->text - used,
                 "; %llu good example%s before it %s", examples, examples == 1 ? "" : "s",
                 feeder->settings->print ? examples == 1 ? "was printed" : "were printed"
                 : examples == 1         ? "was sent"
                                         : "were sent");
}

/* What has not been acknowledged can be sent again by another call, unless it was a sample. */
static void tell_epoch(const struct feeder *feeder, struct feed_error *error) {
    size_t used = strlen(error->text);
    if (error->status == EX_TEMPFAIL && !feeder->source->type->live)
        snprintf(error->text + used, sizeof error->text - used,
                 "; the same call with --epoch %lu has them learned, and nothing twice",
                 (unsigned long)feeder->settings->epoch);
}

/* What became of the examples when nothing was wrong with sending them. */
static int judge(const struct feeder *feeder, struct feed_error *error) {
    const struct router_figures *figures = &feeder->figures;
    if (figures->rejected)
        return feed_fail(error, EX_DATAERR, "the daemon rejected %llu example%s; the first one: %s",
                         (unsigned long long)figures->rejected, figures->rejected == 1 ? "" : "s",
                         figures->reason);
    if (feeder->lost == 0)
        return 0;
    char times[TIMES_SIZE] = "once";
    if (feeder->lost > 1)
        snprintf(times, sizeof times, "%llu times", (unsigned long long)feeder->lost);
    return feed_fail(error, EX_IOERR,
                     "the daemon went away %s: examples that were on their way then may be lost",
                     times);
}

/* Close the sender and say what has been done. `status` is what the loop came back with. */
static int finish(struct feeder *feeder, int status, struct feed_error *error) {
    const struct feed_settings *settings = feeder->settings;
    bool interrupted = status < 0 && error->status == FEED_INTERRUPTED;
    struct feed_error late = {0};
    int closed = settings->print
                     ? print_finish(&late)
                     : sender_close(&feeder->sender, settings->linger, &feeder->figures, &late);
    feed_meanwhile = NULL;
    progress_clear();
    if (interrupted && !feeder->started)
        return feed_fail(error, EX_UNAVAILABLE, "%s: nobody was connected, so nothing was sent",
                         settings->to.endpoint);
    if (feeder->started && (feeder->progress.examples > 0 || status == 0 || interrupted))
        progress_summary(&feeder->progress, settings->print ? "printed" : "sent",
                         feeder->source->skipped,
                         settings->to.router && !settings->print ? &feeder->figures : NULL);
    if (status < 0 && !interrupted) {
        count_good(feeder, error);
        return -1;
    }
    if (closed < 0 && feeder->progress.examples > 0) {
        *error = late;
        tell_epoch(feeder, error);
        return -1;
    }
    return judge(feeder, error);
}

int feed_run(struct source *source, const struct feed_settings *settings,
             struct feed_error *error) {
    struct feeder feeder = {.source = source, .settings = settings};
    feeder.x = malloc(settings->steps * source->x.count * VALUE_SIZE + 1);
    feeder.y = malloc(settings->steps * source->y.count * VALUE_SIZE + 1);
    int status = feeder.x && feeder.y ? start(&feeder, error) : feed_no_memory(error);
    status = finish(&feeder, status, error);
    free(feeder.x);
    free(feeder.y);
    return status;
}
