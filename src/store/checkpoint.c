/* Checkpoints: their directory, loading, writing, and the older ones that are kept. */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "checkpoint_file.h"
#include "common/clock.h"
#include "common/sync.h"
#include "common/text.h"
#include "common/threads.h"
#include "learner/learner.h"

#define CHECKPOINT_NEWEST "checkpoint.safetensors"
#define CHECKPOINT_PREVIOUS "checkpoint.previous.safetensors"
#define CHECKPOINT_OLDER "checkpoint.%u.safetensors" /* 3, 4, ...: older than the previous one */
#define CHECKPOINT_FIRST "checkpoint.first.safetensors"
#define CHECKPOINT_TEMPORARY "checkpoint.tmp"
/* renamed by checkpoint_set_aside: 1, 2, ... */
#define CHECKPOINT_DAMAGED "checkpoint.damaged-%d.safetensors"
#define CHECKPOINT_BACK "checkpoint.back.tmp" /* the first, while it becomes the newest */

enum {
    CHECKPOINT_ASIDE_SIZE = 64, /* bytes of a file name */
};

struct checkpoint {
    char directory[CONFIG_PATH_SIZE];
    int directory_file, lock, event;
    int spare;     /* a reserved descriptor for the file to write */
    unsigned keep; /* number of newest checkpoints */
    /* The new name for the newest checkpoint, which is damaged; "": it is whole. */
    char aside[CHECKPOINT_ASIDE_SIZE];
    /* The checkpoints belong to another configuration and contain no learning: they are ignored and
       removed. */
    bool unlearned;

    /* The checkpoint in progress. Report, status and error belong to its thread until the event. */
    bool busy;
    pthread_t thread;
    int file;
    double started;
    struct checkpoint_report report;
    int status;
    struct error error;
};

enum {
    DIRECTORY_MODE = 0700,
    FILE_MODE = 0600,
    PID_TEXT_SIZE = 24,
    TIME_TEXT_SIZE = 32,
};

static void path_of(const struct checkpoint *checkpoint, const char *name,
                    char path[CHECKPOINT_PATH_SIZE]) {
    snprintf(path, CHECKPOINT_PATH_SIZE, "%s/%s", checkpoint->directory, name);
}

/* ---- Names ---- */

enum { EXAMPLES = 0, POSITION = 5 }; /* Indexes in learner.counters. */

/* Returns the name of the newest (1), the previous one (2), and so on. */
static void name_of(unsigned age, char name[CHECKPOINT_KEPT_NAME_SIZE]) {
    if (age <= 2)
        snprintf(name, CHECKPOINT_KEPT_NAME_SIZE, "%s",
                 age == 1 ? CHECKPOINT_NEWEST : CHECKPOINT_PREVIOUS);
    else
        snprintf(name, CHECKPOINT_KEPT_NAME_SIZE, CHECKPOINT_OLDER, age);
}

static int remove_name(int directory, const char *name) {
    return unlinkat(directory, name, 0) && errno != ENOENT ? -1 : 0;
}

/* Gives `from`, if it exists, a second name. On a filesystem without links, renames it. */
static int link_or_rename(int directory, const char *from, const char *to) {
    if (remove_name(directory, to))
        return -1;
    if (linkat(directory, from, directory, to, 0) == 0 || errno == ENOENT)
        return 0;
    return renameat(directory, from, directory, to);
}

/* Makes the newest checkpoint, which is about to be replaced, the previous one, and so on; keeps
   `keep` - 2 older ones. Renames from the oldest on, so that after a loss of power each has a name.
   The newest keeps its name until the next one replaces it. */
static int checkpoint_rotate(int directory, unsigned keep) {
    char name[CHECKPOINT_KEPT_NAME_SIZE], older[CHECKPOINT_KEPT_NAME_SIZE];
    if (faccessat(directory, CHECKPOINT_NEWEST, F_OK, 0))
        return errno == ENOENT ? 0 : -1;
    for (unsigned age = CHECKPOINT_KEEP_MAX; age > 2; age--) {
        name_of(age, older);
        name_of(age - 1, name);
        if (age > keep ? remove_name(directory, older)
            : age > 3  ? renameat(directory, name, directory, older) && errno != ENOENT
                       : link_or_rename(directory, name, older))
            return -1;
    }
    return link_or_rename(directory, CHECKPOINT_NEWEST, CHECKPOINT_PREVIOUS);
}

/* Reads counters and time; returns whether that is possible. */
static bool read_counters(const struct checkpoint *checkpoint, struct checkpoint_kept *kept,
                          uint64_t counters[CHECKPOINT_COUNTERS]) {
    enum { SIZE = CHECKPOINT_COUNTERS * sizeof *counters };
    char path[CHECKPOINT_PATH_SIZE];
    struct safetensors *file;
    path_of(checkpoint, kept->name, path);
    if (safetensors_open(&file, path, NULL))
        return false;
    const struct safetensors_entry *entry = safetensors_find(file, "learner.counters");
    const char *time = safetensors_metadata(file, "time");
    bool good = entry && time && entry->size == SIZE &&
                safetensors_read(file, entry, 0, counters, SIZE, NULL) == 0;
    if (good) {
        kept->position = counters[POSITION];
        kept->time = strtod(time, NULL);
    }
    safetensors_close(&file);
    return good;
}

static bool is_there(const struct checkpoint *checkpoint, const char *name) {
    return faccessat(checkpoint->directory_file, name, F_OK, 0) == 0;
}

/* ---- Checkpoints without any learning ---- */

/* Returns the name of the newest (1) and so on; after the oldest, the first. */
static void any_name_of(unsigned age, char name[CHECKPOINT_KEPT_NAME_SIZE]) {
    if (age <= CHECKPOINT_KEEP_MAX)
        name_of(age, name);
    else
        snprintf(name, CHECKPOINT_KEPT_NAME_SIZE, "%s", CHECKPOINT_FIRST);
}

/* Without a journal, counters do not include commands such as an import. */
static bool checkpoint_is_unlearned(const struct checkpoint *checkpoint) {
    if (!is_there(checkpoint, "journal.sqlite"))
        return false;
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX + 1; age++) {
        struct checkpoint_kept kept;
        uint64_t counters[CHECKPOINT_COUNTERS];
        any_name_of(age, kept.name);
        if (is_there(checkpoint, kept.name) && (!read_counters(checkpoint, &kept, counters) ||
                                                counters[EXAMPLES] != 0 || counters[POSITION] != 0))
            return false;
    }
    return true;
}

static int checkpoint_remove_all(const struct checkpoint *checkpoint) {
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX + 1; age++) {
        char name[CHECKPOINT_KEPT_NAME_SIZE];
        any_name_of(age, name);
        if (remove_name(checkpoint->directory_file, name))
            return -1;
    }
    return fsync(checkpoint->directory_file);
}

/* ---- Directory and lock ---- */

/* A new directory survives a loss of power once its parent is on disk. A parent that is writable
   but not readable cannot be opened for that. */
static int sync_parent(const char *path) {
    return sync_directory_of(path) && errno != EACCES ? -1 : 0;
}

/* Creates the directory and its missing parents. */
static int make_directory(const char *directory, struct error *error) {
    char path[CONFIG_PATH_SIZE];
    size_t length = strlen(directory);
    for (size_t n = 1; n <= length; n++) {
        if (directory[n] != '/' && directory[n] != '\0')
            continue;
        memcpy(path, directory, n);
        path[n] = '\0';
        if (mkdir(path, DIRECTORY_MODE) ? errno != EEXIST : sync_parent(path))
            return error_set(error, EX_IOERR, "the state directory %s cannot be created: %s: %s",
                             directory, path, strerror(errno));
    }
    return 0;
}

/* Reads the number of the process that has or had the lock; "": none. */
static void read_holder(int lock, char holder[PID_TEXT_SIZE]) {
    ssize_t size = pread(lock, holder, PID_TEXT_SIZE - 1, 0);
    holder[size > 0 ? size : 0] = '\0';
    holder[strspn(holder, "0123456789")] = '\0';
}

static int refuse_second(const struct checkpoint *checkpoint, struct error *error) {
    char holder[PID_TEXT_SIZE];
    read_holder(checkpoint->lock, holder);
    return error_set(error, EX_UNAVAILABLE,
                     "the state directory %s is in use by %s%s: stop it, or set another "
                     "state.directory for this daemon",
                     checkpoint->directory, *holder ? "process " : "another process", holder);
}

static int acquire_lock(struct checkpoint *checkpoint, struct error *error) {
    checkpoint->lock =
        openat(checkpoint->directory_file, "lock", O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (checkpoint->lock < 0)
        return error_set(error, EX_IOERR, "the state directory %s cannot be written: %s",
                         checkpoint->directory, strerror(errno));
    if (flock(checkpoint->lock, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            return refuse_second(checkpoint, error);
        return error_set(error, EX_IOERR, "the state directory %s cannot be locked: %s",
                         checkpoint->directory, strerror(errno));
    }
    char pid[PID_TEXT_SIZE];
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(checkpoint->lock, 0) || pwrite(checkpoint->lock, pid, (size_t)length, 0) < length)
        return error_set(error, EX_IOERR, "%s/lock cannot be written: %s", checkpoint->directory,
                         strerror(errno));
    return 0;
}

static int open_directory(struct checkpoint *checkpoint, struct error *error) {
    if (make_directory(checkpoint->directory, error))
        return -1;
    checkpoint->directory_file = open(checkpoint->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (checkpoint->directory_file < 0)
        return error_set(error, EX_IOERR, "the state directory %s cannot be opened: %s",
                         checkpoint->directory, strerror(errno));
    checkpoint->spare = fcntl(checkpoint->directory_file, F_DUPFD_CLOEXEC, 0);
    return acquire_lock(checkpoint, error);
}

int checkpoint_open(struct checkpoint **checkpoint, const char *directory, struct error *error) {
    struct checkpoint *opened = calloc(1, sizeof *opened);
    *checkpoint = opened;
    if (!opened)
        return error_set(error, EX_UNAVAILABLE, "out of memory for checkpoints");
    opened->directory_file = opened->lock = opened->file = opened->spare = -1;
    snprintf(opened->directory, sizeof opened->directory, "%s", directory);
    opened->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (opened->event < 0)
        error_set(error, EX_UNAVAILABLE, "checkpoints cannot be prepared: %s", strerror(errno));
    else if (open_directory(opened, error) == 0)
        return 0;
    checkpoint_close(checkpoint);
    return -1;
}

static void close_file(int *file) {
    if (*file >= 0)
        close(*file);
    *file = -1;
}

void checkpoint_close(struct checkpoint **checkpoint) {
    struct checkpoint *old = *checkpoint;
    *checkpoint = NULL;
    if (!old)
        return;
    if (old->busy)
        checkpoint_finish(old, NULL, NULL);
    close_file(&old->lock);
    close_file(&old->spare);
    close_file(&old->directory_file);
    close_file(&old->event);
    free(old);
}

/* ---- Writing ---- */

static int fail(struct checkpoint *checkpoint, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "the checkpoint %s cannot be %s: %s", checkpoint->report.path,
                     what, strerror(errno));
}

static int settle(struct checkpoint *checkpoint, struct error *error) {
    int directory = checkpoint->directory_file;
    if (fsync(checkpoint->file))
        return fail(checkpoint, "synced", error);
    if (checkpoint_rotate(directory, checkpoint->keep))
        return fail(checkpoint, "rotated", error);
    if (renameat(directory, CHECKPOINT_TEMPORARY, directory, CHECKPOINT_NEWEST))
        return fail(checkpoint, "renamed", error);
    if (fsync(directory))
        return fail(checkpoint, "synced", error);
    return 0;
}

static void *settle_thread(void *argument) {
    struct checkpoint *checkpoint = argument;
    threads_unpin();
    checkpoint->status = settle(checkpoint, &checkpoint->error);
    if (checkpoint->status)
        unlinkat(checkpoint->directory_file, CHECKPOINT_TEMPORARY, 0);
    close_file(&checkpoint->file);
    checkpoint->report.seconds = clock_seconds() - checkpoint->started;
    eventfd_write(checkpoint->event, 1);
    return NULL;
}

/* Without a free descriptor, uses the reserved one, and reserves another later. */
static int open_temporary(struct checkpoint *checkpoint) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    int file = openat(checkpoint->directory_file, CHECKPOINT_TEMPORARY, flags, FILE_MODE);
    if (file < 0 && errno == EMFILE && checkpoint->spare >= 0) {
        close_file(&checkpoint->spare);
        file = openat(checkpoint->directory_file, CHECKPOINT_TEMPORARY, flags, FILE_MODE);
    }
    if (file >= 0 && checkpoint->spare < 0)
        checkpoint->spare = fcntl(checkpoint->directory_file, F_DUPFD_CLOEXEC, 0);
    return file;
}

static int write_temporary(struct checkpoint *checkpoint, const struct config *config,
                           struct learner *learner, struct error *error) {
    struct checkpoint_report *report = &checkpoint->report;
    char path[CHECKPOINT_PATH_SIZE];
    path_of(checkpoint, CHECKPOINT_TEMPORARY, path);
    checkpoint->file = open_temporary(checkpoint);
    if (checkpoint->file < 0 && (errno == EMFILE || errno == ENFILE))
        return error_set(error, EX_TEMPFAIL, "%s cannot be opened: %s", path, strerror(errno));
    if (checkpoint->file < 0)
        return error_set(error, EX_IOERR, "%s cannot be written: %s", path, strerror(errno));
    return checkpoint_write(checkpoint->file, path, config, learner, report->time, &report->bytes,
                            error);
}

int checkpoint_start(struct checkpoint *checkpoint, const struct config *config,
                     struct learner *learner, struct error *error) {
    if (checkpoint->busy)
        return error_set(error, EX_SOFTWARE, "a checkpoint is already in progress");
    if (checkpoint_set_aside(checkpoint, error) || learner_flush(learner, error))
        return -1;
    checkpoint->started = clock_seconds();
    checkpoint->keep = (unsigned)config->checkpoint.keep;
    struct learner_counters counters = learner_counters(learner);
    checkpoint->report = (struct checkpoint_report){
        .examples = counters.examples, .steps = counters.steps, .time = clock_unix()};
    path_of(checkpoint, CHECKPOINT_NEWEST, checkpoint->report.path);
    int status = write_temporary(checkpoint, config, learner, error);
    if (!status && (status = threads_start(&checkpoint->thread, settle_thread, checkpoint)) != 0)
        error_set(error, EX_UNAVAILABLE, "cannot start a thread to write %s: %s",
                  checkpoint->report.path, strerror(status));
    if (status) {
        unlinkat(checkpoint->directory_file, CHECKPOINT_TEMPORARY, 0);
        close_file(&checkpoint->file);
        return -1;
    }
    checkpoint->busy = true;
    return 0;
}

bool checkpoint_unlearned(const struct checkpoint *checkpoint) {
    return checkpoint->unlearned;
}

bool checkpoint_busy(const struct checkpoint *checkpoint) {
    return checkpoint->busy;
}

int checkpoint_finish(struct checkpoint *checkpoint, struct checkpoint_report *report,
                      struct error *error) {
    if (!checkpoint->busy)
        return 0;
    pthread_join(checkpoint->thread, NULL);
    uint64_t events;
    ssize_t size = read(checkpoint->event, &events, sizeof events);
    (void)size; /* empty if poll has read it */
    checkpoint->busy = false;
    if (report)
        *report = checkpoint->report;
    if (checkpoint->status && error)
        *error = checkpoint->error;
    return checkpoint->status ? -1 : 1;
}

int checkpoint_poll(struct checkpoint *checkpoint, struct checkpoint_report *report,
                    struct error *error) {
    uint64_t events;
    if (!checkpoint->busy || read(checkpoint->event, &events, sizeof events) != sizeof events)
        return 0;
    return checkpoint_finish(checkpoint, report, error);
}

int checkpoint_look(const struct checkpoint *checkpoint, struct error *error) {
    char path[CHECKPOINT_PATH_SIZE];
    struct stat named, locked;
    path_of(checkpoint, "lock", path);
    if (stat(path, &named) == 0 && fstat(checkpoint->lock, &locked) == 0 &&
        named.st_dev == locked.st_dev && named.st_ino == locked.st_ino)
        return 0;
    return error_set(
        error, EX_IOERR,
        "the state directory %s or its lock was removed or replaced while the daemon ran: examples "
        "since the last checkpoint may be lost, and no more are accepted; move it back, or restore "
        "a backup (runnel-ctl restore), and start again",
        checkpoint->directory);
}

int checkpoint_descriptor(const struct checkpoint *checkpoint) {
    return checkpoint->event;
}

/* ---- Loading ---- */

static void time_text(double time, char text[TIME_TEXT_SIZE]) {
    const time_t seconds = (time_t)time;
    struct tm local;
    if (!localtime_r(&seconds, &local) || !strftime(text, TIME_TEXT_SIZE, "%F %T", &local))
        snprintf(text, TIME_TEXT_SIZE, "%.0f", time);
}

/* Returns the name of an existing checkpoint, or NULL. A file without read permission is not
   damaged. */
static const char *find(const struct checkpoint *checkpoint, struct error *error, int *status) {
    static const char *const names[] = {CHECKPOINT_NEWEST, CHECKPOINT_PREVIOUS};
    *status = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (faccessat(checkpoint->directory_file, names[n], R_OK, 0) == 0)
            return names[n];
        if (errno != ENOENT) {
            *status = error_set(error, EX_IOERR,
                                "%s/%s cannot be read: %s: make it readable for the daemon's user",
                                checkpoint->directory, names[n], strerror(errno));
            return NULL;
        }
    }
    return NULL;
}

/* Chooses a name for the damaged newest checkpoint that is never overwritten. */
static void name_aside(struct checkpoint *checkpoint) {
    int n = 0;
    do
        snprintf(checkpoint->aside, sizeof checkpoint->aside, CHECKPOINT_DAMAGED, ++n);
    while (faccessat(checkpoint->directory_file, checkpoint->aside, F_OK, AT_SYMLINK_NOFOLLOW) ==
           0);
}

int checkpoint_set_aside(struct checkpoint *checkpoint, struct error *error) {
    int directory = checkpoint->directory_file;
    if (checkpoint->unlearned && checkpoint_remove_all(checkpoint))
        return error_set(error, EX_IOERR,
                         "the checkpoints without any learning in %s cannot be removed: %s",
                         checkpoint->directory, strerror(errno));
    checkpoint->unlearned = false;
    if (!*checkpoint->aside)
        return 0;
    if (renameat(directory, CHECKPOINT_NEWEST, directory, checkpoint->aside) || fsync(directory))
        return error_set(error, EX_IOERR, "%s/%s is damaged and cannot be renamed to %s: %s",
                         checkpoint->directory, CHECKPOINT_NEWEST, checkpoint->aside,
                         strerror(errno));
    *checkpoint->aside = '\0';
    return 0;
}

/* The newest checkpoint is damaged. The journal still has the entries after the previous one: see
   journalling_checkpoint_written. */
static int load_previous(struct checkpoint *checkpoint, const struct config *config,
                         struct learner *learner, struct checkpoint_report *report,
                         struct error *reason) {
    const struct error wrong = *reason;
    struct error why;
    char when[TIME_TEXT_SIZE];
    path_of(checkpoint, CHECKPOINT_PREVIOUS, report->path);
    if (faccessat(checkpoint->directory_file, CHECKPOINT_PREVIOUS, F_OK, 0))
        return error_set(
            reason, EX_IOERR,
            "%s; no previous checkpoint found: move the file away to start from scratch",
            wrong.text);
    if (checkpoint_read(report->path, config, learner, report, &why))
        return error_set(
            reason, EX_IOERR,
            "%s; nor can the previous one be used (%s): restore a backup (runnel-ctl restore), or "
            "move both away, with journal.sqlite and its -wal, to start from scratch",
            wrong.text, why.text);
    name_aside(checkpoint);
    time_text(report->time, when);
    checkpoint_warn(
        report,
        "%s; resuming from the previous checkpoint (%" PRIu64
        " example%s, %s): later examples are %s; then the damaged file is renamed to %s",
        wrong.text, report->examples, text_s(report->examples), when,
        config->journal.enabled ? "replayed from the journal" : "lost without a journal",
        checkpoint->aside);
    return 0;
}

int checkpoint_load(struct checkpoint *checkpoint, const struct config *config,
                    struct learner *learner, struct checkpoint_report *report,
                    struct error *error) {
    struct error reason = {0};
    int status;
    double started = clock_seconds();
    const char *name = find(checkpoint, error, &status);
    if (!name)
        return status;
    *report = (struct checkpoint_report){0};
    path_of(checkpoint, name, report->path);
    bool newest = !strcmp(name, CHECKPOINT_NEWEST);
    if (!newest)
        checkpoint_warn(report, CHECKPOINT_NEWEST " not found: resuming from the previous one");
    status = checkpoint_read(report->path, config, learner, report, &reason);
    if (status == CHECKPOINT_NOT_WHOLE && newest)
        status = load_previous(checkpoint, config, learner, report, &reason);
    else if (status && reason.status == EX_IOERR)
        strncat(reason.text, "; move the file away to start from scratch",
                sizeof reason.text - strlen(reason.text) - 1);
    report->seconds = clock_seconds() - started;
    bool other = status == CHECKPOINT_OTHER || (status == 0 && *report->before);
    if (other && config->journal.enabled && checkpoint_is_unlearned(checkpoint)) {
        checkpoint->unlearned = true;
        return 0;
    }
    if (status == 0)
        return 1;
    if (error)
        *error = reason;
    return -1;
}

/* Returns whether that process is a daemon: another process can have the number by now. */
static bool is_daemon(const char *pid) {
    char path[PID_TEXT_SIZE + sizeof "/proc//exe"], program[CONFIG_PATH_SIZE];
    snprintf(path, sizeof path, "/proc/%s/exe", pid);
    ssize_t size = readlink(path, program, sizeof program - 1);
    program[size > 0 ? size : 0] = '\0';
    return size < 0 ? errno == EACCES || errno == EPERM : strstr(program, "runneld") != NULL;
}

/* Checks the process by its number, without touching the lock. */
static bool is_held(int directory) {
    char holder[PID_TEXT_SIZE] = "";
    int lock = openat(directory, "lock", O_RDONLY | O_CLOEXEC);
    if (lock >= 0) {
        read_holder(lock, holder);
        close(lock);
    }
    return *holder && is_daemon(holder);
}

/* Without the lock a daemon can replace the file during reading: then reads it again. */
int checkpoint_check(const char *directory, const struct config *config,
                     struct checkpoint_report *report, struct error *error) {
    struct checkpoint looked = {.directory_file =
                                    open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int status = 0;
    *report = (struct checkpoint_report){0};
    if (looked.directory_file < 0 && errno == ENOENT)
        return 0;
    if (looked.directory_file < 0)
        return error_set(error, EX_IOERR, "the state directory %s cannot be opened: %s", directory,
                         strerror(errno));
    snprintf(looked.directory, sizeof looked.directory, "%s", directory);
    for (int read_kept = 0; read_kept < 2; read_kept++) {
        status = checkpoint_load(&looked, config, NULL, report, error);
        if (status < 0 ? error->status != EX_IOERR : !*report->warning)
            break;
    }
    report->held = is_held(looked.directory_file);
    close(looked.directory_file);
    return status;
}

bool checkpoint_is_earlier(const char *directory, const struct config *config) {
    static const char *const names[] = {CHECKPOINT_NEWEST, CHECKPOINT_PREVIOUS};
    bool earlier = false, found = !strcmp(config->earlier.compatible, config->compatible);
    for (size_t n = 0; n < sizeof names / sizeof *names && !found; n++) {
        char path[CHECKPOINT_PATH_SIZE];
        struct safetensors *file;
        snprintf(path, sizeof path, "%s/%s", directory, names[n]);
        if (safetensors_open(&file, path, NULL))
            continue;
        const char *digest = safetensors_metadata(file, "digest");
        const char *optimizer = safetensors_metadata(file, "optimizer");
        found = digest != NULL;
        earlier = found && (!strcmp(digest, config->earlier.compatible) ||
                            (optimizer && !strcmp(optimizer, config->earlier.optimizer)));
        safetensors_close(&file);
    }
    return earlier;
}

/* ---- Listing ---- */

/* Reads a checkpoint, unless it is to be renamed as damaged or removed. */
static bool read_kept(const struct checkpoint *checkpoint, struct checkpoint_kept *kept) {
    uint64_t counters[CHECKPOINT_COUNTERS];
    return !checkpoint->unlearned &&
           !(*checkpoint->aside && !strcmp(kept->name, CHECKPOINT_NEWEST)) &&
           is_there(checkpoint, kept->name) && read_counters(checkpoint, kept, counters);
}

size_t checkpoint_list(const struct checkpoint *checkpoint,
                       struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1]) {
    size_t count = 0;
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX; age++) {
        name_of(age, kept[count].name);
        count += read_kept(checkpoint, &kept[count]);
    }
    snprintf(kept[count].name, sizeof kept[count].name, "%s", CHECKPOINT_FIRST);
    return count + read_kept(checkpoint, &kept[count]);
}

uint64_t checkpoint_oldest(const struct checkpoint *checkpoint) {
    struct checkpoint_kept kept;
    for (unsigned age = CHECKPOINT_KEEP_MAX; age >= 1; age--) {
        name_of(age, kept.name);
        if (read_kept(checkpoint, &kept))
            return kept.position;
    }
    return 0;
}

int checkpoint_load_kept(const struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                         const struct config *config, struct learner *learner,
                         struct checkpoint_report *report, struct error *error) {
    *report = (struct checkpoint_report){0};
    path_of(checkpoint, kept->name, report->path);
    if (checkpoint_read(report->path, config, learner, report, error))
        return -1;
    if (!*report->before)
        return 0;
    return error_set(error, EX_CONFIG,
                     "%s was learned with another window, stride, rule or optimizer, so the "
                     "journal's entries after it cannot be learned again: roll back to a later "
                     "point, or start with the earlier settings",
                     report->path);
}

/* ---- Going back ---- */

/* Removes all newer ones except the newest, whose name `kept` gets. */
static int remove_newer(const struct checkpoint *checkpoint, uint64_t position) {
    for (unsigned age = CHECKPOINT_KEEP_MAX; age >= 2; age--) {
        struct checkpoint_kept kept;
        name_of(age, kept.name);
        if (read_kept(checkpoint, &kept) && kept.position > position &&
            remove_name(checkpoint->directory_file, kept.name))
            return -1;
    }
    return 0;
}

/* The first keeps its own name on a filesystem with links. */
static int make_newest(int directory, const char *name) {
    if (!strcmp(name, CHECKPOINT_NEWEST))
        return 0;
    if (!strcmp(name, CHECKPOINT_FIRST) && remove_name(directory, CHECKPOINT_BACK) == 0 &&
        linkat(directory, name, directory, CHECKPOINT_BACK, 0) == 0)
        name = CHECKPOINT_BACK;
    return renameat(directory, name, directory, CHECKPOINT_NEWEST);
}

int checkpoint_go_back(struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                       struct error *error) {
    int directory = checkpoint->directory_file;
    if (checkpoint_set_aside(checkpoint, error))
        return -1;
    if (remove_newer(checkpoint, kept->position) == 0 && make_newest(directory, kept->name) == 0 &&
        fsync(directory) == 0)
        return 0;
    return error_set(error, EX_IOERR, "the checkpoint %s/%s cannot be made the newest: %s",
                     checkpoint->directory, kept->name, strerror(errno));
}

/* ---- The first ---- */

void checkpoint_keep_first(struct checkpoint *checkpoint) {
    int directory = checkpoint->directory_file;
    struct checkpoint_kept kept;
    if (faccessat(directory, CHECKPOINT_FIRST, F_OK, 0) == 0)
        return;
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX; age++) {
        name_of(age, kept.name);
        if (read_kept(checkpoint, &kept) && kept.position == 0 &&
            linkat(directory, kept.name, directory, CHECKPOINT_FIRST, 0) == 0) {
            fsync(directory);
            return;
        }
    }
}

void checkpoint_drop_first(struct checkpoint *checkpoint) {
    unlinkat(checkpoint->directory_file, CHECKPOINT_FIRST, 0);
}
