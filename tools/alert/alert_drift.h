/* The course of a daemon's loss: whether it drifts (two detectors) or rises slowly.

   The detectors watch the logarithm of a loss, so that a change is one by a factor: `mean` of each
   `loss` message, over the examples since the message before. The losses of densities (gaussian,
   mixture), which may be negative, are logarithms already and are watched as they are.

   A loss that is close to 0 varies over powers of ten, and each of its rises is a change. So a loss
   below a hundredth of that of the beginning counts as that: of the greatest of all medians of
   DRIFT_MEDIAN messages among the first DRIFT_BEGINNING. Since a beginning can be wild, half of it
   is forgotten after each DRIFT_FORGOTTEN messages. */
#ifndef RUNNEL_ALERT_DRIFT_H
#define RUNNEL_ALERT_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "alert_adwin.h"
#include "alert_page_hinkley.h"
#include "tools/shared/watch_trend.h"

enum {
    DRIFT_BLOCK = 5, /* messages to one value of the trend */
    DRIFT_MEDIAN = 5,
    DRIFT_BEGINNING = 200, /* messages */
    DRIFT_FORGOTTEN = 10000,
};

struct drift_limits {
    double page_hinkley_delta, page_hinkley_lambda, adwin_delta;
    double floor; /* a loss below counts as this */
    bool fixed;   /* only the floor, not what the loss was in the beginning */
};

struct drift {
    struct drift_limits limits;
    bool density;   /* the loss is a logarithm already */
    uint64_t count; /* losses that were taken */
    double recent[DRIFT_MEDIAN], beginning;
    struct page_hinkley page_hinkley;
    struct adwin adwin;
    struct trend trend; /* of means of DRIFT_BLOCK values */
    double block;       /* sum of the values of the one that is not full, */
    int block_count;
};

void drift_open(struct drift *drift, const struct drift_limits *limits);

/* The loss is that of a density. If that was not known before, all values so far are forgotten. */
void drift_is_density(struct drift *drift);

/* Take the mean of a message, a finite one; a negative one makes it a density's. The changes have
   losses in them, in their own unit. */
void drift_add(struct drift *drift, double mean, struct change *page_hinkley, struct change *adwin);

/* Whether the loss has risen along the whole trend: TREND_VALUES blocks with a slope of
   DRIFT_RISING standard errors, and a tenth of the loss or of a nat in all. */
#define DRIFT_RISING 5.0
struct rising {
    bool known, rises, ended; /* ended: it no longer rises */
    double from, to;          /* losses at both ends of the line */
};
struct rising drift_rising(const struct drift *drift);

#endif
