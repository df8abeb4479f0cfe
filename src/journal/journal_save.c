/* Writing a journal again whose file, or log, has lost its name: what is open still has every byte,
   and goes with the process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/sync.h"
#include "journal_internal.h"

enum { FILE_MODE = 0600 };

static int fail(const struct journal *journal, int reason, struct error *error) {
    return error_set(error, EX_IOERR, "the journal %s cannot be written again: %s", journal->path,
                     strerror(reason));
}

/* An empty file: SQLite would give it another mode. */
static int make(const struct journal *journal, const char *path, struct error *error) {
    unlink(path);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    return file < 0 || close(file) ? fail(journal, errno, error) : 0;
}

static int copy_to(struct journal *journal, const char *path, struct error *error) {
    sqlite3 *file = journal->store.file;
    sqlite3_stmt *copy = NULL;
    if (make(journal, path, error))
        return -1;
    int code = sqlite3_prepare_v2(file, "VACUUM INTO ?", -1, &copy, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(copy, 1, path, -1, SQLITE_STATIC);
        code = sqlite3_step(copy);
    }
    if (code != SQLITE_DONE)
        journal_sql_error(error, file, journal->path, "written again");
    sqlite3_finalize(copy);
    return code == SQLITE_DONE ? 0 : -1;
}

static int sync_file(const struct journal *journal, const char *path, struct error *error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int status = file < 0 ? -1 : fsync(file), reason = errno;
    if (file >= 0)
        close(file);
    return status ? fail(journal, reason, error) : 0;
}

/* The log and its index belong to the file that is gone: beside another one they would be taken for
   its own. */
static int take_name(const struct journal *journal, const char *from, struct error *error) {
    static const char *const companions[] = {"-wal", "-shm"};
    char name[JOURNAL_PATH_SIZE + 8];
    for (size_t n = 0; n < sizeof companions / sizeof *companions; n++) {
        snprintf(name, sizeof name, "%s%s", journal->path, companions[n]);
        if (unlink(name) && errno != ENOENT)
            return fail(journal, errno, error);
    }
    return rename(from, journal->path) || sync_directory_of(journal->path)
               ? fail(journal, errno, error)
               : 0;
}

int journal_save(struct journal *journal, struct error *error) {
    char temporary[JOURNAL_PATH_SIZE + 8];
    if (!journal_is_removed(journal))
        return error_set(error, EX_IOERR, "the journal %s is not to be written again",
                         journal->path);
    snprintf(temporary, sizeof temporary, "%s.tmp", journal->path);
    journal_stop(journal);
    if (journal_write_rest(journal, error) || copy_to(journal, temporary, error) ||
        sync_file(journal, temporary, error) || take_name(journal, temporary, error)) {
        unlink(temporary);
        return -1;
    }
    return 0;
}
