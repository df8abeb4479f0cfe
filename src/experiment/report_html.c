#include "report_html.h"

#include <jansson.h>
#include <math.h>

#include "common/format.h"
#include "common/json_member.h"
#include "report_charts.h"
#include "report_style.h"
#include "report_svg.h"
#include "report_table.h"

static const double MICRO = 1e6;
#define P_LEAST 0.001

/* ---- Head ---- */

static void put_colours(FILE *to) {
    static const char *const colours[][2] = {
#define COLOUR(light, dark) {light, dark},
#define DASHES(pattern)
#include "common/palette.def"
#undef COLOUR
#undef DASHES
    };
    for (int night = 0; night < 2; night++) {
        fputs(night ? "@media(prefers-color-scheme:dark){:root{" : ":root{", to);
        for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
            fprintf(to, "--c%zu:%s;", i, colours[i][night]);
        fputs(night ? "}}\n" : "}\n", to);
    }
}

static void put_pair(FILE *to, const char *name, const char *value) {
    if (!value || !*value)
        return;
    fprintf(to, "<dt>%s</dt><dd>", name);
    svg_text(to, value);
    fputs("</dd>\n", to);
}

static void put_time(FILE *to, const char *name, double time) {
    char text[FORMAT_SIZE];
    if (!isnan(time))
        put_pair(to, name, format_date(text, time));
}

static void put_state(FILE *to, const struct summary *s) {
    fprintf(to, "<dt>runs</dt><dd>%zu of %zu over", s->over, s->results->run_count);
    if (s->nonfinite)
        fprintf(to, ", %zu nonfinite", s->nonfinite);
    if (s->failed)
        fprintf(to, ", %zu failed", s->failed);
    if (s->over < s->results->run_count)
        fputs(": the experiment is not finished, and what stands here is of what is over", to);
    fputs("</dd>\n", to);
}

/* The files that a stream was recorded from: path, size, digest. */
static void put_files(FILE *to, const char *files) {
    json_t *list = json_loads(files ? files : "[]", 0, NULL), *file;
    size_t i;
    json_array_foreach(list, i, file) {
        const char *path = member_string(file, "path"), *digest = member_string(file, "digest");
        double size;
        fputs(i ? "<br>" : "", to);
        svg_text(to, path ? path : "");
        if (member_number(file, "size", &size))
            fprintf(to, ", %.0f bytes", size);
        if (digest) {
            fputs(", digest <code>", to);
            svg_text(to, digest);
            fputs("</code>", to);
        }
    }
    json_decref(list);
}

static void put_streams(FILE *to, const struct experiment_results *results) {
    char count[FORMAT_SIZE];
    fputs("<div class=\"wide\"><table><thead><tr><th class=\"text\">stream</th><th "
          "class=\"text\">recorded from</th><th>examples</th><th class=\"text\">digest</th><th "
          "class=\"text\">files</th></tr></thead><tbody>\n",
          to);
    for (size_t i = 0; i < results->stream_count; i++) {
        const struct experiment_stream *stream = &results->streams[i];
        fputs("<tr><td class=\"text\">", to);
        svg_text(to, stream->name);
        fputs("</td><td class=\"name\"><code>", to);
        svg_text(to, stream->command ? stream->command : "");
        fprintf(to, "</code></td><td>%s</td><td class=\"text\"><code>",
                format_grouped(count, (double)stream->examples));
        svg_text(to, stream->digest ? stream->digest : "");
        fputs("</code></td><td class=\"name\">", to);
        put_files(to, stream->files);
        fputs("</td></tr>\n", to);
    }
    fputs("</tbody></table></div>\n", to);
}

static void put_head(FILE *to, const struct summary *s) {
    const struct experiment_results *results = s->results;
    const char *name = results->name ? results->name : "experiment";
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          to);
    svg_text(to, name);
    fprintf(to, "</title>\n<style>\n%s", report_style);
    put_colours(to);
    fputs("</style>\n</head>\n<body>\n<h1>", to);
    svg_text(to, name);
    fputs("</h1>\n<dl>\n", to);
    put_state(to, s);
    put_time(to, "started", results->started);
    put_time(to, "finished", results->finished);
    put_pair(to, "runnel", results->version);
    put_pair(to, "device", summary_device(results));
    put_pair(to, "instruction set", results->isa);
    if (results->yaml_path) {
        fputs("<dt>to repeat it</dt><dd><code>runnel-experiment ", to);
        svg_text(to, results->yaml_path);
        fputs("</code></dd>\n", to);
    }
    fputs("</dl>\n", to);
    if (results->text) {
        fputs("<details><summary>The experiment</summary><pre>", to);
        svg_text(to, results->text);
        fputs("</pre></details>\n", to);
    }
    fputs("<h2>Streams</h2>\n", to);
    put_streams(to, results);
}

/* ---- A stream's table ---- */

static void put_th(FILE *to, const char *style, const char *text) {
    fprintf(to, "<th%s%s%s>", *style ? " class=\"" : "", style, *style ? "\"" : "");
    svg_text(to, text);
    fputs("</th>", to);
}

static void put_text(FILE *to, const char *style, const char *text) {
    fprintf(to, "<td class=\"%s\">", style);
    svg_text(to, text ? text : "");
    fputs("</td>", to);
}

/* A number as people read it, with all of it for sorting. */
static void put_td(FILE *to, double value, const char *text) {
    char exact[FORMAT_SIZE];
    fprintf(to, "<td data-v=\"%s\">%s</td>", isnan(value) ? "" : format_exact(exact, value),
            isnan(value) ? "" : text);
}

static void put_number(FILE *to, double value) {
    char text[FORMAT_SIZE];
    put_td(to, value, isnan(value) ? "" : format_number(text, value));
}

/* The mean of one figure over the runs that are done. */
static double mean_of(const struct summary_cell *cell, size_t figure) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < cell->run_count; i++) {
        double value = experiment_figure(&cell->runs[i].figures, figure);
        if (cell->runs[i].state == EXPERIMENT_DONE && !isnan(value)) {
            sum += value;
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

/* Figures that a variant has, beside the one that is compared. */
static bool is_shown(const struct summary *s, const struct summary_stream *stream, size_t figure) {
    for (size_t i = 0; figure != stream->measure && i < s->results->variant_count; i++)
        if (!isnan(mean_of(&stream->cells[i], figure)))
            return true;
    return false;
}

static void put_titles(FILE *to, const struct summary *s, const struct summary_stream *stream) {
    static const char *const titles[] = {"deviation", "rank", "to 1st",
                                         "p (Holm)",  "runs", "us/example"};
    if (!summary_named_by_settings(s))
        put_th(to, "text", "variant");
    for (size_t k = 0; k < s->key_count; k++)
        put_th(to, "text", s->keys[k].brief);
    put_th(to, "", experiment_measures[stream->measure].title);
    for (size_t n = 0; n < sizeof titles / sizeof *titles; n++)
        put_th(to, "", titles[n]);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        if (is_shown(s, stream, n))
            put_th(to, "", experiment_measures[n].title);
}

static void put_p(FILE *to, double p) {
    char text[FORMAT_SIZE];
    snprintf(text, sizeof text, p < P_LEAST ? "&lt;%.3f %s" : "%.3f %s", p < P_LEAST ? P_LEAST : p,
             report_mark(p));
    put_td(to, p, text);
}

static void put_runs(FILE *to, const struct summary_cell *cell) {
    fprintf(to, "<td data-v=\"%zu\">%zu of %zu", cell->done, cell->done, cell->run_count);
    if (cell->nonfinite)
        fprintf(to, ", %zu nonfinite", cell->nonfinite);
    if (cell->failed)
        fprintf(to, ", %zu failed", cell->failed);
    fputs("</td>", to);
}

static void put_row(FILE *to, const struct summary *s, const struct summary_stream *stream,
                    size_t row) {
    const struct experiment_variant *variant = &s->results->variants[row];
    const struct summary_cell *cell = &stream->cells[row];
    char text[FORMAT_SIZE];
    fprintf(to, "<tr%s data-n=\"%zu\">", cell->best ? " class=\"best\"" : "", row);
    if (!summary_named_by_settings(s))
        put_text(to, "name", variant->name);
    for (size_t k = 0; k < s->key_count; k++)
        put_text(to, "text", summary_setting(variant, s->keys[k].key));
    put_number(to, cell->measure.mean);
    put_number(to, cell->measure.deviation);
    snprintf(text, sizeof text, "%.1f", cell->rank);
    put_td(to, cell->rank, text);
    put_number(to, row ? cell->test.mean : NAN);
    put_p(to, row ? cell->holm : NAN);
    put_runs(to, cell);
    put_td(to, cell->seconds, isnan(cell->seconds) ? "" : format_rate(text, MICRO * cell->seconds));
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        if (is_shown(s, stream, n))
            put_number(to, mean_of(cell, n));
    fputs("</tr>\n", to);
}

static void put_table(FILE *to, const struct summary *s, const struct summary_stream *stream) {
    fputs("<div class=\"wide\"><table class=\"sorted\"><thead><tr>", to);
    put_titles(to, s, stream);
    fputs("</tr></thead><tbody>\n", to);
    for (size_t i = 0; i < s->results->variant_count; i++)
        put_row(to, s, stream, i);
    fputs("</tbody></table></div>\n", to);
    if (stream->verdict)
        fprintf(to, "<p class=\"verdict\">%s</p>\n", stream->verdict);
    fputs(
        "<p class=\"note\">Means over seeds, of the runs that are done; "
        "deviation: of a sample, over seeds. rank: mean place, 1 is the best; what is not done is "
        "last. to 1st: difference to the first variant on the same seeds; p: two-sided t-test of "
        "these pairs, adjusted for the number of variants as Holm (1979) has it, * below 0.05, ** "
        "below 0.01. us/example: processor time. The best is coloured where it differs from all "
        "others (p below 0.05, adjusted in the same way); a click on a column's head sorts.</p>\n",
        to);
}

static void put_bad_runs(FILE *to, const struct summary *s, const struct summary_stream *stream) {
    if (!stream->nonfinite && !stream->failed)
        return;
    fputs("<ul class=\"note\">\n", to);
    for (size_t i = 0; i < s->results->variant_count; i++)
        for (size_t r = 0; r < stream->cells[i].run_count; r++) {
            const struct experiment_run *run = &stream->cells[i].runs[r];
            if (run->state != EXPERIMENT_NONFINITE && run->state != EXPERIMENT_FAILED)
                continue;
            fputs("<li>", to);
            svg_text(to, s->results->variants[i].name);
            fprintf(to, ", seed %lld: %s", (long long)run->seed,
                    run->state == EXPERIMENT_FAILED ? "failed" : "became nonfinite");
            if (run->error) {
                fputs(": ", to);
                svg_text(to, run->error);
            }
            fputs("</li>\n", to);
        }
    fputs("</ul>\n", to);
}

int report_html(const struct summary *s, struct experiment_results *results,
                struct experiment_store *store, FILE *to, struct error *error) {
    int id = 0;
    put_head(to, s);
    for (size_t k = 0; k < results->stream_count; k++) {
        const struct summary_stream *stream = &s->streams[k];
        fputs("<h2>", to);
        svg_text(to, stream->stream->name);
        fprintf(to, ": %s</h2>\n", experiment_measures[stream->measure].title);
        put_table(to, s, stream);
        put_bad_runs(to, s, stream);
        if (report_charts(s, stream, results, store, to, &id, error))
            return -1;
    }
    fprintf(to, "<script>\n%s</script>\n</body>\n</html>\n", report_script);
    return 0;
}
