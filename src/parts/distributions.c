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

/* A stream's steps, and the time between its two newest. */
struct pace {
    double steps, time, cadence;
};

/* A planned step. */
struct seen {
    uint32_t slot;
    bool learn;
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
    struct distributions_recent recent;

    struct seen *seen; /* (plan_steps,) */
    double *x;         /* (plan_steps, columns) NaN = missing */
    size_t step;       /* that is played next */
    double *others;    /* (forecasts,) of one column */

    struct distribution_score *scores; /* (rows, columns) as those of truth.h, */
    double *scored;                    /* (rows, columns, levels) */
    double *quantiles;                 /* (steps, horizons, columns, levels) */
    size_t row_room, step_room;
};

/* ---- Memory ---- */

static size_t states_of(const struct distributions *d) {
    return d->horizons * d->columns;
}

static struct distribution_state *state_of(const struct distributions *d, uint32_t slot, size_t h) {
    return d->states + slot * states_of(d) + h * d->columns;
}

/* Where horizon h of the stream's step is kept until its truth comes. */
static size_t ring_of(const struct distributions *d, uint32_t slot, size_t h, double step) {
    size_t place = (size_t)fmod(step, (double)d->ahead[h]);
    return (slot * d->places + d->place[h] + place) * d->columns;
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
    d->columns = host->model->x_size;
    d->horizons = host->model->horizons;
    d->level_count = levels->count;
    memcpy(d->levels, levels->of, levels->count * sizeof *d->levels);
    for (size_t h = 0; h < d->horizons; h++) {
        d->ahead[h] = output_ahead(&host->model->architecture.output, h);
        d->place[h] = d->places;
        d->places += d->ahead[h];
    }
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
    free(d->seen);
    free(d->x);
    free(d->scores);
    free(d->scored);
    free(d->quantiles);
    free(d);
}

static size_t distributions_step_bytes(const void *self) {
    const struct distributions *d = self;
    size_t numbers = states_of(d);
    return numbers * (sizeof *d->scores + 2 * d->level_count * sizeof(double)) +
           d->columns * sizeof *d->x;
}

/* Room for so many truths and steps of truth.h. */
static int make_room(struct distributions *d, size_t rows, size_t steps) {
    size_t levels = d->level_count + 1; /* never 0 bytes */
    if (rows > d->row_room) {
        struct distribution_score *scores =
            realloc(d->scores, rows * d->columns * sizeof *d->scores);
        d->scores = scores ? scores : d->scores;
        double *scored = realloc(d->scored, rows * d->columns * levels * sizeof *d->scored);
        d->scored = scored ? scored : d->scored;
        if (!scores || !scored)
            return -1;
        d->row_room = rows;
    }
    if (steps > d->step_room) {
        double *quantiles =
            realloc(d->quantiles, steps * states_of(d) * levels * sizeof *d->quantiles);
        if (!quantiles)
            return -1;
        d->quantiles = quantiles;
        d->step_room = steps;
    }
    return 0;
}

static bool distributions_plan_open(void *self) {
    struct distributions *d = self;
    size_t steps = d->host->plan_steps;
    d->seen = calloc(steps, sizeof *d->seen);
    d->x = calloc(steps * d->columns, sizeof *d->x);
    return d->seen && d->x && make_room(d, steps * d->horizons, steps) == 0;
}

static void begin(struct distributions *d, uint32_t slot) {
    size_t issued = d->places * d->columns;
    d->paces[slot] = (struct pace){0};
    memset(state_of(d, slot, 0), 0, states_of(d) * sizeof *d->states);
    for (size_t n = 0; n < issued; n++)
        d->issued[slot * issued + n].issued = 0;
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
    d->seen[step->number] = (struct seen){step->slot, step->example->learn};
}

/* ---- Once the plan is played ---- */

static void count_recent(struct distributions *d, const double pit[2]) {
    static const double shares[DISTRIBUTIONS_INTERVALS] = {0.5, 0.9, 0.99, 0.999};
    struct distributions_recent *r = &d->recent;
    double low = pit[0], width = pit[1] - pit[0];
    r->weight = DISTRIBUTIONS_RECENT * r->weight + (1 - DISTRIBUTIONS_RECENT);
    r->numbers++;
    for (size_t n = 0; n < DISTRIBUTIONS_PIT_BINS; n++) {
        double from = (double)n / DISTRIBUTIONS_PIT_BINS,
               to = (double)(n + 1) / DISTRIBUTIONS_PIT_BINS;
        double part = width > 0 ? fmax(0, fmin(to, pit[1]) - fmax(from, low)) / width
                                : low >= from && (low < to || n + 1 == DISTRIBUTIONS_PIT_BINS);
        r->pit[n] = DISTRIBUTIONS_RECENT * r->pit[n] + (1 - DISTRIBUTIONS_RECENT) * part;
    }
    for (size_t n = 0; n < DISTRIBUTIONS_INTERVALS; n++) {
        double from = (1 - shares[n]) / 2, to = 1 - from;
        double part = width > 0 ? fmax(0, fmin(to, pit[1]) - fmax(from, low)) / width
                                : low >= from && low <= to;
        r->held[n] = DISTRIBUTIONS_RECENT * r->held[n] + (1 - DISTRIBUTIONS_RECENT) * part;
        r->held_total[n] += part;
    }
}

static struct distribution_score score_of(const struct distribution *issued, double truth) {
    struct distribution_score score = {
        .pit = {distribution_cdf(issued, truth, true), distribution_cdf(issued, truth, false)},
        .crps = distribution_crps(issued, truth),
        .log_score = distribution_log_score(issued, truth),
    };
    score.z = distribution_normal((score.pit[0] + score.pit[1]) / 2);
    return score;
}

static void count_error(struct distributions *d, const struct distribution_score *score,
                        double of_baseline, double change) {
    struct distribution_error *error = &d->host->errors.distribution;
    if (!(change > 0))
        return;
    error->crps += score->crps / change;
    error->baseline += fabs(of_baseline) / change;
    error->log_score += score->log_score - log(change);
    error->observed++;
}

/* The truths of the distributions that were issued for this step. */
static void distributions_scored(void *self, struct planned *example, struct scored *scored) {
    static const struct distribution nothing = {0};
    struct distributions *d = self;
    if (scored->number != SIZE_MAX)
        return;
    const struct seen *seen = &d->seen[d->step];
    const struct pace *pace = &d->paces[seen->slot];
    size_t h = scored->horizon, row = truth_count(truths_of(d->host)) * d->columns;
    const struct distribution *ring = d->issued + ring_of(d, seen->slot, h, pace->steps);
    struct distribution_state *states = state_of(d, seen->slot, h);
    const double *changes = experts_changes(d->host, d->step, h);
    for (size_t k = 0; k < d->columns; k++) {
        const struct distribution *issued = pace->steps < (double)d->ahead[h] ? &nothing : ring + k;
        double truth = d->x[d->step * d->columns + k];
        struct distribution_score score = {{NAN, NAN}, NAN, NAN, NAN};
        if (issued->issued > 0 && isfinite(truth) && !isnan(scored->errors[k])) {
            score = score_of(issued, truth);
            count_recent(d, score.pit);
            count_error(d, &score, scored->of_baseline[k], changes[k]);
            if (seen->learn)
                distribution_learn(&states[k], issued, truth, d->ahead[h]);
        }
        if (!example->outputs)
            continue;
        d->scores[row + k] = score;
        distribution_quantiles(issued, d->levels, d->level_count,
                               d->scored + (row + k) * d->level_count);
    }
}

static void see(struct distributions *d, const struct seen *seen, const double *x) {
    for (size_t h = 0; h < d->horizons; h++) {
        struct distribution_state *states = state_of(d, seen->slot, h);
        for (size_t k = 0; k < d->columns; k++)
            if (!isfinite(x[k]))
                distribution_miss(&states[k]);
            else if (seen->learn)
                distribution_see(&states[k], x[k]);
    }
}

/* The time of a truth, by the time between the two newest steps. */
static double time_ahead(const struct pace *pace, size_t ahead) {
    return pace->time > 0 && pace->cadence > 0 ? pace->time + (double)ahead * pace->cadence : NAN;
}

static void issue(struct distributions *d, const struct planned *example, uint32_t slot) {
    const struct pace *pace = &d->paces[slot];
    const struct experts_forecasts forecasts = experts_forecasts(d->host, d->step);
    double *quantiles = d->quantiles;
    if (example->outputs) /* this step is the newest that was told */
        quantiles += (truth_steps(truths_of(d->host)) - 1) * states_of(d) * d->level_count;
    for (size_t h = 0; h < d->horizons; h++)
        for (size_t k = 0; k < d->columns; k++, quantiles += d->level_count) {
            struct distribution *issued = &d->issued[ring_of(d, slot, h, pace->steps) + k];
            const double *experts = forecasts.experts + h * forecasts.count * d->columns + k;
            for (size_t n = 0; n < forecasts.count; n++)
                d->others[n] = experts[n * d->columns];
            distribution_issue(state_of(d, slot, h) + k, forecasts.combined[h * d->columns + k],
                               time_ahead(pace, d->ahead[h]), d->others, forecasts.count, issued);
            if (example->outputs)
                distribution_quantiles(issued, d->levels, d->level_count, quantiles);
        }
}

static void distributions_played(void *self, struct planned *example, size_t step) {
    struct distributions *d = self;
    const struct seen *seen = &d->seen[step];
    struct pace *pace = &d->paces[seen->slot];
    denormals_to_zero();
    see(d, seen, d->x + step * d->columns);
    pace->cadence = example->time > pace->time && pace->time > 0 ? example->time - pace->time : 0;
    pace->time = example->time;
    issue(d, example, seen->slot);
    pace->steps++;
    d->step = step + 1;
}

/* Rows of truth.h that are kept there, since their example is not finished, become the first. */
static int distributions_next(void *self, const struct planned *unfinished, size_t last,
                              struct error *error) {
    struct distributions *d = self;
    const struct truth *truth = truths_of(d->host);
    bool stays = unfinished && unfinished->outputs;
    size_t score = d->columns, levels = d->columns * d->level_count;
    size_t quantiles = states_of(d) * d->level_count;
    size_t row = stays ? unfinished->first_pair : truth_count(truth);
    size_t step = stays ? unfinished->first_bounds : truth_steps(truth);
    size_t rows = truth_count(truth) - row, steps = truth_steps(truth) - step;
    memmove(d->scores, d->scores + row * score, rows * score * sizeof *d->scores);
    memmove(d->scored, d->scored + row * levels, rows * levels * sizeof *d->scored);
    memmove(d->quantiles, d->quantiles + step * quantiles,
            steps * quantiles * sizeof *d->quantiles);
    d->step = 0;
    (void)last;
    rows += d->host->plan_steps * d->horizons;
    if (make_room(d, rows, steps + d->host->plan_steps) == 0)
        return 0;
    return error_set(error, EX_UNAVAILABLE, PART_NO_MEMORY, unfinished ? unfinished->steps : 0);
}

/* ---- Publishing ---- */

static const struct distributions *part_of(const struct part_host *host) {
    return part_find(host, &distributions_part);
}

const double *distributions_levels(const struct part_host *host, size_t *count) {
    const struct distributions *d = part_of(host);
    *count = d ? d->level_count : 0;
    return d ? d->levels : NULL;
}

const struct distribution_score *distributions_scores(const struct part_host *host, size_t n) {
    const struct distributions *d = part_of(host);
    return d->scores + n * d->columns;
}

const double *distributions_scored_quantiles(const struct part_host *host, size_t n) {
    const struct distributions *d = part_of(host);
    return d->scored + n * d->columns * d->level_count;
}

const double *distributions_quantiles(const struct part_host *host, size_t n) {
    const struct distributions *d = part_of(host);
    return d->quantiles + n * states_of(d) * d->level_count;
}

struct distributions_recent distributions_recent(const struct part_host *host) {
    const struct distributions *d = part_of(host);
    return d ? d->recent : (struct distributions_recent){0};
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

static int read_recent(const struct state_place *p, void *numbers, struct error *error) {
    const struct distributions *d = p->self;
    memcpy(numbers, &d->recent, sizeof d->recent);
    return (void)error, 0;
}

static int write_recent(const struct state_place *p, const void *numbers, struct error *error) {
    struct distributions *d = p->self;
    const double *number = numbers;
    for (size_t n = 0; n < RECENT; n++)
        if (!(isfinite(number[n]) && number[n] >= 0))
            return 1;
    memcpy(&d->recent, numbers, sizeof d->recent);
    return (void)error, 0;
}

static const char *distributions_valid(void *self, uint32_t slot) {
    const struct distributions *d = self;
    const struct pace *pace = &d->paces[slot];
    size_t issued = d->places * d->columns;
    if (!(pace->steps >= 0 && pace->steps == floor(pace->steps) && isfinite(pace->steps) &&
          isfinite(pace->time) && isfinite(pace->cadence)))
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
    STATE_ROW(name, F64, STATE_LATER, which, .size = row_size, .at = row_at)

static const struct state_row rows[] = {
    STATE_ROW("learner.distributions", F64, STATE_ONCE | STATE_LATER, .count = RECENT,
              STATE_COPIED(recent)),
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
    .next = distributions_next,
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .valid = distributions_valid,
};
