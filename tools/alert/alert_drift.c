#include "build-config.h"

#include "alert_drift.h"

#include <math.h>
#include <string.h>

#include "common/quantile.h"

#define RISEN_LEAST 0.1 /* of a loss, or nats: less is not reported, however certain */
#define SHARE 0.01      /* of the loss of the beginning */
#define LOSS_MOST 1e100 /* sums of squares stay finite */

static void begin_anew(struct drift *d) {
    page_hinkley_open(&d->page_hinkley, d->limits.page_hinkley_delta,
                      d->limits.page_hinkley_lambda);
    adwin_open(&d->adwin, d->limits.adwin_delta);
}

void drift_open(struct drift *d, const struct drift_limits *limits) {
    *d = (struct drift){.limits = *limits};
    begin_anew(d);
}

void drift_is_density(struct drift *d) {
    if (d->density)
        return;
    struct drift_limits limits = d->limits;
    drift_open(d, &limits);
    d->density = true;
}

static double loss_of(const struct drift *d, double value) {
    return d->density ? value : exp(value);
}

static struct change in_losses(const struct drift *d, struct change change) {
    if (change.kind != CHANGE_NONE) {
        change.before = loss_of(d, change.before);
        change.after = loss_of(d, change.after);
    }
    return change;
}

static void add_to_trend(struct drift *d, double value) {
    d->block += value;
    if (++d->block_count < DRIFT_BLOCK)
        return;
    trend_add(&d->trend, d->block / DRIFT_BLOCK);
    d->block = 0;
    d->block_count = 0;
}

static double median(const double values[DRIFT_MEDIAN]) {
    double sorted[DRIFT_MEDIAN];
    memcpy(sorted, values, sizeof sorted);
    quantile_sort(sorted, DRIFT_MEDIAN);
    return quantile(sorted, DRIFT_MEDIAN, 0.5);
}

/* Where it has grown, what was seen until now was measured by another floor. A rise that has been
   found is ended first. */
static void take_beginning(struct drift *d, double loss) {
    d->recent[d->count++ % DRIFT_MEDIAN] = loss;
    if (d->count % DRIFT_FORGOTTEN == 0)
        d->beginning /= 2;
    if (d->count < DRIFT_MEDIAN || d->count > DRIFT_BEGINNING)
        return;
    double usual = median(d->recent);
    if (usual > d->beginning && d->page_hinkley.away == 0 && d->adwin.since == 0) {
        d->beginning = usual;
        begin_anew(d);
    }
}

static double logarithm(struct drift *d, double loss) {
    if (!d->limits.fixed)
        take_beginning(d, loss);
    return log(fmax(loss, fmax(d->limits.floor, SHARE * d->beginning)));
}

void drift_add(struct drift *d, double mean, struct change *page_hinkley, struct change *adwin) {
    if (mean < 0)
        drift_is_density(d);
    mean = fmax(-LOSS_MOST, fmin(LOSS_MOST, mean));
    double value = d->density ? mean : logarithm(d, mean);
    add_to_trend(d, value);
    *page_hinkley = in_losses(d, page_hinkley_add(&d->page_hinkley, value));
    *adwin = in_losses(d, adwin_add(&d->adwin, value));
}

struct rising drift_rising(const struct drift *d) {
    struct rising rising = {0};
    if (d->trend.count < TREND_VALUES)
        return rising;
    double error, slope = trend_slope(&d->trend, &error), mean = 0;
    for (size_t i = 0; i < d->trend.count; i++)
        mean += d->trend.values[i] / (double)d->trend.count;
    double risen = slope * (double)(d->trend.count - 1);
    rising.known = true;
    rising.rises = slope > DRIFT_RISING * error && risen >= RISEN_LEAST;
    rising.ended = slope <= 0;
    rising.from = loss_of(d, mean - risen / 2);
    rising.to = loss_of(d, mean + risen / 2);
    return rising;
}
