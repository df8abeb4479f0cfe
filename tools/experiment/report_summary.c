#include "report_summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/text.h"
#include "experiment_memory.h"

/* ---- Settings ---- */

const char *summary_setting(const struct experiment_variant *variant, const char *key) {
    for (size_t i = 0; i < variant->setting_count; i++)
        if (!strcmp(variant->settings[i].key, key))
            return variant->settings[i].value;
    return NULL;
}

/* Whether all variants have the same value there as the first one. */
static bool is_alike(const struct experiment_results *results, const char *key) {
    const char *first = summary_setting(&results->variants[0], key);
    for (size_t i = 1; i < results->variant_count; i++) {
        const char *value = summary_setting(&results->variants[i], key);
        if (!first != !value || (first && strcmp(first, value) != 0))
            return false;
    }
    return true;
}

static bool has_key(const struct summary *summary, const char *key) {
    for (size_t i = 0; i < summary->key_count; i++)
        if (!strcmp(summary->keys[i].key, key))
            return true;
    return false;
}

/* Finds keys in the order in which variants have them. */
static int find_keys(struct summary *summary, struct experiment_results *results) {
    size_t most = 0;
    for (size_t i = 0; i < results->variant_count; i++)
        most += results->variants[i].setting_count;
    summary->keys = memory_take(&results->memory, (most + 1) * sizeof *summary->keys);
    for (size_t i = 0; summary->keys && i < results->variant_count; i++)
        for (size_t k = 0; k < results->variants[i].setting_count; k++) {
            const struct experiment_setting *setting = &results->variants[i].settings[k];
            if (!has_key(summary, setting->key) && !is_alike(results, setting->key))
                summary->keys[summary->key_count++] = (struct summary_key){
                    setting->key, setting->brief ? setting->brief : setting->key};
        }
    return summary->keys ? 0 : -1;
}

/* The position of the setting in a name such as "rate 1e-4, norm layer"; NULL: not found. */
static const char *place_in_name(const struct experiment_variant *variant, const char *brief,
                                 const char *value) {
    for (const char *at = variant->name; value && *at && (at = strstr(at, brief)); at++) {
        const char *rest = at + strlen(brief);
        if (*rest == ' ' && !strncmp(rest + 1, value, strlen(value)))
            return at;
    }
    return NULL;
}

bool summary_named_by_settings(const struct summary *summary) {
    const struct experiment_results *results = summary->results;
    for (size_t i = 0; i < results->variant_count; i++)
        for (size_t k = 0; k < summary->key_count; k++) {
            const char *value = summary_setting(&results->variants[i], summary->keys[k].key);
            if (!place_in_name(&results->variants[i], summary->keys[k].brief, value))
                return false;
        }
    return summary->key_count > 0;
}

/* Settings are stored by key; names have them in the order of writing. */
static void order_keys(struct summary *summary) {
    const struct experiment_variant *first = &summary->results->variants[0];
    if (!summary_named_by_settings(summary))
        return;
    for (size_t i = 1; i < summary->key_count; i++)
        for (size_t k = i; k > 0; k--) {
            struct summary_key *before = &summary->keys[k - 1], *after = &summary->keys[k];
            if (place_in_name(first, before->brief, summary_setting(first, before->key)) <=
                place_in_name(first, after->brief, summary_setting(first, after->key)))
                break;
            struct summary_key kept = *before;
            *before = *after;
            *after = kept;
        }
}

/* ---- Runs ---- */

const char *summary_device(const struct experiment_results *results) {
    for (size_t i = 0; !results->device && i < results->run_count; i++)
        if (results->runs[i].device)
            return results->runs[i].device;
    return results->device;
}

static bool is_over(const struct experiment_run *run) {
    return run->state != EXPERIMENT_WAITING;
}

/* The run of that seed; NULL: none. */
static const struct experiment_run *run_of(const struct summary_cell *cell, int64_t seed) {
    for (size_t i = 0; i < cell->run_count; i++)
        if (cell->runs[i].seed == seed)
            return &cell->runs[i];
    return NULL;
}

/* The compared value of a run; NaN if it is not done. */
static double value_of(const struct experiment_run *run, size_t measure) {
    return run && run->state == EXPERIMENT_DONE ? experiment_figure(&run->figures, measure) : NAN;
}

/* Room for a number of each variant, or of each seed. */
struct numbers {
    double *measure, *mean, *skill, *crps, *baseline, *seconds;
    size_t room;
};

static int make_numbers(struct numbers *numbers, struct experiment_results *results) {
    double **arrays[] = {&numbers->measure, &numbers->mean,     &numbers->skill,
                         &numbers->crps,    &numbers->baseline, &numbers->seconds};
    numbers->room = results->variant_count + results->run_count + 1;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = memory_take(&results->memory, numbers->room * sizeof(double))))
            return -1;
    return 0;
}

static double seconds_of(const struct experiment_run *run) {
    double seconds = isnan(run->cpu_seconds) ? run->seconds : run->cpu_seconds;
    return is_over(run) && run->examples ? seconds / (double)run->examples : NAN;
}

/* Figures over seeds. */
static void fill_cell(struct summary_cell *cell, size_t measure, struct numbers *numbers) {
    size_t *const counts[] = {[EXPERIMENT_WAITING] = &cell->waiting,
                              [EXPERIMENT_DONE] = &cell->done,
                              [EXPERIMENT_NONFINITE] = &cell->nonfinite,
                              [EXPERIMENT_FAILED] = &cell->failed};
    for (size_t i = 0; i < cell->run_count; i++) {
        const struct experiment_run *run = &cell->runs[i];
        bool done = run->state == EXPERIMENT_DONE;
        ++*counts[run->state];
        numbers->measure[i] = value_of(run, measure);
        numbers->mean[i] = done ? run->figures.mean : NAN;
        numbers->skill[i] = done ? run->figures.skill : NAN;
        numbers->crps[i] = done ? run->figures.crps : NAN;
        numbers->baseline[i] = done ? run->figures.baseline : NAN;
        numbers->seconds[i] = seconds_of(run);
    }
    cell->measure = statistics_of(numbers->measure, cell->run_count);
    cell->mean = statistics_of(numbers->mean, cell->run_count);
    cell->skill = statistics_of(numbers->skill, cell->run_count);
    cell->crps = statistics_of(numbers->crps, cell->run_count);
    cell->baseline = statistics_of(numbers->baseline, cell->run_count).mean;
    cell->seconds = statistics_of(numbers->seconds, cell->run_count).mean;
}

/* The runs of a variant on a stream, which are contiguous. */
static void find_runs(struct summary_cell *cell, const struct experiment_results *results,
                      size_t variant, size_t stream) {
    for (size_t i = 0; i < results->run_count; i++)
        if (results->runs[i].variant == variant && results->runs[i].stream == stream) {
            cell->runs = cell->run_count ? cell->runs : &results->runs[i];
            cell->run_count++;
        }
}

/* ---- Variants ---- */

/* The ranks for one seed: false unless the runs of all variants have ended. */
static bool rank_seed(const struct summary *summary, const struct summary_stream *stream,
                      int64_t seed, struct numbers *numbers) {
    size_t count = summary->results->variant_count;
    for (size_t i = 0; i < count; i++) {
        const struct experiment_run *run = run_of(&stream->cells[i], seed);
        if (!run || !is_over(run))
            return false;
        numbers->measure[i] = value_of(run, stream->measure);
    }
    statistics_ranks(numbers->measure, count, experiment_measures[stream->measure].larger_better,
                     numbers->mean);
    return true;
}

/* Whether runs are done, but none of them has the measure. */
static bool lacks_measure(const struct summary_stream *stream, size_t count) {
    size_t done = 0, known = 0;
    for (size_t i = 0; i < count; i++) {
        done += stream->cells[i].done;
        known += stream->cells[i].measure.count;
    }
    return done && !known;
}

/* Adds the ranks of all seeds to `ranks`; returns the number of seeds with ranks. */
static size_t rank_stream(const struct summary *summary, struct summary_stream *stream,
                          struct numbers *numbers) {
    size_t seeds = 0, count = summary->results->variant_count;
    const struct summary_cell *first = &stream->cells[0];
    for (size_t i = 0; i < count; i++)
        stream->cells[i].rank = 0;
    for (size_t s = 0; s < first->run_count && !lacks_measure(stream, count); s++) {
        if (!rank_seed(summary, stream, first->runs[s].seed, numbers))
            continue;
        seeds++;
        for (size_t i = 0; i < count; i++) {
            stream->cells[i].rank += numbers->mean[i];
            summary->ranks[i] += numbers->mean[i];
        }
    }
    for (size_t i = 0; i < count; i++)
        stream->cells[i].rank = seeds ? stream->cells[i].rank / (double)seeds : NAN;
    return seeds;
}

/* A variant against another one, seed by seed. */
static struct statistics_test test_pair(const struct summary_stream *stream, size_t one,
                                        size_t other, double *differences) {
    const struct summary_cell *cell = &stream->cells[one];
    for (size_t s = 0; s < cell->run_count; s++)
        differences[s] =
            value_of(&cell->runs[s], stream->measure) -
            value_of(run_of(&stream->cells[other], cell->runs[s].seed), stream->measure);
    return statistics_paired(differences, cell->run_count);
}

/* Each variant against variant 0. */
static void test_stream(const struct summary *summary, struct summary_stream *stream,
                        struct numbers *numbers) {
    size_t count = summary->results->variant_count;
    for (size_t i = 0; i < count; i++) {
        struct summary_cell *cell = &stream->cells[i];
        cell->test = test_pair(stream, i, 0, numbers->measure);
        numbers->mean[i] = i ? cell->test.p : NAN;
    }
    statistics_holm(numbers->mean, count);
    for (size_t i = 0; i < count; i++)
        stream->cells[i].holm = numbers->mean[i];
}

/* The variant with the best mean among those without lost runs; `count`: none. */
static size_t find_leader(const struct summary_stream *stream, size_t count) {
    double sign = experiment_measures[stream->measure].larger_better ? 1 : -1;
    size_t leader = count;
    for (size_t i = 0; i < count; i++) {
        const struct summary_cell *cell = &stream->cells[i];
        bool whole = cell->done && !cell->nonfinite && !cell->failed;
        if (whole && isfinite(cell->measure.mean) &&
            (leader == count ||
             sign * cell->measure.mean > sign * stream->cells[leader].measure.mean))
            leader = i;
    }
    return leader;
}

static const char *find_verdict(const struct summary_stream *stream, size_t count) {
    if (stream->seeds < 2)
        return "one seed: cannot test differences between variants";
    for (size_t i = 1; i < count; i++)
        if (stream->cells[i].holm < STATISTICS_LIKELY)
            return "no variant differs from all others";
    return "no variant differs from the first";
}

/* The leader is the best if it differs from each other variant that has a finished run. */
static void find_best(const struct summary *summary, struct summary_stream *stream,
                      struct numbers *numbers) {
    size_t count = summary->results->variant_count, others = 0, apart = 0;
    size_t leader = find_leader(stream, count);
    if (leader == count)
        return;
    for (size_t i = 0; i < count; i++)
        numbers->mean[i] = i == leader ? NAN : test_pair(stream, i, leader, numbers->measure).p;
    statistics_holm(numbers->mean, count);
    for (size_t i = 0; i < count; i++) {
        others += i != leader && stream->cells[i].done;
        apart += numbers->mean[i] < STATISTICS_LIKELY;
    }
    stream->cells[leader].best = others && apart == others;
    if (others && apart < others)
        stream->verdict = find_verdict(stream, count);
}

/* ---- Streams ---- */

/* The default measure. */
static size_t usual_measure(const struct experiment_results *results, size_t stream) {
    for (size_t i = 0; i < results->run_count; i++)
        if (results->runs[i].stream == stream && is_over(&results->runs[i]) &&
            !isnan(results->runs[i].figures.skill))
            return experiment_measure_named("skill");
    return experiment_measure_named("mean");
}

/* Whether skill is baseline - mean rather than 1 - mean / baseline, from the stored values. */
static bool is_difference(const struct summary_stream *stream, size_t count) {
    double ratio = 0, difference = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < stream->cells[i].run_count; s++) {
            const struct experiment_figures *f = &stream->cells[i].runs[s].figures;
            if (!isfinite(f->skill) || !isfinite(f->mean) || !isfinite(f->baseline))
                continue;
            ratio += fabs(f->skill - (1 - f->mean / f->baseline));
            difference += fabs(f->skill - (f->baseline - f->mean));
        }
    return difference < ratio;
}

/* The baseline of all variants, if it is the same: it depends only on the data. */
static double common_baseline(const struct summary_stream *stream, size_t count) {
    double baseline = NAN;
    for (size_t i = 0; i < count; i++) {
        if (isnan(stream->cells[i].baseline))
            continue;
        if (!isnan(baseline) && baseline != stream->cells[i].baseline)
            return NAN;
        baseline = stream->cells[i].baseline;
    }
    return baseline;
}

static int fill_stream(struct summary *summary, struct experiment_results *results,
                       struct summary_stream *stream, size_t measure, struct numbers *numbers) {
    size_t count = results->variant_count, number = stream->stream->stream;
    stream->measure = measure < EXPERIMENT_FIGURES ? measure : usual_measure(results, number);
    stream->cells = memory_take(&results->memory, (count + 1) * sizeof *stream->cells);
    if (!stream->cells)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct summary_cell *cell = &stream->cells[i];
        find_runs(cell, results, results->variants[i].variant, number);
        fill_cell(cell, stream->measure, numbers);
        size_t over = cell->run_count - cell->waiting;
        stream->seeds = over > stream->seeds ? over : stream->seeds;
        stream->nonfinite += cell->nonfinite;
        stream->failed += cell->failed;
        summary->over += over;
    }
    summary->nonfinite += stream->nonfinite;
    summary->failed += stream->failed;
    stream->likely = is_difference(stream, count);
    stream->baseline = common_baseline(stream, count);
    return 0;
}

/* The requested measure; EXPERIMENT_FIGURES: the default. */
static int find_measure(const struct experiment_results *results, const char *name, size_t *measure,
                        struct error *error) {
    if (!name)
        name = results->measure;
    *measure = name ? experiment_measure_named(name) : EXPERIMENT_FIGURES;
    if (name && *measure == EXPERIMENT_FIGURES)
        return error_set(error, EX_USAGE, "unknown measure \"%s\"", name);
    return 0;
}

static bool has_figure(const struct experiment_results *results, size_t figure) {
    for (size_t i = 0; i < results->run_count; i++)
        if (!isnan(value_of(&results->runs[i], figure)))
            return true;
    return false;
}

/* No stream has the requested measure: lists those available. */
static int refuse(const struct experiment_results *results, const char *measure,
                  struct error *error) {
    char names[ERROR_TEXT_SIZE / 2] = "";
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        if (has_figure(results, n))
            text_append(names, sizeof names, "%s%s", *names ? ", " : "",
                        experiment_measures[n].name);
    return error_set(error, EX_DATAERR, "no run has measure %s; expected %s", measure,
                     *names ? names : "none");
}

int summary_make(struct summary *summary, struct experiment_results *results, const char *measure,
                 struct error *error) {
    struct numbers numbers;
    size_t chosen, ranked = 0, lacking = 0, variants = results->variant_count;
    *summary = (struct summary){.results = results};
    if (find_measure(results, measure, &chosen, error))
        return -1;
    summary->streams =
        memory_take(&results->memory, (results->stream_count + 1) * sizeof *summary->streams);
    summary->ranks = memory_take(&results->memory, (variants + 1) * sizeof(double));
    if (!summary->streams || !summary->ranks || make_numbers(&numbers, results) ||
        (variants && find_keys(summary, results)))
        return error_no_memory(error);
    if (variants)
        order_keys(summary);
    for (size_t i = 0; i < results->stream_count; i++) {
        struct summary_stream *stream = &summary->streams[i];
        stream->stream = &results->streams[i];
        if (fill_stream(summary, results, stream, chosen, &numbers))
            return error_no_memory(error);
        if (!variants)
            continue;
        lacking += lacks_measure(stream, variants);
        ranked += rank_stream(summary, stream, &numbers);
        test_stream(summary, stream, &numbers);
        find_best(summary, stream, &numbers);
    }
    if (measure && lacking && !has_figure(results, chosen)) /* avoid an empty table */
        return refuse(results, measure, error);
    for (size_t i = 0; i < variants; i++)
        summary->ranks[i] = ranked ? summary->ranks[i] / (double)ranked : NAN;
    return 0;
}
