/* The insides of anomaly.h, for anomaly*.c and joint.c alone. */
#ifndef RUNNEL_ANOMALY_INTERNAL_H
#define RUNNEL_ANOMALY_INTERNAL_H

#include "anomaly.h"
#include "habit.h"
#include "kept.h"
#include "novelty.h"
#include "recent.h"
#include "silence.h"

/* What is kept of a stream: doubles alone, then floats. First a struct heard: that is written while
   what came before still waits for its scores. */
struct stream {
    double begun; /* 1: what follows is of a stream; 0: nothing has come yet */
    double steps;
    struct alarm novelty, surprise;
    struct tail wrong; /* of errors of all columns together */
    struct tail joint;
    double apart; /* enum apart: whether columns were missing alone */
};

enum apart {
    TOGETHER, /* the memories of all columns have the same steps in the same places */
    APART,    /* they have not, and not every column has been seen yet */
    HELD,     /* there are others, with what was missing held (joint.c) */
};

struct column {
    struct novelty novelty;
    struct tail wrong; /* of errors */
    double last;       /* value */
    struct habit repeated, missing;
};

struct anomaly {
    struct anomaly_options options;
    size_t numbers_size, alarms_size, held_size; /* of a stream, */
    size_t own_memory, floats, shared_floats;    /* and of a column: contexts, floats, and those
                                                    of a group's */
    uint32_t *groups;                            /* (slots,) of each stream */
    /* (slots + groups,) of (numbers_size + alarms_size + held_size,) doubles and (columns, floats);
       with several columns as many floats again */
    double **numbers;
    double *scores, *surprises; /* (columns,) */
    double score, surprise, joint;
    bool learns;                /* from what comes now */
    float *distances;           /* (memory,) of all columns together; NULL with one */
    enum anomaly_habit *habits; /* (columns,) what the newest step has broken */

    struct silence silence;
    struct silence expecting; /* what it was: see anomaly_expect */
};

#define NUMBERS(type) (sizeof(type) / sizeof(double))

/* Of a stream: with several columns those that hold what is missing, too. */
static inline size_t memories_of(const struct anomaly *anomaly) {
    return anomaly->options.columns * (anomaly->held_size ? 2 : 1);
}

static inline struct heard *heard_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct heard *)(void *)anomaly->numbers[slot];
}

static inline struct stream *stream_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct stream *)(void *)(anomaly->numbers[slot] + NUMBERS(struct heard));
}

static inline struct column *column_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return (struct column *)(void *)(stream_of(anomaly, slot) + 1) + k;
}

static inline struct kept *kept_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct kept *)(void *)(anomaly->numbers[slot] + anomaly->numbers_size);
}

/* Only with symbols. */
static inline struct recent *recent_of(const struct anomaly *anomaly, uint32_t slot) {
    return (struct recent *)(void *)(stream_of(anomaly, slot) + 1);
}

static inline float *floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    double *after =
        anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size + anomaly->held_size;
    size_t floats = slot < anomaly->options.slots ? anomaly->floats : anomaly->shared_floats;
    return (float *)(void *)after + k * floats;
}

/* Only with several columns: each once more, with missing values held. */
static inline struct novelty *held_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    double *after = anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size;
    return (struct novelty *)(void *)after + k;
}

static inline float *held_floats_of(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return floats_of(anomaly, slot, anomaly->options.columns + k);
}

/* Where a stream's columns remember together with others'; ANOMALY_ALONE: nowhere. */
static inline uint32_t shared_slot(const struct anomaly *anomaly, uint32_t slot) {
    uint32_t group = slot < anomaly->options.slots ? anomaly->groups[slot] : ANOMALY_ALONE;
    return group == ANOMALY_ALONE ? ANOMALY_ALONE : (uint32_t)anomaly->options.slots + group;
}

/* ---- joint.c, of several columns ---- */

/* Before the columns take the next step. */
void joint_prepare(struct anomaly *anomaly, uint32_t slot, const float *x);

/* Of a step that the columns have taken. */
void joint_take(struct anomaly *anomaly, uint32_t slot, const float *x, unsigned minute);

/* That step does not enter the memory (novelty_drop). */
void joint_drop(struct anomaly *anomaly, uint32_t slot, const float *x);

#endif
