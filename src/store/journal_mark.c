#include "journal_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"

enum { MARK_SIZE = 30, MARK_MODE = 0600 };

static void print(uint64_t position, char text[MARK_SIZE + 1]) {
    snprintf(text, MARK_SIZE + 1, "%020" PRIu64 " %08" PRIx32 "\n", position,
             journal_checksum(0, &position, sizeof position));
}

static int fail(const struct journal_mark *mark, const char *doing, struct error *error) {
    return error_set(error, EX_IOERR, "the mark %s of the journal cannot be %s: %s", mark->path,
                     doing, strerror(errno));
}

/* Returns position 0 if the mark is not whole; -1: the file cannot be read. */
static int read_mark(int file, uint64_t *position) {
    char found[MARK_SIZE + 1] = "", expected[MARK_SIZE + 1];
    if (pread(file, found, MARK_SIZE, 0) < 0)
        return -1;
    *position = strtoull(found, NULL, 10);
    print(*position, expected);
    if (strcmp(found, expected) != 0)
        *position = 0;
    return 0;
}

uint64_t journal_marked(const char *directory) {
    char path[JOURNAL_PATH_SIZE];
    uint64_t position = 0;
    snprintf(path, sizeof path, "%s/%s", directory, JOURNAL_MARK_NAME);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read_mark(file, &position))
        position = 0;
    if (file >= 0)
        close(file);
    return position;
}

/* Ignores a mark that is not whole: the power can have failed before its first sync. A missing mark
   is created at its first write. */
int journal_mark_open(struct journal_mark *mark, const char *directory, struct error *error) {
    snprintf(mark->path, sizeof mark->path, "%s/%s", directory, JOURNAL_MARK_NAME);
    mark->file = open(mark->path, O_RDWR | O_CLOEXEC);
    if (mark->file < 0)
        return errno == ENOENT ? 0 : fail(mark, "opened", error);
    return read_mark(mark->file, &mark->position) ? fail(mark, "read", error) : 0;
}

void journal_mark_close(struct journal_mark *mark) {
    if (mark->file < 0)
        return;
    fdatasync(mark->file); /* not required: an older mark is still correct */
    close(mark->file);
}

int journal_mark_write(struct journal_mark *mark, uint64_t position, struct error *error) {
    char text[MARK_SIZE + 1];
    if (mark->file < 0)
        mark->file = open(mark->path, O_RDWR | O_CREAT | O_CLOEXEC, MARK_MODE);
    if (mark->file < 0)
        return fail(mark, "opened", error);
    if (position == mark->position)
        return 0;
    print(position, text);
    ssize_t written = pwrite(mark->file, text, MARK_SIZE, 0);
    if (written >= 0 && written < MARK_SIZE)
        errno = ENOSPC;
    if (written != MARK_SIZE)
        return fail(mark, "written", error);
    mark->position = position;
    return 0;
}

int journal_mark_reset(struct journal_mark *mark, uint64_t position, struct error *error) {
    if (journal_mark_write(mark, position, error))
        return -1;
    return fdatasync(mark->file) ? fail(mark, "synced", error) : 0;
}
