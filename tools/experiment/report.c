#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/format.h"
#include "common/grid.h"
#include "common/program.h"
#include "common/text.h"
#include "report_summary.h"
#include "report_table.h"

/* ---- CSV: a row per run, all settings as columns, numbers at full precision ---- */

/* A value in the form of RFC 4180, with a comma before it. */
static void put_text(FILE *to, const char *text) {
    fputc(',', to);
    if (!text)
        return;
    bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted)
        fputc('"', to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"%c" : "%c", *text);
    if (quoted)
        fputc('"', to);
}

static void put_number(FILE *to, double value) {
    char number[FORMAT_SIZE];
    fprintf(to, ",%s", isnan(value) ? "" : format_exact(number, value));
}

static void put_count(FILE *to, uint64_t value) {
    if (value == EXPERIMENT_UNKNOWN)
        fputc(',', to);
    else
        fprintf(to, ",%" PRIu64, value);
}

/* Keys of all variants, each once: (count,), to be freed. */
static const char **find_keys(const struct experiment_results *results, size_t *count) {
    size_t most = 1;
    for (size_t i = 0; i < results->variant_count; i++)
        most += results->variants[i].setting_count;
    const char **keys = calloc(most, sizeof *keys);
    *count = 0;
    for (size_t i = 0; keys && i < results->variant_count; i++)
        for (size_t k = 0; k < results->variants[i].setting_count; k++) {
            const char *key = results->variants[i].settings[k].key;
            size_t place = 0;
            while (place < *count && strcmp(keys[place], key) != 0)
                place++;
            if (place == *count)
                keys[(*count)++] = key;
        }
    return keys;
}

static const struct experiment_variant *variant_of(const struct experiment_results *results,
                                                   size_t number) {
    for (size_t i = 0; i < results->variant_count; i++)
        if (results->variants[i].variant == number)
            return &results->variants[i];
    return NULL;
}

static void put_head(FILE *to, const char *const *keys, size_t key_count) {
    fputs("run,variant,stream,seed,state", to);
    for (size_t k = 0; k < key_count; k++)
        put_text(to, keys[k]);
    fputs(",parameters,examples,rejected,steps,scored,updates,skipped,started,seconds,cpu_seconds",
          to);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        put_text(to, experiment_measures[n].name);
    fputs(",losses_digest,parameters_digest,digest,data,version,device,error\n", to);
}

static void put_run(FILE *to, const struct experiment_results *results,
                    const struct experiment_run *run, const char *const *keys, size_t key_count) {
    const struct experiment_variant *variant = variant_of(results, run->variant);
    const struct experiment_stream *stream = experiment_stream_of(results, run->stream);
    const uint64_t counts[] = {run->parameters, run->examples, run->rejected, run->steps,
                               run->scored,     run->updates,  run->skipped};
    bool over = run->state != EXPERIMENT_WAITING;
    fprintf(to, "%" PRId64, run->run);
    put_text(to, variant ? variant->name : NULL);
    put_text(to, stream ? stream->name : NULL);
    fprintf(to, ",%" PRId64, run->seed);
    put_text(to, experiment_state_name(run->state));
    for (size_t k = 0; k < key_count; k++)
        put_text(to, variant ? summary_setting(variant, keys[k]) : NULL);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        if (over)
            put_count(to, counts[n]);
        else
            put_text(to, NULL);
    put_number(to, run->started);
    put_number(to, run->seconds);
    put_number(to, run->cpu_seconds);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        put_number(to, experiment_figure(&run->figures, n));
    put_text(to, run->losses_digest);
    put_text(to, run->parameters_digest);
    put_text(to, run->digest);
    put_text(to, run->data);
    put_text(to, run->version);
    put_text(to, run->device);
    put_text(to, run->error);
    fputc('\n', to);
}

/* -1: out of memory. */
static int report_csv(const struct experiment_results *results, FILE *to) {
    size_t key_count;
    const char **keys = find_keys(results, &key_count);
    if (!keys)
        return -1;
    put_head(to, keys, key_count);
    for (size_t i = 0; i < results->run_count; i++)
        put_run(to, results, &results->runs[i], keys, key_count);
    free(keys);
    return 0;
}

/* ---- Options ---- */

static const char STANDARD_OUTPUT[] = "-";

static bool is_standard(const char *path) {
    return path && !strcmp(path, STANDARD_OUTPUT);
}

int report_check(const struct report_options *o, struct error *error) {
    if (o->measure && experiment_measure_named(o->measure) == EXPERIMENT_FIGURES) {
        char names[ERROR_TEXT_SIZE / 2] = "";
        for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
            text_append(names, sizeof names, "%s%s",
                        n == 0                       ? ""
                        : n + 1 < EXPERIMENT_FIGURES ? ", "
                                                     : " or ",
                        experiment_measures[n].name);
        return error_set(error, EX_USAGE, "--measure: expected %s, got %s", names, o->measure);
    }
    if (is_standard(o->csv) + is_standard(o->html) + o->json > 1)
        return error_set(error, EX_USAGE,
                         "only one of --csv, --html and --json may write to standard output");
    struct experiment_store *store = NULL;
    int status = o->against ? experiment_store_open(&store, o->against, EXPERIMENT_READ, error) : 0;
    experiment_store_close(&store);
    return status;
}

/* Data for all parts of a report. */
struct report {
    struct experiment_store *store;
    struct experiment_results *results;
    const struct summary *summary;
    const struct against *against; /* NULL: not requested */
};

/* ---- Files ---- */

static int write_csv(const struct report *report, const char *path, struct error *error) {
    bool standard = is_standard(path);
    const char *name = standard ? "standard output" : path;
    FILE *to = standard ? stdout : fopen(path, "w");
    if (!to)
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", name, strerror(errno));
    int status = report_csv(report->results, to) ? error_no_memory(error) : 0;
    errno = 0;
    bool failed = fflush(to) || ferror(to);
    if (!standard && fclose(to))
        failed = true;
    if (!status && failed)
        status = error_set(error, EX_IOERR, "cannot write %s: %s", name, strerror(errno));
    return status;
}

/* ---- Output of runnel-plot: the page and the event files ---- */

/* Its error, without its name. */
static void read_sentence(int from, char text[ERROR_TEXT_SIZE]) {
    static const char NAME[] = "runnel-plot: ";
    FILE *file = fdopen(from, "r");
    size_t size = file ? fread(text, 1, ERROR_TEXT_SIZE - 1, file) : 0;
    text[size] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!strncmp(text, NAME, sizeof NAME - 1))
        memmove(text, text + sizeof NAME - 1, strlen(text + sizeof NAME - 1) + 1);
    if (file)
        fclose(file);
    else
        close(from);
}

static int run_plot(const char *const *arguments, int output, struct error *error) {
    char text[ERROR_TEXT_SIZE];
    int errors[2];
    if (pipe2(errors, O_CLOEXEC))
        return error_set(error, EX_OSERR, "cannot create a pipe: %s", strerror(errno));
    fflush(stdout);
    pid_t child = program_start(arguments, -1, output, errors[1]);
    int reason = errno;
    close(errors[1]);
    read_sentence(errors[0], text);
    if (child < 0)
        return error_set(error, EX_UNAVAILABLE,
                         "cannot start runnel-plot, which --html and --tensorboard require: %s",
                         strerror(reason));
    int status = program_wait(child);
    return status ? error_set(error, status < 0 ? EX_SOFTWARE : status, "%s",
                              *text ? text : "runnel-plot was killed")
                  : 0;
}

/* `path`: of results; NULL: only check that runnel-plot has all dependencies. */
static int plot(const struct report_options *o, const char *path, struct error *error) {
    const char *const options[][2] = {
        {"--html=", o->html}, {"--tensorboard=", o->board}, {"--measure=", o->measure}};
    enum { OPTIONS = sizeof options / sizeof *options };
    char texts[OPTIONS][EXPERIMENT_PATH_SIZE];
    const char *arguments[OPTIONS + 4] = {"runnel-plot"};
    size_t count = 1;
    for (size_t i = 0; i < OPTIONS; i++)
        if (options[i][1]) {
            snprintf(texts[i], sizeof texts[i], "%s%s", options[i][0], options[i][1]);
            arguments[count++] = texts[i];
        }
    arguments[count++] = path ? "--" : "--version";
    arguments[count] = path;
    int output = path ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    int status = run_plot(arguments, output, error);
    if (output >= 0)
        close(output);
    return status;
}

/* ---- The report ---- */

static int print_json(const struct report *report, struct error *error) {
    json_t *json = report_json(report->summary);
    if (json && report->against)
        json_object_set_new(json, "against", against_json(report->against));
    if (!json)
        return error_no_memory(error);
    int status = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(json);
    putchar('\n');
    if (status || fflush(stdout) || ferror(stdout))
        return error_set(error, EX_IOERR, "standard output cannot be written");
    return 0;
}

static int print_tables(const struct report *report, bool quiet, struct error *error) {
    int width = grid_width();
    if ((!quiet && report_table(report->summary, stdout, width)) ||
        (report->against && against_print(report->against, report->summary, stdout, width)))
        return error_no_memory(error);
    if (fflush(stdout) || ferror(stdout))
        return error_set(error, EX_IOERR, "standard output cannot be written: %s", strerror(errno));
    return 0;
}

static int make(const struct report *report, const struct report_options *o, struct error *error) {
    if (o->csv && write_csv(report, o->csv, error))
        return -1;
    if ((o->html || o->board) && plot(o, experiment_store_path(report->store), error))
        return -1;
    if (o->json)
        return print_json(report, error);
    if (is_standard(o->csv) || is_standard(o->html) || (o->quiet && !o->against))
        return 0;
    return print_tables(report, o->quiet, error);
}

/* The other results, read and compared; they must outlive the report. */
static int compare(struct report *report, const char *path, struct against *against,
                   struct experiment_results *there, struct error *error) {
    struct experiment_store *store = NULL;
    int status = experiment_store_open(&store, path, EXPERIMENT_READ, error);
    if (!status)
        status = experiment_store_read(store, there, error);
    if (!status)
        status = against_make(against, report->summary, report->results, there, path, error);
    if (!status)
        report->against = against;
    experiment_store_close(&store);
    return status;
}

int report_ready(const struct report_options *o, struct error *error) {
    return o->html || o->board ? plot(o, NULL, error) : 0;
}

int report_make(const char *path, const struct report_options *o, struct error *error) {
    struct experiment_store *store = NULL;
    struct experiment_results results = {0}, there = {0};
    struct summary summary;
    struct against against;
    int status = report_check(o, error);
    if (!status)
        status = experiment_store_open(&store, path, EXPERIMENT_READ, error);
    if (!status)
        status = experiment_store_read(store, &results, error);
    if (!status)
        status = summary_make(&summary, &results, o->measure, error);
    struct report report = {.store = store, .results = &results, .summary = &summary};
    if (!status && o->against)
        status = compare(&report, o->against, &against, &there, error);
    if (!status)
        status = make(&report, o, error);
    if (!status && report.against && !against.runs)
        status = error_set(error, EX_DATAERR,
                           "cannot compare with %s: no run with the same data, variant and seed",
                           o->against);
    experiment_results_clear(&results);
    experiment_results_clear(&there);
    experiment_store_close(&store);
    return status;
}

int report_results(struct experiment_results *results, const struct report_options *o,
                   struct error *error) {
    struct summary summary;
    struct report_options these = {.csv = o->csv, .json = o->json, .quiet = o->quiet};
    if (o->html || o->board || o->against)
        return error_set(error, EX_USAGE,
                         "a recording can only be reported as a table, --csv or --json");
    if (summary_make(&summary, results, o->measure, error))
        return -1;
    return make(&(struct report){.results = results, .summary = &summary}, &these, error);
}
