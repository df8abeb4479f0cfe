#include "report_board.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/event_file.h"
#include "common/text.h"

enum {
    NAME_SIZE = 128,
    NUMBER_SIZE = 24,
    TAG_SIZE = 64,
    TAGS = EXPERIMENT_FIGURES,
    STREAM_SETTINGS = 2
};

/* ---- Directories ---- */

static int make_directory(const char *path, struct error *error) {
    if (mkdir(path, 0777) && errno != EEXIST)
        return error_set(error, EX_CANTCREAT, "%s cannot be made: %s", path, strerror(errno));
    return 0;
}

/* PATH/NAME, made; `path` becomes it. */
static int enter(char path[PATH_MAX], const char *name, struct error *error) {
    size_t used = strlen(path);
    if ((size_t)snprintf(path + used, PATH_MAX - used, "/%s", name) >= PATH_MAX - used)
        return error_set(error, EX_CANTCREAT, "the name of the directory %s is too long", path);
    return make_directory(path, error);
}

/* Take out what an earlier call has left: TensorBoard would show both. */
static void clear_events(const char *path) {
    static const char events[] = "events.out.tfevents.";
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (!strncmp(entry->d_name, events, strlen(events)))
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
}

static int open_events(struct event_file **file, const char *path, struct error *error) {
    clear_events(path);
    if (event_file_open(file, path) == EX_OK)
        return 0;
    return error_set(error, EX_CANTCREAT, "no event file can be made in %s", path);
}

static int close_events(struct event_file **file, const char *path, struct error *error) {
    if (event_file_close(file))
        return error_set(error, EX_IOERR, "event files in %s cannot be written: %s", path,
                         strerror(errno));
    return 0;
}

/* ---- Settings ---- */

/* Keys that any variant sets, with the type that fits all of their values. */
static size_t find_settings(const struct experiment_results *results,
                            struct event_setting *settings) {
    size_t count = 0;
    for (size_t i = 0; i < results->variant_count; i++)
        for (size_t k = 0; k < results->variants[i].setting_count; k++) {
            const struct experiment_setting *setting = &results->variants[i].settings[k];
            enum event_setting_type type = event_setting_type(setting->value);
            size_t place = 0;
            while (place < count && strcmp(settings[place].name, setting->key) != 0)
                place++;
            if (place == count)
                settings[count++] = (struct event_setting){.name = setting->key, .type = type};
            else if (settings[place].type != type)
                settings[place].type = EVENT_TEXT;
        }
    return count;
}

struct board {
    const struct summary *summary;
    struct experiment_store *store;
    char path[PATH_MAX];            /* DIRECTORY/EXPERIMENT */
    struct event_setting *settings; /* (setting_count,) all there are, without values */
    size_t setting_count;
    struct event_setting *own; /* (setting_count + STREAM_SETTINGS,) room for those of a run */
};

/* Those of a variant on a stream: how many. */
static size_t settings_of(struct board *b, const struct experiment_variant *variant,
                          const char *stream) {
    size_t count = 0;
    b->own[count++] = (struct event_setting){"stream", stream, EVENT_TEXT};
    b->own[count++] = (struct event_setting){"variant", variant->name, EVENT_TEXT};
    for (size_t i = 0; i < b->setting_count; i++) {
        const char *value = summary_setting(variant, b->settings[i].name);
        if (value)
            b->own[count++] =
                (struct event_setting){b->settings[i].name, value, b->settings[i].type};
    }
    return count;
}

/* ---- The experiment ---- */

/* The scalars that the table of hparams shows: figures that there are. */
static size_t find_metrics(const struct experiment_results *results, char tags[TAGS][TAG_SIZE],
                           const char *metrics[TAGS]) {
    size_t count = 0;
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        for (size_t i = 0; i < results->run_count; i++)
            if (isfinite(experiment_figure(&results->runs[i].figures, n))) {
                snprintf(tags[count], TAG_SIZE, "result/%s", experiment_measures[n].name);
                metrics[count] = tags[count];
                count++;
                break;
            }
    return count;
}

static int write_experiment(struct board *b, struct error *error) {
    const struct experiment_results *results = b->summary->results;
    struct event_file *file;
    char tags[TAGS][TAG_SIZE];
    const char *metrics[TAGS];
    size_t metric_count = find_metrics(results, tags, metrics);
    if (open_events(&file, b->path, error))
        return -1;
    b->own[0] = (struct event_setting){"stream", "", EVENT_TEXT};
    b->own[1] = (struct event_setting){"variant", "", EVENT_TEXT};
    for (size_t i = 0; i < b->setting_count; i++)
        b->own[STREAM_SETTINGS + i] = b->settings[i];
    event_experiment(file, isnan(results->started) ? 0 : results->started,
                     results->name ? results->name : "", b->own, STREAM_SETTINGS + b->setting_count,
                     metrics, metric_count);
    return close_events(&file, b->path, error);
}

/* ---- A run ---- */

static void put(struct event_file *file, const char *tag, double value) {
    if (isfinite(value))
        event_scalar(file, tag, value);
}

/* Points are as far apart in time as in examples. */
static void put_points(struct event_file *file, const struct experiment_run *run,
                       const struct experiment_point *points, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct experiment_point *p = &points[i];
        double share = run->examples ? (double)p->examples / (double)run->examples : 0;
        event_begin(file, run->started + share * run->seconds, (int64_t)p->examples);
        put(file, "loss/mean", p->mean);
        put(file, "loss/baseline", p->baseline);
        put(file, "run/gradient_norm", p->gradient_norm);
        put(file, "run/update_ratio", p->update_ratio);
        put(file, "run/weight_norm", p->weight_norm);
        event_end(file);
    }
}

static void put_figures(struct event_file *file, const struct experiment_run *run) {
    char tag[TAG_SIZE];
    event_begin(file, run->started + run->seconds, (int64_t)run->examples);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++) {
        snprintf(tag, sizeof tag, "result/%s", experiment_measures[n].name);
        put(file, tag, experiment_figure(&run->figures, n));
    }
    event_end(file);
}

/* `path`: of the variant on its stream. */
static int write_run(struct board *b, const struct experiment_variant *variant,
                     const struct experiment_stream *stream, const struct experiment_run *run,
                     const char *path, struct error *error) {
    struct experiment_point *points;
    struct event_file *file;
    size_t count;
    char own[PATH_MAX], name[NAME_SIZE], group[2 * NAME_SIZE + NUMBER_SIZE];
    snprintf(own, sizeof own, "%s", path);
    snprintf(name, sizeof name, "seed-%lld", (long long)run->seed);
    if (experiment_store_curve(b->store, run->run, &points, &count, error))
        return -1;
    if (enter(own, name, error) || open_events(&file, own, error)) {
        free(points);
        return -1;
    }
    snprintf(group, sizeof group, "%.*s, %.*s", NAME_SIZE - 1, stream->name, NAME_SIZE - 1,
             variant->name);
    event_session_start(file, run->started, group, b->own, settings_of(b, variant, stream->name));
    put_points(file, run, points, count);
    put_figures(file, run);
    event_session_end(file, run->started + run->seconds, run->state != EXPERIMENT_DONE);
    free(points);
    return close_events(&file, own, error);
}

/* The number keeps names apart that are one when they are plain. */
static int write_cell(struct board *b, size_t stream, size_t variant, const char *path,
                      struct error *error) {
    const struct summary_cell *cell = &b->summary->streams[stream].cells[variant];
    const struct experiment_variant *of = &b->summary->results->variants[variant];
    char own[PATH_MAX], plain[NAME_SIZE], name[NAME_SIZE + NUMBER_SIZE];
    if (cell->waiting == cell->run_count)
        return 0;
    text_file_name(plain, sizeof plain, of->name);
    snprintf(name, sizeof name, "%02zu-%s", of->variant, plain);
    snprintf(own, sizeof own, "%s", path);
    if (enter(own, name, error))
        return -1;
    for (size_t i = 0; i < cell->run_count; i++)
        if (cell->runs[i].state != EXPERIMENT_WAITING &&
            write_run(b, of, b->summary->streams[stream].stream, &cell->runs[i], own, error))
            return -1;
    return 0;
}

static int write_streams(struct board *b, struct error *error) {
    char path[PATH_MAX], plain[NAME_SIZE];
    for (size_t k = 0; k < b->summary->results->stream_count; k++) {
        memcpy(path, b->path, sizeof path);
        text_file_name(plain, sizeof plain, b->summary->results->streams[k].name);
        if (enter(path, plain, error))
            return -1;
        for (size_t i = 0; i < b->summary->results->variant_count; i++)
            if (write_cell(b, k, i, path, error))
                return -1;
    }
    return 0;
}

int report_board(const struct summary *summary, struct experiment_store *store,
                 const char *directory, struct error *error) {
    struct board b = {.summary = summary, .store = store};
    const struct experiment_results *results = summary->results;
    char plain[NAME_SIZE];
    size_t most = STREAM_SETTINGS + 1;
    for (size_t i = 0; i < results->variant_count; i++)
        most += results->variants[i].setting_count;
    b.settings = calloc(most, sizeof *b.settings);
    b.own = calloc(most, sizeof *b.own);
    snprintf(b.path, sizeof b.path, "%s", directory);
    text_file_name(plain, sizeof plain,
                   results->name && *results->name ? results->name : "experiment");
    int status = b.settings && b.own ? 0 : error_no_memory(error);
    if (!status) {
        b.setting_count = find_settings(results, b.settings);
        status = make_directory(b.path, error);
    }
    if (!status)
        status = enter(b.path, plain, error);
    if (!status)
        status = write_experiment(&b, error);
    if (!status)
        status = write_streams(&b, error);
    free(b.settings);
    free(b.own);
    return status;
}
