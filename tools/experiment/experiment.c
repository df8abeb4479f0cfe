/* runnel-experiment: learns a stream with many variants of a configuration, each with several
   seeds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/machine.h"
#include "common/options.h"
#include "common/threads.h"
#include "config/config.h"
#include "experiment_examples.h"
#include "experiment_memory.h"
#include "experiment_plan.h"
#include "experiment_pool.h"
#include "experiment_spec.h"
#include "experiment_store.h"
#include "live.h"
#include "report.h"

enum { JOBS_MAX = 1024, PATH_SIZE = EXPERIMENT_PATH_SIZE, NAME_SIZE = PATH_SIZE / 2 - 1 };

/* ---- The directory of results ---- */

static const char *path_in(const char *directory, const char *name, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.*s/%.*s", NAME_SIZE, directory, NAME_SIZE, name);
    return path;
}

/* Path of base n: of a stream, or after the last stream of all. */
static const char *base_of(const char *directory, const struct experiment_spec *spec, size_t n,
                           char path[PATH_SIZE]) {
    char name[NAME_SIZE];
    if (n == spec->stream_count)
        return path_in(directory, "base.yaml", path);
    snprintf(name, sizeof name, "base-%s.yaml", spec->streams[n].name);
    return path_in(directory, name, path);
}

/* Does not overwrite the user's files: before the first lock a base is not this program's. */
static int check_bases(const char *directory, const struct experiment_spec *spec,
                       struct error *error) {
    char path[PATH_SIZE];
    for (size_t n = 0; n <= spec->stream_count; n++)
        if (access(base_of(directory, spec, n, path), F_OK) == 0)
            return error_set(error, EX_CANTCREAT,
                             "%s already exists, but is not an experiment's directory; choose "
                             "another one with -o",
                             path);
    return 0;
}

static int take_lock(const char *directory, bool *first, int *lock, struct error *error) {
    char path[PATH_SIZE];
    path_in(directory, "lock", path);
    *lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *first = *lock >= 0;
    if (*lock < 0 && errno == EEXIST)
        *lock = open(path, O_RDWR | O_CLOEXEC);
    if (*lock < 0)
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", path, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return error_set(error, EX_TEMPFAIL,
                     "%s is in use by another runnel-experiment; wait until it ends, or choose "
                     "another directory with -o",
                     directory);
}

/* Creates the directory if missing, and locks it until the process ends or `lock`, a descriptor,
   is closed. -1: EX_CANTCREAT, also if it has other files that would be overwritten; EX_TEMPFAIL
   if another process uses it. */
static int directory_take(const char *path, const struct experiment_spec *spec, bool *made,
                          int *lock, struct error *error) {
    char file[PATH_SIZE];
    bool first;
    *made = mkdir(path, 0777) == 0;
    if (!*made && errno != EEXIST)
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", path, strerror(errno));
    if (take_lock(path, &first, lock, error))
        return -1;
    if (!first || check_bases(path, spec, error) == 0)
        return 0;
    unlink(path_in(path, "lock", file));
    return -1;
}

/* If nothing was run, nothing is left. */
static void directory_remove(const char *path, const struct experiment_spec *spec) {
    char file[PATH_SIZE];
    for (size_t n = 0; n <= spec->stream_count; n++)
        unlink(base_of(path, spec, n, file));
    unlink(path_in(path, "lock", file));
    rmdir(path);
}

/* ---- Replacing results ----

   The old results and streams are kept until the new runs begin, with all streams recorded. Until
   then a failure, a kill or a power loss restores them.

   They are in DIRECTORY/before. It is created under the name before.part, and restored or
   deleted under another name, so that each name shows what remains to be done. */

static const char BEFORE[] = "before", PART[] = "before.part", GONE[] = "before.gone",
                  STREAMS[] = "streams";
static const char *const result_files[] = {"results.sqlite", "results.sqlite-wal",
                                           "results.sqlite-shm", "results.sqlite-journal"};
enum { RESULTS = sizeof result_files / sizeof *result_files };

/* Moves `name` from one directory to another, if it exists. */
static int move(const char *from, const char *to, const char *name, const char *as,
                struct error *error) {
    char old[PATH_SIZE], target[PATH_SIZE];
    if (rename(path_in(from, name, old), path_in(to, as, target)) == 0 || errno == ENOENT)
        return 0;
    return error_set(error, EX_IOERR, "cannot rename %s to %s: %s", old, target, strerror(errno));
}

static int move_all(const char *from, const char *to, struct error *error) {
    for (size_t n = 0; n < RESULTS; n++)
        if (move(from, to, result_files[n], result_files[n], error))
            return -1;
    return move(from, to, STREAMS, STREAMS, error);
}

static void delete_directory(const char *path) {
    char file[PATH_SIZE];
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(path_in(path, entry->d_name, file));
    if (directory)
        closedir(directory);
    rmdir(path);
}

static void delete_all(const char *directory) {
    char path[PATH_SIZE];
    for (size_t n = 0; n < RESULTS; n++)
        unlink(path_in(directory, result_files[n], path));
    delete_directory(path_in(directory, STREAMS, path));
}

static bool is_there(const char *directory, const char *name) {
    char path[PATH_SIZE];
    return access(path_in(directory, name, path), F_OK) == 0;
}

static void clear_away(const char *directory) {
    char gone[PATH_SIZE];
    delete_all(path_in(directory, GONE, gone));
    rmdir(gone);
}

/* Restores the old results, and deletes those that replaced them. Does nothing without
   them. Call it before anything else in a directory. -1 (EX_IOERR). */
static int again_restore(const char *directory, struct error *error) {
    char part[PATH_SIZE];
    if (is_there(directory, BEFORE)) {
        delete_all(directory);
        if (move(directory, directory, BEFORE, PART, error))
            return -1;
    }
    if (is_there(directory, PART)) {
        if (move_all(path_in(directory, PART, part), directory, error))
            return -1;
        rmdir(part);
    }
    if (is_there(directory, GONE))
        clear_away(directory);
    return 0;
}

/* Sets results.sqlite and streams/ aside. -1 (EX_IOERR): they stay in place. */
static int again_set_aside(const char *directory, struct error *error) {
    char part[PATH_SIZE];
    if (mkdir(path_in(directory, PART, part), 0777))
        return error_set(error, EX_IOERR, "cannot create %s: %s", part, strerror(errno));
    if (move_all(directory, part, error) == 0 &&
        move(directory, directory, PART, BEFORE, error) == 0)
        return 0;
    struct error ignored;
    again_restore(directory, &ignored);
    return -1;
}

/* Deletes the old results. */
static int again_drop(const char *directory, struct error *error) {
    if (move(directory, directory, BEFORE, GONE, error))
        return -1;
    clear_away(directory);
    return 0;
}

/* ---- Options ---- */

struct arguments {
    const char *experiment, *output, *only;
    struct option_list sets;
    uint64_t jobs, seeds;
    bool check, again, quiet, live;
    const char *recording;
    struct report_options report;
};

static char key_names[CONFIG_NAMES_SIZE];

static const struct option_row rows[] = {
    {"output", 'o', "DIRECTORY", "directory of the results (NAME.experiment)",
     OPTION_DIRECTORY(struct arguments, output)},
    {"jobs", 0, "N", "parallel runs (number of available CPUs)",
     OPTION_COUNT(struct arguments, jobs, 1, JOBS_MAX)},
    {"set", 's', "KEY=VALUE", "override one key of all runs",
     OPTION_LIST(struct arguments, sets, OPTION_LIST_MAX), .complete = COMPLETE_WORDS,
     .words = key_names},
    {"seeds", 0, "N", "seeds 1 to N (as in the experiment)",
     OPTION_COUNT(struct arguments, seeds, 1, SPEC_SEEDS_MAX)},
    {"only", 0, "PATTERN", "run only variants whose names match the pattern (* and ?)",
     OPTION_TEXT(struct arguments, only)},
    {"check", 0, NULL, "print the runs, and exit", OPTION_FLAG(struct arguments, check)},
    {"live", 0, NULL, "print the configuration of a daemon with the variants as members, and exit",
     OPTION_FLAG(struct arguments, live)},
    {"recording", 0, "FILE", "with --live: compare the variants in a recording of that daemon",
     OPTION_FILE(struct arguments, recording)},
    {"again", 0, NULL, "discard existing results when new runs start",
     OPTION_FLAG(struct arguments, again)},
    {"quiet", 'q', NULL, "report only errors", OPTION_FLAG(struct arguments, quiet)},
    OPTIONS_LAST,
};

static const struct option_row report_rows[] = {
    {"csv", 0, "FILE", "write one row per run; - = standard output",
     OPTION_FILE(struct report_options, csv)},
    {"html", 0, "FILE", "write a page with tables and charts; - = standard output",
     OPTION_FILE(struct report_options, html)},
    {"tensorboard", 0, "DIRECTORY", "write event files for TensorBoard",
     OPTION_DIRECTORY(struct report_options, board)},
    {"against", 0, "DIRECTORY", "compare with earlier results",
     OPTION_DIRECTORY(struct report_options, against)},
    {"measure", 0, "NAME", "compare this measure (as in the experiment)",
     OPTION_TEXT(struct report_options, measure), .complete = COMPLETE_WORDS,
     .words = "mean recent skill skill_recent rmse mae accuracy bits crps crps_skill"},
    {"json", 'j', NULL, "print JSON", OPTION_FLAG(struct report_options, json)},
    OPTIONS_END,
};

/* One call of the program. */
struct experiment {
    const struct arguments *arguments;
    struct experiment_spec spec;
    struct experiment_plan plan;
    char directory[PATH_SIZE];
    bool made; /* this call created the directory */
    int lock;
    struct experiment_store *store;
    struct examples *examples; /* (streams,) */
    struct pool_failures failures;
};

static volatile sig_atomic_t interrupted;

/* A second signal has its default action. */
static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static void catch_signals(void) {
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, the exit status of a child is lost */
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int name_directory(struct experiment *e, struct error *error) {
    const struct arguments *a = e->arguments;
    int length = a->output ? snprintf(e->directory, PATH_SIZE, "%s", a->output)
                           : snprintf(e->directory, PATH_SIZE, "%s.experiment", e->spec.name);
    if (length > NAME_SIZE)
        return error_set(error, EX_USAGE, "the path %s is too long", e->directory);
    return 0;
}

/* ---- Streams ---- */

static bool is_needed(const struct experiment *e, size_t stream) {
    for (size_t n = 0; n < e->plan.run_count; n++) {
        const struct planned_run *run = &e->plan.runs[n];
        if (run->stream == stream && !run->over && !run->left_out)
            return true;
    }
    return false;
}

static const char *stream_path(struct experiment *e, size_t stream, char path[PATH_SIZE]) {
    char name[PATH_SIZE / 2];
    snprintf(name, sizeof name, "streams/%s.examples", e->spec.streams[stream].name);
    return path_in(e->directory, name, path);
}

static int record(struct experiment *e, size_t stream, const struct experiment_stream *row,
                  struct error *error) {
    char path[PATH_SIZE];
    bool quiet = e->arguments->quiet;
    struct examples *examples = &e->examples[stream];
    if (record_stream(&e->spec, stream, stream_path(e, stream, path), &interrupted, quiet, error) ||
        examples_open(examples, path, error))
        return -1;
    struct experiment_stream recorded = *row;
    recorded.digest = examples->digest;
    recorded.examples = examples->count;
    recorded.bytes = examples->size;
    if (!quiet)
        fprintf(stderr, "runnel-experiment: stream %s: %zu examples\n", row->name, examples->count);
    return experiment_store_stream(e->store, &recorded, error);
}

static int read_recorded(struct experiment *e, size_t stream, const struct experiment_stream *row,
                         struct error *error) {
    char path[PATH_SIZE];
    if (examples_open(&e->examples[stream], stream_path(e, stream, path), error))
        return -1;
    return strcmp(e->examples[stream].digest, row->digest) == 0
               ? 0
               : error_set(error, EX_DATAERR,
                           "%s was changed after recording (digest %s, results.sqlite has %s); "
                           "restore it, or discard the results with --again",
                           path, e->examples[stream].digest, row->digest);
}

static int open_streams(struct experiment *e, struct error *error) {
    struct experiment_results results;
    char path[PATH_SIZE];
    if (mkdir(path_in(e->directory, "streams", path), 0777) && errno != EEXIST)
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", path, strerror(errno));
    e->examples = calloc(e->spec.stream_count + 1, sizeof *e->examples);
    if (!e->examples)
        return error_no_memory(error);
    if (experiment_store_read(e->store, &results, error))
        return -1;
    int result = 0;
    for (size_t n = 0; n < e->spec.stream_count && result == 0; n++) {
        const struct experiment_stream *row =
            experiment_stream_of(&results, e->plan.stream_numbers[n]);
        if (!is_needed(e, n))
            continue;
        result = row->digest ? read_recorded(e, n, row, error) : record(e, n, row, error);
    }
    experiment_results_clear(&results);
    return result;
}

/* ---- Running ---- */

/* CPUs that this process may use, or its control group's quota, rounded up. */
static size_t processors(void) {
    double quota = ceil(machine_cpus(machine_root()));
    return (size_t)fmax(1, fmin(quota, (double)threads_cpus(NULL)));
}

static size_t jobs_of(const struct experiment *e) {
    size_t jobs = e->arguments->jobs ? e->arguments->jobs : processors();
    size_t left = plan_left(&e->plan);
    return jobs < left ? jobs : left;
}

static int store_finished(struct experiment *e, struct error *error) {
    struct experiment_progress progress;
    char finished[32];
    if (experiment_store_progress(e->store, &progress, error))
        return -1;
    if (progress.over < progress.total)
        return 0;
    snprintf(finished, sizeof finished, "%.3f", clock_unix());
    return experiment_store_set(e->store, "finished", finished, error);
}

static int run_left(struct experiment *e, struct error *error) {
    const struct pool_options options = {.plan = &e->plan,
                                         .examples = e->examples,
                                         .store = e->store,
                                         .jobs = jobs_of(e),
                                         .quiet = e->arguments->quiet,
                                         .failures = &e->failures,
                                         .stop = &interrupted};
    if (options.jobs && pool_run(&options, error))
        return -1;
    if (interrupted)
        return error_set(error, EX_TEMPFAIL,
                         "interrupted with %zu of %zu runs left; run the same command to resume",
                         plan_left(&e->plan), e->plan.run_count);
    return store_finished(e, error);
}

static int make_plan(struct experiment *e, struct error *error) {
    const struct arguments *a = e->arguments;
    const struct plan_options options = {.directory = e->directory,
                                         .sets = a->sets.values,
                                         .set_count = a->sets.count,
                                         .only = a->only};
    if (plan_make(&e->plan, &e->spec, &options, error)) {
        if (e->made)
            directory_remove(e->directory, &e->spec);
        return -1;
    }
    return 0;
}

static int prepare(struct experiment *e, struct error *error) {
    return experiment_store_open(&e->store, e->directory, EXPERIMENT_WRITE, error) ||
                   plan_enter(&e->plan, e->store, error) || open_streams(e, error)
               ? -1
               : 0;
}

/* Discards existing results once new ones can replace them. */
static int prepare_again(struct experiment *e, struct error *error) {
    struct error ignored;
    if (again_set_aside(e->directory, error))
        return -1;
    if (prepare(e, error) == 0)
        return again_drop(e->directory, error);
    experiment_store_close(&e->store);
    again_restore(e->directory, &ignored);
    return -1;
}

static int run_experiment(struct experiment *e, struct error *error) {
    if (name_directory(e, error) ||
        directory_take(e->directory, &e->spec, &e->made, &e->lock, error) ||
        again_restore(e->directory, error) || make_plan(e, error))
        return -1;
    catch_signals();
    return (e->arguments->again ? prepare_again(e, error) : prepare(e, error)) || run_left(e, error)
               ? -1
               : 0;
}

/* ---- Planned runs ---- */

static void print_plan(const struct experiment *e) {
    const struct experiment_spec *spec = &e->spec;
    printf("%s: %zu variants x %zu stream%s x %zu seed%s = %zu runs\n", spec->name,
           spec->variant_count, spec->stream_count, spec->stream_count == 1 ? "" : "s",
           spec->seed_count, spec->seed_count == 1 ? "" : "s", e->plan.run_count);
    for (size_t n = 0; n < spec->stream_count; n++) {
        void *memory = NULL;
        const char *command = spec_command(&memory, &spec->streams[n]);
        printf("  stream %s: %s\n", spec->streams[n].name, command ? command : "");
        memory_clear(&memory);
    }
    for (size_t n = 0; n < spec->variant_count; n++) {
        printf("  variant %s:", spec->variants[n].name);
        const struct spec_settings *set = &spec->variants[n].set;
        for (size_t s = 0; s < set->count; s++)
            printf("%s %s=%s", s ? "," : "", set->rows[s].key, set->rows[s].value);
        putchar('\n');
    }
}

/* In a temporary directory. */
static int check_experiment(struct experiment *e, struct error *error) {
    const char *temporary = getenv("TMPDIR");
    snprintf(e->directory, PATH_SIZE / 2, "%s/runnel-experiment.XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(e->directory))
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", e->directory,
                         strerror(errno));
    e->made = true;
    if (make_plan(e, error))
        return -1;
    int status = 0;
    if (e->arguments->recording)
        status = live_report(&e->plan, e->arguments->recording, &e->arguments->report, error);
    else if (e->arguments->live)
        status = live_print(&e->plan, stdout, error);
    else
        print_plan(e);
    directory_remove(e->directory, &e->spec);
    return status;
}

/* ---- The call ---- */

static void close_experiment(struct experiment *e) {
    for (size_t n = 0; e->examples && n < e->spec.stream_count; n++)
        examples_close(&e->examples[n]);
    free(e->examples);
    experiment_store_close(&e->store);
    if (e->lock >= 0)
        close(e->lock);
    plan_clear(&e->plan);
    spec_clear(&e->spec);
}

static int read_spec(struct experiment *e, struct error *error) {
    const struct arguments *a = e->arguments;
    return spec_read(&e->spec, a->experiment, error) ||
                   (!a->live && spec_check_seeds(&e->spec, error)) ||
                   (a->seeds && spec_set_seeds(&e->spec, a->seeds, error))
               ? -1
               : 0;
}

/* A directory of results, or the file in it. */
static bool is_result(const char *path) {
    static const char magic[] = "SQLite format 3";
    char begin[sizeof magic];
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    FILE *file = fopen(path, "rbe");
    bool is =
        file && fread(begin, sizeof magic, 1, file) == 1 && !memcmp(begin, magic, sizeof magic);
    if (file)
        fclose(file);
    return is;
}

static int report_failures(const struct experiment *e, struct error *error) {
    const struct pool_failures *failures = &e->failures;
    return failures->count == 0
               ? 0
               : error_set(error, failures->first.status,
                           "%zu run%s failed, the first: %s; run the same command to retry",
                           failures->count, failures->count == 1 ? "" : "s", failures->first.text);
}

static int call(struct experiment *e, struct error *error) {
    const struct arguments *a = e->arguments;
    if (report_check(&a->report, error))
        return -1;
    if (a->recording && !a->live)
        return error_set(error, EX_USAGE, "--recording requires --live");
    if (is_result(a->experiment) && a->live)
        return error_set(error, EX_USAGE, "--live: expected an experiment, got results in %s",
                         a->experiment);
    if (is_result(a->experiment))
        return report_make(a->experiment, &a->report, error);
    if (read_spec(e, error))
        return -1;
    if (a->check || a->live)
        return check_experiment(e, error);
    if (report_ready(&a->report, error) || run_experiment(e, error))
        return -1;
    experiment_store_close(&e->store);
    return report_make(e->directory, &a->report, error) || report_failures(e, error) ? -1 : 0;
}

static int run(const struct arguments *arguments) {
    struct experiment experiment = {.arguments = arguments, .lock = -1};
    struct error error = {0};
    int status = call(&experiment, &error);
    close_experiment(&experiment);
    if (status == 0)
        return EX_OK;
    fprintf(stderr, "runnel-experiment: %s\n", error.text);
    return error.status ? error.status : EX_SOFTWARE;
}

int main(int argc, char **argv) {
    struct arguments arguments = {0};
    const struct command_line line = {
        .name = "runnel-experiment",
        .operands = "EXPERIMENT",
        .summary = "Learns the same streams with many variants of a configuration, and compares "
                   "them. EXPERIMENT is a YAML file, or a directory of results to report.",
        .ending = "Exit status: 0 success, 64 usage, 65 results damaged or of another experiment, "
                  "66 file not found, 69 runnel-feed, runnel-replay or runnel-plot failed, 70 "
                  "internal error, 71 out of memory, 73 cannot create, 74 I/O error, 75 "
                  "interrupted or in use, 78 configuration.",
        .groups = {{NULL, rows, &arguments}, {"Reports:", report_rows, &arguments.report}},
        .complete = COMPLETE_FILE,
    };
    char **operands;
    config_names(key_names);
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    arguments.experiment = operands[0];
    arguments.report.quiet |= arguments.quiet && !arguments.report.json;
    return run(&arguments);
}
