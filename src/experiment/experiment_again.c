#include "experiment_again.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"

enum { PATH_SIZE = 4096, NAME_SIZE = PATH_SIZE / 2 - 1 };

static const char BEFORE[] = "before", PART[] = "before.part", GONE[] = "before.gone",
                  STREAMS[] = "streams";
static const char *const results[] = {"results.sqlite", "results.sqlite-wal", "results.sqlite-shm",
                                      "results.sqlite-journal"};
enum { RESULTS = sizeof results / sizeof *results };

static const char *join(const char *directory, const char *name, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.*s/%.*s", NAME_SIZE, directory, NAME_SIZE, name);
    return path;
}

/* `name` of one directory into another one; what is not there stays so. */
static int move(const char *from, const char *to, const char *name, const char *as,
                struct error *error) {
    char old[PATH_SIZE], target[PATH_SIZE];
    if (rename(join(from, name, old), join(to, as, target)) == 0 || errno == ENOENT)
        return 0;
    return error_set(error, EX_IOERR, "%s cannot be renamed to %s: %s", old, target,
                     strerror(errno));
}

static int move_all(const char *from, const char *to, struct error *error) {
    for (size_t n = 0; n < RESULTS; n++)
        if (move(from, to, results[n], results[n], error))
            return -1;
    return move(from, to, STREAMS, STREAMS, error);
}

/* Of one level: a directory of files. */
static void delete_directory(const char *path) {
    char file[PATH_SIZE];
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(join(path, entry->d_name, file));
    if (directory)
        closedir(directory);
    rmdir(path);
}

static void delete_all(const char *directory) {
    char path[PATH_SIZE];
    for (size_t n = 0; n < RESULTS; n++)
        unlink(join(directory, results[n], path));
    delete_directory(join(directory, STREAMS, path));
}

static bool is_there(const char *directory, const char *name) {
    char path[PATH_SIZE];
    return access(join(directory, name, path), F_OK) == 0;
}

int again_set_aside(const char *directory, struct error *error) {
    char part[PATH_SIZE];
    if (mkdir(join(directory, PART, part), 0777))
        return error_set(error, EX_IOERR, "%s cannot be made: %s", part, strerror(errno));
    if (move_all(directory, part, error) == 0 &&
        move(directory, directory, PART, BEFORE, error) == 0)
        return 0;
    struct error ignored;
    again_restore(directory, &ignored);
    return -1;
}

static void clear_away(const char *directory) {
    char gone[PATH_SIZE];
    delete_all(join(directory, GONE, gone));
    rmdir(gone);
}

int again_restore(const char *directory, struct error *error) {
    char part[PATH_SIZE];
    if (is_there(directory, BEFORE)) {
        delete_all(directory);
        if (move(directory, directory, BEFORE, PART, error))
            return -1;
    }
    if (is_there(directory, PART)) {
        if (move_all(join(directory, PART, part), directory, error))
            return -1;
        rmdir(part);
    }
    if (is_there(directory, GONE))
        clear_away(directory);
    return 0;
}

int again_drop(const char *directory, struct error *error) {
    if (move(directory, directory, BEFORE, GONE, error))
        return -1;
    clear_away(directory);
    return 0;
}
