/* Converts scores to rates. P of a score is -log10 of the probability that a step of the stream has
   one at least as large, from its own history: 3 is one step in 1,000. The history is a histogram
   with a generalized Pareto tail above its upper 2% (docs/explanation/anomalies.md). */
#ifndef RUNNEL_CALIBRATION_H
#define RUNNEL_CALIBRATION_H

#include <stdbool.h>

#include "histogram.h"

enum { CALIBRATION_BINS = 1280 }; /* 40 a unit */

/* Doubles only, so that a checkpoint can copy it. All zero is a new stream. */
struct calibration {
    double steps;                /* with a known P */
    double exceeding;            /* of these, with a P of 2.7 and more */
    double bunches;              /* of these, more than `rest` steps after the last one counted */
    double last;                 /* the step that began the newest bunch, from 1 on; 0: none */
    double edge;                 /* the first bin of the tail */
    double above, first, second; /* sums over the tail of mass, mass bin, mass bin^2 */
    struct histogram sums;
    double mass[CALIBRATION_BINS];
};

/* P of a score; NaN while unknown, and of NaN. */
double calibration_rarity(const struct calibration *calibration, double score);

/* Learns a score with its P, in a stream whose alarms are more than `rest` steps apart. */
void calibration_learn(struct calibration *calibration, double score, double rarity, double rest);

/* The threshold of P for that rate of alarms a step, 0 to 1. */
double calibration_threshold(const struct calibration *calibration, double rate);

/* Whether a state from a checkpoint is valid. */
bool calibration_valid(const struct calibration *calibration);

#endif
