#include "report_table.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/format.h"
#include "common/grid.h"
#include "common/text.h"

#define VERY_LIKELY 0.01
#define P_LEAST 0.001
#define SHARES_MOST 10

enum { MARGIN = 2, SETTINGS_MOST = 4, SETTINGS_WIDTH = 36, SEEDS_NAMED = 5 };
/* Which columns go first where not all fit. */
enum { ALWAYS = 0, LAST = 1, LATE = 2, EARLY = 3, FIRST = 4 };

static const double MICRO = 1e6;

const char *report_mark(double p) {
    return isnan(p) || p >= STATISTICS_LIKELY ? "" : p >= VERY_LIKELY ? "*" : "**";
}

/* ---- One number ---- */

/* Shares such as skill and accuracy are of about 1: there four decimals say all. */
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

/* The columns of a stream's figures; of the mark of the best variant, and of the names of variants,
   in place of which their settings may stand. */
enum { FIGURE_COLUMNS = sizeof(struct places) / sizeof(size_t), NAME_COLUMN = 1 };

/* Whether the settings stand in columns of their own, in place of names. */
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

/* Which measure stands beside the one that is compared. */
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

/* The columns that one stream alone has nothing to say in are left out. */
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

/* Runs that came to no good, with their seeds. */
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
    "A variant's row is its network alone;\n"
    "all together: the mixture of all of them with the experts. Not live, each variant is\n"
    "mixed with the experts, so that table compares other things\n";

/* What the columns mean, without those that are not there. */
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
        fputs("> best, where it differs from all others. rank: mean place, 1 is the best\n"
              "to 1st: difference to the first variant\n",
              to);
    if (s->results->variant_count > 1 && seeds > 1)
        fputs("p: t-test of it, paired by seed, adjusted (Holm); * below 0.05, ** below 0.01"
              "\n",
              to);
    if (ratio && difference)
        fputs("skill: 1 - loss / baseline; of losses that are logarithms baseline - loss\n", to);
    else if (ratio || difference)
        fprintf(to, "skill: %s. ", ratio ? "1 - loss / baseline" : "baseline - loss");
    if (seeds > 1)
        fputs("dev: over seeds. ", to);
    fputs(s->results->live ? LIVE_MEANING : "us/ex: processor time an example\n", to);
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
        fprintf(to, "%zu of %zu runs over", s->over, results->run_count);
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
