#include "ctl_state.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libdeflate.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/database.h"
#include "common/sync.h"

#define PARAMETERS "parameters."

enum { FILE_MODE = 0600, PIECE = 1 << 16, BUSY_MS = 10000, CHECKSUM = 8, POSITION = 5 };

static const uint64_t HEADER_MAX = 100 << 20; /* limit of the safetensors format */

void state_path(char path[STATE_PATH_SIZE], const char *directory, const char *name) {
    snprintf(path, STATE_PATH_SIZE, "%s/%s", directory, name);
}

void state_name(size_t age, char name[STATE_NAME_SIZE]) {
    if (age <= 2)
        snprintf(name, STATE_NAME_SIZE, "checkpoint%s.safetensors", age == 1 ? "" : ".previous");
    else
        snprintf(name, STATE_NAME_SIZE, "checkpoint.%zu.safetensors", age);
}

/* ---- Files ---- */

static int copy_bytes(int from, int to) {
    char piece[PIECE];
    for (;;) {
        ssize_t got = read(from, piece, sizeof piece);
        if (got <= 0)
            return got ? -1 : 0;
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(to, piece + done, (size_t)(got - done));
            if (put < 0)
                return -1;
            done += put;
        }
    }
}

/* Returns the descriptor, or -1 with errno in `reason`. O_NONBLOCK: opening a pipe could block
   forever. */
static int open_regular(const char *path, int *reason, struct error *error) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *reason = errno;
    if (file < 0)
        return error_set(error, EX_IOERR, "cannot read %s: %s", path, strerror(*reason));
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode))
        return file;
    close(file);
    *reason = EINVAL;
    return error_set(error, EX_IOERR, "%s is not a regular file", path);
}

int state_copy(const char *from, const char *to, struct error *error) {
    int reason, in = open_regular(from, &reason, error);
    if (in < 0)
        return reason == ENOENT ? 1 : -1;
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE), status = 0;
    if (out < 0 || copy_bytes(in, out) || fsync(out))
        status = error_set(error, EX_IOERR, "cannot copy %s to %s: %s", from, to, strerror(errno));
    close(in);
    if (out >= 0 && close(out) && !status)
        status = error_set(error, EX_IOERR, "cannot write %s: %s", to, strerror(errno));
    return status;
}

bool state_is_parameters(const char *name) {
    return !strncmp(name, PARAMETERS, strlen(PARAMETERS)) &&
           isdigit((unsigned char)name[strlen(PARAMETERS)]);
}

/* The journal no longer needs a file that was removed meanwhile. */
int state_copy_parameters(const char *from, const char *to, struct error *error) {
    char source[STATE_PATH_SIZE], target[STATE_PATH_SIZE];
    DIR *open = opendir(from);
    int status = 0;
    for (const struct dirent *entry; open && status == 0 && (entry = readdir(open));) {
        if (!state_is_parameters(entry->d_name))
            continue;
        state_path(source, from, entry->d_name);
        state_path(target, to, entry->d_name);
        status = state_copy(source, target, error) < 0 ? -1 : 0;
    }
    if (open)
        closedir(open);
    return status;
}

int state_sync_directory(const char *directory, struct error *error) {
    return sync_directory(directory)
               ? error_set(error, EX_IOERR, "cannot sync %s: %s", directory, strerror(errno))
               : 0;
}

static int sync_file(const char *path, struct error *error) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    int status = file < 0 || fsync(file) ? -1 : 0, reason = errno;
    if (file >= 0)
        close(file);
    return status ? error_set(error, EX_IOERR, "cannot sync %s: %s", path, strerror(reason)) : 0;
}

/* ---- A checkpoint ---- */

static int damaged(const char *path, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "checkpoint %s is damaged: %s", path, what);
}

/* The last eight bytes are the CRC-32 of all others. */
static int check_sum(FILE *file, const char *path, uint64_t size, struct error *error) {
    unsigned char piece[PIECE];
    uint32_t sum = 0;
    int64_t kept;
    rewind(file);
    for (uint64_t left = size - CHECKSUM; left;) {
        size_t part = left < sizeof piece ? (size_t)left : sizeof piece;
        if (fread(piece, 1, part, file) != part)
            return damaged(path, "cannot read it", error);
        sum = libdeflate_crc32(sum, piece, part);
        left -= part;
    }
    if (fread(&kept, sizeof kept, 1, file) != 1 || kept != (int64_t)sum)
        return damaged(path, "checksum mismatch", error);
    return 0;
}

static int read_position(FILE *file, const char *path, uint64_t size, uint64_t *position,
                         struct error *error) {
    uint64_t length;
    if (fread(&length, sizeof length, 1, file) != 1 || length > HEADER_MAX || length > size)
        return damaged(path, "not a safetensors file", error);
    char *text = malloc(length + 1);
    bool got = text && fread(text, 1, length, file) == length;
    json_t *header = got ? json_loadb(text, length, 0, NULL) : NULL;
    const json_t *counters = json_object_get(header, "learner.counters");
    const json_t *offsets = json_object_get(counters, "data_offsets");
    uint64_t begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
    bool good = json_array_size(offsets) == 2 && begin < size &&
                fseek(file, (long)(sizeof length + length + begin + POSITION * sizeof *position),
                      SEEK_SET) == 0 &&
                fread(position, sizeof *position, 1, file) == 1;
    json_decref(header);
    free(text);
    return good ? 0 : damaged(path, "no journal position found", error);
}

int state_check_checkpoint(const char *path, struct state_checkpoint *checkpoint,
                           struct error *error) {
    struct stat about;
    int reason, descriptor = open_regular(path, &reason, error);
    if (descriptor < 0)
        return -1;
    FILE *file = fdopen(descriptor, "r");
    if (!file) {
        close(descriptor);
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", path);
    }
    int status = fstat(fileno(file), &about) || about.st_size < 2 * CHECKSUM
                     ? damaged(path, "the file is truncated", error)
                     : 0;
    if (!status)
        status = read_position(file, path, (uint64_t)about.st_size, &checkpoint->position, error);
    if (!status)
        status = check_sum(file, path, (uint64_t)about.st_size, error);
    fclose(file);
    return status;
}

/* ---- The journal ---- */

static int sql_error(sqlite3 *file, const char *path, const char *doing, struct error *error) {
    return error_set(error, EX_IOERR, "cannot %s the journal %s: %s", doing, path,
                     file ? sqlite3_errmsg(file) : "out of memory");
}

/* Read-only: reads an existing write-ahead log and does not change it. */
static int open_journal(sqlite3 **file, const char *path, const char *mode, struct error *error) {
    char uri[STATE_PATH_SIZE + 64], *end = uri;
    int reason, descriptor = open_regular(path, &reason, error);
    if (descriptor < 0)
        return -1;
    close(descriptor); /* SQLite opens it by name */
    end += snprintf(uri, sizeof uri, "file:");
    for (const char *c = path; *c && end + 4 < uri + STATE_PATH_SIZE; c++)
        if (*c == '%' || *c == '?' || *c == '#')
            end += sprintf(end, "%%%02X", (unsigned char)*c);
        else
            *end++ = *c;
    snprintf(end, (size_t)(uri + sizeof uri - end), "?%s", mode);
    if (database_open(file, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(*file, BUSY_MS) == SQLITE_OK)
        return 0;
    sql_error(*file, path, "open", error);
    sqlite3_close(*file);
    *file = NULL;
    return -1;
}

/* All pages in one step: a consistent copy despite concurrent writes. */
static int copy_pages(sqlite3 *from, sqlite3 *to, const char *path, struct error *error) {
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    int code = backup ? sqlite3_backup_step(backup, -1) : SQLITE_ERROR;
    if (backup && sqlite3_backup_finish(backup) == SQLITE_OK && code == SQLITE_DONE)
        return 0;
    return sql_error(to, path, "copy", error);
}

int state_copy_journal(const char *from, const char *to, struct error *error) {
    sqlite3 *in = NULL, *out = NULL;
    if (access(from, F_OK))
        return errno == ENOENT
                   ? 1
                   : error_set(error, EX_IOERR, "cannot read %s: %s", from, strerror(errno));
    int file = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (file < 0 || close(file))
        return error_set(error, EX_IOERR, "cannot write %s: %s", to, strerror(errno));
    int status = open_journal(&in, from, "mode=ro", error);
    if (!status && sqlite3_open(to, &out) != SQLITE_OK)
        status = sql_error(out, to, "write", error);
    if (!status)
        status = copy_pages(in, out, from, error);
    sqlite3_close(in);
    if (sqlite3_close(out) != SQLITE_OK && !status)
        status = sql_error(out, to, "write", error);
    return status ? -1 : sync_file(to, error);
}

/* "POSITION CRC" */
uint64_t state_read_mark(const char *path) {
    unsigned long long position = 0;
    unsigned int checksum = 0;
    FILE *file = fopen(path, "re");
    bool good = file && fscanf(file, "%20llu %8x", &position, &checksum) == 2;
    if (file)
        fclose(file);
    const uint64_t marked = position;
    return good && libdeflate_crc32(0, &marked, sizeof marked) == checksum ? marked : 0;
}

static bool block_is_whole(sqlite3_stmt *row) {
    const uint64_t numbers[] = {
        (uint64_t)sqlite3_column_int64(row, 0), (uint64_t)sqlite3_column_int64(row, 1),
        (uint64_t)sqlite3_column_bytes(row, 2), (uint64_t)sqlite3_column_bytes(row, 3)};
    uint32_t sum = libdeflate_crc32(0, numbers, sizeof numbers);
    for (int column = 2; column <= 3; column++)
        if (sqlite3_column_bytes(row, column))
            sum = libdeflate_crc32(sum, sqlite3_column_blob(row, column),
                                   (size_t)sqlite3_column_bytes(row, column));
    return sqlite3_column_int64(row, 4) == sum;
}

/* Checks the checksum of each row, and that no entry is missing. */
static int check_blocks(sqlite3 *file, const char *path, const struct state *state,
                        struct error *error) {
    static const char sql[] =
        "SELECT last, count, CAST(about AS BLOB), data, crc FROM blocks ORDER BY last";
    sqlite3_stmt *row;
    uint64_t next = state->oldest;
    int status = 0, code = SQLITE_DONE;
    if (sqlite3_prepare_v2(file, sql, -1, &row, NULL) != SQLITE_OK)
        return sql_error(file, path, "read", error);
    while (!status && (code = sqlite3_step(row)) == SQLITE_ROW) {
        uint64_t last = (uint64_t)sqlite3_column_int64(row, 0);
        if (last - (uint64_t)sqlite3_column_int64(row, 1) + 1 != next || !block_is_whole(row))
            status = error_set(error, EX_IOERR,
                               "the journal %s is damaged: checksum mismatch in entries %" PRIu64
                               " to %" PRIu64,
                               path, next, last);
        next = last + 1;
    }
    if (!status && code != SQLITE_DONE)
        status = sql_error(file, path, "read", error);
    if (!status && next != state->newest + 1)
        status = error_set(error, EX_IOERR,
                           "the journal %s is damaged: it ends with entry %" PRIu64
                           ", not with entry %" PRIu64,
                           path, next - 1, state->newest);
    sqlite3_finalize(row);
    return status;
}

static int check_open(sqlite3 *file, const char *path, struct state *state, struct error *error) {
    sqlite3_stmt *row;
    int status = 0;
    if (sqlite3_prepare_v2(file,
                           "SELECT oldest, newest, (SELECT * FROM pragma_quick_check(1)), "
                           "sync = 'full' FROM journal",
                           -1, &row, NULL) != SQLITE_OK)
        return sql_error(file, path, "read", error);
    if (sqlite3_step(row) != SQLITE_ROW)
        status = sql_error(file, path, "read", error);
    else if (strcmp((const char *)sqlite3_column_text(row, 2), "ok"))
        status = error_set(error, EX_IOERR, "the journal %s is damaged: %s", path,
                           (const char *)sqlite3_column_text(row, 2));
    state->oldest = (uint64_t)sqlite3_column_int64(row, 0);
    state->newest = (uint64_t)sqlite3_column_int64(row, 1);
    state->synced = sqlite3_column_int(row, 3);
    sqlite3_finalize(row);
    return status ? status : check_blocks(file, path, state, error);
}

int state_check_journal(const char *path, struct state *state, struct error *error) {
    sqlite3 *file = NULL;
    int status = open_journal(&file, path, "mode=ro&immutable=1", error);
    if (!status)
        status = check_open(file, path, state, error);
    sqlite3_close(file);
    state->has_journal = !status;
    return status;
}

/* ---- All ---- */

static void count_bytes(const char *path, struct state *state) {
    struct stat about;
    state->bytes += stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
}

static int check_checkpoints(const char *directory, struct state *state, struct error *error) {
    char path[STATE_PATH_SIZE];
    for (size_t age = 1; age <= STATE_CHECKPOINTS; age++) {
        struct state_checkpoint *next = &state->checkpoints[state->count];
        if (age < STATE_CHECKPOINTS)
            state_name(age, next->name);
        else
            snprintf(next->name, sizeof next->name, STATE_FIRST);
        state_path(path, directory, next->name);
        if (access(path, F_OK) && errno == ENOENT)
            continue;
        if (state_check_checkpoint(path, next, error))
            return -1;
        count_bytes(path, state);
        state->count++;
    }
    return 0;
}

int state_check(const char *directory, struct state *state, struct error *error) {
    char path[STATE_PATH_SIZE];
    *state = (struct state){0};
    state_path(path, directory, STATE_JOURNAL);
    if (access(path, F_OK) == 0 && state_check_journal(path, state, error))
        return -1;
    count_bytes(path, state);
    if (check_checkpoints(directory, state, error))
        return -1;
    if (state->count == 0)
        return error_set(error, EX_NOINPUT, "%s has no checkpoint", directory);
    for (size_t i = 0; state->has_journal && i < state->count; i++)
        if (state->checkpoints[i].position > state->newest ||
            state->checkpoints[i].position + 1 < state->oldest)
            return error_set(error, EX_DATAERR,
                             "%s/%s ends with entry %" PRIu64
                             ", but the journal in the same directory has entries %" PRIu64
                             " to %" PRIu64 ": they are not from the same backup",
                             directory, state->checkpoints[i].name, state->checkpoints[i].position,
                             state->oldest, state->newest);
    return 0;
}
