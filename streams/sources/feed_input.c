#include "feed_input.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <zlib.h>

#include "streams/feed.h"

enum {
    CHUNK_SIZE = 64 << 10, /* room for one read */
    LINE_MAX_SIZE = 64 << 20,
    GZIP_FIRST = 0x1F, /* first bytes of a gzip file, RFC 1952 */
    GZIP_SECOND = 0x8B,
};

struct input {
    const char *name;
    int fd;
    gzFile gz;        /* a regular file, plain or compressed; NULL = a pipe, read from fd */
    double file_size; /* size of a regular file on disk */

    char *buffer; /* buffer[start..end) is read but not returned yet */
    size_t start, end, capacity;
    size_t line_size; /* size of the last line, with its newline */
    uint64_t lines;   /* newlines before the last line and inside it */
    uint64_t line_first;

    double offset_before, offset; /* offsets on disk before and after the last read */
    size_t newest;                /* bytes of the last read */
    bool over;
};

static int open_descriptor(struct input *input, const char *path, struct error *error) {
    bool standard = strcmp(path, "-") == 0;
    input->name = standard ? "standard input" : path;
    input->fd =
        standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0)
        return error_set(error, EX_NOINPUT, "%s: cannot open: %s", input->name,
                         error_of_file(errno));
    struct stat status;
    if (fstat(input->fd, &status) < 0)
        return error_set(error, EX_NOINPUT, "%s: %s", input->name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return error_set(error, EX_NOINPUT, "%s: expected a file, got a directory", input->name);
    if (!S_ISREG(status.st_mode))
        return 0;
    input->file_size = (double)status.st_size;
    input->gz = gzdopen(input->fd, "rb");
    if (!input->gz)
        return error_no_memory(error);
    gzbuffer(input->gz, CHUNK_SIZE);
    return 0;
}

int input_open(struct input **result, const char *path, struct error *error) {
    struct input *input = calloc(1, sizeof *input);
    *result = input;
    if (!input)
        return error_no_memory(error);
    input->fd = -1;
    input->capacity = CHUNK_SIZE;
    input->buffer = malloc(input->capacity + 1); /* room to terminate a line in place */
    if (input->buffer && open_descriptor(input, path, error) == 0)
        return 0;
    if (!input->buffer)
        error_no_memory(error);
    input_close(result);
    return -1;
}

void input_close(struct input **pointer) {
    struct input *input = *pointer;
    if (!input)
        return;
    if (input->gz)
        gzclose_r(input->gz);
    else if (input->fd >= 0)
        close(input->fd);
    free(input->buffer);
    free(input);
    *pointer = NULL;
}

const char *input_name(const struct input *input) {
    return input->name;
}

bool input_is_pipe(const struct input *input) {
    return !input->gz;
}

uint64_t input_line_number(const struct input *input) {
    return input->line_first;
}

static ssize_t read_failed(const struct input *input, int code, struct error *error) {
    if (code == Z_ERRNO)
        return error_set(error, EX_IOERR, "%s: cannot read: %s", input->name, strerror(errno));
    if (code == Z_MEM_ERROR)
        return error_no_memory(error);
    return error_set(error, EX_DATAERR, "%s: the compressed data %s", input->name,
                     code == Z_BUF_ERROR ? "ends too early; the file is truncated" : "is damaged");
}

static ssize_t read_file(struct input *input, void *data, size_t size, struct error *error) {
    int code, got = gzread(input->gz, data, (unsigned)size);
    if (got < (int)size) {
        gzerror(input->gz, &code);
        if (code != Z_OK && code != Z_STREAM_END && got <= 0)
            return read_failed(input, code, error);
    }
    return got;
}

static ssize_t read_pipe(struct input *input, void *data, size_t size, struct error *error) {
    struct pollfd item = {.fd = input->fd, .events = POLLIN};
    ssize_t got = -1;
    do {
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
        if (poll(&item, 1, FEED_TICK_MS) > 0) {
            got = read(input->fd, data, size);
            continue;
        }
        if (feed_meanwhile)
            feed_meanwhile(feed_meanwhile_context);
        errno = EINTR;
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got < 0)
        return read_failed(input, Z_ERRNO, error);
    const unsigned char *bytes = data;
    if (input->offset == 0 && got >= 2 && bytes[0] == GZIP_FIRST && bytes[1] == GZIP_SECOND)
        return error_set(error, EX_DATAERR,
                         "%s: compressed standard input is not supported; name the file, or use: "
                         "zcat FILE | runnel-feed ... -",
                         input->name);
    return got;
}

/* Reads more into the buffer. Returns 1, or 0 at the end. */
static int fill(struct input *input, struct error *error) {
    if (input->over)
        return 0;
    ssize_t (*reader)(struct input *, void *, size_t, struct error *) =
        input->gz ? read_file : read_pipe;
    ssize_t got = reader(input, input->buffer + input->end, input->capacity - input->end, error);
    if (got < 0)
        return -1;
    input->over = got == 0;
    input->end += (size_t)got;
    input->newest = (size_t)got;
    input->offset_before = input->offset;
    input->offset = input->gz ? (double)gzoffset(input->gz) : input->offset + (double)got;
    return got > 0;
}

int input_chunk(struct input *input, const unsigned char **data, size_t *size,
                struct error *error) {
    if (input->start == input->end) {
        input->start = input->end = 0;
        int status = fill(input, error);
        if (status <= 0)
            return status;
    }
    *data = (const unsigned char *)input->buffer + input->start;
    *size = input->end - input->start;
    input->start = input->end;
    return 1;
}

int input_read(struct input *input, void *data, size_t size, size_t *got, struct error *error) {
    char *to = data;
    *got = 0;
    while (*got < size) {
        if (input->start == input->end) {
            input->start = input->end = 0;
            int status = fill(input, error);
            if (status < 0)
                return -1;
            if (status == 0)
                break;
        }
        size_t part = input->end - input->start;
        if (part > size - *got)
            part = size - *got;
        memcpy(to + *got, input->buffer + input->start, part);
        input->start += part;
        *got += part;
    }
    return *got > 0;
}

/* Makes room after the line that begins at `start`. */
static int make_room(struct input *input, struct error *error) {
    if (input->start > 0) {
        memmove(input->buffer, input->buffer + input->start, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
    }
    if (input->end < input->capacity)
        return 0;
    if (input->capacity >= LINE_MAX_SIZE)
        return error_set(error, EX_DATAERR, "%s:%llu: the line is longer than %d MiB", input->name,
                         (unsigned long long)input->lines + 1, LINE_MAX_SIZE >> 20);
    char *grown = realloc(input->buffer, 2 * input->capacity + 1);
    if (!grown)
        return error_no_memory(error);
    input->buffer = grown;
    input->capacity *= 2;
    return 0;
}

int input_line(struct input *input, bool more, char **line, size_t *size, struct error *error) {
    size_t had = more ? input->line_size : 0, searched = had;
    if (!more) {
        input->start += input->line_size;
        input->line_size = 0;
    }
    char *newline;
    while (!(newline = memchr(input->buffer + input->start + searched, '\n',
                              input->end - input->start - searched))) {
        searched = input->end - input->start;
        if (input->end == input->capacity && make_room(input, error) < 0)
            return -1;
        int status = fill(input, error);
        if (status < 0)
            return -1;
        if (status == 0 && searched == had)
            return 0;
        if (status == 0)
            break;
    }
    input->lines++;
    if (!more)
        input->line_first = input->lines;
    *line = input->buffer + input->start;
    *size = newline ? (size_t)(newline - *line) : input->end - input->start;
    input->line_size = *size + (newline != NULL);
    return 1;
}

int input_rewind(struct input *input, struct error *error) {
    if (!input->gz || gzrewind(input->gz) < 0)
        return error_set(error, EX_IOERR, "%s: cannot read it a second time", input->name);
    input->start = input->end = input->line_size = 0;
    input->lines = input->line_first = 0;
    input->offset = input->offset_before = 0;
    input->newest = 0;
    input->over = false;
    return 0;
}

double input_done(const struct input *input) {
    if (!input->gz || !(input->file_size > 0))
        return NAN;
    size_t left = input->end - input->start;
    double taken = input->newest > left ? (double)(input->newest - left) / (double)input->newest
                   : input->newest      ? 0
                                        : 1;
    return (input->offset_before + taken * (input->offset - input->offset_before)) /
           input->file_size;
}
