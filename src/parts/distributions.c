/* Distributions follow the plan's play: a truth is scored and learned from when the mixture of
   experts scores it, then the value is seen, and the next distribution is issued around what was
   predicted. */
#include "distributions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/denormals.h"
#include "experts.h"
#include "part.h"
#include "rows.h"
#include "truths.h"

/* The time of a stream's newest step, and the time between its two newest; 0 = unknown. */
struct pace {
    double time, cadence;
};

struct distributions {
    struct part_host *host;
    size_t columns, horizons, ahead[AHEAD_MAX];
    size_t place[AHEAD_MAX], places;   /* of a horizon's ring, in units of columns */
    struct pace *paces;                /* (slots,) */
    struct distribution_state *states; /* (slots, horizons, columns) */
    struct distribution *issued;       /* (slots, places, columns) */
    double levels[LEVELS_MAX];
    size_t level_count;
    double keep; /* decay of a number in `recent` */
    struct distributions_recent recent;
    double z; /* the largest of the newest scored step, one step ahead; NaN = none */

    double *x;      /* (plan_steps, columns) NaN = missing */
    double *others; /* (forecasts,) of one column */
};

/* ---- Memory ---- */

static size_t states_of(const struct distributions *d) {
    return d->horizons * d->columns;
}

static struct distribution_state *state_of(const struct distributions *d, uint32_t slot, size_t h) {
    return d->states + slot * states_of(d) + h * d->columns;
}

/* Returns the distributions (columns,) that horizon h of the step keeps until their truth, and of
   which this step is the truth before. */
static struct distribution *ring_of(const struct distributions *d, const struct experts_step *step,
                                    size_t h) {
    size_t place = d->place[h] + step->number % d->ahead[h];
    return d->issued + (step->slot * d->places + place) * d->columns;
}

static const struct distributions *part_of(const struct part_host *host) {
    return part_find(host, &distributions_part);
}

static bool distributions_wanted(const struct part_host *host) {
    return inputs_have_experts(host->model) && host->config->distribution.enabled;
}

static int distributions_open(void **self, struct part_host *host, struct error *error) {
    struct distributions *d = *self = calloc(1, sizeof *d);
    const struct levels *levels = &host->config->distribution.levels;
    if (!d)
        return error_no_memory(error);
    d->host = host;
    d->columns = host->model->target_size;
    d->horizons = host->model->horizons;
    d->level_count = levels->count;
    memcpy(d->levels, levels->of, levels->count * sizeof *d->levels);
    for (size_t h = 0; h < d->horizons; h++) {
        d->ahead[h] = output_ahead(&host->model->architecture.output, h);
        d->place[h] = d->places;
        d->places += d->ahead[h];
    }
    d->keep = pow(DISTRIBUTIONS_RECENT, 1.0 / (double)states_of(d));
    size_t issued = host->slots * d->places * d->columns;
    d->paces = calloc(host->slots, sizeof *d->paces);
    d->others = calloc(host->forecasts + 1, sizeof *d->others);
    d->states = calloc(host->slots * states_of(d), sizeof *d->states);
    d->issued = calloc(issued, sizeof *d->issued);
    if (d->paces && d->others && d->states && d->issued)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the distributions of %zu streams: lower "
                     "learning.max_streams, or set distribution.enabled: false",
                     host->slots);
}

static void distributions_close(void *self) {
    struct distributions *d = self;
    free(d->paces);
    free(d->others);
    free(d->states);
    free(d->issued);
    free(d->x);
    free(d);
}

static size_t distributions_step_bytes(const void *self) {
    const struct distributions *d = self;
    size_t notes =
        distributions_step_notes(d->host) + d->horizons * distributions_pair_notes(d->host);
    return (notes + d->columns) * sizeof *d->x;
}

static bool distributions_plan_open(void *self) {
    struct distributions *d = self;
    d->x = calloc(d->host->plan_steps, d->columns * sizeof *d->x);
    return d->x != NULL;
}

static void begin(struct distributions *d, uint32_t slot) {
    size_t issued = d->places * d->columns;
    d->paces[slot] = (struct pace){0};
    memset(state_of(d, slot, 0), 0, states_of(d) * sizeof *d->states);
    memset(d->issued + slot * issued, 0, issued * sizeof *d->issued);
}

static void distributions_begin(void *self, uint32_t slot, enum part_begin when) {
    if (when == BEGIN_NOW)
        begin(self, slot);
}

static void distributions_reset(void *self) {
    struct distributions *d = self;
    d->recent = (struct distributions_recent){0};
}

/* ---- Planning ---- */

static void distributions_input(void *self, struct step *step) {
    struct distributions *d = self;
    double *x = d->x + step->number * d->columns;
    for (size_t k = 0; k < d->columns; k++) {
        float number;
        memcpy(&number, (const char *)step->x + k * sizeof number, sizeof number);
        x[k] = isfinite(number) ? (double)number : NAN;
    }
}

/* ---- Once the plan is played ---- */

/* Returns how much of the PIT, evenly between its two, is from `from` to `to`. */
static double part_within(const double pit[2], double from, double to) {
    double width = pit[1] - pit[0];
    if (width > 0)
        return fmax(0, fmin(to, pit[1]) - fmax(from, pit[0])) / width;
    return pit[0] >= from && (pit[0] < to || to >= 1);
}

static void count_recent(struct distributions *d, const double pit[2]) {
    static const double shares[DISTRIBUTIONS_INTERVALS] = {0.5, 0.9, 0.99, 0.999};
    struct distributions_recent *r = &d->recent;
    double keep = d->keep;
    r->weight = keep * r->weight + (1 - keep);
    for (size_t n = 0; n < DISTRIBUTIONS_PIT_BINS; n++)
        r->pit[n] =
            keep * r->pit[n] + (1 - keep) * part_within(pit, (double)n / DISTRIBUTIONS_PIT_BINS,
                                                        (double)(n + 1) / DISTRIBUTIONS_PIT_BINS);
    for (size_t n = 0; n < DISTRIBUTIONS_INTERVALS; n++)
        r->held[n] = keep * r->held[n] +
                     (1 - keep) * part_within(pit, (1 - shares[n]) / 2, (1 + shares[n]) / 2);
}

static void count_error(struct distributions *d, size_t k, const struct distribution_score *score,
                        double of_baseline, double change) {
    struct distribution_error *error = &d->host->errors.distribution;
    struct column_error *column = &d->host->errors.columns[k];
    column->crps += score->crps;
    column->log_score += score->log_score;
    column->scored++;
    if (!(change > 0))
        return;
    error->crps += score->crps / change;
    error->baseline += fabs(of_baseline) / change;
    error->log_score += score->log_score - log(change);
    error->observed++;
}

/* The truths of the distributions that were issued for this step. */
static void distributions_scored(void *self, struct planned *example, struct scored *scored) {
    struct distributions *d = self;
    if (scored->number != SIZE_MAX)
        return;
    const struct experts_step step = experts_step(d->host, scored->step);
    struct distribution *issued = ring_of(d, &step, scored->horizon);
    struct distribution_state *states = state_of(d, step.slot, scored->horizon);
    const double *changes = experts_changes(d->host, scored->step, scored->horizon);
    struct distribution_score *notes =
        example->outputs ? (void *)truth_next_notes(truths_of(d->host)) : NULL;
    if (scored->horizon == 0)
        d->z = NAN;
    for (size_t k = 0; k < d->columns; k++, issued++) {
        double value = d->x[scored->step * d->columns + k];
        struct distribution_score score = {{NAN, NAN}, NAN, NAN, NAN};
        if (issued->issued > 0 && !isnan(value) && !isnan(scored->errors[k])) {
            score = distribution_score(issued, value);
            d->z = scored->horizon == 0 ? fmax(d->z, fabs(score.z)) : d->z;
            count_recent(d, score.pit);
            count_error(d, k, &score, scored->of_baseline[k], changes[k]);
            if (step.learn)
                distribution_learn(&states[k], issued, value, d->ahead[scored->horizon]);
        }
        if (!notes)
            continue;
        notes[k] = score;
        distribution_quantiles(issued, d->levels, d->level_count,
                               (double *)(notes + d->columns) + k * d->level_count);
    }
}

static void see(struct distributions *d, const struct experts_step *step, const double *x) {
    struct distribution_state *state = state_of(d, step->slot, 0);
    for (size_t n = 0; step->learn && n < states_of(d); n++, state++)
        if (isnan(x[n % d->columns]))
            distribution_miss(state);
        else
            distribution_see(state, x[n % d->columns]);
}

static void issue(struct distributions *d, const struct planned *example,
                  const struct experts_step *step) {
    const struct pace *pace = &d->paces[step->slot];
    const struct truth *truth = truths_of(d->host);
    double *quantiles = example->outputs ? truth_step_notes(truth, truth_steps(truth) - 1) : NULL;
    for (size_t h = 0; h < d->horizons; h++) {
        struct distribution *issued = ring_of(d, step, h);
        bool timed = pace->time > 0 && pace->cadence > 0;
        double time = timed ? pace->time + (double)d->ahead[h] * pace->cadence : NAN;
        for (size_t k = 0; k < d->columns; k++, issued++) {
            for (size_t n = 0; n < step->count; n++)
                d->others[n] = step->experts[(h * step->count + n) * d->columns + k];
            distribution_issue(state_of(d, step->slot, h) + k, step->combined[h * d->columns + k],
                               time, d->others, step->count, issued);
            if (!quantiles)
                continue;
            distribution_quantiles(issued, d->levels, d->level_count, quantiles);
            quantiles += d->level_count;
        }
    }
}

static void distributions_played(void *self, struct planned *example, size_t number) {
    struct distributions *d = self;
    const struct experts_step step = experts_step(d->host, number);
    struct pace *pace = &d->paces[step.slot];
    denormals_to_zero();
    if (step.number == 0)
        begin(d, step.slot);
    see(d, &step, d->x + number * d->columns);
    bool timed = example->steps == 1 && example->time > pace->time && pace->time > 0;
    pace->cadence = timed ? example->time - pace->time : 0;
    pace->time = example->time;
    issue(d, example, &step);
}

/* ---- Publishing ---- */

const double *distributions_levels(const struct part_host *host, size_t *count) {
    const struct distributions *d = part_of(host);
    *count = d ? d->level_count : 0;
    return d ? d->levels : NULL;
}

const double *distributions_z(const struct part_host *host) {
    const struct distributions *d = part_of(host);
    return d ? &d->z : NULL;
}

size_t distributions_pair_notes(const struct part_host *host) {
    static const size_t score = sizeof(struct distribution_score) / sizeof(double);
    const struct distributions *d = part_of(host);
    return d ? d->columns * (score + d->level_count) : 0;
}

size_t distributions_step_notes(const struct part_host *host) {
    const struct distributions *d = part_of(host);
    return d ? states_of(d) * d->level_count : 0;
}

struct distributions_recent distributions_recent(const struct part_host *host) {
    const struct distributions *d = part_of(host);
    return d ? d->recent : (struct distributions_recent){0};
}

/* Two shares of the PITs are compared with those of calibrated distributions: 0.1 outside the 90%
   band, and 0.5 above the median. One of the two exceeds PASSES deviations in 1% of the time. The
   deviation is that of as many independent steps as the moving average counts: the columns of a
   step may be alike, and so may truths of overlapping forecasts. A shift leaves the band at one end
   more often, and at the other end less often. */
#define PASSES 2.81
enum { STEPS_LEAST = 30, OVERLAP_MOST = 33, MEDIAN = DISTRIBUTIONS_PIT_BINS / 2 };

const char *distributions_calibration(const struct part_host *host) {
    const struct distributions *d = part_of(host);
    if (!d)
        return NULL;
    const struct distributions_recent *r = &d->recent;
    double numbers = r->weight * (1 + d->keep) / ((1 - d->keep) * (2 - r->weight));
    double steps = numbers / (double)states_of(d) /
                   fmin((double)d->places / (double)d->horizons, OVERLAP_MOST);
    if (!(steps >= STEPS_LEAST))
        return NULL;
    double below = r->pit[0] / r->weight, beyond = r->pit[DISTRIBUTIONS_PIT_BINS - 1] / r->weight;
    double above = 0;
    for (size_t n = MEDIAN; n < DISTRIBUTIONS_PIT_BINS; n++)
        above += r->pit[n] / r->weight;
    double width = (below + beyond - 0.1) / 0.3 * sqrt(steps);
    double shift = (above - 0.5) / 0.5 * sqrt(steps);
    if (fabs(shift) > PASSES &&
        (fabs(shift) > fabs(width) || (fmin(below, beyond) < 0.05 && width > 0)))
        return shift > 0
                   ? "shifted down: true values are above the median more often than they should"
                   : "shifted up: true values are below the median more often than they should";
    if (fabs(width) > PASSES)
        return width > 0
                   ? "too narrow: true values fall outside the 90% band more often than they should"
                   : "too wide: true values fall outside the 90% band less often than they should";
    return "calibrated: true values fall outside the 90% band and above the median as often as "
           "they should";
}

/* ---- Checkpoints ---- */

enum { STATES, ISSUED, PACE };
enum { RECENT = sizeof(struct distributions_recent) / sizeof(double) };

static size_t row_size(const struct state_place *p) {
    const struct distributions *d = p->self;
    size_t issued = d->places * d->columns * sizeof *d->issued;
    return (p->row->which == STATES   ? states_of(d) * sizeof *d->states
            : p->row->which == ISSUED ? issued
                                      : sizeof *d->paces) /
           sizeof(double);
}

static void *row_at(const struct state_place *p, size_t n) {
    const struct distributions *d = p->self;
    return (void)n, p->row->which == STATES ? (void *)state_of(d, p->slot, 0)
                    : p->row->which == ISSUED
                        ? (void *)(d->issued + p->slot * d->places * d->columns)
                        : (void *)&d->paces[p->slot];
}

static void *recent_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct distributions *)p->self)->recent;
}

static int recent_filled(const struct state_place *p) {
    const double *number = recent_at(p, 0);
    for (size_t n = 0; n < RECENT; n++)
        if (!(number[n] >= 0 && number[n] <= fmin(1, number[0] * (1 + 1e-9))))
            return 1;
    return 0;
}

static const char *distributions_valid(void *self, uint32_t slot) {
    const struct distributions *d = self;
    const struct pace *pace = &d->paces[slot];
    size_t issued = d->places * d->columns;
    if (!isfinite(pace->time + pace->cadence))
        return "streams.pace";
    for (size_t n = 0; n < states_of(d); n++)
        if (!distribution_state_valid(state_of(d, slot, 0) + n))
            return "streams.distribution";
    for (size_t n = 0; n < issued; n++)
        if (!distribution_valid(&d->issued[slot * issued + n]))
            return "streams.issued";
    return NULL;
}

#define DISTRIBUTION_ROW(name, which)                                                              \
    STATE_ROW(name, F64, STATE_LATER | STATE_TRUTH, which, .size = row_size, .at = row_at)

static const struct state_row rows[] = {
    STATE_ROW("learner.distributions", F64, STATE_ONCE | STATE_LATER | STATE_TRUTH, .count = RECENT,
              .at = recent_at, .filled = recent_filled),
    DISTRIBUTION_ROW("streams.distribution", STATES),
    DISTRIBUTION_ROW("streams.issued", ISSUED),
    DISTRIBUTION_ROW("streams.pace", PACE),
};

const struct part_kind distributions_part = {
    .name = "distributions",
    .wanted = distributions_wanted,
    .open = distributions_open,
    .close = distributions_close,
    .step_bytes = distributions_step_bytes,
    .plan_open = distributions_plan_open,
    .reset = distributions_reset,
    .begin = distributions_begin,
    .input = distributions_input,
    .scored = distributions_scored,
    .played = distributions_played,
    STATE_ROWS(rows),
    .valid = distributions_valid,
};
