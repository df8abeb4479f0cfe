/* Everything that one run of runnel-bench has found out, and its two forms: for people and JSON. */
#ifndef RUNNEL_BENCH_REPORT_H
#define RUNNEL_BENCH_REPORT_H

#include "bench_floor.h"
#include "bench_learn.h"
#include "bench_machine.h"
#include "bench_memory.h"
#include "bench_series.h"

struct cuda_figures;

/* One at a time: each example is learned before the next is taken, as when they come slowly.
   Queued: many wait, and are computed together as far as the window goes. */
enum bench_mode { MODE_SINGLE, MODE_QUEUED, MODES };

/* Microseconds for an example. */
enum bench_part {
    PART_SINGLE,         /* learner and engine, one at a time */
    PART_QUEUED,         /* queued */
    PART_FORWARD_SINGLE, /* of that the engine's forward, one at a time */
    PART_FORWARD_QUEUED,
    PART_BACKWARD, /* the same in both modes */
    PART_OPTIMIZER,
    PART_SOCKET,      /* end to end */
    PART_LONE_SINGLE, /* of several networks, the first alone: one at a time, */
    PART_LONE_QUEUED, /* and queued */
    PARTS,
};

struct bench_memory {
    uint64_t examples, allocations, skipped; /* over that many examples, after a tenth of them */
    long heap_growth, resident_growth;       /* bytes, likewise */
    struct resident resident;
    size_t bound; /* 0: none is known, as on a GPU */
};

struct bench_report {
    const struct config *config;
    const struct model *model;
    const char *device, *why;       /* `why` auto took it, "" for one that was named */
    const struct cuda_figures *gpu; /* what computes is a GPU; else NULL, and `machine` counts */
    struct machine machine;
    struct latencies latencies; /* seconds of single examples, one at a time */
    struct series parts[PARTS]; /* microseconds; empty: not measured */
    size_t rounds, plan;
    size_t members; /* networks of this configuration, measured together; 0: its own */
    size_t threads; /* that play them */
    bool split;     /* the engine's parts are measured, too */
    struct bench_memory memory;
    struct bench_memory daemon; /* end to end; examples 0: not measured */
};

/* Print what was found; these sort the series. */
void bench_report_text(struct bench_report *report);
void bench_report_json(struct bench_report *report);

#endif
