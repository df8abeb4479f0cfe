#include "web_experiment_api.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    CURVES_MAX = 100, /* maximum runs of one request */
};

/* ---- All runs ---- */

static void write_measures(FILE *stream) {
    fputs(",\"measures\":[", stream);
    for (size_t i = 0; i < EXPERIMENT_FIGURES; i++)
        fprintf(stream, "%s{\"name\":\"%s\",\"title\":\"%s\",\"larger_better\":%s}", i ? "," : "",
                experiment_measures[i].name, experiment_measures[i].title,
                experiment_measures[i].larger_better ? "true" : "false");
    fputc(']', stream);
}

static void write_streams(FILE *stream, const struct experiment_results *results) {
    fputs(",\"streams\":[", stream);
    for (size_t i = 0; i < results->stream_count; i++) {
        const struct experiment_stream *one = &results->streams[i];
        fprintf(stream, "%s{\"stream\":%zu", i ? "," : "", one->stream);
        member_write_text(stream, "name", one->name);
        member_write_text(stream, "command", one->command);
        member_write_text(stream, "digest", one->digest);
        member_write_count(stream, "examples", one->examples);
        member_write_count(stream, "bytes", one->bytes);
        fputc('}', stream);
    }
    fputc(']', stream);
}

static void write_variants(FILE *stream, const struct experiment_results *results) {
    fputs(",\"variants\":[", stream);
    for (size_t i = 0; i < results->variant_count; i++) {
        const struct experiment_variant *one = &results->variants[i];
        fprintf(stream, "%s{\"variant\":%zu", i ? "," : "", one->variant);
        member_write_text(stream, "name", one->name);
        fputs(",\"settings\":[", stream);
        for (size_t k = 0; k < one->setting_count; k++) {
            const struct experiment_setting *setting = &one->settings[k];
            fputs(k ? ",{\"key\":" : "{\"key\":", stream);
            query_write_text(stream, setting->key);
            member_write_text(stream, "short", setting->brief ? setting->brief : setting->key);
            member_write_text(stream, "value", setting->value);
            fputc('}', stream);
        }
        fputs("]}", stream);
    }
    fputc(']', stream);
}

static void write_run(FILE *stream, const struct experiment_run *run) {
    fprintf(stream, "{\"run\":%" PRId64 ",\"variant\":%zu,\"stream\":%zu,\"seed\":%" PRId64,
            run->run, run->variant, run->stream, run->seed);
    member_write_text(stream, "state", experiment_state_name(run->state));
    member_write_text(stream, "error", run->error);
    if (run->state != EXPERIMENT_WAITING) {
        member_write_count(stream, "parameters", run->parameters);
        member_write_count(stream, "examples", run->examples);
        member_write_count(stream, "rejected", run->rejected);
        member_write_count(stream, "scored", run->scored);
        member_write_count(stream, "updates", run->updates);
        member_write_count(stream, "skipped", run->skipped);
        member_write_number(stream, "started", run->started, QUERY_EXACT_DIGITS);
        member_write_number(stream, "seconds", run->seconds, QUERY_VALUE_DIGITS);
        member_write_number(stream, "cpu_seconds", run->cpu_seconds, QUERY_VALUE_DIGITS);
        for (size_t i = 0; i < EXPERIMENT_FIGURES; i++)
            member_write_number(stream, experiment_measures[i].name,
                                experiment_figure(&run->figures, i), QUERY_EXACT_DIGITS);
    }
    fputc('}', stream);
}

static void write_runs(FILE *stream, const struct experiment_results *results) {
    size_t counts[EXPERIMENT_FAILED + 1] = {0};
    fputs(",\"runs\":[", stream);
    for (size_t i = 0; i < results->run_count; i++) {
        fputs(i ? "," : "", stream);
        write_run(stream, &results->runs[i]);
        counts[results->runs[i].state]++;
    }
    fputc(']', stream);
    member_write_count(stream, "total", results->total);
    member_write_count(stream, "over", results->run_count - counts[EXPERIMENT_WAITING]);
    member_write_count(stream, "nonfinite", counts[EXPERIMENT_NONFINITE]);
    member_write_count(stream, "failed", counts[EXPERIMENT_FAILED]);
}

static struct reply answer_all(const struct experiment *experiment,
                               struct MHD_Connection *connection) {
    const struct experiment_results *results = &experiment->results;
    struct reply_text text;
    (void)connection;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    fprintf(text.stream, "{\"revision\":%" PRIu64, experiment->revision);
    member_write_text(text.stream, "name", results->name);
    member_write_text(text.stream, "measure", results->measure);
    member_write_number(text.stream, "recent", results->recent, QUERY_VALUE_DIGITS);
    member_write_text(text.stream, "version", results->version);
    member_write_text(text.stream, "device", results->device);
    member_write_text(text.stream, "isa", results->isa);
    member_write_number(text.stream, "started", results->started, QUERY_EXACT_DIGITS);
    member_write_number(text.stream, "finished", results->finished, QUERY_EXACT_DIGITS);
    member_write_text(text.stream, "yaml", results->text);
    write_measures(text.stream);
    write_streams(text.stream, results);
    write_variants(text.stream, results);
    write_runs(text.stream, results);
    fputc('}', text.stream);
    return reply_end(&text, REPLY_JSON);
}

/* ---- One run ---- */

static const struct experiment_run *find_run(const struct experiment *experiment, int64_t id) {
    const struct experiment_results *results = &experiment->results;
    for (size_t i = 0; i < results->run_count; i++)
        if (results->runs[i].run == id)
            return &results->runs[i];
    return NULL;
}

static struct reply no_run(int64_t id) {
    return reply_error(MHD_HTTP_NOT_FOUND,
                       "run %" PRId64 " not found; /api/experiment lists the runs", id);
}

static struct reply unreadable(const struct error *error) {
    return reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", error->text);
}

static void write_columns(FILE *stream, const struct experiment_column *columns, size_t count) {
    fputs(",\"columns\":[", stream);
    for (size_t i = 0; i < count; i++) {
        fprintf(stream, "%s{\"column\":%zu", i ? "," : "", i);
        member_write_text(stream, "name", columns[i].name);
        member_write_number(stream, "rmse", columns[i].rmse, QUERY_VALUE_DIGITS);
        member_write_number(stream, "mae", columns[i].mae, QUERY_VALUE_DIGITS);
        member_write_number(stream, "skill", columns[i].skill, QUERY_VALUE_DIGITS);
        fputc('}', stream);
    }
    fputc(']', stream);
}

static void write_experts(FILE *stream, const struct experiment_expert *experts, size_t count) {
    fputs(",\"experts\":[", stream);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",{\"name\":" : "{\"name\":", stream);
        query_write_text(stream, experts[i].name);
        member_write_number(stream, "mean", experts[i].mean, QUERY_VALUE_DIGITS);
        member_write_number(stream, "weight", experts[i].weight, QUERY_VALUE_DIGITS);
        fputc('}', stream);
    }
    fputc(']', stream);
}

static struct reply describe_run(const struct experiment_run *run,
                                 const struct experiment_column *columns, size_t column_count,
                                 const struct experiment_expert *experts, size_t expert_count) {
    struct reply_text text;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    fprintf(text.stream, "{\"run\":%" PRId64, run->run);
    member_write_text(text.stream, "state", experiment_state_name(run->state));
    member_write_text(text.stream, "error", run->error);
    member_write_text(text.stream, "configuration", run->configuration);
    member_write_text(text.stream, "digest", run->digest);
    member_write_text(text.stream, "data", run->data);
    member_write_text(text.stream, "version", run->version);
    member_write_text(text.stream, "device", run->device);
    member_write_text(text.stream, "losses_digest", run->losses_digest);
    member_write_text(text.stream, "parameters_digest", run->parameters_digest);
    write_columns(text.stream, columns, column_count);
    write_experts(text.stream, experts, expert_count);
    fputc('}', text.stream);
    return reply_end(&text, REPLY_JSON);
}

static struct reply answer_run(const struct experiment *experiment,
                               struct MHD_Connection *connection) {
    struct experiment_store *store;
    struct experiment_column *columns = NULL;
    struct experiment_expert *experts = NULL;
    size_t id = 0, column_count = 0, expert_count = 0;
    struct error error;
    if (!query_count(connection, "run", 1, 1e15, &id) || !id)
        return reply_error(MHD_HTTP_BAD_REQUEST,
                           "run must be the number of a run, from /api/experiment");
    const struct experiment_run *run = find_run(experiment, (int64_t)id);
    if (!run)
        return no_run((int64_t)id);
    if (experiment_store_open(&store, experiment->path, EXPERIMENT_READ, &error))
        return unreadable(&error);
    bool failed = experiment_store_columns(store, run->run, &columns, &column_count, &error) ||
                  experiment_store_experts(store, run->run, &experts, &expert_count, &error);
    struct reply reply = failed ? unreadable(&error)
                                : describe_run(run, columns, column_count, experts, expert_count);
    experiment_store_close(&store);
    free(columns);
    free(experts);
    return reply;
}

/* ---- Curves ---- */

static void write_curve(FILE *stream, int64_t run, const struct experiment_point *points,
                        size_t count) {
    static const struct {
        const char *name;
        size_t offset;
    } columns[] = {
        {"mean", offsetof(struct experiment_point, mean)},
        {"baseline", offsetof(struct experiment_point, baseline)},
        {"gradient_norm", offsetof(struct experiment_point, gradient_norm)},
        {"update_ratio", offsetof(struct experiment_point, update_ratio)},
        {"weight_norm", offsetof(struct experiment_point, weight_norm)},
    };
    fprintf(stream, "{\"run\":%" PRId64 ",\"examples\":[", run);
    for (size_t k = 0; k < count; k++)
        fprintf(stream, "%s%" PRIu64, k ? "," : "", points[k].examples);
    fputs("],\"scored\":[", stream);
    for (size_t k = 0; k < count; k++)
        fprintf(stream, "%s%" PRIu64, k ? "," : "", points[k].scored);
    fputc(']', stream);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        member_write_list(stream, columns[i].name, points, columns[i].offset, sizeof *points, count,
                          QUERY_VALUE_DIGITS);
    }
    fputc('}', stream);
}

/* Parses "1,2,3". Returns the count, or -1 on error. */
static int parse_runs(const char *text, int64_t ids[CURVES_MAX]) {
    int count = 0;
    while (text && isdigit((unsigned char)*text) && count < CURVES_MAX) {
        char *end;
        ids[count++] = strtoll(text, &end, 10);
        if (!*end)
            return count;
        text = *end == ',' ? end + 1 : "";
    }
    return -1;
}

static struct reply write_curves(const struct experiment *experiment,
                                 struct experiment_store *store, const int64_t *ids, int count) {
    struct reply_text text;
    struct error error;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    fputs("{\"curves\":[", text.stream);
    for (int i = 0; i < count; i++) {
        struct experiment_point *points = NULL;
        size_t point_count = 0;
        bool known = find_run(experiment, ids[i]) != NULL;
        if (!known || experiment_store_curve(store, ids[i], &points, &point_count, &error)) {
            struct reply whole = reply_end(&text, REPLY_JSON);
            if (whole.owned)
                free((void *)whole.body);
            return known ? unreadable(&error) : no_run(ids[i]);
        }
        fputs(i ? "," : "", text.stream);
        write_curve(text.stream, ids[i], points, point_count);
        free(points);
    }
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}

static struct reply answer_curves(const struct experiment *experiment,
                                  struct MHD_Connection *connection) {
    struct experiment_store *store;
    int64_t ids[CURVES_MAX];
    struct error error;
    int count = parse_runs(query_text(connection, "runs"), ids);
    if (count < 0)
        return reply_error(
            MHD_HTTP_BAD_REQUEST,
            "runs must be a comma-separated list of at most %d run numbers from /api/experiment",
            (int)CURVES_MAX);
    if (experiment_store_open(&store, experiment->path, EXPERIMENT_READ, &error))
        return unreadable(&error);
    struct reply reply = write_curves(experiment, store, ids, count);
    experiment_store_close(&store);
    return reply;
}

struct reply experiment_answer(const struct experiment *experiment,
                               struct MHD_Connection *connection, const char *path) {
    if (strcmp(path, "/api/experiment") == 0)
        return answer_all(experiment, connection);
    if (strcmp(path, "/api/experiment/run") == 0)
        return answer_run(experiment, connection);
    if (strcmp(path, "/api/experiment/curves") == 0)
        return answer_curves(experiment, connection);
    return reply_error(MHD_HTTP_NOT_FOUND,
                       "path not found; valid paths of an experiment: /api/experiment, "
                       "/api/experiment/run?run=N, /api/experiment/curves?runs=N,N and /api/live");
}
