/* What follows from what runnel-bench has measured: medians, floors and ratios. */
#ifndef RUNNEL_BENCH_FINDINGS_H
#define RUNNEL_BENCH_FINDINGS_H

#include "bench_report.h"

struct findings {
    struct machine_figures machine; /* of the CPU; all zero on a GPU */
    struct figure parts[PARTS];
    struct floor_work work[MODES];
    double nodes[MODES][PHASES], launches[MODES]; /* on a GPU, for one example */
    struct floor_time phases[MODES][PHASES], floor[MODES];
    double p50, p99; /* microseconds of one waiting example */
};

/* Sorts the report's series. */
void findings_make(struct bench_report *report, struct findings *findings);

/* What an example takes in that mode, in microseconds. */
const struct figure *findings_whole(const struct findings *findings, enum bench_mode mode);

/* With --members, what it takes where one of them learns alone. */
const struct figure *findings_lone(const struct findings *findings, enum bench_mode mode);

/* Floor over measured: 1 is as fast as the machine can be. */
double findings_ratio(const struct findings *findings, enum bench_mode mode);

/* What an example takes beside the engine's three parts: plan, copies, scoring, clocks. */
double findings_rest(const struct findings *findings, enum bench_mode mode);

#endif
