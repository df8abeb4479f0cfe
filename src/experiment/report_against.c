#include "report_against.h"

#include <math.h>
#include <string.h>
#include <sysexits.h>

#include "common/format.h"
#include "common/grid.h"
#include "common/json_text.h"
#include "common/text.h"
#include "report_table.h"

/* ---- Who is who ---- */

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

/* The variant of `results` that is this one: by settings, or by name where there is none. A variant
   that sets nothing is known by its name, or by being the only one. */
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

static const struct experiment_run *run_of(const struct experiment_results *results, size_t variant,
                                           size_t stream, int64_t seed) {
    for (size_t i = 0; i < results->run_count; i++) {
        const struct experiment_run *run = &results->runs[i];
        if (run->variant == variant && run->stream == stream && run->seed == seed)
            return run;
    }
    return NULL;
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
            run_of(a->there, variant->variant, stream->stream, run->seed);
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

/* Whether a variant there is none of those here; `same` (variants here,) is what each of them is
   there. */
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

/* Nothing can be compared: what differs. */
static int refuse(const struct against *a, struct error *error) {
    const char *none = "none";
    for (size_t k = 0; k < a->here->stream_count; k++)
        for (size_t i = 0; i < a->there->stream_count; i++) {
            const struct experiment_stream *x = &a->here->streams[k], *y = &a->there->streams[i];
            if (same_text(x->name, y->name))
                return error_set(error, EX_DATAERR,
                                 "%s is of other data and cannot be compared: its stream %s has "
                                 "the digest %s, here it has %s",
                                 a->path, x->name, y->digest ? y->digest : none,
                                 x->digest ? x->digest : none);
        }
    return error_set(error, EX_DATAERR,
                     "%s is of other data and cannot be compared: it has no stream with the data "
                     "of %s",
                     a->path, a->here->stream_count ? a->here->streams[0].name : none);
}

int against_make(struct against *a, const struct summary *summary, struct experiment_results *here,
                 const struct experiment_results *there, const char *path, struct error *error) {
    enum { SIDES = 3 };
    size_t cells = here->stream_count * (here->variant_count + there->variant_count);
    size_t room = SIDES * here->run_count + here->variant_count + there->variant_count;
    bool any = false;
    *a = (struct against){.path = path, .here = here, .there = there};
    a->cells = experiment_results_memory(here, (cells + 1) * sizeof *a->cells);
    double *numbers = experiment_results_memory(here, (room + 1) * sizeof *numbers);
    const struct experiment_variant **same =
        experiment_results_memory(here, (here->variant_count + 1) * sizeof *same);
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

/* "NAME: HERE here, THERE there" where they differ. */
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
            fprintf(to, "stream %s: no such data there, not compared\n",
                    text_copy(name, sizeof name, a->here->streams[k].name));
    for (size_t k = 0; k < a->there->stream_count; k++)
        if (!same_data(a->here, &a->there->streams[k]))
            fprintf(to, "stream %s: there alone\n",
                    text_copy(name, sizeof name, a->there->streams[k].name));
}

static void put(char *text, double value, bool sign) {
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
        snprintf(text, GRID_TEXT_SIZE, "no run in common");
}

static int print_stream(const struct against *a, const struct summary_stream *stream, size_t first,
                        size_t count, FILE *to, int width) {
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
        put(grid_text(&grid, i, HERE), cell->here, false);
        put(grid_text(&grid, i, THERE), cell->there, false);
        put(grid_text(&grid, i, APART), cell->test.mean, true);
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
        if (next > first && print_stream(a, &summary->streams[k], first, next - first, to, width))
            return -1;
    }
    fputs("\nchange: here - there on the same seeds; p: paired t-test of it, Holm-adjusted; bits: "
          "runs with\nthe same losses, bit for bit\n",
          to);
    if (a->runs && a->equal == a->runs)
        fprintf(to, "All bits are equal: the losses of %zu run%s.\n", a->runs, text_s(a->runs));
    else if (a->runs)
        fprintf(to, "%zu of %zu runs differ.\n", a->runs - a->equal, a->runs);
    return 0;
}

/* ---- JSON ---- */

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
