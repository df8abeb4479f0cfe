#include "web_experiment.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/hash.h"

/* files whose change means new results: the file and its log */
static const char *const logs[] = {"", "-wal"};

static uint64_t add_file(uint64_t hash, const char *path, const char *suffix) {
    char whole[EXPERIMENT_PATH_SIZE];
    struct stat status;
    snprintf(whole, sizeof whole, "%s%s", path, suffix);
    if (stat(whole, &status))
        return hash_bytes(hash, "none", 1);
    const int64_t facts[] = {(int64_t)status.st_ino, status.st_size, status.st_mtim.tv_sec,
                             status.st_mtim.tv_nsec};
    return hash_bytes(hash, facts, sizeof facts);
}

/* Identifies a state of the file without opening it. */
static uint64_t stamp_of(const char *path) {
    static const char name[] = "/results.sqlite";
    char file[EXPERIMENT_PATH_SIZE];
    struct stat status;
    uint64_t hash = HASH_BEGIN;
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(file, sizeof file, "%s%s", path, directory ? name : "");
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        hash = add_file(hash, file, logs[i]);
    return hash;
}

/* Keeps the previous results if the file cannot be read. */
static int read_results(struct experiment *experiment, struct error *error) {
    struct experiment_store *store;
    struct experiment_results results = {0};
    if (experiment_store_open(&store, experiment->path, EXPERIMENT_READ, error))
        return -1;
    int result = experiment_store_read(store, &results, error);
    experiment_store_close(&store);
    if (result) {
        experiment_results_clear(&results);
        return -1;
    }
    experiment_results_clear(&experiment->results);
    experiment->results = results;
    experiment->revision++;
    return 0;
}

int experiment_open(struct experiment *experiment, const char *path) {
    struct error error;
    *experiment = (struct experiment){.path = path, .stamp = stamp_of(path)};
    return read_results(experiment, &error) ? complain_error(&error) : EX_OK;
}

void experiment_close(struct experiment *experiment) {
    if (experiment->revision)
        experiment_results_clear(&experiment->results);
    *experiment = (struct experiment){0};
}

void experiment_follow(struct experiment *experiment, struct live *live) {
    struct error error;
    uint64_t stamp = stamp_of(experiment->path);
    if (stamp == experiment->stamp)
        return;
    experiment->stamp = stamp;
    bool failed = read_results(experiment, &error) != 0;
    if (failed && !experiment->complained)
        complain(EX_OK, "%s; showing the last results that could be read", error.text);
    experiment->complained = failed;
    if (failed)
        return;
    char json[64];
    snprintf(json, sizeof json, "{\"revision\":%llu}", (unsigned long long)experiment->revision);
    live_publish(live, "experiment", json);
}
