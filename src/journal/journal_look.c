/* Whether the names of the file and its log still lead to what is open: a file that was removed or
   replaced takes every byte that is written to it, and gives none back. */
#include <stdio.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "journal_internal.h"

/* 0 and the file's identity; -1 when there is none. */
static int identify(const char *path, struct journal_identity *identity) {
    struct stat file;
    if (stat(path, &file))
        return -1;
    *identity = (struct journal_identity){file.st_dev, file.st_ino};
    return 0;
}

static void log_path(const struct journal *journal, char path[JOURNAL_PATH_SIZE + 8]) {
    snprintf(path, JOURNAL_PATH_SIZE + 8, "%s-wal", journal->path);
}

int journal_look_open(struct journal *journal, struct error *error) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(journal, path);
    if (identify(journal->path, &journal->file_identity) || identify(path, &journal->log_identity))
        return error_set(error, EX_IOERR, "the journal %s or its write-ahead log is not there",
                         journal->path);
    return 0;
}

/* What the name leads to. */
enum found { FOUND, REMOVED, REPLACED };

static enum found find(const char *path, const struct journal_identity *opened) {
    struct journal_identity now;
    if (identify(path, &now))
        return REMOVED;
    return now.device == opened->device && now.inode == opened->inode ? FOUND : REPLACED;
}

static int look(const char *path, const struct journal_identity *opened, struct error *error) {
    enum found found = find(path, opened);
    if (found == FOUND)
        return 0;
    return error_set(error, EX_IOERR,
                     "%s was %s while the daemon ran: nothing is accepted any more", path,
                     found == REMOVED ? "removed" : "replaced");
}

bool journal_is_removed(const struct journal *journal) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(journal, path);
    enum found file = find(journal->path, &journal->file_identity);
    enum found log = find(path, &journal->log_identity);
    return file != REPLACED && log != REPLACED && (file == REMOVED || log == REMOVED);
}

int journal_look(const struct journal *journal, struct error *error) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(journal, path);
    return look(journal->path, &journal->file_identity, error) ||
                   look(path, &journal->log_identity, error)
               ? -1
               : 0;
}
