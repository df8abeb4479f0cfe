#include "feed_cursor.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"

int cursor_read(const char *path, char **cursor, struct error *error) {
    size_t capacity = 0;
    FILE *file = fopen(path, "re");
    *cursor = NULL;
    if (!file && errno == ENOENT)
        return 0;
    ssize_t size = file ? getline(cursor, &capacity, file) : -1;
    int problem = errno;
    bool empty = file && size < 0 && feof(file);
    if (file)
        fclose(file);
    if (size >= 0) {
        (*cursor)[strcspn(*cursor, "\n")] = '\0';
        return 0;
    }
    free(*cursor);
    *cursor = NULL;
    return empty ? error_set(error, EX_DATAERR, "%s: it is empty; remove it to begin anew", path)
                 : error_set(error, EX_NOINPUT, "%s: cannot be read: %s", path, strerror(problem));
}

int cursor_write(const char *path, const char *cursor, struct error *error) {
    char *name;
    if (asprintf(&name, "%s.new", path) < 0)
        return error_no_memory(error);
    FILE *file = fopen(name, "we");
    bool good = file && fprintf(file, "%s\n", cursor) > 0 && fflush(file) == 0 &&
                fdatasync(fileno(file)) == 0;
    int problem = errno;
    if (file && fclose(file) != 0)
        good = false;
    if (good && (rename(name, path) < 0 || sync_directory_of(path) < 0)) {
        problem = errno;
        good = false;
    }
    free(name);
    return good ? 0
                : error_set(error, EX_IOERR, "%s: cannot be written: %s", path, strerror(problem));
}
