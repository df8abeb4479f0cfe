/* The results of runnel-bench, as text and as JSON. */
#ifndef RUNNEL_BENCH_REPORT_H
#define RUNNEL_BENCH_REPORT_H

#include "bench_floor.h"
#include "bench_learn.h"
#include "bench_machine.h"
#include "bench_memory.h"
#include "bench_series.h"

struct cuda_figures;

/* One at a time: each example is learned before the next one arrives. Queued: many wait, and are
   computed together as far as the window allows. */
enum bench_mode { MODE_SINGLE, MODE_QUEUED, MODES };

/* Microseconds for an example. */
enum bench_part {
    PART_SINGLE,         /* learner and engine, one at a time */
    PART_QUEUED,         /* queued */
    PART_FORWARD_SINGLE, /* the engine's forward part, one at a time */
    PART_FORWARD_QUEUED,
    PART_BACKWARD, /* the same in both modes */
    PART_OPTIMIZER,
    PART_SOCKET,      /* end to end */
    PART_LONE_SINGLE, /* the first of several networks alone: one at a time, */
    PART_LONE_QUEUED, /* and queued */
    PARTS,
};

struct bench_memory {
    uint64_t examples, allocations, skipped; /* over that many examples, after the first tenth */
    long heap_growth, resident_growth;       /* bytes, over the same examples */
    struct resident resident;
    size_t bound; /* 0: unknown, as on a GPU */
};

struct bench_report {
    const struct config *config;
    const struct model *model;
    const char *device, *why;       /* `why` is the reason of auto, "" for another device */
    const struct cuda_figures *gpu; /* NULL on a CPU, where `machine` is used */
    enum scope scope;               /* of the network on the GPU */
    struct machine machine;
    struct bench_learned learned;
    struct series latencies;    /* wall seconds of single examples, one at a time */
    struct series parts[PARTS]; /* microseconds; empty: not measured */
    size_t rounds, plan;
    size_t members; /* networks of this configuration, measured together; 0: only its own */
    size_t threads; /* that play the networks */
    bool split;     /* whether the engine's parts are measured */
    struct bench_memory memory;
    struct bench_memory daemon; /* end to end; examples 0: not measured */
};

/* Prints the results; both functions sort the series. */
void bench_report_text(struct bench_report *report);
void bench_report_json(struct bench_report *report);

#endif
