/* The checkpoints beside the newest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "checkpoint_internal.h"

enum { EXAMPLES = 0, POSITION = 5 }; /* among learner.counters */

/* The name of the newest (1), of the one before it (2), and so on. */
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

/* Give `from`, if it is there, another name too. Where there are no links it loses its own. */
static int link_or_rename(int directory, const char *from, const char *to) {
    if (remove_name(directory, to))
        return -1;
    if (linkat(directory, from, directory, to, 0) == 0 || errno == ENOENT)
        return 0;
    return renameat(directory, from, directory, to);
}

/* From the oldest on, so that whenever the power fails each has a name. The newest keeps its own
   until the next one takes it. */
int checkpoint_rotate(int directory, unsigned keep) {
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

/* ---- Which there are ---- */

static void path_in(const struct checkpoint *checkpoint, const char *name,
                    char path[CHECKPOINT_PATH_SIZE]) {
    snprintf(path, CHECKPOINT_PATH_SIZE, "%s/%s", checkpoint->directory, name);
}

/* Its counters and time; whether it can be read. */
static bool look_into(const struct checkpoint *checkpoint, struct checkpoint_kept *kept,
                      uint64_t counters[CHECKPOINT_COUNTERS]) {
    enum { SIZE = CHECKPOINT_COUNTERS * sizeof *counters };
    char path[CHECKPOINT_PATH_SIZE];
    struct safetensors *file;
    path_in(checkpoint, kept->name, path);
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

/* Whether it can be read, and is neither to be set aside nor removed. */
static bool look(const struct checkpoint *checkpoint, struct checkpoint_kept *kept) {
    uint64_t counters[CHECKPOINT_COUNTERS];
    return !checkpoint->unlearned &&
           !(*checkpoint->aside && !strcmp(kept->name, CHECKPOINT_NEWEST)) &&
           is_there(checkpoint, kept->name) && look_into(checkpoint, kept, counters);
}

size_t checkpoint_list(const struct checkpoint *checkpoint,
                       struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1]) {
    size_t count = 0;
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX; age++) {
        name_of(age, kept[count].name);
        count += look(checkpoint, &kept[count]);
    }
    snprintf(kept[count].name, sizeof kept[count].name, "%s", CHECKPOINT_FIRST);
    return count + look(checkpoint, &kept[count]);
}

uint64_t checkpoint_oldest(const struct checkpoint *checkpoint) {
    struct checkpoint_kept kept;
    for (unsigned age = CHECKPOINT_KEEP_MAX; age >= 1; age--) {
        name_of(age, kept.name);
        if (look(checkpoint, &kept))
            return kept.position;
    }
    return 0;
}

int checkpoint_load_kept(const struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                         const struct config *config, struct learner *learner,
                         struct checkpoint_report *report, struct error *error) {
    *report = (struct checkpoint_report){0};
    path_in(checkpoint, kept->name, report->path);
    if (checkpoint_read(report->path, config, learner, report, error))
        return -1;
    if (!*report->before)
        return 0;
    return error_set(
        error, EX_CONFIG,
        "%s was learned with another window, stride, rule or optimizer: what the journal "
        "has after it cannot be learned again with this one: roll back to a point after that "
        "change, "
        "or start with the earlier settings",
        report->path);
}

/* ---- Going back ---- */

/* But for the newest, whose name `kept` takes. */
static int remove_newer(const struct checkpoint *checkpoint, uint64_t position) {
    for (unsigned age = CHECKPOINT_KEEP_MAX; age >= 2; age--) {
        struct checkpoint_kept kept;
        name_of(age, kept.name);
        if (look(checkpoint, &kept) && kept.position > position &&
            remove_name(checkpoint->directory_file, kept.name))
            return -1;
    }
    return 0;
}

/* The first keeps its own name, where there are links. */
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
        if (look(checkpoint, &kept) && kept.position == 0 &&
            linkat(directory, kept.name, directory, CHECKPOINT_FIRST, 0) == 0) {
            fsync(directory);
            return;
        }
    }
}

void checkpoint_drop_first(struct checkpoint *checkpoint) {
    unlinkat(checkpoint->directory_file, CHECKPOINT_FIRST, 0);
}

/* ---- With which nothing was learned ---- */

/* The newest (1) and so on; after the oldest, the first. */
static void any_name_of(unsigned age, char name[CHECKPOINT_KEPT_NAME_SIZE]) {
    if (age <= CHECKPOINT_KEEP_MAX)
        name_of(age, name);
    else
        snprintf(name, CHECKPOINT_KEPT_NAME_SIZE, "%s", CHECKPOINT_FIRST);
}

/* What a daemon without a journal was told, such as an import, no counter knows. */
bool checkpoint_is_unlearned(const struct checkpoint *checkpoint) {
    if (!is_there(checkpoint, "journal.sqlite"))
        return false;
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX + 1; age++) {
        struct checkpoint_kept kept;
        uint64_t counters[CHECKPOINT_COUNTERS];
        any_name_of(age, kept.name);
        if (is_there(checkpoint, kept.name) && (!look_into(checkpoint, &kept, counters) ||
                                                counters[EXAMPLES] != 0 || counters[POSITION] != 0))
            return false;
    }
    return true;
}

int checkpoint_remove_all(const struct checkpoint *checkpoint) {
    for (unsigned age = 1; age <= CHECKPOINT_KEEP_MAX + 1; age++) {
        char name[CHECKPOINT_KEPT_NAME_SIZE];
        any_name_of(age, name);
        if (remove_name(checkpoint->directory_file, name))
            return -1;
    }
    return fsync(checkpoint->directory_file);
}
