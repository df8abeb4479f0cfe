#include "feed_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "feed_delivery.h"
#include "feed_schema.h"

/* Without a rate the clock is looked at once in so many examples. */
enum { UNPACED_EXAMPLES = 256 };

enum { IDENTITY_SIZE = 64 }; /* "--producer 0123456789abcdef --epoch 4294967295" */

struct feeder {
    struct source *source;
    const struct feed_settings *settings;
    struct delivery delivery;
    uint64_t pass;
    double due; /* CLOCK_MONOTONIC of the next example */

    /* The example that is being put together: always so with --steps above 1. */
    unsigned char *x, *y;
    struct stream *stream;
    size_t steps;
    double time;
};

static double done(const void *context) {
    const struct feeder *feeder = context;
    const struct feed_settings *settings = feeder->settings;
    const struct source *source = feeder->source;
    double counted = NAN, passed = NAN;
    if (settings->count)
        counted = (double)feeder->delivery.progress.examples / (double)settings->count;
    if (settings->repeat && source->type->done)
        passed = ((double)feeder->pass + source->type->done(source)) / (double)settings->repeat;
    return fmax(counted, passed); /* whichever ends first; the other one when one is NAN */
}

/* The example's numbers are a broker's, who may have given it to another call. */
static void adopt(struct feeder *feeder, const struct message_number *number,
                  struct runnel_example *example) {
    struct delivery *delivery = &feeder->delivery;
    example->flags |= RUNNEL_SPARSE;
    example->epoch = number->epoch;
    example->sequence = number->sequence;
    delivery->to.fresh = false;
    delivery->to.producer = number->producer;
    if (delivery->sender)
        runnel_sender_identify(delivery->sender, number->producer);
}

/* The example of `stream`, but for its header. */
static int send_example(struct feeder *feeder, struct stream *stream,
                        const struct message_number *number, struct runnel_example *example,
                        size_t steps, bool end, double time, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    bool numbered =
        settings->numbered || settings->common.to.kind == RUNNEL_ROUTER || feeder->source->labels;
    example->key = stream->key;
    example->key_size = stream->key_size;
    bool several = settings->steps > 1 && !settings->print; /* a header says that they are meant */
    example->headed = numbered || several || !settings->learn || end || time != 0 || example->note;
    example->flags |=
        (uint8_t)((end ? RUNNEL_END : 0) | (settings->learn ? 0 : RUNNEL_DO_NOT_LEARN));
    if (!example->json)
        example->epoch = (uint32_t)settings->common.epoch;
    if (!number)
        example->sequence = stream->sequence;
    else
        adopt(feeder, number, example);
    example->time = numbered && time == 0 ? clock_unix() : time;
    if (delivery_send(&feeder->delivery, example, steps, error) < 0)
        return -1;
    stream->sequence++;
    return 0;
}

/* Send what has been put together, if anything. */
static int flush(struct feeder *feeder, bool end, struct error *error) {
    const struct source *source = feeder->source;
    size_t steps = feeder->steps;
    if (steps == 0)
        return 0;
    struct runnel_example example = {.x = feeder->x,
                                     .y = source->y.count ? feeder->y : NULL,
                                     .x_size = steps * source->x.count * VALUE_SIZE,
                                     .y_size = steps * source->y.count * VALUE_SIZE};
    feeder->steps = 0;
    return send_example(feeder, feeder->stream, NULL, &example, steps, end, feeder->time, error);
}

/* Whether --count has been reached. */
static bool enough(const struct feeder *feeder) {
    return feeder->settings->count && feeder->delivery.progress.examples >= feeder->settings->count;
}

/* Several steps an example: it is over when it is full, its sequence ends or the stream changes. */
static int bundle(struct feeder *feeder, const struct step *step, struct stream *stream,
                  struct error *error) {
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

/* What a step is as an example, but for its header. */
static struct runnel_example example_of(const struct feeder *feeder, const struct step *step) {
    const struct source *source = feeder->source;
    struct runnel_example example = {
        .x = step->x, .epoch = step->epoch, .json = step->json, .json_size = step->json_size};
    if (step->label) {
        example.flags = RUNNEL_LABEL;
        example.label_sequence = step->label_of;
        example.label_epoch = (uint32_t)feeder->settings->common.epoch;
    } else {
        example.x_size = source->x.count * VALUE_SIZE;
    }
    if (step->note) {
        example.flags |= RUNNEL_NOTE;
        example.note = step->note;
        example.note_size = strlen(step->note);
    }
    if (source->y.count && step->y) {
        example.y = step->y;
        example.y_size = source->y.count * VALUE_SIZE;
    }
    return example;
}

static int take(struct feeder *feeder, const struct step *step, struct error *error) {
    struct stream *stream = step->stream ? step->stream : feeder->settings->stream;
    if (feeder->settings->steps > 1 && !step->json)
        return bundle(feeder, step, stream, error);
    if (step->own_number) /* which may have been sent before */
        feeder->delivery.to.fresh = false;
    if (step->label && feeder->settings->rate > 0) /* it comes when it comes */
        feeder->due -= 1 / feeder->settings->rate;
    struct runnel_example example = example_of(feeder, step);
    return send_example(feeder, stream, step->number, &example, 1, step->end, step->time, error);
}

/* Before a step: its time, signals, the progress line. */
static int prepare(struct feeder *feeder, struct error *error) {
    double rate = feeder->settings->rate;
    if (feed_signals)
        return error_set(error, FEED_INTERRUPTED, "interrupted");
    if (rate > 0 && feeder->steps == 0) {
        if (delivery_pause(&feeder->delivery, &feeder->due, error) < 0)
            return -1;
        feeder->due += 1 / rate;
    }
    bool look = feeder->delivery.progress.examples % UNPACED_EXAMPLES == 0;
    return rate > 0 || look ? delivery_listen(&feeder->delivery, error) : 0;
}

static int run_pass(struct feeder *feeder, struct error *error) {
    struct source *source = feeder->source;
    while (!enough(feeder)) {
        struct step step = {0};
        if (prepare(feeder, error) < 0)
            return -1;
        int status = source->type->next(source, &step, error);
        if (status < 0) {
            struct error ignored; /* the source's own comes first */
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

static int run_passes(struct feeder *feeder, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    struct source *source = feeder->source;
    for (feeder->pass = 0; !enough(feeder); feeder->pass++) {
        uint64_t before = feeder->delivery.progress.examples;
        if (run_pass(feeder, error) < 0)
            return -1;
        if (feeder->delivery.progress.examples == before && !source->type->endless)
            return error_set(error, EX_DATAERR, "there is no example in it");
        if (settings->repeat && feeder->pass + 1 >= settings->repeat)
            break;
        if (!enough(feeder) && source->type->rewind(source, feeder->pass + 1, error) < 0)
            return -1;
    }
    return 0;
}

static int send_schema(struct feeder *feeder, struct error *error) {
    char *text = schema_of(feeder->source);
    int status = text ? delivery_schema(&feeder->delivery, text, error) : error_no_memory(error);
    free(text);
    return status;
}

/* Wait for the daemon, then send. */
static int start(struct feeder *feeder, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    if (delivery_open(&feeder->delivery, settings->common.wait, error) < 0)
        return -1;
    if (settings->schema && send_schema(feeder, error) < 0)
        return -1;
    feeder->due = clock_seconds();
    if (feeder->source->type->spans && settings->rate > 0)
        feeder->due += 1 / settings->rate; /* the first sample covers the time since open */
    return run_passes(feeder, error);
}

/* A source that ends with an error may have been read far before. */
static void count_good(const struct feeder *feeder, struct error *error) {
    size_t used = strlen(error->text);
    unsigned long long examples = feeder->delivery.progress.examples;
    if (error->status == EX_DATAERR && examples > 0)
        snprintf(error->text + used, sizeof error->text - used,
                 "; %llu good example%s before it %s", examples, examples == 1 ? "" : "s",
                 feeder->settings->print ? examples == 1 ? "was printed" : "were printed"
                 : examples == 1         ? "was sent"
                                         : "were sent");
}

/* The options with which another call sends the same examples with the same numbers. */
static void print_identity(const struct feeder *feeder, char text[IDENTITY_SIZE]) {
    const struct feed_call *common = &feeder->settings->common;
    int used = 0;
    if (common->to.producer)
        used = snprintf(text, IDENTITY_SIZE, "--producer %llx ",
                        (unsigned long long)common->to.producer);
    snprintf(text + used, IDENTITY_SIZE - (size_t)used, "--epoch %lu",
             (unsigned long)common->epoch);
}

/* What has not been acknowledged, and what was not sent before a signal, can be sent by another
   call, unless it was a sample. */
static void tell_epoch(const struct feeder *feeder, int status, bool interrupted,
                       struct error *error) {
    size_t used = strlen(error->text);
    char identity[IDENTITY_SIZE];
    bool again = feeder->settings->common.to.kind == RUNNEL_ROUTER && !feeder->settings->print;
    if (feeder->source->type->live || feeder->source->type->settled)
        return; /* the broker has what is not acknowledged */
    print_identity(feeder, identity);
    if (status < 0 && error->status == EX_TEMPFAIL)
        snprintf(error->text + used, sizeof error->text - used,
                 "; the same call with %s has them learned, and nothing twice", identity);
    else if (status == 0 && interrupted && again && feeder->delivery.progress.examples > 0)
        feed_say("interrupted; the same call with %s has the rest learned, and nothing twice",
                 identity);
}

static void settled(void *context, uint64_t count) {
    struct source *source = context;
    source->type->settled(source, count);
}

int feed_run(struct source *source, const struct feed_settings *settings, struct error *error) {
    struct feeder feeder = {.source = source, .settings = settings};
    feeder.delivery = (struct delivery){.to = settings->common.to,
                                        .print = settings->print,
                                        .x = &source->x,
                                        .y = &source->y,
                                        .linger = settings->common.linger,
                                        .done = done,
                                        .context = &feeder,
                                        .settled = source->type->settled ? settled : NULL,
                                        .source = source,
                                        .strict = source->strict,
                                        .maps = source->type->maps};
    feeder.x = malloc(settings->steps * source->x.count * VALUE_SIZE + 1);
    feeder.y = malloc(settings->steps * source->y.count * VALUE_SIZE + 1);
    int status = feeder.x && feeder.y ? start(&feeder, error) : error_no_memory(error);
    if (status < 0)
        count_good(&feeder, error);
    bool interrupted = status < 0 && error->status == FEED_INTERRUPTED;
    status = delivery_close(&feeder.delivery, status, source->skipped, error);
    tell_epoch(&feeder, status, interrupted, error);
    free(feeder.x);
    free(feeder.y);
    return status;
}
