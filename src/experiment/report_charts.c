#include "report_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_curves.h"
#include "report_svg.h"

enum {
    BANDS_MOST = 12, /* beyond so many variants bands hide each other */
    TITLE_SIZE = 256,
    GROUP_SIZE = 512,
    HEAT_MOST = 24, /* values of a key */
    KEY_LEAST = 3,  /* values of a number that make a line */
};
/* From where on the values of a key, as rates, stand on a logarithmic scale. */
#define KEY_LOG_RATIO 10
/* Skill of less is of what has diverged, or not begun to learn: more than twice the baseline's
 * loss.
 */
static const double SKILL_LEAST = -1;

/* What all charts of a stream are made from. */
struct charts {
    const struct summary *summary;
    const struct summary_stream *stream;
    struct experiment_results *results;
    struct experiment_store *store;
    FILE *to;
    const char *measure;
    const double *floor; /* of the measure; NULL: none */
    int *id;
};

static void *memory(const struct charts *c, size_t count, size_t size) {
    return experiment_results_memory(c->results, (count + 1) * size);
}

static void put_legend(const struct charts *c, const struct svg_curve *curves, size_t count) {
    fputs("<ul class=\"legend\">\n", c->to);
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", c->to);
        svg_sample(c->to, curves[i].look);
        svg_text(c->to, curves[i].name);
        fputs("</li>\n", c->to);
    }
    fputs("</ul>\n", c->to);
}

/* ---- The course ---- */

static struct svg_curve curve_of(const struct report_curve *curve, const char *name, int look,
                                 bool band) {
    band = band && curve->runs > 1;
    return (struct svg_curve){.name = name,
                              .look = look,
                              .x = curve->examples,
                              .y = curve->mean,
                              .low = band ? curve->least : NULL,
                              .high = band ? curve->greatest : NULL,
                              .count = curve->count};
}

static int draw_course(const struct charts *c, struct error *error) {
    size_t count = c->results->variant_count, drawn = 0;
    bool skill = report_curve_of_skill(c->stream), bands = count <= BANDS_MOST;
    struct svg_curve *curves = memory(c, count + 1, sizeof *curves);
    struct report_curve curve;
    char title[TITLE_SIZE];
    if (!curves)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const struct summary_cell *cell = &c->stream->cells[i];
        if (report_curve(&curve, c->results, c->store, c->stream, cell, error))
            return -1;
        curves[drawn++] = curve_of(&curve, c->results->variants[i].name, (int)i, bands);
    }
    if (!skill && report_curve_baseline(&curve, c->results, c->store, c->summary, c->stream, error))
        return -1;
    if (!skill && curve.count)
        curves[drawn++] = curve_of(&curve, "baseline", SVG_GREY, false);
    snprintf(title, sizeof title, "%s: %s while learning", c->stream->stream->name,
             skill ? "skill" : "loss");
    fputs("<figure class=\"course\">\n", c->to);
    svg_lines(c->to, &(struct svg_chart){.title = title,
                                         .x_title = "examples",
                                         .y_title = skill ? "skill" : "loss",
                                         .curves = curves,
                                         .count = drawn,
                                         .floor = c->floor,
                                         .id = (*c->id)++});
    put_legend(c, curves, drawn);
    fprintf(c->to,
            "<p class=\"note\">Each point is of the last %d%% of a run up to there%s%s.%s</p>\n"
            "</figure>\n",
            100 / CURVE_SHARE, c->stream->seeds > 1 ? "; mean over seeds" : "",
            c->stream->seeds > 1 && bands ? ", with a band from the least to the greatest" : "",
            c->floor ? " Skill below -1 is not drawn." : "");
    return 0;
}

/* ---- By variant ---- */

/* What an arrow is, where there may be one. */
static void put_floor(const struct charts *c) {
    bool below = false;
    for (size_t i = 0; c->floor && i < c->results->variant_count; i++)
        below |= c->stream->cells[i].measure.mean < *c->floor;
    if (below)
        fputs("<p class=\"note\">An arrow at the edge: less than can be shown.</p>\n", c->to);
}

/* What is compared of the runs of a cell, by seed. */
static double *values_of(const struct charts *c, const struct summary_cell *cell) {
    double *values = memory(c, cell->run_count, sizeof *values);
    for (size_t i = 0; values && i < cell->run_count; i++)
        values[i] = cell->runs[i].state == EXPERIMENT_DONE
                        ? experiment_figure(&cell->runs[i].figures, c->stream->measure)
                        : NAN;
    return values;
}

static int draw_variants(const struct charts *c, struct error *error) {
    size_t count = c->results->variant_count;
    struct svg_row *rows = memory(c, count, sizeof *rows);
    char title[TITLE_SIZE];
    for (size_t i = 0; rows && i < count; i++) {
        const struct summary_cell *cell = &c->stream->cells[i];
        double *values = values_of(c, cell);
        if (!values)
            return error_no_memory(error);
        rows[i] = (struct svg_row){c->results->variants[i].name, (int)i, values, cell->run_count,
                                   cell->measure.mean};
    }
    if (!rows)
        return error_no_memory(error);
    snprintf(title, sizeof title, "%s: %s by variant%s", c->stream->stream->name, c->measure,
             c->stream->seeds > 1 ? ", a dot a seed" : "");
    fputs("<figure>\n", c->to);
    svg_rows(c->to, title, c->measure, rows, count, c->floor);
    put_floor(c);
    fputs("</figure>\n", c->to);
    return 0;
}

/* ---- Over a key ---- */

static const char *setting(const struct charts *c, size_t variant, size_t key) {
    return summary_setting(&c->results->variants[variant], c->summary->keys[key].key);
}

/* A number that all of the text is; NaN. */
static double number_of(const char *text) {
    char *end;
    double value = text ? strtod(text, &end) : NAN;
    return text && end != text && !*end && isfinite(value) ? value : NAN;
}

/* The different texts that variants have there, as they come; 0 when one has none. */
static size_t texts_of(const struct charts *c, size_t key, const char **texts) {
    size_t count = 0;
    for (size_t i = 0; i < c->results->variant_count; i++) {
        const char *value = setting(c, i, key);
        size_t place = 0;
        if (!value)
            return 0;
        while (place < count && strcmp(texts[place], value) != 0)
            place++;
        if (place == count)
            texts[count++] = value;
    }
    return count;
}

static bool is_number(const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (isnan(number_of(texts[i])))
            return false;
    return count >= KEY_LEAST;
}

/* All other settings that differ: what a line has in common. */
static void group_of(const struct charts *c, size_t variant, size_t key, char text[GROUP_SIZE]) {
    size_t used = 0;
    *text = '\0';
    for (size_t k = 0; k < c->summary->key_count && used < GROUP_SIZE; k++) {
        const char *value = setting(c, variant, k);
        if (k != key && value)
            used += (size_t)snprintf(text + used, GROUP_SIZE - used, "%s%s %s", used ? ", " : "",
                                     c->summary->keys[k].brief, value);
    }
    if (!used)
        snprintf(text, GROUP_SIZE, "all");
}

/* A line while its points are gathered. */
struct line {
    char name[GROUP_SIZE];
    struct line_point {
        double x, mean, least, greatest;
    } * points; /* (count,) */
    size_t count;
};

static int by_x(const void *a, const void *b) {
    double x = ((const struct line_point *)a)->x, y = ((const struct line_point *)b)->x;
    return (x > y) - (x < y);
}

/* The lines over a key: how many; 0 when out of memory. */
static size_t gather(const struct charts *c, size_t key, struct line *lines) {
    size_t count = 0, variants = c->results->variant_count;
    for (size_t i = 0; i < variants; i++) {
        const struct statistics_sample *sample = &c->stream->cells[i].measure;
        char name[GROUP_SIZE];
        size_t place = 0;
        group_of(c, i, key, name);
        while (place < count && strcmp(lines[place].name, name) != 0)
            place++;
        struct line *line = &lines[place];
        if (place == count) {
            memcpy(line->name, name, GROUP_SIZE);
            if (!(line->points = memory(c, variants, sizeof *line->points)))
                return 0;
            count++;
        }
        line->points[line->count++] = (struct line_point){
            number_of(setting(c, i, key)), sample->mean, sample->least, sample->greatest};
    }
    for (size_t i = 0; i < count; i++)
        qsort(lines[i].points, lines[i].count, sizeof *lines[i].points, by_x);
    return count;
}

/* As the drawing has it: an array a number. */
static int spread(const struct charts *c, const struct line *line, int look, bool band,
                  struct svg_curve *curve) {
    double *numbers = memory(c, 4 * line->count, sizeof *numbers);
    if (!numbers)
        return -1;
    double *x = numbers, *y = x + line->count, *low = y + line->count, *high = low + line->count;
    for (size_t i = 0; i < line->count; i++) {
        x[i] = line->points[i].x;
        y[i] = line->points[i].mean;
        low[i] = line->points[i].least;
        high[i] = line->points[i].greatest;
    }
    *curve = (struct svg_curve){.name = line->name,
                                .look = look,
                                .x = x,
                                .y = y,
                                .low = band ? low : NULL,
                                .high = band ? high : NULL,
                                .count = line->count,
                                .dots = true};
    return 0;
}

static bool is_wide(const char *const *texts, size_t count) {
    double least = INFINITY, greatest = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, number_of(texts[i]));
        greatest = fmax(greatest, number_of(texts[i]));
    }
    return least > 0 && greatest >= KEY_LOG_RATIO * least;
}

static int draw_key(const struct charts *c, size_t key, const char *const *texts, size_t count,
                    struct error *error) {
    const char *brief = c->summary->keys[key].brief;
    struct line *lines = memory(c, c->results->variant_count, sizeof *lines);
    size_t line_count = lines ? gather(c, key, lines) : 0;
    struct svg_curve *curves = memory(c, line_count, sizeof *curves);
    bool band = c->stream->seeds > 1 && line_count <= BANDS_MOST;
    char title[TITLE_SIZE];
    if (!line_count || !curves)
        return error_no_memory(error);
    for (size_t i = 0; i < line_count; i++)
        if (spread(c, &lines[i], (int)i, band, &curves[i]))
            return error_no_memory(error);
    snprintf(title, sizeof title, "%s: %s over %s", c->stream->stream->name, c->measure, brief);
    fputs("<figure>\n", c->to);
    svg_lines(c->to, &(struct svg_chart){.title = title,
                                         .x_title = brief,
                                         .y_title = c->measure,
                                         .curves = curves,
                                         .count = line_count,
                                         .log_x = is_wide(texts, count),
                                         .floor = c->floor,
                                         .id = (*c->id)++});
    put_legend(c, curves, line_count);
    put_floor(c);
    fputs("</figure>\n", c->to);
    return 0;
}

static size_t place_of(const char *const *texts, size_t count, const char *text) {
    size_t place = 0;
    while (place < count && strcmp(texts[place], text) != 0)
        place++;
    return place;
}

/* Of a grid of two keys. */
static int draw_pairs(const struct charts *c, struct error *error) {
    size_t variants = c->results->variant_count, sizes[2];
    const char **texts[2];
    char title[TITLE_SIZE];
    for (size_t k = 0; k < 2; k++) {
        if (!(texts[k] = memory(c, variants, sizeof **texts)))
            return error_no_memory(error);
        sizes[k] = texts_of(c, k, texts[k]);
        if (sizes[k] < 2 || sizes[k] > HEAT_MOST)
            return 0;
    }
    if (sizes[0] * sizes[1] != variants)
        return 0;
    size_t across = sizes[1] > sizes[0], down = !across;
    double *values = memory(c, variants, sizeof *values);
    if (!values)
        return error_no_memory(error);
    for (size_t i = 0; i < variants; i++)
        values[i] = NAN;
    for (size_t i = 0; i < variants; i++) {
        size_t row = place_of(texts[down], sizes[down], setting(c, i, down));
        size_t column = place_of(texts[across], sizes[across], setting(c, i, across));
        values[row * sizes[across] + column] = c->stream->cells[i].measure.mean;
    }
    snprintf(title, sizeof title, "%s: %s", c->stream->stream->name, c->measure);
    fputs("<figure>\n", c->to);
    svg_heat(c->to, &(struct svg_heat){.title = title,
                                       .across = c->summary->keys[across].brief,
                                       .down = c->summary->keys[down].brief,
                                       .columns = texts[across],
                                       .rows = texts[down],
                                       .column_count = sizes[across],
                                       .row_count = sizes[down],
                                       .values = values,
                                       .floor = c->floor,
                                       .larger_better =
                                           experiment_measures[c->stream->measure].larger_better});
    fputs("</figure>\n", c->to);
    return 0;
}

static int draw_keys(const struct charts *c, struct error *error) {
    for (size_t key = 0; key < c->summary->key_count; key++) {
        const char **texts = memory(c, c->results->variant_count, sizeof *texts);
        if (!texts)
            return error_no_memory(error);
        size_t count = texts_of(c, key, texts);
        if (is_number(texts, count) && draw_key(c, key, texts, count, error))
            return -1;
    }
    return c->summary->key_count == 2 ? draw_pairs(c, error) : 0;
}

int report_charts(const struct summary *summary, const struct summary_stream *stream,
                  struct experiment_results *results, struct experiment_store *store, FILE *to,
                  int *id, struct error *error) {
    bool cut = report_curve_of_skill(stream) && !stream->likely;
    const struct charts c = {.summary = summary,
                             .stream = stream,
                             .results = results,
                             .store = store,
                             .to = to,
                             .measure = experiment_measures[stream->measure].title,
                             .floor = cut ? &SKILL_LEAST : NULL,
                             .id = id};
    fputs("<div class=\"charts\">\n", to);
    if (draw_course(&c, error) || draw_variants(&c, error) || draw_keys(&c, error))
        return -1;
    fputs("</div>\n", to);
    return 0;
}
