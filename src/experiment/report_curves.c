#include "report_curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool report_curve_of_skill(const struct summary_stream *stream) {
    return stream->measure == experiment_measure_named("skill") ||
           stream->measure == experiment_measure_named("skill_recent");
}

enum value_of { OF_LOSS, OF_SKILL, OF_SKILL_DIFFERENCE, OF_BASELINE };

/* Of the points that end at `at`, as many as a share of the run has. */
static double trailing(const struct experiment_point *points, size_t count, size_t at,
                       enum value_of of) {
    double weight = 0, mean = 0, baseline = 0;
    size_t span = count / CURVE_SHARE ? count / CURVE_SHARE : 1;
    bool skill = of == OF_SKILL || of == OF_SKILL_DIFFERENCE, with = skill || of == OF_BASELINE;
    if (points[at].scored && !isfinite(points[at].mean))
        return NAN;
    for (size_t i = at + 1 > span ? at + 1 - span : 0; i <= at; i++) {
        const struct experiment_point *p = &points[i];
        if (!p->scored || !isfinite(p->mean) || (with && !isfinite(p->baseline)))
            continue;
        weight += (double)p->scored;
        mean += (double)p->scored * p->mean;
        baseline += (double)p->scored * p->baseline;
    }
    if (weight == 0)
        return NAN;
    return of == OF_SKILL              ? 1 - mean / baseline
           : of == OF_SKILL_DIFFERENCE ? (baseline - mean) / weight
           : of == OF_BASELINE         ? baseline / weight
                                       : mean / weight;
}

static int make_room(struct report_curve *curve, struct experiment_results *results, size_t count) {
    double *numbers = experiment_results_memory(results, (4 * count + 1) * sizeof *numbers);
    if (!numbers)
        return -1;
    *curve = (struct report_curve){.examples = numbers,
                                   .mean = numbers + count,
                                   .least = numbers + 2 * count,
                                   .greatest = numbers + 3 * count,
                                   .count = count};
    for (size_t i = 0; i < count; i++)
        curve->least[i] = curve->greatest[i] = NAN;
    return 0;
}

/* Add one run; `seen` counts at each point. */
static void add_run(struct report_curve *curve, const struct experiment_point *points, size_t count,
                    enum value_of of, size_t *seen) {
    size_t both = count < curve->count ? count : curve->count;
    curve->runs++;
    for (size_t i = 0; i < both; i++) {
        double value = trailing(points, count, i, of);
        curve->examples[i] = (double)points[i].examples;
        if (!isfinite(value))
            continue;
        curve->mean[i] += value;
        curve->least[i] = fmin(curve->least[i], value);
        curve->greatest[i] = fmax(curve->greatest[i], value);
        seen[i]++;
    }
}

static void finish(struct report_curve *curve, const size_t *seen) {
    for (size_t i = 0; i < curve->count; i++)
        curve->mean[i] = seen[i] ? curve->mean[i] / (double)seen[i] : NAN;
}

/* The runs of a cell in that state, `most` of them. */
static int add_runs(struct report_curve *curve, struct experiment_results *results,
                    struct experiment_store *store, const struct summary_cell *cell,
                    enum experiment_state state, enum value_of of, size_t most,
                    struct error *error) {
    size_t *seen = NULL;
    for (size_t i = 0; i < cell->run_count && curve->runs < most; i++) {
        struct experiment_point *points;
        size_t count;
        if (cell->runs[i].state != state)
            continue;
        if (experiment_store_curve(store, cell->runs[i].run, &points, &count, error))
            return -1;
        if (!seen && count) {
            seen = experiment_results_memory(results, count * sizeof *seen);
            if (!seen || make_room(curve, results, count)) {
                free(points);
                return error_no_memory(error);
            }
        }
        if (count)
            add_run(curve, points, count, of, seen);
        free(points);
    }
    finish(curve, seen);
    return 0;
}

int report_curve(struct report_curve *curve, struct experiment_results *results,
                 struct experiment_store *store, const struct summary_stream *stream,
                 const struct summary_cell *cell, struct error *error) {
    enum value_of of = !report_curve_of_skill(stream) ? OF_LOSS
                       : stream->likely               ? OF_SKILL_DIFFERENCE
                                                      : OF_SKILL;
    *curve = (struct report_curve){0};
    return add_runs(curve, results, store, cell,
                    cell->done ? EXPERIMENT_DONE : EXPERIMENT_NONFINITE, of, cell->run_count,
                    error);
}

int report_curve_baseline(struct report_curve *curve, struct experiment_results *results,
                          struct experiment_store *store, const struct summary *summary,
                          const struct summary_stream *stream, struct error *error) {
    *curve = (struct report_curve){0};
    for (size_t i = 0; i < summary->results->variant_count; i++)
        if (stream->cells[i].done && !isnan(stream->cells[i].baseline))
            return add_runs(curve, results, store, &stream->cells[i], EXPERIMENT_DONE, OF_BASELINE,
                            1, error);
    return 0;
}
