/* How abnormal examples are. For learner*.c alone, as part of learner_internal.h. */
#ifndef RUNNEL_LEARNER_WATCH_H
#define RUNNEL_LEARNER_WATCH_H

#include "anomaly/anomaly.h"
#include "common/error.h"
#include "config/config.h"
#include "learner.h"

struct learner;
struct planned;

/* ---- What is kept ---- */

/* How abnormal examples are: learner_anomaly.c. */
struct watch {
    struct anomaly *anomaly;   /* NULL: nobody looks, */
    char off[ERROR_TEXT_SIZE]; /* though the preset says so: why; else "" */
    struct alarm_rule rule, surprise_rule;
    struct share_config share; /* with symbols none */
    bool alarms_of_surprise;
    size_t columns;    /* that are real; 0 with symbols */
    uint16_t *at;      /* (columns,) where each is in x; NULL: they are all of x */
    size_t *of_target; /* (target_row,) the column that number k of a target is, SIZE_MAX: none;
                          NULL as above */
    bool symbols;      /* each is forecast, and has one loss */
    bool has_errors;   /* of each column: what comes is forecast, as numbers */
    float *x;          /* (plan_steps, columns) as it came */
    size_t *scores;    /* (plan_steps,) that each step brought; 0 with scale: forecast */
    double *errors;    /* (columns,) of the newest score, prediction less truth; or one number */
    double *forecast;  /* (columns,) of the step that is looked at */
    double surprise;   /* largest of the scores before it */
    bool listens;      /* to the score that is given: of the nearest horizon */
    double configured_threshold;
};

/* ---- How abnormal it is (learner_anomaly.c) ---- */

int watch_open(struct learner *learner, const struct config *config, struct error *error);
void watch_close(struct learner *learner);

/* The plan's part; false when out of memory. Bytes that a step takes. */
bool watch_plan_open(struct learner *learner);
size_t watch_plan_bytes(const struct learner *learner);

/* While planning, an example of a stream: whether others have stopped, by its time. */
void plan_heard(struct learner *learner, const struct planned *example);

/* A slot is to be written, or has been, with a stream that comes from elsewhere. */
void watch_expect(struct learner *learner, uint32_t slot);
void watch_settle(struct learner *learner, uint32_t slot, bool arrived);

/* While planning, with a step: x (I,) as it came, float32, maybe unaligned. */
void plan_watch(struct learner *learner, const void *x);

/* Likewise, when all of the step number `step` of the plan is planned: the scores it brought. */
void plan_watch_scores(struct learner *learner, size_t step, size_t scores);

/* When the plan has been played: an example begins or goes on, or is finished; a score of it, whose
   errors by column are in watch.errors; step number `step` of the plan, after the scores it
   brought, of which there are so many (0 where nobody looks). */
void watch_begin(struct learner *learner, struct planned *example);
void watch_end(struct learner *learner, const struct planned *example);
void watch_score(struct learner *learner, const struct planned *example, double loss);
size_t watch_scores(const struct learner *learner, size_t step);
void watch_step(struct learner *learner, const struct planned *example, size_t step);
struct anomaly_said watch_said(const struct learner *learner);

/* Whether a score of that horizon is looked at: of several, the nearest is. */
static inline void watch_listen(struct watch *watch, size_t horizon) {
    watch->listens = horizon == 0;
}

/* An observed number of a target, likewise: prediction less what came, in original units. */
static inline void watch_number(const struct watch *watch, size_t k, double error) {
    if (!watch->has_errors || !watch->listens)
        return;
    size_t column = watch->of_target ? watch->of_target[k] : k;
    if (column != SIZE_MAX)
        watch->errors[column] = error;
}

#endif
