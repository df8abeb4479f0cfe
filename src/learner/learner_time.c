/* Time: what model.input.time appends to an encoded input (docs/time.md). All of it follows from
   the examples' own times: those of their headers, never a clock. */
#include <math.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/time_zone.h"
#include "example.h"
#include "learner_internal.h"

/* What is kept of a stream: the time of its last example that had one, NaN = none yet; of the
   logarithms of its gaps their number, mean and variance. */
enum { KEPT_LAST, KEPT_COUNT, KEPT_MEAN, KEPT_VARIANCE, KEPT };
_Static_assert((int)KEPT == (int)LEARNER_TIMES, "a checkpoint keeps all of it");

enum { DAYS_OF_WEEK = 7, SECONDS_OF_DAY = 86400 };

static const double TAU = 6.283185307179586476925286766559;
static const double GAP_UNIT = 1e-3;      /* seconds: shorter gaps hardly differ */
static const double GAP_RATE = 1e-3;      /* of mean and variance, at least */
static const double GAP_DEVIATION = 0.01; /* at least: jitter of a hundredth is none */
static const double GAP_MOST = 8;

static unsigned wanted(const struct learner *learner) {
    return learner->model->architecture.input.time;
}

int learner_time_open(struct learner *learner, size_t slots, struct error *error) {
    struct learner_time *time = &learner->time;
    time->kept = calloc(slots, KEPT * sizeof *time->kept);
    return time->kept
               ? time_zone_open(&time->zone, learner->model->architecture.input.time_zone, error)
               : error_no_memory(error);
}

void learner_time_close(struct learner *learner) {
    time_zone_close(&learner->time.zone);
    free(learner->time.kept);
}

double *learner_times(struct learner *learner, uint32_t slot) {
    return learner->time.kept ? learner->time.kept + (size_t)slot * KEPT : NULL;
}

void learner_time_begin(struct learner *learner, uint32_t slot) {
    double *kept = learner_times(learner, slot);
    if (!kept)
        return;
    kept[KEPT_LAST] = NAN;
    kept[KEPT_COUNT] = kept[KEPT_MEAN] = kept[KEPT_VARIANCE] = 0;
}

static bool has_date(double time) {
    return time != 0 && time >= TIME_ZONE_BEGIN && time < TIME_ZONE_END;
}

bool learner_times_valid(struct learner *learner, uint32_t slot) {
    const double *kept = learner_times(learner, slot);
    double longest = log1p((TIME_ZONE_END - TIME_ZONE_BEGIN) / GAP_UNIT);
    return (isnan(kept[KEPT_LAST]) || has_date(kept[KEPT_LAST])) && kept[KEPT_COUNT] >= 0 &&
           isfinite(kept[KEPT_COUNT]) && kept[KEPT_MEAN] >= 0 && kept[KEPT_MEAN] <= longest &&
           kept[KEPT_VARIANCE] >= 0 && kept[KEPT_VARIANCE] <= longest * longest;
}

/* ---- One example ---- */

/* z of ln(1 + gap in milliseconds), of all the stream's gaps so far, this one included; 0 where
   there is none. */
static double gap_feature(double *kept, double gap) {
    double value = log1p(gap / GAP_UNIT), rate = fmax(1 / ++kept[KEPT_COUNT], GAP_RATE);
    double difference = value - kept[KEPT_MEAN];
    kept[KEPT_MEAN] += rate * difference;
    kept[KEPT_VARIANCE] = (1 - rate) * (kept[KEPT_VARIANCE] + rate * difference * difference);
    double z = (value - kept[KEPT_MEAN]) / fmax(sqrt(kept[KEPT_VARIANCE]), GAP_DEVIATION);
    return fmax(-GAP_MOST, fmin(z, GAP_MOST));
}

static double take_gap(struct learner *learner, uint32_t slot, double time) {
    double *kept = learner_times(learner, slot), last = kept[KEPT_LAST];
    kept[KEPT_LAST] = time;
    if (isnan(last))
        return 0;
    if (time >= last)
        return gap_feature(kept, time - last);
    learner->time.backwards++;
    return 0;
}

/* Which part of its day, week or year the zone's clocks have behind them at a time. */
static double part_of(const struct time_zone *zone, enum time_feature feature, double time) {
    enum { MONDAY = 3 }; /* 1970-01-01 was a Thursday */
    double local = time + time_zone_offset(zone, time);
    double day = floor(local / SECONDS_OF_DAY), part = local / SECONDS_OF_DAY - day;
    if (feature == TIME_DAY)
        return part;
    if (feature == TIME_WEEK) {
        double week = floor((day + MONDAY) / DAYS_OF_WEEK);
        return (day + MONDAY - week * DAYS_OF_WEEK + part) / DAYS_OF_WEEK;
    }
    long year = time_zone_year_of((long)day), begins = time_zone_year_begins(year);
    return (day - (double)begins + part) / (double)(time_zone_year_begins(year + 1) - begins);
}

void learner_time_take(struct learner *learner, uint32_t slot, const struct example *example) {
    struct learner_time *time = &learner->time;
    bool known = has_date(example->time);
    size_t at = 0;
    if (!wanted(learner))
        return;
    double gap = known ? take_gap(learner, slot, example->time) : 0;
    for (unsigned feature = TIME_GAP; feature < TIME_FEATURES; feature++) {
        if (!(wanted(learner) >> feature & 1))
            continue;
        if (feature == TIME_GAP) {
            time->features[at++].real = (float)gap;
            continue;
        }
        double angle = known ? TAU * part_of(time->zone, feature, example->time) : 0;
        time->features[at++].real = known ? (float)sin(angle) : 0;
        time->features[at++].real = known ? (float)cos(angle) : 0;
    }
}

void learner_time_put(struct learner *learner, const struct model *model, union value *input) {
    union value *features = learner->time.features;
    for (size_t k = 0; k < model->times; k++)
        input[model->features - model->times + k] = features[k];
}

void learner_time_stepped(struct learner *learner) {
    if (wanted(learner) >> TIME_GAP & 1)
        learner->time.features[0].real = 0;
}
