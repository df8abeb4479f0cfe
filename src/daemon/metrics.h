/* Running figures of learning, which a `loss` message and the control command `status` report.

   metrics_add costs a few arithmetic operations and is called once per example; everything else is
   done once per message. Plain data: no memory is allocated and nothing needs closing.

   An *interval* is the time between two `loss` messages that were due, with or without subscribers.
   Losses that are not finite (their update was skipped) count only in `skipped`, so that one of
   them does not spoil a mean. */
#ifndef RUNNEL_METRICS_H
#define RUNNEL_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "learner/learner.h"
#include "model/model.h"

/* Latencies are counted in buckets of 2^n ns, each split into METRICS_PARTS equal parts: a quantile
   has a relative error of at most 1 / METRICS_PARTS. The first bucket begins at 0. */
enum {
    METRICS_LATENCY_FIRST = 8, /* one bucket below 2^8 ns */
    METRICS_LATENCY_LAST = 40, /* one bucket from 2^40 ns (18 minutes) */
    METRICS_PARTS_LOG = 4,
    METRICS_PARTS = 1 << METRICS_PARTS_LOG,
    METRICS_BUCKETS = (METRICS_LATENCY_LAST - METRICS_LATENCY_FIRST) * METRICS_PARTS + 2,
};

struct metrics_interval {
    uint64_t examples;       /* learned in the interval */
    uint64_t scored;         /* those with a finite loss */
    double loss_sum;         /* over the scored examples */
    double minimum, maximum; /* +-infinity when scored is 0 */
    double squared_error;    /* sums of the fields of struct learned */
    uint64_t observed, correct;
    double anomaly;           /* greatest score; NaN: none */
    uint64_t latency_maximum; /* ns */
    unsigned low, high;       /* buckets in use: low <= bucket < high */
    uint32_t latency[METRICS_BUCKETS];
};

/* The start of the next measurement of the rate. */
struct metrics_anchor {
    uint64_t time;     /* CLOCK_MONOTONIC, ns */
    uint64_t examples; /* learned by then */
};

struct metrics {
    uint64_t examples, steps, updates, skipped; /* counts since the start of learning */
    uint64_t atoms_read, atoms_written;         /* in this run */
    double data_time;                           /* the newest example's; NaN = unknown */
    double loss;                                /* the newest scored example's, or NaN */
    /* Exponential moving averages of the losses and of ones: their ratio corrects for the start. */
    double smoothed_sum, smoothed_weight;
    double gradient_norm; /* the newest update's, or NaN */
    double update_ratio;  /* the newest update's, or NaN */
    size_t streams;
    struct metrics_interval intervals[2];
    unsigned current; /* index of the open interval; the other is complete */
    uint64_t played;  /* the newest example's field of struct learned */
    struct metrics_anchor anchor;
    double rate; /* examples per second up to the anchor, or NaN */
};

#define METRICS_DECAY 0.99

/* Starts with the learner's counters; `now` is CLOCK_MONOTONIC in ns. */
void metrics_begin(struct metrics *metrics, const struct learner_counters *counters, size_t streams,
                   uint64_t now);

/* Adds an example; `now` is the time when its plan had been played. */
void metrics_add(struct metrics *metrics, const struct learned *learned, uint64_t now);

/* Returns whether the open interval has an example. */
bool metrics_are_open(const struct metrics *metrics);

/* Closes the open interval, after reporting it unless `report` is NULL. Sets the fields of a `loss`
   message that this module has, zeros the others. NaN: no value yet. */
void metrics_close_interval(struct metrics *metrics, uint64_t now, struct loss_fields *report);

/* Returns examples per second since the anchor; NaN without an anchor. */
double metrics_speed(const struct metrics *metrics, uint64_t now);

/* Reports the last complete interval and the open one together. */
void metrics_recent(const struct metrics *metrics, uint64_t now, struct loss_fields *report);

#endif
