/* Running figures of learning: what a `loss` message and the control command `status` report.

   metrics_add costs a few arithmetic operations and is called once per example; everything else is
   done once per message. Plain data: no memory is allocated and nothing needs closing.

   An *interval* is what lies between two `loss` messages that were due, whether or not anybody
   subscribes. Losses that are not finite (their update was skipped) are counted nowhere but in
   `skipped`, so that one of them does not spoil a mean. */
#ifndef RUNNEL_METRICS_H
#define RUNNEL_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "learner/learner.h"
#include "model/model.h"

/* Latencies are counted in buckets of 2^n ns, each split into METRICS_PARTS equal parts, so that a
   quantile is right to 1 / METRICS_PARTS of its value. The first bucket begins at 0. */
enum {
    METRICS_LATENCY_FIRST = 8, /* below 2^8 ns all counts as one */
    METRICS_LATENCY_LAST = 40, /* from 2^40 ns (18 minutes) likewise */
    METRICS_PARTS_LOG = 4,
    METRICS_PARTS = 1 << METRICS_PARTS_LOG,
    METRICS_BUCKETS = (METRICS_LATENCY_LAST - METRICS_LATENCY_FIRST) * METRICS_PARTS + 2,
};

struct metrics_interval {
    uint64_t examples;       /* learned in it */
    uint64_t scored;         /* of them with a finite loss */
    double loss_sum;         /* over those */
    double minimum, maximum; /* over those; +-infinity when scored is 0 */
    double squared_error;    /* sums of the fields of struct learned */
    uint64_t observed, correct;
    double anomaly;           /* greatest score; NaN: none has one */
    uint64_t latency_maximum; /* ns */
    unsigned low, high;       /* buckets in use: low <= bucket < high */
    uint32_t latency[METRICS_BUCKETS];
};

/* Where the next rate is measured from. */
struct metrics_anchor {
    uint64_t time;     /* CLOCK_MONOTONIC, ns */
    uint64_t examples; /* learned by then */
};

struct metrics {
    uint64_t examples, steps, updates, skipped; /* since the start of learning */
    double data_time;                           /* of the newest example; NaN = it has none */
    double loss;                                /* of the newest scored example; NaN before */
    double
        smoothed_sum; /* exponential moving averages of the losses, and of ones: their ratio is */
    double smoothed_weight; /* corrected for its start */
    double gradient_norm;   /* of the newest update; NaN before */
    double update_ratio;    /* likewise */
    size_t streams;
    struct metrics_interval intervals[2];
    unsigned current; /* index of the interval that is open; the other is the last complete one */
    uint64_t played;  /* as in struct learned, of the newest example */
    struct metrics_anchor anchor;
    double rate; /* examples per second up to the anchor; NaN before there is one */
};

#define METRICS_DECAY 0.99

/* Begin, or begin again, with the learner's counters; `now` is CLOCK_MONOTONIC in ns. */
void metrics_begin(struct metrics *metrics, const struct learner_counters *counters, size_t streams,
                   uint64_t now);

/* One more example; `now` is the time at which its plan had been played. */
void metrics_add(struct metrics *metrics, const struct learned *learned, uint64_t now);

/* Whether anything was learned in the open interval. */
bool metrics_are_open(const struct metrics *metrics);

/* Close the open interval; report it first, unless `report` is NULL: what is known here of the
   fields of a `loss` message, the others are zero. NaN means "not there yet". */
void metrics_close_interval(struct metrics *metrics, uint64_t now, struct loss_fields *report);

/* Examples per second since the anchor; NaN before there is one. */
double metrics_speed(const struct metrics *metrics, uint64_t now);

/* Report over the last complete interval and the open one together, and change nothing. */
void metrics_recent(const struct metrics *metrics, uint64_t now, struct loss_fields *report);

#endif
