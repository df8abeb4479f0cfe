#include "metrics.h"

#include <math.h>
#include <string.h>

#include "common/quantile.h"

#define LN_2 0.69314718055994530942
#define NS_PER_S 1e9
#define NS_PER_US 1e3
#define RATE_SPAN 100000000ull /* minimum span for measuring a rate, ns */

static void interval_begin(struct metrics_interval *interval) {
    unsigned low = interval->low, high = interval->high;
    if (low < high)
        memset(interval->latency + low, 0, (high - low) * sizeof *interval->latency);
    interval->examples = interval->scored = interval->observed = interval->correct = 0;
    interval->loss_sum = interval->squared_error = 0;
    interval->minimum = INFINITY;
    interval->maximum = -INFINITY;
    interval->anomaly = NAN;
    interval->latency_maximum = 0;
    interval->low = METRICS_BUCKETS;
    interval->high = 0;
}

void metrics_begin(struct metrics *metrics, const struct learner_counters *counters, size_t streams,
                   uint64_t now) {
    memset(metrics, 0, sizeof *metrics);
    metrics->examples = counters->examples;
    metrics->steps = counters->steps;
    metrics->updates = counters->updates;
    metrics->skipped = counters->skipped;
    metrics->streams = streams;
    metrics->data_time = metrics->loss = metrics->gradient_norm = metrics->update_ratio = NAN;
    interval_begin(&metrics->intervals[0]);
    interval_begin(&metrics->intervals[1]);
    metrics->played = counters->examples;
    metrics->anchor = (struct metrics_anchor){now, counters->examples};
    metrics->rate = NAN;
}

static unsigned latency_bucket(uint64_t latency) {
    if (latency >> METRICS_LATENCY_FIRST == 0)
        return 0;
    unsigned power = 63u - (unsigned)__builtin_clzll(latency);
    if (power >= METRICS_LATENCY_LAST)
        return METRICS_BUCKETS - 1;
    unsigned part = (unsigned)(latency >> (power - METRICS_PARTS_LOG)) & (METRICS_PARTS - 1);
    return 1 + (power - METRICS_LATENCY_FIRST) * METRICS_PARTS + part;
}

/* Returns the latency in the middle of a bucket, ns. */
static double bucket_middle(unsigned bucket) {
    if (bucket == 0)
        return ldexp(0.5, METRICS_LATENCY_FIRST);
    unsigned power = METRICS_LATENCY_FIRST + (bucket - 1) / METRICS_PARTS;
    unsigned part = (bucket - 1) % METRICS_PARTS;
    return ldexp(1 + (part + 0.5) / METRICS_PARTS, (int)power);
}

static void add_latency(struct metrics_interval *interval, uint64_t latency) {
    unsigned bucket = latency_bucket(latency);
    interval->latency[bucket]++;
    if (bucket < interval->low)
        interval->low = bucket;
    if (bucket >= interval->high)
        interval->high = bucket + 1;
    if (latency > interval->latency_maximum)
        interval->latency_maximum = latency;
}

static void add_loss(struct metrics *metrics, struct metrics_interval *interval, double loss) {
    metrics->loss = loss;
    if (!isfinite(loss))
        return;
    interval->scored++;
    interval->loss_sum += loss;
    interval->minimum = loss < interval->minimum ? loss : interval->minimum;
    interval->maximum = loss > interval->maximum ? loss : interval->maximum;
    metrics->smoothed_sum = METRICS_DECAY * metrics->smoothed_sum + (1 - METRICS_DECAY) * loss;
    metrics->smoothed_weight = METRICS_DECAY * metrics->smoothed_weight + (1 - METRICS_DECAY);
}

void metrics_add(struct metrics *metrics, const struct learned *learned, uint64_t now) {
    struct metrics_interval *interval = &metrics->intervals[metrics->current];
    metrics->examples = learned->examples;
    metrics->steps = learned->steps;
    metrics->played = learned->played;
    metrics->updates += learned->updates;
    metrics->skipped += learned->skipped;
    metrics->atoms_read += learned->atoms_read;
    metrics->atoms_written += learned->atoms_written;
    metrics->streams = learned->streams;
    metrics->data_time = learned->time > 0 ? learned->time : NAN;
    if (learned->updates) {
        metrics->gradient_norm = learned->gradient_norm;
        metrics->update_ratio = learned->update_ratio;
    }
    interval->examples++;
    if (learned->scored)
        add_loss(metrics, interval, learned->loss);
    if (isfinite(learned->squared_error))
        interval->squared_error += learned->squared_error;
    if (learned->anomaly)
        interval->anomaly = fmax(interval->anomaly, learned->anomaly->score);
    interval->observed += learned->observed;
    interval->correct += learned->correct;
    add_latency(interval, now > learned->received ? now - learned->received : 0);
}

/* Returns the quantile of latencies at `share`, ns. */
static double latency_quantile(const struct metrics_interval *interval, double share) {
    unsigned low = interval->low, count = interval->high - low;
    size_t bin = quantile_bin(interval->latency + low, count, interval->examples, share);
    return bin < count ? fmin(bucket_middle(low + (unsigned)bin), (double)interval->latency_maximum)
                       : NAN;
}

static void report_interval(const struct metrics *metrics, const struct metrics_interval *interval,
                            struct loss_fields *report) {
    fields_clear(FIELDS_OF_LOSS, report);
    report->updates = metrics->updates;
    report->skipped = metrics->skipped;
    report->atoms_read = metrics->atoms_read;
    report->atoms_written = metrics->atoms_written;
    report->data_time = metrics->data_time;
    report->loss = metrics->loss;
    report->gradient_norm = metrics->gradient_norm;
    report->update_ratio = metrics->update_ratio;
    report->streams = metrics->streams;
    if (metrics->smoothed_weight > 0)
        report->smoothed = metrics->smoothed_sum / metrics->smoothed_weight;
    report->anomaly_score = interval->anomaly;
    if (interval->scored) {
        report->mean = interval->loss_sum / (double)interval->scored;
        report->minimum = interval->minimum;
        report->maximum = interval->maximum;
        report->metric_bits = report->mean / LN_2;
    }
    if (interval->observed) {
        report->metric_rmse = sqrt(interval->squared_error / (double)interval->observed);
        report->metric_accuracy = (double)interval->correct / (double)interval->observed;
    }
    if (interval->examples) {
        report->latency_us_p50 = latency_quantile(interval, 0.50) / NS_PER_US;
        report->latency_us_p99 = latency_quantile(interval, 0.99) / NS_PER_US;
        report->latency_us_max = (double)interval->latency_maximum / NS_PER_US;
    }
}

/* All examples of a plan have the same time, so the rate includes all of them: the messages of one
   plan have one rate. */
double metrics_speed(const struct metrics *metrics, uint64_t now) {
    const struct metrics_anchor *anchor = &metrics->anchor;
    uint64_t least = isnan(metrics->rate) ? 1 : RATE_SPAN;
    if (now < anchor->time + least)
        return metrics->rate;
    return (double)(metrics->played - anchor->examples) * NS_PER_S / (double)(now - anchor->time);
}

bool metrics_are_open(const struct metrics *metrics) {
    return metrics->intervals[metrics->current].examples > 0;
}

void metrics_close_interval(struct metrics *metrics, uint64_t now, struct loss_fields *report) {
    double rate = metrics_speed(metrics, now);
    if (report) {
        report_interval(metrics, &metrics->intervals[metrics->current], report);
        report->examples_per_second = rate;
    }
    if (now >= metrics->anchor.time + RATE_SPAN) {
        metrics->anchor = (struct metrics_anchor){now, metrics->played};
        metrics->rate = rate;
    }
    metrics->current ^= 1;
    interval_begin(&metrics->intervals[metrics->current]);
}

static void interval_merge(struct metrics_interval *into, const struct metrics_interval *from) {
    into->examples += from->examples;
    into->scored += from->scored;
    into->loss_sum += from->loss_sum;
    into->minimum = fmin(into->minimum, from->minimum);
    into->maximum = fmax(into->maximum, from->maximum);
    into->anomaly = fmax(into->anomaly, from->anomaly);
    into->squared_error += from->squared_error;
    into->observed += from->observed;
    into->correct += from->correct;
    if (from->latency_maximum > into->latency_maximum)
        into->latency_maximum = from->latency_maximum;
    for (unsigned b = from->low; b < from->high; b++)
        into->latency[b] += from->latency[b];
    into->low = from->low < into->low ? from->low : into->low;
    into->high = from->high > into->high ? from->high : into->high;
}

void metrics_recent(const struct metrics *metrics, uint64_t now, struct loss_fields *report) {
    struct metrics_interval merged = metrics->intervals[metrics->current ^ 1];
    interval_merge(&merged, &metrics->intervals[metrics->current]);
    report_interval(metrics, &merged, report);
    report->examples_per_second = metrics_speed(metrics, now);
}
