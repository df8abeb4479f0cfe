/* The mark: a file beside the journal with the position up to which entries have been called
   durable, as text, "POSITION CRC". It is written after each commit and before what the commit made
   durable is acknowledged, so that a log that was cut between two transactions, or left out of a
   copy, is noticed. It is not synced with each commit: after a loss of power it may be some seconds
   old, never ahead of a journal with JOURNAL_FULL. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "journal_internal.h"

enum { MARK_SIZE = 30, MARK_MODE = 0600 };

static void print(uint64_t position, char text[MARK_SIZE + 1]) {
    snprintf(text, MARK_SIZE + 1, "%020" PRIu64 " %08" PRIx32 "\n", position,
             journal_checksum(0, &position, sizeof position));
}

static int fail(const struct journal *journal, const char *doing, struct error *error) {
    return error_set(error, EX_IOERR, "the mark %s of the journal cannot be %s: %s",
                     journal->mark_path, doing, strerror(errno));
}

/* 0: it is not whole. -1: it cannot be read. */
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

/* One that is not whole says nothing: the power may have failed before its first sync. One that is
   not there is made when it is first written. */
int journal_mark_open(struct journal *journal, const char *directory, struct error *error) {
    snprintf(journal->mark_path, sizeof journal->mark_path, "%s/%s", directory, JOURNAL_MARK_NAME);
    journal->mark = open(journal->mark_path, O_RDWR | O_CLOEXEC);
    if (journal->mark < 0)
        return errno == ENOENT ? 0 : fail(journal, "opened", error);
    return read_mark(journal->mark, &journal->marked) ? fail(journal, "read", error) : 0;
}

void journal_mark_close(struct journal *journal) {
    if (journal->mark < 0)
        return;
    fdatasync(journal->mark); /* an old one is less, not wrong */
    close(journal->mark);
}

int journal_mark_write(struct journal *journal, uint64_t position, struct error *error) {
    char text[MARK_SIZE + 1];
    if (journal->mark < 0)
        journal->mark = open(journal->mark_path, O_RDWR | O_CREAT | O_CLOEXEC, MARK_MODE);
    if (journal->mark < 0)
        return fail(journal, "opened", error);
    if (position == journal->marked)
        return 0;
    print(position, text);
    ssize_t written = pwrite(journal->mark, text, MARK_SIZE, 0);
    if (written >= 0 && written < MARK_SIZE)
        errno = ENOSPC;
    if (written != MARK_SIZE)
        return fail(journal, "written", error);
    journal->marked = position;
    return 0;
}

#define ACCEPT "start once with --accept-short-journal"

int journal_check_range(const struct journal *journal, uint64_t after, uint64_t oldest,
                        uint64_t newest, struct error *error) {
    if (after + 1 >= oldest && after <= newest)
        return 0;
    return error_set(error, EX_IOERR,
                     "the journal %s has the entries %" PRIu64 " to %" PRIu64
                     ", but the checkpoint ends with entry %" PRIu64
                     ": restore the journal or the checkpoint that belong together, or move %s "
                     "and its -wal away to resume from the checkpoint alone",
                     journal->path, oldest, newest, after, JOURNAL_NAME);
}

int journal_check_end(const struct journal *journal, const struct journal_options *options,
                      struct error *error) {
    uint64_t newest = journal->totals.newest;
    if (journal->found.is_new)
        return 0;
    if (newest < options->checkpoint && options->accept_short)
        return 0;
    if (newest < options->checkpoint)
        return error_set(
            error, EX_IOERR,
            "the journal %s ends at entry %" PRIu64 ", before the checkpoint, which has "
            "%" PRIu64 ": restore the journal that belongs to it, with its -wal, or " ACCEPT
            ": it continues after the checkpoint, and what its missing end had is "
            "learned again when it is sent again",
            journal->path, newest, options->checkpoint);
    if (journal_check_range(journal, options->checkpoint, journal->totals.oldest, newest, error))
        return -1;
    if (newest < journal->marked && journal->totals.sync == JOURNAL_FULL && !options->accept_short)
        return error_set(error, EX_IOERR,
                         "the journal %s ends at entry %" PRIu64 ", but entries up to %" PRIu64
                         " had been acknowledged, as %s has it: its write-ahead log was cut off or "
                         "left out of a copy; restore the journal with its -wal, or " ACCEPT
                         ": what these entries taught is lost, unless it is sent again",
                         journal->path, newest, journal->marked, JOURNAL_MARK_NAME);
    return 0;
}

int journal_mark_reset(struct journal *journal, uint64_t position, struct error *error) {
    if (journal_mark_write(journal, position, error))
        return -1;
    return fdatasync(journal->mark) ? fail(journal, "synced", error) : 0;
}

int journal_mark(struct journal *journal, struct error *error) {
    return journal_mark_reset(journal, journal->appended, error);
}
