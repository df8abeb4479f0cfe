/* Recordings: written values are read at every resolution, by several readers, after a restart
   of the writer, and after old rows were deleted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "common/database.h"
#include "tools/history/history.h"

#define ENDPOINT "tcp://127.0.0.1:5571"
#define RUN "00000000000000aa"
#define BEGINNING 1.7e9 /* time of message 0 */
#define EXAMPLES 100    /* a message */

static char directory[] = "/tmp/test-history-XXXXXX";
static char path[64];

static const struct history_options DEFAULTS = {0};
static const struct history_range ALL = {HISTORY_EXAMPLES, -INFINITY, INFINITY, 1000000};

static int set_up(void **state) {
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/recording.db", directory);
    return 0;
}

static int tear_down(void **state) {
    char other[80];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(other, sizeof other, "%s%s", path, ends[i]);
        unlink(other);
    }
    return rmdir(directory);
}

static struct history *open_history(const struct history_options *options) {
    struct history *history = NULL;
    assert_int_equal(history_open(&history, path, options), EX_OK);
    return history;
}

static void take(struct history *history, enum topic topic, json_t *body) {
    struct message message = {.topic = topic, .body = body};
    assert_non_null(body);
    if (history_take(history, ENDPOINT, &message))
        fail_msg("%s", history_error(history));
    json_decref(body);
}

/* The mean loss of message i: it decreases, and is missing in every 37th message. */
static double mean_of(int i) {
    return i % 37 == 5 ? NAN : 2 * exp(-i / 5000.0) + 0.1 * sin(i * 1.7);
}

static json_t *number_or_null(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *envelope(const char *run, int i) {
    return json_pack("{s:s, s:i, s:i, s:i, s:f}", "run", run, "sequence", i + 1, "examples",
                     EXAMPLES * (i + 1), "steps", 3 * EXAMPLES * (i + 1), "time", BEGINNING + i);
}

static json_t *loss(const char *run, int i) {
    json_t *body = envelope(run, i);
    json_object_set_new(body, "mean", number_or_null(mean_of(i)));
    json_object_set_new(body, "minimum", json_real(mean_of(i) - 1 - i % 7));
    json_object_set_new(body, "metric", json_pack("{s:f}", "bits", i * 0.5));
    json_object_set_new(body, "latency_us", json_pack("{s:i, s:n}", "p50", i % 10, "p99"));
    return body;
}

/* The same with two columns and two experts; the second one of each sometimes has no value. */
static json_t *skilled_loss(const char *run, int i) {
    json_t *body = loss(run, i);
    json_t *columns =
        json_pack("[{s:f, s:f, s:f}, {s:o, s:n, s:n}]", "rmse", i + 0.5, "mae", i + 0.25, "skill",
                  -0.5, "rmse", number_or_null(mean_of(i)), "mae", "skill");
    json_t *experts = json_pack("{s:{s:f, s:f}, s:{s:f, s:n}}", "last", "mean", i * 1.0, "weight",
                                0.25, "ar\"3", "mean", i * 2.0, "weight");
    json_object_set_new(body, "columns", columns);
    json_object_set_new(body, "experts", experts);
    return body;
}

static json_t *state(const char *run, int i) {
    json_t *body = envelope(run, i), *layers = json_array(), *bins = json_array();
    for (int bin = 0; bin < HISTORY_BINS; bin++)
        json_array_append_new(bins, json_integer(bin == i % HISTORY_BINS ? 64 : 0));
    json_array_append_new(layers,
                          json_pack("{s:s, s:i, s:{s:f, s:f}, s:O}", "kind", "gru", "size", 64,
                                    "hidden", "mean", 0.25, "std", i * 0.001, "histogram", bins));
    json_array_append_new(
        layers, json_pack("{s:s, s:i, s:o}", "kind", "lstm", "size", 32, "histogram", bins));
    json_object_set_new(body, "layers", layers);
    return body;
}

static json_t *status(const char *run, int i) {
    json_t *body = envelope(run, i);
    json_object_update_new(body, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:n}", "name",
                                           "waves", "digest", "0123", "model", "real 2 > gru 64",
                                           "device", "cpu", "version", "0.1", "parameters", 1234,
                                           "every", EXAMPLES, "resumed"));
    return body;
}

static void take_losses(struct history *history, const char *run, int first, int end) {
    for (int i = first; i < end; i++)
        take(history, TOPIC_LOSS, loss(run, i));
}

static struct history_series losses(struct history *history, int64_t run,
                                    struct history_range range) {
    struct history_series series;
    if (history_loss(history, run, &range, &series))
        fail_msg("%s", history_error(history));
    assert_true(series.points <= range.points);
    return series;
}

/* ---- Resolutions ---- */

static int column(const char *name) {
    int found = history_column(history_loss_columns, HISTORY_LOSS_COLUMNS, name);
    assert_true(found >= 0);
    return found;
}

/* Checks that the points of a series are messages first..end-1 in order, each with the values of
   its messages. Returns the maximum number of messages of a point. */
static int check_points(const struct history_series *series, int first, int end) {
    int mean = column("mean"), i = first, largest = 0;
    for (size_t point = 0; point < series->points; point++) {
        const struct history_value *value = &series->values[point * series->columns + mean];
        double minimum = INFINITY, maximum = -INFINITY, sum = 0;
        int known = 0, messages = (int)series->at[point].messages;
        for (int stop = i + messages; i < stop; i++) {
            double expected = mean_of(i);
            if (isnan(expected))
                continue;
            known++;
            sum += expected;
            minimum = fmin(minimum, expected);
            maximum = fmax(maximum, expected);
        }
        assert_int_equal(value->missing, messages - known);
        if (known) {
            assert_true(fabs(value->mean - sum / known) < 1e-9);
            assert_true(value->minimum == minimum && value->maximum == maximum);
        } else {
            assert_true(isnan(value->mean) && isnan(value->minimum) && isnan(value->maximum));
        }
        assert_true(series->at[point].position[HISTORY_EXAMPLES] == (double)EXAMPLES * i);
        assert_true(series->at[point].position[HISTORY_STEPS] == 3.0 * EXAMPLES * i);
        assert_true(series->at[point].position[HISTORY_TIME] == BEGINNING + i - 1);
        largest = messages > largest ? messages : largest;
    }
    assert_int_equal(i, end);
    return largest;
}

static void every_number_is_read_back(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    take_losses(history, RUN, 0, 30);
    struct history_series series = losses(history, history_current(history, ENDPOINT), ALL);
    assert_int_equal(series.points, 30);
    check_points(&series, 0, 30);
    for (int i = 0; i < 30; i++) {
        const struct history_value *values = series.values + (size_t)i * series.columns;
        assert_true(values[column("metric_bits")].mean == i * 0.5);
        assert_true(values[column("latency_us_p50")].mean == i % 10);
        assert_true(isnan(values[column("latency_us_p99")].mean));
        assert_int_equal(values[column("latency_us_p99")].missing, 1);
        assert_int_equal(values[column("gradient_norm")].missing, 1);
    }
    history_series_clear(&series);
    history_close(&history);
}

static void every_resolution_is_correct(void **unused) {
    enum { MESSAGES = 12345 };
    struct history *history = open_history(&DEFAULTS);
    take_losses(history, RUN, 0, MESSAGES);
    assert_int_equal(history_commit(history), 0);
    int64_t run = history_current(history, ENDPOINT);
    for (size_t points = 1; points < 30000; points = points * 2 + 1) {
        struct history_range range = ALL;
        range.points = points;
        struct history_series series = losses(history, run, range);
        check_points(&series, 0, MESSAGES);
        assert_true(series.points * 2 >= (points < MESSAGES ? points : MESSAGES));
        history_series_clear(&series);
    }
    history_close(&history);
}

static void ranges_on_every_axis(void **unused) {
    enum { MESSAGES = 3000, FIRST = 1234, LAST = 1987 };
    const double scales[HISTORY_AXES] = {EXAMPLES, 3 * EXAMPLES, 1};
    const double offsets[HISTORY_AXES] = {EXAMPLES, 3 * EXAMPLES, BEGINNING};
    struct history *history = open_history(&DEFAULTS);
    take_losses(history, RUN, 0, MESSAGES);
    int64_t run = history_current(history, ENDPOINT);
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        struct history_range range = {(enum history_axis)axis, offsets[axis] + scales[axis] * FIRST,
                                      offsets[axis] + scales[axis] * LAST, 1000};
        struct history_series series = losses(history, run, range);
        assert_int_equal(series.points, LAST - FIRST + 1);
        check_points(&series, FIRST, LAST + 1);
        history_series_clear(&series);
        range.points = 10;
        series = losses(history, run, range);
        assert_in_range(series.points, 5, 10);
        /* Rows of ten messages lie across both ends. */
        check_points(&series, FIRST / 10 * 10, LAST / 10 * 10 + 10);
        history_series_clear(&series);
    }
    struct history_range nothing = {HISTORY_EXAMPLES, 1e9, 2e9, 10};
    struct history_series series = losses(history, run, nothing);
    assert_int_equal(series.points, 0);
    history_series_clear(&series);
    series = losses(history, run + 1, ALL);
    assert_int_equal(series.points, 0);
    history_series_clear(&series);
    history_close(&history);
}

static void layers_and_histograms(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    for (int i = 0; i < 400; i++)
        take(history, TOPIC_STATE, state(RUN, i));
    int64_t run = history_current(history, ENDPOINT);
    struct history_layer layers[HISTORY_LAYERS];
    int count;
    assert_int_equal(history_layers(history, run, layers, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(layers[0].kind, "gru");
    assert_string_equal(layers[1].kind, "lstm");
    assert_int_equal(layers[1].size, 32);
    int std = history_column(history_layer_columns, HISTORY_LAYER_COLUMNS, "hidden_std");
    for (int layer = 0; layer < 2; layer++) {
        struct history_series series;
        struct history_range range = ALL;
        assert_int_equal(history_state(history, run, layer, &range, &series), 0);
        assert_int_equal(series.points, 400);
        for (int i = 0; i < 400; i++)
            for (int bin = 0; bin < HISTORY_BINS; bin++)
                assert_true(series.histograms[i * HISTORY_BINS + bin] ==
                            (bin == i % HISTORY_BINS ? 64 : 0));
        assert_true(layer == 1 || series.values[123 * series.columns + std].mean == 0.123);
        assert_true(layer == 0 || isnan(series.values[std].mean));
        history_series_clear(&series);
        range.points = 25; /* of 20 messages each, in which every bin occurred */
        assert_int_equal(history_state(history, run, layer, &range, &series), 0);
        assert_int_equal(series.points, 20);
        for (int bin = 0; bin < 20 * HISTORY_BINS; bin++)
            assert_true(fabsf(series.histograms[bin] - 64.0f / 20) < 1e-4f);
        history_series_clear(&series);
    }
    history_close(&history);
}

/* ---- Runs and events ---- */

/* The values of each column and expert in the newest message. */
static void check_parts(struct history *history, int64_t run, int i) {
    struct history_part *columns, *experts;
    size_t count;
    assert_int_equal(history_parts(history, run, false, &columns, &count), 0);
    assert_int_equal(count, 2);
    assert_true(columns[0].numbers[COLUMN_rmse] == i + 0.5);
    assert_true(columns[0].numbers[COLUMN_mae] == i + 0.25);
    assert_true(columns[0].numbers[COLUMN_skill] == -0.5);
    assert_true(columns[1].numbers[COLUMN_rmse] == mean_of(i) ||
                (isnan(mean_of(i)) && isnan(columns[1].numbers[COLUMN_rmse])));
    assert_true(isnan(columns[1].numbers[COLUMN_skill]));
    assert_int_equal(history_parts(history, run, true, &experts, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(experts[0].name, "last");
    assert_string_equal(experts[1].name, "ar\"3");
    assert_true(experts[1].numbers[EXPERT_mean] == i * 2.0);
    assert_true(experts[0].numbers[EXPERT_weight] == 0.25);
    free(columns);
    free(experts);
}

static int64_t count_rows(const char *query) {
    sqlite3 *file;
    sqlite3_stmt *select;
    assert_int_equal(sqlite3_open_v2(path, &file, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(file, query, -1, &select, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    sqlite3_close(file);
    return count;
}

/* Their rows continue after a restart of the writer; a tenth of the limit is kept. */
static void columns_and_experts(void **unused) {
    struct history *history = open_history(&(struct history_options){.keep = 1000});
    for (int i = 0; i < 1203; i++)
        take(history, TOPIC_LOSS, skilled_loss(RUN, i));
    assert_int_equal(history_commit(history), 0);
    check_parts(history, 1, 1202);
    history_close(&history);
    history = open_history(&(struct history_options){.keep = 1000});
    take(history, TOPIC_LOSS, skilled_loss(RUN, 1203));
    take(history, TOPIC_LOSS, skilled_loss(RUN, 1204));
    assert_int_equal(history_commit(history), 0);
    check_parts(history, 1, 1204);
    struct history_part *none;
    size_t count;
    assert_int_equal(history_parts(history, 2, true, &none, &count), 0);
    assert_int_equal(count, 0);
    free(none);
    history_close(&history);
    assert_int_equal(count_rows("SELECT count(*) FROM loss"), 1005);
    assert_in_range(count_rows("SELECT count(*) FROM loss_columns WHERE column = 1"), 100, 110);
    assert_int_equal(count_rows("SELECT max(number) FROM loss_experts"), 1204);
    assert_int_equal(count_rows("SELECT mean_mean FROM loss_experts_levels JOIN experts"
                                " USING (run, expert) WHERE name = 'last' AND level = 2"
                                " AND number = 3"),
                     349);
    assert_int_equal(count_rows("SELECT count(*) FROM columns WHERE of = 'loss_columns'"), 5);
}

static void runs_and_their_names(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    take_losses(history, RUN, 0, 3); /* before the first status */
    take(history, TOPIC_STATUS, status(RUN, 3));
    take_losses(history, RUN, 3, 20);
    take_losses(history, RUN, 0, 5); /* after a reset */
    take_losses(history, "00000000000000bb", 0, 2);
    assert_int_equal(history_commit(history), 0);
    struct history_runs runs;
    assert_int_equal(history_runs(history, &runs), 0);
    assert_int_equal(runs.count, 3);
    static const int expected[][2] = {{0, 20}, {1, 5}, {0, 2}};
    for (size_t i = 0; i < runs.count; i++) {
        assert_string_equal(runs.runs[i].name, i < 2 ? "waves" : "");
        assert_string_equal(runs.runs[i].model, i < 2 ? "real 2 > gru 64" : "");
        assert_string_equal(runs.runs[i].endpoint, ENDPOINT);
        assert_string_equal(runs.runs[i].resumed, "");
        assert_int_equal(runs.runs[i].part, expected[i][0]);
        assert_true(i < 2 ? runs.runs[i].parameters == 1234 : isnan(runs.runs[i].parameters));
        struct history_series series = losses(history, runs.runs[i].id, ALL);
        check_points(&series, 0, expected[i][1]);
        history_series_clear(&series);
    }
    assert_true(runs.runs[0].first_examples == EXAMPLES);
    assert_true(runs.runs[0].newest_examples == 20 * EXAMPLES);
    assert_true(runs.runs[1].newest_time == BEGINNING + 4);
    history_runs_clear(&runs);
    history_close(&history);
}

static void events_are_read_back(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    assert_int_equal(history_note(history, ENDPOINT, "silence", "not yet"), 0);
    for (int i = 0; i < 100; i++) {
        json_t *body = envelope(RUN, i);
        json_object_update_new(body, json_pack("{s:s, s:s}", "kind", "checkpoint", "text", "safe"));
        take(history, TOPIC_EVENT, body);
    }
    assert_int_equal(history_note(history, ENDPOINT, "silence", "since when"), 0);
    struct history_events events;
    struct history_range range = ALL;
    range.points = 10;
    int64_t run = history_current(history, ENDPOINT);
    assert_int_equal(history_events(history, run, NULL, &range, &events), 0);
    assert_int_equal(events.count, 10);
    assert_string_equal(events.events[9].kind, "silence");
    assert_string_equal(events.events[9].text, "since when");
    assert_string_equal(events.events[0].kind, "checkpoint");
    assert_true(events.events[0].position[HISTORY_EXAMPLES] == 92 * EXAMPLES);
    history_events_clear(&events);
    range = (struct history_range){HISTORY_TIME, BEGINNING + 10, BEGINNING + 12, 100};
    assert_int_equal(history_events(history, run, NULL, &range, &events), 0);
    assert_int_equal(events.count, 3);
    history_events_clear(&events);
    history_close(&history);
}

/* ---- Several processes ---- */

static void other_processes_can_read(void **unused) {
    struct history *writer = open_history(&DEFAULTS);
    take_losses(writer, RUN, 0, 50);
    assert_int_equal(history_commit(writer), 0);
    struct history *reader = open_history(NULL);
    int64_t run = history_current(writer, ENDPOINT);
    take_losses(writer, RUN, 50, 80);
    struct history_series series = losses(reader, run, ALL);
    check_points(&series, 0, 50);
    history_series_clear(&series);
    assert_int_equal(history_commit(writer), 0);
    series = losses(reader, run, ALL);
    check_points(&series, 0, 80);
    history_series_clear(&series);
    struct history *second = NULL;
    assert_int_equal(history_open(&second, path, &DEFAULTS), EX_IOERR);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600); /* for every umask */
    history_close(&reader);
    history_close(&writer);
}

static void a_run_continues_after_a_restart_of_the_writer(void **unused) {
    for (int end = 0, step = 1; end < 2500; step = step * 2 + 1) {
        struct history *history = open_history(&DEFAULTS);
        take_losses(history, RUN, end, end + step);
        end += step;
        history_close(&history);
        history = open_history(NULL);
        struct history_range range = ALL;
        range.points = 7;
        struct history_series series = losses(history, 1, range);
        check_points(&series, 0, end);
        history_series_clear(&series);
        history_close(&history);
    }
}

/* Old rows are deleted; rows of coarser levels still contain the whole run. */
static void old_rows_are_summarized(void **unused) {
    enum { MESSAGES = 20000, KEEP = 500 };
    struct history *history = open_history(&(struct history_options){.keep = KEEP});
    take_losses(history, RUN, 0, MESSAGES);
    history_close(&history);
    history = open_history(&(struct history_options){.keep = KEEP});
    take(history, TOPIC_STATUS, status(RUN, MESSAGES));
    assert_int_equal(history_commit(history), 0);
    struct history_series series = losses(history, 1, ALL);
    assert_int_equal(check_points(&series, 0, MESSAGES), 100);
    assert_in_range(series.points, MESSAGES / 100, MESSAGES / 100 + 20);
    history_series_clear(&series);
    struct history_range newest = {HISTORY_TIME, BEGINNING + MESSAGES - 400, INFINITY, 400};
    series = losses(history, 1, newest);
    assert_int_equal(check_points(&series, MESSAGES - 400, MESSAGES), 1);
    history_series_clear(&series);
    history_close(&history);
}

/* Rows that are not summarized yet are kept, even with a small limit. */
static void small_limit(void **unused) {
    for (int end = 0; end < 137; end += 17) {
        struct history *history = open_history(&(struct history_options){.keep = 1});
        take_losses(history, RUN, end, end + 5);
        assert_int_equal(history_commit(history), 0);
        take_losses(history, RUN, end + 5, end + 17);
        history_close(&history);
        history = open_history(NULL);
        struct history_series series = losses(history, 1, ALL);
        uint64_t messages = 0;
        for (size_t i = 0; i < series.points; i++)
            messages += series.at[i].messages;
        check_points(&series, end + 17 - (int)messages, end + 17);
        history_series_clear(&series);
        history_close(&history);
    }
}

/* A tenth of a small number is one. A restarted writer continues at the end of the previous
   one. */
static void small_limit_for_columns(void **unused) {
    for (int end = 0; end < 60; end += 10) {
        struct history *history = open_history(&(struct history_options){.keep = 1});
        for (int i = end; i < end + 10; i++)
            take(history, TOPIC_LOSS, skilled_loss(RUN, i));
        history_close(&history);
        assert_int_equal(count_rows("SELECT max(number) FROM loss_columns"), end + 9);
        assert_int_equal(count_rows("SELECT max(number) FROM loss_experts"), end + 9);
    }
}

static void files_have_a_size_limit(void **unused) {
    enum { RUNS = 6, MESSAGES = 5000, BYTES = 3 << 20 };
    struct stat file;
    for (int i = 0; i < RUNS; i++) {
        struct history *history = open_history(&(struct history_options){.bytes = BYTES});
        char run[] = "0000000000000000";
        run[15] = (char)('a' + i);
        take_losses(history, run, 0, MESSAGES);
        history_close(&history);
    }
    struct history *history = open_history(&(struct history_options){.bytes = BYTES});
    take_losses(history, RUN, 0, 1);
    history_close(&history);
    assert_int_equal(stat(path, &file), 0);
    assert_in_range(file.st_size, BYTES / 4, 2 * BYTES);
    history = open_history(NULL);
    struct history_runs runs;
    assert_int_equal(history_runs(history, &runs), 0);
    assert_in_range(runs.count, 2, RUNS + 1);
    assert_string_equal(runs.runs[runs.count - 1].run, RUN);
    struct history_series series = losses(history, runs.runs[0].id, ALL);
    check_points(&series, 0, MESSAGES);
    history_series_clear(&series);
    history_runs_clear(&runs);
    history_close(&history);
}

/* ---- Invalid files and messages ---- */

/* The file of another version with one field less and one field that was removed. */
static void take_column_away(void) {
    sqlite3 *file;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(file,
                     "ALTER TABLE loss DROP COLUMN metric_bits;"
                     "ALTER TABLE loss_levels DROP COLUMN metric_bits_minimum;"
                     "ALTER TABLE loss_levels DROP COLUMN metric_bits_maximum;"
                     "ALTER TABLE loss_levels DROP COLUMN metric_bits_mean;"
                     "ALTER TABLE loss_levels DROP COLUMN metric_bits_missing;"
                     "ALTER TABLE loss ADD COLUMN bygone REAL; UPDATE loss SET bygone = 7;"
                     "DELETE FROM columns WHERE name = 'metric_bits'",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(file);
}

/* The values of metric_bits in a series of `points` points. */
/* A file from a version without columns and experts. */
static void take_parts_away(void) {
    sqlite3 *file;
    static const char OLDER[] =
        "DROP TABLE loss_columns; DROP TABLE loss_columns_levels; DROP TABLE loss_experts;"
        "DROP TABLE loss_experts_levels; DROP TABLE experts; DROP TABLE predictions;"
        "ALTER TABLE layers DROP COLUMN member;"
        "DELETE FROM columns WHERE of LIKE 'loss_%';";
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, OLDER, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
}

/* Two networks share the layers of the previous one. */
static json_t *members(const char *run, int i) {
    json_t *body = state(run, i), *layers = json_object_get(body, "layers");
    json_object_set_new(
        body, "members",
        json_pack("{s:{s:O}, s:{s:O}}", "change", "layers", layers, "level", "layers", layers));
    return body;
}

/* The maximum number of layers, the last with a network's name. */
static void check_layers(struct history *history, int expected, const char *member) {
    struct history_layer layers[HISTORY_LAYERS];
    int count;
    assert_int_equal(history_layers(history, 1, layers, &count), 0);
    assert_int_equal(count, expected);
    assert_string_equal(layers[count - 1].kind, "lstm");
    assert_string_equal(layers[count - 1].member, member);
}

static void new_tables_are_added(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    struct history_part *parts;
    size_t count;
    take_losses(history, RUN, 0, 15);
    take(history, TOPIC_STATE, state(RUN, 14));
    history_close(&history);
    take_parts_away();
    history = open_history(NULL);
    check_layers(history, 2, "");
    assert_int_equal(history_parts(history, 1, false, &parts, &count), 0);
    assert_int_equal(count, 0);
    free(parts);
    history_close(&history);
    history = open_history(&DEFAULTS);
    for (int i = 15; i < 25; i++)
        take(history, TOPIC_LOSS, skilled_loss(RUN, i));
    take(history, TOPIC_STATE, members(RUN, 24));
    assert_int_equal(history_commit(history), 0);
    check_parts(history, 1, 24);
    check_layers(history, 4, "level");
    struct history_series series = losses(history, 1, ALL);
    assert_int_equal(series.points, 25);
    history_series_clear(&series);
    history_close(&history);
}

static struct history_value *read_bits(struct history *history, size_t points,
                                       struct history_series *series) {
    struct history_range range = ALL;
    range.points = points;
    *series = losses(history, 1, range);
    struct history_value *values = malloc(series->points * sizeof *values);
    for (size_t i = 0; i < series->points; i++)
        values[i] = series->values[i * series->columns + (size_t)column("metric_bits")];
    return values;
}

static void columns_are_added_and_ignored(void **unused) {
    enum { BEFORE = 1000, MESSAGES = 2000, POINTS = 20 };
    struct history *history = open_history(&DEFAULTS);
    struct history_series series;
    take_losses(history, RUN, 0, BEFORE);
    history_close(&history);
    take_column_away();

    history = open_history(NULL); /* a reader does not change the file */
    struct history_value *bits = read_bits(history, POINTS / 2, &series);
    check_points(&series, 0, BEFORE);
    for (size_t i = 0; i < series.points; i++)
        assert_true(isnan(bits[i].mean) && bits[i].missing == series.at[i].messages);
    free(bits);
    history_series_clear(&series);
    history_close(&history);

    history = open_history(&DEFAULTS);
    take_losses(history, RUN, BEFORE, MESSAGES);
    bits = read_bits(history, POINTS, &series);
    check_points(&series, 0, MESSAGES);
    for (size_t i = 0, first = 0; i < series.points; first += series.at[i++].messages) {
        size_t end = first + series.at[i].messages, begin = first < BEFORE ? BEFORE : first;
        size_t known = end > begin ? end - begin : 0;
        assert_int_equal(bits[i].missing, series.at[i].messages - known);
        assert_true(known ? bits[i].minimum == (double)begin * 0.5 : isnan(bits[i].mean));
    }
    free(bits);
    history_series_clear(&series);
    history_close(&history);

    sqlite3 *file;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file,
                                  "CREATE TEMP TABLE wrong (x CHECK (x = 0));"
                                  "INSERT INTO wrong SELECT count(*) - 1 FROM columns"
                                  " WHERE name = 'metric_bits' AND unit = 'bits';"
                                  "INSERT INTO wrong SELECT sum(bygone) - 7000 FROM loss",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(file);
}

static void execute(const char *sql) {
    sqlite3 *file;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
}

static void record(int messages) {
    struct history *history = open_history(&DEFAULTS);
    take_losses(history, RUN, 0, messages);
    history_close(&history);
}

#define ENDLESS "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

static void endless_views_are_rejected(void **unused) {
    struct history_runs runs;
    record(10);
    execute("DROP TABLE runs; CREATE VIEW runs (id, part, name) AS " ENDLESS
            "SELECT i, i, i FROM n");
    struct history *history = open_history(NULL);
    assert_int_equal(history_runs(history, &runs), -1);
    history_close(&history);
    assert_int_equal(history_open(&history, path, &DEFAULTS), EX_IOERR);
}

static void numbers_out_of_range_are_ignored(void **unused) {
    enum { MESSAGES = 2000, POINTS = 50 };
    static const char *const numbers[] = {"-1", "-9223372036854775807 - 1", "9223372036854775807"};
    char sql[512];
    record(MESSAGES);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(
            sql, sizeof sql,
            "INSERT INTO loss (run, number, examples, messages) SELECT id, %s, 5, -1 FROM runs;"
            "INSERT INTO loss_levels (run, level, number, examples, messages)"
            " SELECT id, 8, %s, 5, -1 FROM runs",
            numbers[i], numbers[i]);
        execute(sql);
    }
    struct history *history = open_history(NULL);
    struct history_series series;
    const struct history_range range = {HISTORY_EXAMPLES, -INFINITY, INFINITY, POINTS};
    assert_int_equal(history_loss(history, 1, &range, &series), 0);
    check_points(&series, 0, MESSAGES);
    history_series_clear(&series);
    history_close(&history);
    history = open_history(&DEFAULTS);
    take_losses(history, RUN, MESSAGES, MESSAGES + 10);
    history_close(&history);
}

static void reading_has_a_time_limit(void **unused) {
    struct database_clock clock = {.limit = 0};
    sqlite3 *file;
    assert_int_equal(
        database_open(&file, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &clock),
        SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, ENDLESS "SELECT count(*) FROM n", NULL, NULL, NULL),
                     SQLITE_INTERRUPT);
    assert_string_equal(database_message(file), "reading timed out");
    sqlite3_close(file);
}

static void other_files_are_not_changed(void **unused) {
    struct history *history = NULL;
    assert_int_equal(history_open(&history, path, NULL), EX_IOERR);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("this is somebody's text\n", file);
    fclose(file);
    assert_int_equal(history_open(&history, path, &DEFAULTS), EX_IOERR);
    assert_int_equal(history_open(&history, path, NULL), EX_IOERR);
    struct stat after;
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, 24000);
    assert_null(history);
}

static void invalid_messages_are_ignored(void **unused) {
    static const char *const values[] = {
        "null",     "true", "-1", "1e308",
        "\"text\"", "[]",   "{}", "[1, {\"hidden\": 3, \"histogram\": [1]}, null]"};
    struct history *history = open_history(&DEFAULTS);
    take(history, TOPIC_LOSS, json_object());
    take(history, TOPIC_STATE, json_pack("{s:s}", "run", RUN));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int topic = 0; topic < TOPICS; topic++) {
            static const char *const keys[] = {"mean", "metric", "latency_us", "layers",
                                               "name", "model",  "kind",       "text"};
            json_t *body = envelope(RUN, (int)i), *value;
            for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
                value = json_loads(values[i], JSON_DECODE_ANY, NULL);
                assert_int_equal(json_object_set_new(body, keys[key], value), 0);
            }
            take(history, (enum topic)topic, body);
        }
    struct message broken = {.topic = TOPIC_LOSS, .problem = "the second frame is not JSON"};
    assert_int_equal(history_take(history, ENDPOINT, &broken), 0);
    struct history_series series = losses(history, 1, ALL);
    assert_int_equal(series.points, sizeof values / sizeof *values);
    history_series_clear(&series);
    history_close(&history);
}

static void long_texts_are_cut(void **unused) {
    enum { LENGTH = 100000 };
    char *words = malloc(LENGTH + 1);
    assert_non_null(words);
    for (int i = 0; i < LENGTH; i += 2)
        memcpy(words + i, "\u00e9", 2);
    words[LENGTH] = '\0';
    words[1000] = '\n';
    words[1001] = '\x1b';
    struct history *history = open_history(&DEFAULTS);
    json_t *body = envelope(RUN, 0);
    json_object_set_new(body, "model", json_string(words));
    json_object_set_new(body, "kind", json_string(words));
    json_object_set_new(body, "text", json_string(words));
    json_object_set_new(body, "layers", json_pack("[{s:s}]", "kind", words));
    for (int topic = 0; topic < TOPICS; topic++)
        take(history, (enum topic)topic, json_deep_copy(body));
    json_decref(body);
    struct history_runs runs;
    struct history_events events;
    struct history_layer layers[HISTORY_LAYERS];
    int count;
    assert_int_equal(history_runs(history, &runs), 0);
    assert_int_equal(history_events(history, 1, NULL, &ALL, &events), 0);
    assert_int_equal(history_layers(history, 1, layers, &count), 0);
    assert_in_range(strlen(runs.runs[0].model), 1000, 5000);
    assert_in_range(strlen(events.events[0].text), 1000, 5000);
    assert_int_equal(runs.runs[0].model[1000], ' ');
    assert_int_equal(count, 1);
    /* Texts are not cut within a character: that would be invalid JSON. */
    const char *cut[] = {runs.runs[0].model, events.events[0].kind, layers[0].kind};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        json_t *string = json_string(cut[i]);
        assert_non_null(string);
        json_decref(string);
    }
    history_runs_clear(&runs);
    history_events_clear(&events);
    history_close(&history);
    free(words);
}

static void a_run_is_recorded_once(void **unused) {
    struct history *history = open_history(&DEFAULTS);
    for (int i = 0; i < 20; i++) {
        json_t *body = loss(RUN, i);
        struct message message = {.topic = TOPIC_LOSS, .body = body};
        assert_int_equal(history_take(history, ENDPOINT, &message), 0);
        assert_int_equal(history_take(history, "tcp://localhost:5571", &message), 0);
        json_decref(body);
    }
    struct history_series series = losses(history, 1, ALL);
    assert_int_equal(series.points, 20);
    check_points(&series, 0, 20);
    history_series_clear(&series);
    history_close(&history);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_number_is_read_back),
        TEST(every_resolution_is_correct),
        TEST(ranges_on_every_axis),
        TEST(layers_and_histograms),
        TEST(runs_and_their_names),
        TEST(events_are_read_back),
        TEST(other_processes_can_read),
        TEST(a_run_continues_after_a_restart_of_the_writer),
        TEST(old_rows_are_summarized),
        TEST(files_have_a_size_limit),
        TEST(columns_are_added_and_ignored),
        TEST(endless_views_are_rejected),
        TEST(numbers_out_of_range_are_ignored),
        TEST(reading_has_a_time_limit),
        TEST(other_files_are_not_changed),
        TEST(invalid_messages_are_ignored),
        TEST(long_texts_are_cut),
        TEST(a_run_is_recorded_once),
        TEST(small_limit),
        TEST(small_limit_for_columns),
        TEST(columns_and_experts),
        TEST(new_tables_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
