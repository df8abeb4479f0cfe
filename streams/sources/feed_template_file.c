#include "feed_template_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"

struct template_file {
    const char *path;
    int fd;
};

static int fail(const struct template_file *file, int status, const char *what,
                struct error *error) {
    return error_set(error, status, "%s: cannot be %s: %s", file->path, what, strerror(errno));
}

/* "17 Accepted password for <*>" */
static int read_line(char *line, template_load *load, void *context, struct error *error) {
    char *end;
    errno = 0;
    unsigned long long id = strtoull(line, &end, 10);
    if (end == line || *end != ' ' || errno || id > UINT32_MAX || *line == '-')
        return error_set(error, EX_DATAERR, "found '%.40s', expected an id and a template", line);
    return load(context, (uint32_t)id, end + 1, error);
}

/* Read all that ends with a newline; `*good` says how many bytes that is. */
static int read_lines(const struct template_file *file, FILE *from, template_load *load,
                      void *context, off_t *good, struct error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    int status = 0;
    *good = 0;
    for (unsigned long number = 1; status == 0 && (size = getline(&line, &capacity, from)) > 0;
         number++) {
        if (line[size - 1] != '\n')
            break;
        line[size - 1] = '\0';
        status = read_line(line, load, context, error);
        if (status < 0)
            error_prefix(error, "%s:%lu", file->path, number);
        *good += size;
    }
    if (status == 0 && ferror(from))
        status = fail(file, EX_IOERR, "read", error);
    free(line);
    return status;
}

static int read_file(const struct template_file *file, template_load *load, void *context,
                     struct error *error) {
    int copy = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    FILE *from = copy < 0 ? NULL : fdopen(copy, "r");
    if (!from) {
        if (copy >= 0)
            close(copy);
        return fail(file, EX_OSERR, "read", error);
    }
    off_t good;
    int status = read_lines(file, from, load, context, &good, error);
    fclose(from);
    if (status < 0)
        return -1;
    return ftruncate(file->fd, good) < 0 ? fail(file, EX_IOERR, "written", error) : 0;
}

static int open_locked(struct template_file *file, struct error *error) {
    file->fd = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return fail(file, EX_CANTCREAT, "opened", error);
    struct stat status;
    if (fstat(file->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(error, EX_CANTCREAT, "%s: is no regular file", file->path);
    if (flock(file->fd, LOCK_EX | LOCK_NB) == 0)
        return sync_directory_of(file->path) < 0 ? fail(file, EX_IOERR, "synced", error) : 0;
    if (errno != EWOULDBLOCK)
        return fail(file, EX_IOERR, "locked", error);
    return error_set(error, EX_TEMPFAIL,
                     "%s: another process uses it; give each feeder a file of its own", file->path);
}

int template_file_open(struct template_file **result, const char *path, template_load *load,
                       void *context, struct error *error) {
    struct template_file *file = calloc(1, sizeof *file);
    *result = file;
    if (!file)
        return error_no_memory(error);
    file->path = path;
    if (open_locked(file, error) == 0 && read_file(file, load, context, error) == 0)
        return 0;
    template_file_close(result);
    return -1;
}

void template_file_close(struct template_file **pointer) {
    struct template_file *file = *pointer;
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file);
    *pointer = NULL;
}

int template_file_append(struct template_file *file, uint32_t id, const char *text,
                         struct error *error) {
    char *line;
    int size = asprintf(&line, "%" PRIu32 " %s\n", id, text);
    if (size < 0)
        return error_no_memory(error);
    ssize_t written = write(file->fd, line, (size_t)size);
    free(line);
    if (written >= 0 && written < size)
        errno = ENOSPC;
    if (written < size || fdatasync(file->fd) < 0)
        return fail(file, EX_IOERR, "written", error);
    return 0;
}
