/* Converts scores to rates. -log10 p of a score is P, and p the probability that a step of the
   stream has a score at least as large, from its own history: 3 is one step in 1,000.

   The history is a histogram (histogram.h) with 40 bins a unit, which forgets with 1 - 1 / 100,000
   a step; it learns from alarms, too. B is the lowest edge of a bin with a mass c above it of at
   most 2% of the total W. P is known from W = 100 on:

     S <= B:  -log10((mass above S, linear within its bin, + 1 / 2) / (W + 1))
     S > B:   -log10(c / W) + ln(1 + x e / scale) / (x ln 10)

   This is a generalized Pareto tail of the excess e = S - B, in bins. With the mean a and the
   second moment b of the excesses, and a prior of 20 excesses of mean 17 (a score that is already
   nearly -log10 p), its shape is x = (1 - a^2 / (b - a^2)) / 2 * c / (c + 50), within +-0.4, and
   its scale is a (1 - x).

   Alarms come in bunches. Of the steps with P >= 2.7, E is the number of all (from 10 on), and C
   that of those more than `rest` steps after the last one counted (from 5 on). A rate of alarms a
   step is reached with the threshold -log10(rate) + log10(C / E). */
#ifndef RUNNEL_CALIBRATION_H
#define RUNNEL_CALIBRATION_H

#include <stdbool.h>

#include "histogram.h"

enum {
    CALIBRATION_WIDTH = 40, /* bins a unit */
    CALIBRATION_BINS = 32 * CALIBRATION_WIDTH,
};

/* Doubles only, so that a checkpoint can copy it. All zero is a new stream. */
struct calibration {
    double steps;     /* with a known P */
    double exceeding; /* of these, with a P of 2.7 and more */
    double bunches;
    double last; /* 1 + number of the step that counted last; 0: none */
    struct histogram sums;
    double mass[CALIBRATION_BINS];
};

/* P of a score; NaN while unknown, and of NaN. */
double calibration_rarity(const struct calibration *calibration, double score);

/* Learns a score that had that P (NaN: unknown), in a stream whose alarms are more than `rest`
   steps apart. NaN is left out. */
void calibration_learn(struct calibration *calibration, double score, double rarity, double rest);

/* The threshold of P for that rate of alarms a step, 0 to 1. */
double calibration_threshold(const struct calibration *calibration, double rate);

/* Whether a state from a checkpoint is valid. */
bool calibration_valid(const struct calibration *calibration);

#endif
