/* Time features that model.input.time appends to an encoded input (docs/reference/time.md). They
   depend only on the times in the headers of examples, never on a clock. */
#include "times.h"

#include <math.h>
#include <stdlib.h>

#include "common/time_zone.h"
#include "part.h"
#include "rows.h"

/* The state of a stream: time of its last example that has one, NaN = none; number, mean and
   variance of the logarithms of its gaps. */
enum { KEPT_LAST, KEPT_COUNT, KEPT_MEAN, KEPT_VARIANCE, KEPT };
enum { DAYS_OF_WEEK = 7, SECONDS_OF_DAY = 86400 };

static const double TAU = 6.283185307179586476925286766559;
static const double GAP_UNIT = 1e-3;      /* seconds: shorter gaps hardly differ */
static const double GAP_RATE = 1e-3;      /* minimum, of mean and variance */
static const double GAP_DEVIATION = 0.01; /* minimum: ignores jitter of a hundredth */
static const double GAP_MOST = 8;

struct times {
    struct part_host *host;
    unsigned wanted; /* enum time_feature, a set */
    double *kept;    /* (slots, KEPT) */
    struct time_zone *zone;
    uint64_t backwards;                   /* examples older than their stream's previous one */
    union value features[TIME_WIDTH_MAX]; /* features of the next step of the example in planning */
};

static double *kept_of(const struct times *times, uint32_t slot) {
    return times->kept + (size_t)slot * KEPT;
}

static bool times_wanted(const struct part_host *host) {
    return host->model->architecture.input.time != 0;
}

static int times_open(void **self, struct part_host *host, struct error *error) {
    const struct input *input = &host->model->architecture.input;
    struct times *times = *self = calloc(1, sizeof *times);
    if (!times)
        return error_no_memory(error);
    times->host = host;
    times->wanted = input->time;
    times->kept = calloc(host->slots, KEPT * sizeof *times->kept);
    return times->kept ? time_zone_open(&times->zone, input->time_zone, error)
                       : error_no_memory(error);
}

static void times_close(void *self) {
    struct times *times = self;
    time_zone_close(&times->zone);
    free(times->kept);
    free(times);
}

static void times_reset(void *self) {
    struct times *times = self;
    times->backwards = 0;
}

static void times_begin(void *self, uint32_t slot, enum part_begin when) {
    double *kept = kept_of(self, slot);
    (void)when;
    kept[KEPT_LAST] = NAN;
    kept[KEPT_COUNT] = kept[KEPT_MEAN] = kept[KEPT_VARIANCE] = 0;
}

uint64_t times_backwards(const struct part_host *host) {
    const struct times *times = part_find(host, &times_part);
    return times ? times->backwards : 0;
}

static bool has_date(double time) {
    return time != 0 && time >= TIME_ZONE_BEGIN && time < TIME_ZONE_END;
}

static const char *times_valid(void *self, uint32_t slot) {
    const double *kept = kept_of(self, slot);
    double longest = log1p((TIME_ZONE_END - TIME_ZONE_BEGIN) / GAP_UNIT);
    bool valid = (isnan(kept[KEPT_LAST]) || has_date(kept[KEPT_LAST])) && kept[KEPT_COUNT] >= 0 &&
                 isfinite(kept[KEPT_COUNT]) && kept[KEPT_MEAN] >= 0 && kept[KEPT_MEAN] <= longest &&
                 kept[KEPT_VARIANCE] >= 0 && kept[KEPT_VARIANCE] <= longest * longest;
    return valid ? NULL : "streams.times";
}

/* ---- One example ---- */

/* Returns z of ln(1 + gap in milliseconds), over all gaps of the stream including this one; 0
   without a gap. */
static double gap_feature(double *kept, double gap) {
    double value = log1p(gap / GAP_UNIT), rate = fmax(1 / ++kept[KEPT_COUNT], GAP_RATE);
    double difference = value - kept[KEPT_MEAN];
    kept[KEPT_MEAN] += rate * difference;
    kept[KEPT_VARIANCE] = (1 - rate) * (kept[KEPT_VARIANCE] + rate * difference * difference);
    double z = (value - kept[KEPT_MEAN]) / fmax(sqrt(kept[KEPT_VARIANCE]), GAP_DEVIATION);
    return fmax(-GAP_MOST, fmin(z, GAP_MOST));
}

static double take_gap(struct times *times, uint32_t slot, double time) {
    double *kept = kept_of(times, slot), last = kept[KEPT_LAST];
    kept[KEPT_LAST] = time;
    if (isnan(last))
        return 0;
    if (time >= last)
        return gap_feature(kept, time - last);
    times->backwards++;
    return 0;
}

/* Returns the elapsed part of the zone's day, week or year at a time. */
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

static void times_example(void *self, const struct example *example) {
    struct times *times = self;
    bool known = has_date(example->time);
    size_t at = 0;
    if (example->label)
        return;
    double gap = known ? take_gap(times, times->host->planned->slot, example->time) : 0;
    for (unsigned feature = TIME_GAP; feature < TIME_FEATURES; feature++) {
        if (!(times->wanted >> feature & 1))
            continue;
        if (feature == TIME_GAP) {
            times->features[at++].real = (float)gap;
            continue;
        }
        double angle = known ? TAU * part_of(times->zone, feature, example->time) : 0;
        times->features[at++].real = known ? (float)sin(angle) : 0;
        times->features[at++].real = known ? (float)cos(angle) : 0;
    }
}

/* Appends the features to each network's x. */
static void times_input(void *self, struct step *step) {
    const struct times *times = self;
    const struct part_host *host = times->host;
    (void)step;
    for (size_t m = 0; m < host->member_count; m++) {
        const struct model *model = host->members[m].model;
        const struct plan *plan = &host->members[m].plan;
        union value *input = plan->inputs + plan->steps * model->features;
        for (size_t k = 0; k < model->times; k++)
            input[model->features - model->times + k] = times->features[k];
    }
}

static void times_stepped(void *self, const struct step *step) {
    struct times *times = self;
    (void)step;
    if (times->wanted >> TIME_GAP & 1)
        times->features[0].real = 0;
}

/* ---- Checkpoints ---- */

static void *backwards_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct times *)p->self)->backwards;
}

static void *times_at(const struct state_place *p, size_t n) {
    return (void)n, kept_of(p->self, p->slot);
}

static const struct state_row rows[] = {
    STATE_ROW("learner.backwards", I64, STATE_ONCE, .count = 1, .at = backwards_at),
    STATE_ROW("streams.times", F64, 0, .count = KEPT, .at = times_at),
};

const struct part_kind times_part = {
    .name = "times",
    .wanted = times_wanted,
    .open = times_open,
    .close = times_close,
    .reset = times_reset,
    .begin = times_begin,
    .example = times_example,
    .input = times_input,
    .stepped = times_stepped,
    STATE_ROWS(rows),
    .valid = times_valid,
};
