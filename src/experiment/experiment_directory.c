#include "experiment_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "experiment_spec.h"

enum { PATH_SIZE = 4096, NAME_SIZE = PATH_SIZE / 2 - 1 };

static const char *path_of(const char *directory, const char *name, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.*s/%.*s", NAME_SIZE, directory, NAME_SIZE, name);
    return path;
}

/* Base n of those that are written here: of a stream, or, after the last of them, of all. */
static const char *base_of(const char *directory, const struct experiment_spec *spec, size_t n,
                           char path[PATH_SIZE]) {
    char name[NAME_SIZE];
    if (n == spec->stream_count)
        return path_of(directory, "base.yaml", path);
    snprintf(name, sizeof name, "base-%s.yaml", spec->streams[n].name);
    return path_of(directory, name, path);
}

/* Nothing of the user's is overwritten: before the first lock a base is none of ours. */
static int check_bases(const char *directory, const struct experiment_spec *spec,
                       struct error *error) {
    char path[PATH_SIZE];
    for (size_t n = 0; n <= spec->stream_count; n++)
        if (access(base_of(directory, spec, n, path), F_OK) == 0)
            return error_set(error, EX_CANTCREAT,
                             "%s is there already, and no experiment has written it: choose "
                             "another directory with -o",
                             path);
    return 0;
}

static int take_lock(const char *directory, bool *first, int *lock, struct error *error) {
    char path[PATH_SIZE];
    path_of(directory, "lock", path);
    *lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *first = *lock >= 0;
    if (*lock < 0 && errno == EEXIST)
        *lock = open(path, O_RDWR | O_CLOEXEC);
    if (*lock < 0)
        return error_set(error, EX_CANTCREAT, "%s cannot be made: %s", path, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return error_set(error, EX_TEMPFAIL,
                     "%s is in use by another runnel-experiment: wait for it, or choose another "
                     "directory with -o",
                     directory);
}

int directory_take(const char *path, const struct experiment_spec *spec, bool *made, int *lock,
                   struct error *error) {
    char file[PATH_SIZE];
    bool first;
    *made = mkdir(path, 0777) == 0;
    if (!*made && errno != EEXIST)
        return error_set(error, EX_CANTCREAT, "%s cannot be made: %s", path, strerror(errno));
    if (take_lock(path, &first, lock, error))
        return -1;
    if (!first || check_bases(path, spec, error) == 0)
        return 0;
    unlink(path_of(path, "lock", file));
    return -1;
}

void directory_remove(const char *path, const struct experiment_spec *spec) {
    char file[PATH_SIZE];
    for (size_t n = 0; n <= spec->stream_count; n++)
        unlink(base_of(path, spec, n, file));
    unlink(path_of(path, "lock", file));
    rmdir(path);
}
