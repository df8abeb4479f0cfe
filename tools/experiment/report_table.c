#include "report_table.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sysexits.h>

#include "common/format.h"
#include "common/grid.h"
#include "common/json_text.h"
#include "common/text.h"
#include "experiment_memory.h"

#define VERY_LIKELY 0.01
#define P_LEAST 0.001
#define SHARES_MOST 10

enum { MARGIN = 2, SETTINGS_MOST = 4, SETTINGS_WIDTH = 36, SEEDS_NAMED = 5 };
/* Priorities of columns: which are dropped first if not all fit. */
enum { ALWAYS = 0, LAST = 1, LATE = 2, EARLY = 3, FIRST = 4 };

static const double MICRO = 1e6;

/* The mark after a difference with that adjusted p: "**" below 0.01, "*" below 0.05. */
static const char *report_mark(double p) {
    return isnan(p) || p >= STATISTICS_LIKELY ? "" : p >= VERY_LIKELY ? "*" : "**";
}

/* ---- One number ---- */

/* Shares such as skill and accuracy are about 1: four decimals are enough. */
static void put(char *text, size_t measure, double value) {
    char number[FORMAT_SIZE];
    if (experiment_measures[measure].larger_better && fabs(value) < SHARES_MOST)
        snprintf(text, GRID_TEXT_SIZE, "%.4f", value);
    else
        snprintf(text, GRID_TEXT_SIZE, "%s", format_number(number, value));
}

static void put_signed(char *text, size_t measure, double value) {
    put(text, measure, value);
    if (value >= 0) {
        memmove(text + 1, text, strlen(text) + 1);
        *text = '+';
    }
}

static void put_p(char *text, double p) {
    if (isnan(p))
        snprintf(text, GRID_TEXT_SIZE, "-");
    else
        snprintf(text, GRID_TEXT_SIZE, p < P_LEAST ? "<%.3f %s" : "%.3f %s",
                 p < P_LEAST ? P_LEAST : p, report_mark(p));
    for (size_t end = strlen(text); end && text[end - 1] == ' ';)
        text[--end] = '\0';
}

/* ---- A stream ---- */

struct places {
    size_t measure, deviation, other, rank, difference, p, time, runs;
};

/* The columns of a stream's figures; of the mark of the best variant, and of the names of
   variants, or their settings instead. */
enum { FIGURE_COLUMNS = sizeof(struct places) / sizeof(size_t), NAME_COLUMN = 1 };

/* Whether settings have their own columns, instead of names. */
static bool has_columns(const struct summary *s) {
    int width = 0;
    if (s->key_count > SETTINGS_MOST || !summary_named_by_settings(s))
        return false;
    for (size_t k = 0; k < s->key_count; k++) {
        int widest = grid_length(s->keys[k].brief);
        for (size_t i = 0; i < s->results->variant_count; i++) {
            int length = grid_length(summary_setting(&s->results->variants[i], s->keys[k].key));
            widest = length > widest ? length : widest;
        }
        width += widest + MARGIN;
    }
    return width <= SETTINGS_WIDTH;
}

/* The second measure of the table. */
static size_t other_measure(const struct summary_stream *stream) {
    size_t mean = experiment_measure_named("mean");
    return stream->measure == mean ? experiment_measure_named("skill") : mean;
}

static bool has_skill(const struct summary *s, const struct summary_stream *stream) {
    for (size_t i = 0; i < s->results->variant_count; i++)
        if (stream->cells[i].skill.count)
            return true;
    return false;
}

static bool is_uneven(const struct summary *s, const struct summary_stream *stream) {
    for (size_t i = 0; i < s->results->variant_count; i++)
        if (stream->cells[i].done != stream->cells[i].run_count)
            return true;
    return false;
}

static void put_names(struct grid *grid, const struct summary *s, bool columns) {
    const struct experiment_results *results = s->results;
    if (!columns) {
        size_t place = grid_add(grid, "variant", true, ALWAYS);
        grid->columns[place].shrink = true;
        for (size_t i = 0; i < results->variant_count; i++)
            text_copy(grid_text(grid, i, place), GRID_TEXT_SIZE, results->variants[i].name);
    }
    for (size_t k = 0; columns && k < s->key_count; k++) {
        size_t place = grid_add(grid, s->keys[k].brief, true, ALWAYS);
        for (size_t i = 0; i < results->variant_count; i++)
            text_copy(grid_text(grid, i, place), GRID_TEXT_SIZE,
                      summary_setting(&results->variants[i], s->keys[k].key));
    }
}

/* Leaves out columns that are empty for this stream. */
static void add_columns(struct grid *grid, const struct summary *s,
                        const struct summary_stream *stream, struct places *at) {
    bool several = s->results->variant_count > 1, skill = has_skill(s, stream);
    size_t other = other_measure(stream), none = SIZE_MAX;
    *at = (struct places){.deviation = none,
                          .other = none,
                          .rank = none,
                          .difference = none,
                          .p = none,
                          .time = none,
                          .runs = none};
    at->measure = grid_add(grid, experiment_measures[stream->measure].title, false, ALWAYS);
    if (stream->seeds > 1)
        at->deviation = grid_add(grid, "dev", false, LAST);
    if (skill || other == experiment_measure_named("mean"))
        at->other = grid_add(grid, experiment_measures[other].title, false, FIRST);
    if (several) {
        at->rank = grid_add(grid, "rank", false, LATE);
        at->difference = grid_add(grid, "to 1st", false, LAST);
        if (stream->seeds > 1)
            at->p = grid_add(grid, "p", true, LAST);
    }
    if (is_uneven(s, stream))
        at->runs = grid_add(grid, "runs", false, ALWAYS);
    if (!s->results->live)
        at->time = grid_add(grid, "us/ex", false, EARLY);
}

static void put_cell(struct grid *grid, const struct summary_stream *stream, size_t row,
                     const struct places *at) {
    const struct summary_cell *cell = &stream->cells[row];
    size_t none = SIZE_MAX, measure = stream->measure, other = other_measure(stream);
    char number[FORMAT_SIZE];
    put(grid_text(grid, row, at->measure), measure, cell->measure.mean);
    if (!cell->done && cell->nonfinite)
        snprintf(grid_text(grid, row, at->measure), GRID_TEXT_SIZE, "nonfinite");
    if (at->deviation != none)
        put(grid_text(grid, row, at->deviation), measure, cell->measure.deviation);
    if (at->other != none)
        put(grid_text(grid, row, at->other), other,
            other == experiment_measure_named("mean") ? cell->mean.mean : cell->skill.mean);
    if (at->rank != none)
        snprintf(grid_text(grid, row, at->rank), GRID_TEXT_SIZE, isnan(cell->rank) ? "-" : "%.1f",
                 cell->rank);
    if (at->difference != none && row)
        put_signed(grid_text(grid, row, at->difference), measure, cell->test.mean);
    if (at->p != none && row)
        put_p(grid_text(grid, row, at->p), cell->holm);
    if (at->runs != none)
        snprintf(grid_text(grid, row, at->runs), GRID_TEXT_SIZE, "%zu/%zu", cell->done,
                 cell->run_count);
    if (at->time != none)
        snprintf(grid_text(grid, row, at->time), GRID_TEXT_SIZE, "%s",
                 isnan(cell->seconds) ? "-" : format_rate(number, MICRO * cell->seconds));
}

static void print_heading(const struct summary *s, const struct summary_stream *stream, FILE *to) {
    char count[FORMAT_SIZE], number[FORMAT_SIZE], name[GRID_TEXT_SIZE];
    fprintf(to, "\n%s: %s over %s examples, %zu seed%s",
            text_copy(name, sizeof name, stream->stream->name),
            experiment_measures[stream->measure].title,
            format_grouped(count, (double)stream->stream->examples), stream->seeds,
            text_s(stream->seeds));
    if (!isnan(stream->baseline))
        fprintf(to, "; loss of the baseline %s", format_number(number, stream->baseline));
    fputs(s->results->variant_count ? "\n" : "; no variants\n", to);
}

/* Lists failed and nonfinite runs, with their seeds. */
static void print_losses(const struct summary *s, const struct summary_stream *stream, FILE *to) {
    for (size_t i = 0; i < s->results->variant_count; i++) {
        const struct summary_cell *cell = &stream->cells[i];
        char name[GRID_TEXT_SIZE], error[GRID_TEXT_SIZE] = "";
        size_t bad = cell->nonfinite + cell->failed, named = 0;
        if (!bad)
            continue;
        text_copy(name, sizeof name, s->results->variants[i].name);
        fprintf(to, "%*s%s: %zu of %zu runs %s, seed%s", MARGIN, "", name, bad, cell->run_count,
                !cell->failed      ? "became nonfinite"
                : !cell->nonfinite ? "failed"
                                   : "failed or became nonfinite",
                text_s(bad));
        for (size_t r = 0; r < cell->run_count; r++) {
            const struct experiment_run *run = &cell->runs[r];
            if (run->state != EXPERIMENT_NONFINITE && run->state != EXPERIMENT_FAILED)
                continue;
            if (named++ < SEEDS_NAMED)
                fprintf(to, "%s %lld", named > 1 ? "," : "", (long long)run->seed);
            if (run->error && !*error)
                text_copy(error, sizeof error, run->error);
        }
        fprintf(to, "%s%s%s\n", named > SEEDS_NAMED ? ", ..." : "", *error ? ": " : "", error);
    }
}

static int print_stream(const struct summary *s, const struct summary_stream *stream, FILE *to,
                        int width) {
    struct grid grid;
    struct places at;
    if (grid_open(&grid, s->results->variant_count, NAME_COLUMN + s->key_count + FIGURE_COLUMNS,
                  "-"))
        return -1;
    put_names(&grid, s, has_columns(s));
    add_columns(&grid, s, stream, &at);
    for (size_t i = 0; i < s->results->variant_count; i++) {
        snprintf(grid_text(&grid, i, 0), GRID_TEXT_SIZE, stream->cells[i].best ? ">" : "");
        put_cell(&grid, stream, i, &at);
    }
    print_heading(s, stream, to);
    grid_print(&grid, to, 0, width);
    if (stream->verdict)
        fprintf(to, "%*s%s\n", MARGIN, "", stream->verdict);
    print_losses(s, stream, to);
    grid_close(&grid);
    return 0;
}

/* ---- All streams ---- */

enum { ALL_COLUMN = 1 };

static int print_ranks(const struct summary *s, FILE *to, int width) {
    struct grid grid;
    if (s->results->stream_count < 2 || s->results->variant_count < 2)
        return 0;
    if (grid_open(&grid, s->results->variant_count,
                  NAME_COLUMN + s->key_count + ALL_COLUMN + s->results->stream_count, "-"))
        return -1;
    put_names(&grid, s, has_columns(s));
    size_t all = grid_add(&grid, "all", false, ALWAYS);
    for (size_t i = 0; i < s->results->variant_count; i++)
        snprintf(grid_text(&grid, i, all), GRID_TEXT_SIZE, isnan(s->ranks[i]) ? "-" : "%.2f",
                 s->ranks[i]);
    for (size_t k = 0; k < s->results->stream_count; k++) {
        size_t place = grid_add(&grid, s->streams[k].stream->name, false, (int)k + 1);
        for (size_t i = 0; i < s->results->variant_count; i++)
            snprintf(grid_text(&grid, i, place), GRID_TEXT_SIZE,
                     isnan(s->streams[k].cells[i].rank) ? "-" : "%.1f",
                     s->streams[k].cells[i].rank);
    }
    fputs("\nAll streams: mean rank\n", to);
    grid_print(&grid, to, 0, width);
    grid_close(&grid);
    return 0;
}

static const char LIVE_MEANING[] =
    "A variant's row is its network alone; all together: the mixture of all networks\n"
    "and experts. Without --live each variant is mixed with the experts, so do not\n"
    "compare the two tables\n";

/* Explains the columns that the table has. */
static void print_meaning(const struct summary *s, FILE *to) {
    size_t seeds = 0;
    bool ratio = false, difference = false;
    for (size_t k = 0; k < s->results->stream_count; k++) {
        seeds = s->streams[k].seeds > seeds ? s->streams[k].seeds : seeds;
        if (has_skill(s, &s->streams[k]))
            *(s->streams[k].likely ? &difference : &ratio) = true;
    }
    fputs("\n", to);
    if (s->results->variant_count > 1)
        fputs(">: best, if it differs from all others. rank: mean place, 1 is the best\n"
              "to 1st: difference to the first variant\n",
              to);
    if (s->results->variant_count > 1 && seeds > 1)
        fputs("p: t-test of this difference, paired by seed, adjusted (Holm);\n"
              "* below 0.05, ** below 0.01\n",
              to);
    if (ratio && difference)
        fputs("skill: 1 - loss / baseline; for logarithmic losses baseline - loss\n", to);
    else if (ratio || difference)
        fprintf(to, "skill: %s. ", ratio ? "1 - loss / baseline" : "baseline - loss");
    if (seeds > 1)
        fputs("dev: over seeds. ", to);
    fputs(s->results->live ? LIVE_MEANING : "us/ex: processor time per example\n", to);
}

int report_table(const struct summary *s, FILE *to, int width) {
    const struct experiment_results *results = s->results;
    char name[GRID_TEXT_SIZE];
    size_t variants = results->variant_count - results->live;
    fprintf(to, "%s: %zu variant%s, %zu stream%s, ",
            text_copy(name, sizeof name, results->name ? results->name : "?"), variants,
            text_s(variants), results->stream_count, text_s(results->stream_count));
    if (results->live)
        fputs("live", to);
    else
        fprintf(to, "%zu of %zu runs finished", s->over, results->run_count);
    if (s->nonfinite)
        fprintf(to, ", %zu nonfinite", s->nonfinite);
    if (s->failed)
        fprintf(to, ", %zu failed", s->failed);
    fputc('\n', to);
    for (size_t k = 0; k < results->stream_count; k++)
        if (print_stream(s, &s->streams[k], to, width))
            return -1;
    if (print_ranks(s, to, width))
        return -1;
    print_meaning(s, to);
    return 0;
}

/* ---- Matching with earlier results ---- */

static bool same_text(const char *a, const char *b) {
    return a && b && !strcmp(a, b);
}

static const struct experiment_stream *same_data(const struct experiment_results *results,
                                                 const struct experiment_stream *stream) {
    for (size_t i = 0; i < results->stream_count; i++)
        if (same_text(results->streams[i].digest, stream->digest))
            return &results->streams[i];
    return NULL;
}

static bool same_settings(const struct experiment_variant *a, const struct experiment_variant *b) {
    if (a->setting_count != b->setting_count)
        return false;
    for (size_t i = 0; i < a->setting_count; i++)
        if (!same_text(a->settings[i].value, summary_setting(b, a->settings[i].key)))
            return false;
    return true;
}

/* The same variant in `results`: by settings, or else by name. A variant without settings is
   found by its name, or if it is the only one. */
static const struct experiment_variant *same_variant(const struct experiment_results *results,
                                                     const struct experiment_variant *variant) {
    const struct experiment_variant *found = NULL;
    for (size_t i = 0; i < results->variant_count; i++) {
        const struct experiment_variant *other = &results->variants[i];
        if (same_settings(variant, other) && (!found || same_text(other->name, variant->name)))
            found = other;
    }
    for (size_t i = 0; !found && i < results->variant_count; i++)
        if (same_text(results->variants[i].name, variant->name))
            found = &results->variants[i];
    return found;
}

/* ---- Comparing ---- */

/* Seed by seed; `numbers` has room for all runs, three times. */
static void compare(struct against *a, struct against_cell *cell, const struct summary_cell *runs,
                    const struct experiment_variant *variant,
                    const struct experiment_stream *stream, size_t measure, double *numbers) {
    double *here = numbers, *there = here + runs->run_count, *apart = there + runs->run_count;
    for (size_t i = 0; i < runs->run_count; i++) {
        const struct experiment_run *run = &runs->runs[i];
        const struct experiment_run *other =
            experiment_run_of(a->there, variant->variant, stream->stream, run->seed);
        bool both = other && run->state == EXPERIMENT_DONE && other->state == EXPERIMENT_DONE;
        here[i] = both ? experiment_figure(&run->figures, measure) : NAN;
        there[i] = both ? experiment_figure(&other->figures, measure) : NAN;
        apart[i] = here[i] - there[i];
        if (other && run->losses_digest && other->losses_digest) {
            cell->runs++;
            cell->equal += same_text(run->losses_digest, other->losses_digest);
        }
    }
    cell->here = statistics_of(here, runs->run_count).mean;
    cell->there = statistics_of(there, runs->run_count).mean;
    cell->test = statistics_paired(apart, runs->run_count);
    a->runs += cell->runs;
    a->equal += cell->equal;
}

static struct against_cell *add(struct against *a, const struct experiment_variant *variant,
                                const struct experiment_stream *stream) {
    struct against_cell *cell = &a->cells[a->count++];
    *cell = (struct against_cell){.variant = variant,
                                  .stream = stream,
                                  .here = NAN,
                                  .there = NAN,
                                  .holm = NAN,
                                  .test = {.mean = NAN, .p = NAN}};
    return cell;
}

/* Whether no variant here matches a variant there; `same` (variants here,) are the matches of
   those here. */
static bool is_gone(const struct against *a, const struct experiment_variant *const *same,
                    const struct experiment_variant *variant) {
    for (size_t i = 0; i < a->here->variant_count; i++)
        if (same[i] == variant)
            return false;
    return true;
}

static void compare_stream(struct against *a, const struct summary_stream *stream,
                           const struct experiment_stream *other,
                           const struct experiment_variant *const *same, double *numbers) {
    size_t first = a->count;
    for (size_t i = 0; i < a->here->variant_count; i++) {
        const struct experiment_variant *variant = &a->here->variants[i];
        struct against_cell *cell = add(a, variant, stream->stream);
        cell->where = same[i] ? AGAINST_BOTH : AGAINST_NEW;
        cell->same_settings = same[i] && same_settings(variant, same[i]);
        if (same[i])
            compare(a, cell, &stream->cells[i], same[i], other, stream->measure, numbers);
    }
    for (size_t i = 0; i < a->there->variant_count; i++)
        if (is_gone(a, same, &a->there->variants[i]))
            add(a, &a->there->variants[i], stream->stream)->where = AGAINST_GONE;
    for (size_t i = first; i < a->count; i++)
        numbers[i - first] = a->cells[i].test.p;
    statistics_holm(numbers, a->count - first);
    for (size_t i = first; i < a->count; i++)
        a->cells[i].holm = numbers[i - first];
}

/* No stream matches: reports the difference. */
static int refuse(const struct against *a, struct error *error) {
    const char *none = "none";
    for (size_t k = 0; k < a->here->stream_count; k++)
        for (size_t i = 0; i < a->there->stream_count; i++) {
            const struct experiment_stream *x = &a->here->streams[k], *y = &a->there->streams[i];
            if (same_text(x->name, y->name))
                return error_set(error, EX_DATAERR,
                                 "cannot compare with %s: stream %s has digest %s there, %s here",
                                 a->path, x->name, y->digest ? y->digest : none,
                                 x->digest ? x->digest : none);
        }
    return error_set(error, EX_DATAERR, "cannot compare with %s: no stream has the data of %s",
                     a->path, a->here->stream_count ? a->here->streams[0].name : none);
}

int against_make(struct against *a, const struct summary *summary, struct experiment_results *here,
                 const struct experiment_results *there, const char *path, struct error *error) {
    enum { SIDES = 3 };
    size_t cells = here->stream_count * (here->variant_count + there->variant_count);
    size_t room = SIDES * here->run_count + here->variant_count + there->variant_count;
    bool any = false;
    *a = (struct against){.path = path, .here = here, .there = there};
    a->cells = memory_take(&here->memory, (cells + 1) * sizeof *a->cells);
    double *numbers = memory_take(&here->memory, (room + 1) * sizeof *numbers);
    const struct experiment_variant **same =
        memory_take(&here->memory, (here->variant_count + 1) * sizeof *same);
    if (!a->cells || !numbers || !same)
        return error_no_memory(error);
    for (size_t i = 0; i < here->variant_count; i++)
        same[i] = same_variant(there, &here->variants[i]);
    for (size_t k = 0; k < here->stream_count; k++) {
        const struct experiment_stream *other = same_data(there, &here->streams[k]);
        any |= other != NULL;
        if (other)
            compare_stream(a, &summary->streams[k], other, same, numbers);
    }
    return any ? 0 : refuse(a, error);
}

/* ---- Printing ---- */

/* "NAME: HERE here, THERE there" if they differ. */
static void print_change(FILE *to, const char *name, const char *here, const char *there) {
    char x[GRID_TEXT_SIZE], y[GRID_TEXT_SIZE];
    if (!same_text(here, there) && (here || there))
        fprintf(to, "%s: %s here, %s there\n", name, here ? text_copy(x, sizeof x, here) : "none",
                there ? text_copy(y, sizeof y, there) : "none");
}

static void print_streams(const struct against *a, FILE *to) {
    char name[GRID_TEXT_SIZE];
    for (size_t k = 0; k < a->here->stream_count; k++)
        if (!same_data(a->there, &a->here->streams[k]))
            fprintf(to, "stream %s: not compared, its data is missing there\n",
                    text_copy(name, sizeof name, a->here->streams[k].name));
    for (size_t k = 0; k < a->there->stream_count; k++)
        if (!same_data(a->here, &a->there->streams[k]))
            fprintf(to, "stream %s: only there\n",
                    text_copy(name, sizeof name, a->there->streams[k].name));
}

static void put_change(char *text, double value, bool sign) {
    char number[FORMAT_SIZE];
    snprintf(text, GRID_TEXT_SIZE, "%s%s", sign && value >= 0 ? "+" : "",
             format_number(number, value));
}

static void put_note(char *text, const struct against_cell *cell) {
    if (cell->where != AGAINST_BOTH)
        snprintf(text, GRID_TEXT_SIZE, cell->where == AGAINST_NEW ? "new" : "gone");
    else if (!cell->same_settings)
        snprintf(text, GRID_TEXT_SIZE, "other settings");
    else if (!cell->runs)
        snprintf(text, GRID_TEXT_SIZE, "no common run");
}

static int print_compared(const struct against *a, const struct summary_stream *stream,
                          size_t first, size_t count, FILE *to, int width) {
    struct grid grid;
    char name[GRID_TEXT_SIZE];
    enum { NAME, HERE, THERE, APART, P, BITS, NOTE };
    if (grid_open(&grid, count, 0, "-variant\there\tthere\tchange\t-p\tbits\t-"))
        return -1;
    grid.columns[NAME].shrink = true;
    for (size_t i = 0; i < count; i++) {
        const struct against_cell *cell = &a->cells[first + i];
        text_copy(grid_text(&grid, i, NAME), GRID_TEXT_SIZE, cell->variant->name);
        put_note(grid_text(&grid, i, NOTE), cell);
        if (cell->where != AGAINST_BOTH || !cell->runs)
            continue;
        put_change(grid_text(&grid, i, HERE), cell->here, false);
        put_change(grid_text(&grid, i, THERE), cell->there, false);
        put_change(grid_text(&grid, i, APART), cell->test.mean, true);
        if (isnan(cell->holm))
            snprintf(grid_text(&grid, i, P), GRID_TEXT_SIZE, "-");
        else
            snprintf(grid_text(&grid, i, P), GRID_TEXT_SIZE, "%.3f%s%s", cell->holm,
                     *report_mark(cell->holm) ? " " : "", report_mark(cell->holm));
        snprintf(grid_text(&grid, i, BITS), GRID_TEXT_SIZE, "%zu/%zu", cell->equal, cell->runs);
    }
    fprintf(to, "\n%s: %s\n", text_copy(name, sizeof name, stream->stream->name),
            experiment_measures[stream->measure].title);
    grid_print(&grid, to, 2, width);
    grid_close(&grid);
    return 0;
}

int against_print(const struct against *a, const struct summary *summary, FILE *to, int width) {
    char path[GRID_TEXT_SIZE];
    fprintf(to, "\nAgainst %s:\n", text_copy(path, sizeof path, a->path));
    print_change(to, "version", a->here->version, a->there->version);
    print_change(to, "device", summary_device(a->here), summary_device(a->there));
    print_change(to, "instruction set", a->here->isa, a->there->isa);
    print_streams(a, to);
    for (size_t k = 0, next = 0; k < a->here->stream_count; k++) {
        size_t first = next;
        while (next < a->count && a->cells[next].stream == &a->here->streams[k])
            next++;
        if (next > first && print_compared(a, &summary->streams[k], first, next - first, to, width))
            return -1;
    }
    fputs("\nchange: here - there on the same seeds; p: paired t-test of it, Holm-adjusted;\n"
          "bits: runs with the same losses, bit for bit\n",
          to);
    if (a->runs && a->equal == a->runs)
        fprintf(to, "All bits are equal: the losses of %zu run%s.\n", a->runs, text_s(a->runs));
    else if (a->runs)
        fprintf(to, "%zu of %zu runs differ.\n", a->runs - a->equal, a->runs);
    return 0;
}

/* ---- The comparison as JSON ---- */

static json_t *text_or_null(const char *text) {
    return text ? json_of_text(text, strlen(text)) : json_null();
}

json_t *against_json(const struct against *a) {
    static const char *const where[] = {"both", "new", "gone"};
    json_t *cells = json_array();
    for (size_t i = 0; i < a->count; i++) {
        const struct against_cell *cell = &a->cells[i];
        json_array_append_new(
            cells, json_pack("{so so ss sb so so so so so sI sI}", "stream",
                             text_or_null(cell->stream->name), "variant",
                             text_or_null(cell->variant->name), "where", where[cell->where],
                             "same_settings", cell->same_settings, "here",
                             json_of_number(cell->here), "there", json_of_number(cell->there),
                             "change", json_of_number(cell->test.mean), "p",
                             json_of_number(cell->test.p), "p_holm", json_of_number(cell->holm),
                             "runs", (json_int_t)cell->runs, "equal", (json_int_t)cell->equal));
    }
    return json_pack("{so so so so so sI sI so}", "path", text_or_null(a->path), "version",
                     text_or_null(a->here->version), "version_there",
                     text_or_null(a->there->version), "device",
                     text_or_null(summary_device(a->here)), "device_there",
                     text_or_null(summary_device(a->there)), "runs", (json_int_t)a->runs, "equal",
                     (json_int_t)a->equal, "variants", cells);
}

/* ---- The summary as JSON ---- */

static json_t *count_of(size_t count) {
    return json_integer((json_int_t)count);
}

static json_t *json_of_sample(const struct statistics_sample *sample) {
    return json_pack("{so so so so so}", "count", count_of(sample->count), "mean",
                     json_of_number(sample->mean), "deviation", json_of_number(sample->deviation),
                     "minimum", json_of_number(sample->least), "maximum",
                     json_of_number(sample->greatest));
}

static json_t *json_of_settings(const struct experiment_variant *variant) {
    json_t *settings = json_object();
    for (size_t k = 0; k < variant->setting_count; k++)
        json_object_set_new(settings, variant->settings[k].key,
                            text_or_null(variant->settings[k].value));
    return settings;
}

static json_t *json_of_cell(const struct experiment_variant *variant,
                            const struct summary_cell *cell, bool first) {
    json_t *seeds = json_array(), *values = json_object();
    for (size_t i = 0; i < cell->run_count; i++)
        json_array_append_new(seeds, json_integer(cell->runs[i].seed));
    json_object_set_new(values, "variant", text_or_null(variant->name));
    json_object_set_new(values, "settings", json_of_settings(variant));
    json_object_set_new(values, "seeds", seeds);
    json_object_set_new(values, "done", count_of(cell->done));
    json_object_set_new(values, "nonfinite", count_of(cell->nonfinite));
    json_object_set_new(values, "failed", count_of(cell->failed));
    json_object_set_new(values, "waiting", count_of(cell->waiting));
    json_object_set_new(values, "measure", json_of_sample(&cell->measure));
    json_object_set_new(values, "loss", json_of_sample(&cell->mean));
    json_object_set_new(values, "skill", json_of_sample(&cell->skill));
    json_object_set_new(values, "crps", json_of_sample(&cell->crps));
    json_object_set_new(values, "baseline", json_of_number(cell->baseline));
    json_object_set_new(values, "rank", json_of_number(cell->rank));
    json_object_set_new(values, "best", json_boolean(cell->best));
    json_object_set_new(values, "seconds_per_example", json_of_number(cell->seconds));
    if (!first)
        json_object_set_new(values, "to_first",
                            json_pack("{so so so so}", "pairs", count_of(cell->test.pairs),
                                      "difference", json_of_number(cell->test.mean), "p",
                                      json_of_number(cell->test.p), "p_holm",
                                      json_of_number(cell->holm)));
    return values;
}

static json_t *json_of_stream(const struct summary *summary, const struct summary_stream *stream) {
    json_t *cells = json_array();
    for (size_t i = 0; i < summary->results->variant_count; i++)
        json_array_append_new(
            cells, json_of_cell(&summary->results->variants[i], &stream->cells[i], i == 0));
    return json_pack("{so so so so so sb sb so so so}", "name", text_or_null(stream->stream->name),
                     "digest", text_or_null(stream->stream->digest), "examples",
                     count_of(stream->stream->examples), "measure",
                     text_or_null(experiment_measures[stream->measure].name), "seeds",
                     count_of(stream->seeds), "skill_is_difference", stream->likely,
                     "larger_better", experiment_measures[stream->measure].larger_better,
                     "baseline", json_of_number(stream->baseline), "verdict",
                     text_or_null(stream->verdict), "variants", cells);
}

json_t *report_json(const struct summary *summary) {
    const struct experiment_results *results = summary->results;
    json_t *streams = json_array(), *ranks = json_object(), *keys = json_array();
    json_t *titles = json_object();
    for (size_t k = 0; k < summary->key_count; k++)
        json_array_append_new(keys, json_pack("[oo]", text_or_null(summary->keys[k].key),
                                              text_or_null(summary->keys[k].brief)));
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        json_object_set_new(titles, experiment_measures[n].name,
                            json_string(experiment_measures[n].title));
    for (size_t k = 0; k < results->stream_count; k++)
        json_array_append_new(streams, json_of_stream(summary, &summary->streams[k]));
    for (size_t i = 0; i < results->variant_count; i++)
        json_object_set_new(ranks, results->variants[i].name, json_of_number(summary->ranks[i]));
    return json_pack("{so so so so so so so so so so sb so so}", "name",
                     text_or_null(results->name), "version", text_or_null(results->version),
                     "device", text_or_null(summary_device(results)), "started",
                     json_of_number(results->started), "runs", count_of(results->run_count), "over",
                     count_of(summary->over), "nonfinite", count_of(summary->nonfinite), "failed",
                     count_of(summary->failed), "ranks", ranks, "keys", keys, "named_by_settings",
                     summary_named_by_settings(summary), "titles", titles, "streams", streams);
}
