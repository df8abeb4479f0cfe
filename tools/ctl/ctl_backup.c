#include "ctl_backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/format.h"
#include "ctl_state.h"

#define PARTIAL ".partial"

enum { DIRECTORY_MODE = 0700, TRIES = 5 };

static int fail(const struct error *error) {
    return complain(error->status, "%s", error->text);
}

/* ---- Output ---- */

/* Files that a copy can have; all other files are left alone. */
static bool is_ours(const char *name) {
    return !strncmp(name, "checkpoint.", strlen("checkpoint.")) ||
           !strncmp(name, STATE_JOURNAL, strlen(STATE_JOURNAL)) || !strcmp(name, STATE_ROLLBACK) ||
           state_is_parameters(name);
}

static void clear(const char *directory) {
    char path[STATE_PATH_SIZE];
    DIR *open = opendir(directory);
    for (const struct dirent *entry; open && (entry = readdir(open));)
        if (is_ours(entry->d_name)) {
            state_path(path, directory, entry->d_name);
            unlink(path);
        }
    if (open)
        closedir(open);
}

/* Creates an empty directory. Reuses one that a killed call has left. */
static int make_directory(const char *directory, struct error *error) {
    clear(directory);
    if ((rmdir(directory) && errno != ENOENT) || mkdir(directory, DIRECTORY_MODE))
        return error_set(error, EX_CANTCREAT, "cannot create %s: %s", directory, strerror(errno));
    return 0;
}

static int finish(const char *partial, const char *directory, struct error *error) {
    char parent[STATE_PATH_SIZE];
    snprintf(parent, sizeof parent, "%s", directory);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    if (state_sync_directory(partial, error))
        return -1;
    if (rename(partial, directory))
        return error_set(error, EX_CANTCREAT, "cannot rename %s to %s: %s", partial, directory,
                         strerror(errno));
    return state_sync_directory(slash ? parent : ".", error);
}

static void print_contents(const char *directory, const struct state *state) {
    char bytes[FORMAT_SIZE], oldest[FORMAT_SIZE], newest[FORMAT_SIZE], position[FORMAT_SIZE];
    printf("%s: ", directory);
    if (state->has_journal)
        printf("entries %s to %s of the journal, ", format_grouped(oldest, (double)state->oldest),
               format_grouped(newest, (double)state->newest));
    printf("%zu checkpoint%s up to entry %s, %s\n", state->count, state->count == 1 ? "" : "s",
           format_grouped(position, (double)state->checkpoints[0].position),
           format_bytes(bytes, (double)state->bytes));
}

/* ---- Backup ---- */

struct copied {
    size_t count;
    struct state_checkpoint checkpoints[STATE_CHECKPOINTS];
};

static int newer_first(const void *a, const void *b) {
    const struct state_checkpoint *left = a, *right = b;
    if (left->position != right->position)
        return left->position < right->position ? 1 : -1;
    return left->age < right->age ? -1 : 1;
}

/* Copies all checkpoints under separate names, since the daemon may rename them meanwhile. Leaves
   out damaged ones. */
static int copy_checkpoints(const char *state, const char *partial, struct copied *copied,
                            struct error *error) {
    char from[STATE_PATH_SIZE], to[STATE_PATH_SIZE], name[STATE_NAME_SIZE];
    copied->count = 0;
    for (size_t age = 1; age <= STATE_CHECKPOINTS; age++) {
        struct state_checkpoint *next = &copied->checkpoints[copied->count];
        state_name(age, name);
        state_path(from, state, age < STATE_CHECKPOINTS ? name : STATE_FIRST);
        next->age = age;
        snprintf(next->name, sizeof next->name, "checkpoint.copy-%zu", age);
        state_path(to, partial, next->name);
        int result = state_copy(from, to, error);
        if (result < 0)
            return -1;
        if (result == 0 && state_check_checkpoint(to, next, error))
            unlink(to);
        else if (result == 0)
            copied->count++;
    }
    qsort(copied->checkpoints, copied->count, sizeof *copied->checkpoints, newer_first);
    return 0;
}

/* Names the checkpoints that belong to the journal, newest first. */
static int name_checkpoints(const char *partial, const struct copied *copied,
                            const struct state *journal, size_t *named, struct error *error) {
    char from[STATE_PATH_SIZE], to[STATE_PATH_SIZE], name[STATE_NAME_SIZE];
    *named = 0;
    for (size_t i = 0; i < copied->count; i++) {
        const struct state_checkpoint *c = &copied->checkpoints[i];
        bool again = i > 0 && c->position == copied->checkpoints[i - 1].position;
        bool belongs = !journal->has_journal ||
                       (c->position <= journal->newest && c->position + 1 >= journal->oldest);
        state_path(from, partial, c->name);
        state_name(*named + 1, name);
        if (c->position == 0 && journal->has_journal && *named > 0)
            snprintf(name, sizeof name, STATE_FIRST);
        state_path(to, partial, name);
        if (again || !belongs ? unlink(from) : rename(from, to))
            return error_set(error, EX_IOERR, "cannot write %s: %s", to, strerror(errno));
        *named += !again && belongs;
    }
    return 0;
}

/* The mark was read before the journal was copied, so the journal must reach it: see journal.h. */
static int check_end(const char *path, const struct state *journal, uint64_t marked,
                     struct error *error) {
    if (!journal->synced || journal->newest >= marked)
        return 0;
    return error_set(error, EX_DATAERR,
                     "the journal %s ends at entry %" PRIu64 ", but entries up to %" PRIu64
                     " were acknowledged according to " STATE_MARK
                     ": its write-ahead log is truncated or missing; start the daemon, "
                     "which reports how to continue",
                     path, journal->newest, marked);
}

/* Returns 1 if the journal has advanced since the checkpoints were copied. */
static int copy_all(const char *state, const char *partial, struct state *contents,
                    struct error *error) {
    char from[STATE_PATH_SIZE], to[STATE_PATH_SIZE], mark[STATE_PATH_SIZE];
    struct copied copied;
    struct state journal = {0};
    size_t named;
    state_path(mark, state, STATE_MARK);
    state_path(from, state, STATE_JOURNAL);
    state_path(to, partial, STATE_JOURNAL);
    if (make_directory(partial, error) || copy_checkpoints(state, partial, &copied, error))
        return -1;
    uint64_t marked = state_read_mark(mark);
    int result = state_copy_journal(from, to, error);
    if (result > 0 && marked > 0)
        return error_set(
            error, EX_IOERR,
            "%s not found; it had entries up to %" PRIu64
            ": put it back with its -wal file, or remove %s to back up only the checkpoints",
            from, marked, mark);
    if (result < 0 || (result == 0 && (state_check_journal(to, &journal, error) ||
                                       check_end(from, &journal, marked, error))))
        return -1;
    if (name_checkpoints(partial, &copied, &journal, &named, error) ||
        (journal.has_journal && state_copy_parameters(state, partial, error)))
        return -1;
    if (named == 0 && copied.count > 0)
        return 1;
    return state_check(partial, contents, error);
}

static int make(const char *state, const char *partial, struct state *contents,
                struct error *error) {
    for (int tried = 0; tried < TRIES; tried++) {
        int result = copy_all(state, partial, contents, error);
        if (result <= 0)
            return result;
    }
    return error_set(error, EX_TEMPFAIL,
                     "cannot back up %s: the journal drops entries faster than the checkpoints are "
                     "copied; increase state.checkpoint.keep",
                     state);
}

int backup_make(const char *state, const char *directory) {
    char partial[STATE_PATH_SIZE];
    struct state contents;
    struct error error;
    snprintf(partial, sizeof partial, "%s" PARTIAL, directory);
    if (access(directory, F_OK) == 0)
        return complain(EX_CANTCREAT, "%s already exists: name a new directory", directory);
    if (access(state, R_OK | X_OK))
        return complain(EX_NOINPUT,
                        "cannot read the state directory %s: %s; run backup on the daemon's "
                        "machine as its user",
                        state, strerror(errno));
    if (make(state, partial, &contents, &error) || finish(partial, directory, &error)) {
        clear(partial);
        rmdir(partial);
        return fail(&error);
    }
    print_contents(directory, &contents);
    return EX_OK;
}

/* ---- Restore ---- */

static int write_rollback(const char *partial, const json_t *rollback, struct error *error) {
    char path[STATE_PATH_SIZE];
    state_path(path, partial, STATE_ROLLBACK);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int status = file < 0 || json_dumpfd(rollback, file, JSON_COMPACT) || fsync(file) ? -1 : 0;
    if (status)
        error_set(error, EX_IOERR, "cannot write %s: %s", path, strerror(errno));
    if (file >= 0)
        close(file);
    return status;
}

static int copy_back(const char *directory, const char *partial, const struct state *contents,
                     const json_t *rollback, struct error *error) {
    char from[STATE_PATH_SIZE], to[STATE_PATH_SIZE];
    struct state written;
    if (make_directory(partial, error))
        return -1;
    for (size_t i = 0; i < contents->count + contents->has_journal; i++) {
        const char *name = i < contents->count ? contents->checkpoints[i].name : STATE_JOURNAL;
        state_path(from, directory, name);
        state_path(to, partial, name);
        if (state_copy(from, to, error))
            return -1;
    }
    if (contents->has_journal && state_copy_parameters(directory, partial, error))
        return -1;
    if (rollback && write_rollback(partial, rollback, error))
        return -1;
    return state_check(partial, &written, error);
}

int backup_restore(const char *directory, const char *state, const json_t *rollback) {
    char partial[STATE_PATH_SIZE];
    struct state contents;
    struct error error;
    snprintf(partial, sizeof partial, "%s" PARTIAL, state);
    if (rmdir(state) && errno != ENOENT)
        return complain(
            EX_CANTCREAT,
            "%s: %s; stop its daemon and move the directory away, or name another one", state,
            errno == ENOTEMPTY || errno == EEXIST ? "the directory is not empty" : strerror(errno));
    if (state_check(directory, &contents, &error))
        return fail(&error);
    if (rollback && !contents.has_journal)
        return complain(EX_DATAERR, "%s has no journal: cannot roll back to another position",
                        directory);
    if (copy_back(directory, partial, &contents, rollback, &error) ||
        finish(partial, state, &error)) {
        clear(partial);
        rmdir(partial);
        return fail(&error);
    }
    print_contents(state, &contents);
    if (rollback)
        printf("the daemon rolls back when it starts\n");
    return EX_OK;
}
