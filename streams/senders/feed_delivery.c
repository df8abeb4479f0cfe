#include "feed_delivery.h"

#include <math.h>
#include <stdio.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "streams/feed.h"
#include "streams/feed_print.h"

/* See delivery_pause. */
#define LATE_SECONDS 1.0

enum { TIMES_SIZE = 32 };

static void show(struct delivery *delivery) {
    if (!progress_due())
        return;
    delivery->progress.done = delivery->done(delivery->context);
    progress_show(&delivery->progress);
}

/* The sender waits: say for whom. */
static void waiting(void *context, bool connected) {
    struct delivery *delivery = context;
    delivery->progress.waiting = connected ? NULL : delivery->to.endpoint;
    if (!connected && !delivery->started)
        progress_waiting(&delivery->progress);
    show(delivery);
}

static void lost(void *context) {
    struct delivery *delivery = context;
    if (delivery->to.router) {
        feed_say("%s: the connection has ended; what is not acknowledged will be sent again",
                 delivery->to.endpoint);
        return;
    }
    delivery->lost++;
    progress_warn("%s: the daemon went away; examples that were on their way may be lost",
                  delivery->to.endpoint);
}

/* A source waits for its input. What fails here fails again when the next example is sent. */
static void meanwhile(void *context) {
    struct error ignored;
    delivery_listen(context, &ignored);
}

int delivery_open(struct delivery *delivery, double wait, struct error *error) {
    struct outlet_waiter waiter = {.tick = waiting, .lost = lost, .context = delivery};
    if (!delivery->print && (sender_open(&delivery->sender, &delivery->to, &waiter, error) < 0 ||
                             sender_wait(&delivery->sender, wait, error) < 0))
        return -1;
    feed_meanwhile = meanwhile;
    feed_meanwhile_context = delivery;
    delivery->progress.waiting = NULL;
    delivery->started = true;
    progress_begin();
    return 0;
}

int delivery_send(struct delivery *delivery, const struct message *message, struct error *error) {
    int status = delivery->print ? print_message(message, delivery->x, delivery->y, error)
                                 : sender_send(&delivery->sender, message, error);
    if (status < 0)
        return -1;
    delivery->progress.waiting = NULL;
    delivery->progress.examples++;
    delivery->progress.steps += message->steps;
    return 0;
}

int delivery_settle(struct delivery *delivery, struct error *error) {
    int status = router_settle(delivery->sender.router, error);
    delivery->figures = *router_figures(delivery->sender.router);
    return status;
}

int delivery_listen(struct delivery *delivery, struct error *error) {
    if (!delivery->print && sender_listen(&delivery->sender, error) < 0)
        return -1;
    show(delivery);
    return 0;
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

/* What became of the examples when nothing was wrong with sending them. */
static int judge(const struct delivery *delivery, struct error *error) {
    const struct router_figures *figures = &delivery->figures;
    if (figures->rejected)
        return error_set(error, EX_DATAERR, "the daemon rejected %llu example%s; the first one: %s",
                         (unsigned long long)figures->rejected, figures->rejected == 1 ? "" : "s",
                         figures->reason);
    if (figures->outdated)
        return error_set(error, EX_DATAERR,
                         "the daemon did not learn %llu example%s: the epoch is lower than that of "
                         "the stream there; a greater --epoch has %s learned",
                         (unsigned long long)figures->outdated, figures->outdated == 1 ? "" : "s",
                         figures->outdated == 1 ? "it" : "them");
    if (delivery->lost == 0)
        return 0;
    char times[TIMES_SIZE] = "once";
    if (delivery->lost > 1)
        snprintf(times, sizeof times, "%llu times", (unsigned long long)delivery->lost);
    return error_set(error, EX_IOERR,
                     "the daemon went away %s: examples that were on their way then may be lost",
                     times);
}

int delivery_close(struct delivery *delivery, int status, uint64_t skipped, struct error *error) {
    bool interrupted = status < 0 && error->status == FEED_INTERRUPTED;
    struct error late = {0};
    int closed = delivery->print
                     ? print_finish(&late)
                     : sender_close(&delivery->sender, delivery->linger, &delivery->figures, &late);
    feed_meanwhile = NULL;
    progress_clear();
    if (interrupted && !delivery->started)
        return error_set(error, EX_UNAVAILABLE, "%s: nobody was connected, so nothing was sent",
                         delivery->to.endpoint);
    if (delivery->started && (delivery->progress.examples > 0 || status == 0 || interrupted))
        progress_summary(&delivery->progress, delivery->print ? "printed" : "sent", skipped,
                         delivery->to.router && !delivery->print ? &delivery->figures : NULL);
    if (status < 0 && !interrupted)
        return -1;
    if (closed < 0 && delivery->progress.examples > 0) {
        *error = late;
        return -1;
    }
    return judge(delivery, error);
}
