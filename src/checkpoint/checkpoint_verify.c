/* Whether a file of a checkpoint is whole. */
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "checkpoint_reading.h"

static int read_bytes(int descriptor, const char *path, void *bytes, size_t size,
                      struct error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t count = read(descriptor, (char *)bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, EX_IOERR, "%s cannot be read: %s", path,
                             count < 0 ? strerror(errno) : "it ends too early");
        done += (size_t)count;
    }
    return 0;
}

static int sum_file(int descriptor, const char *path, uint64_t size, struct error *error) {
    enum { PIECE_SIZE = 1 << 16 };
    unsigned char piece[PIECE_SIZE];
    uint32_t sum = 0;
    for (uint64_t left = size - CHECKPOINT_CHECKSUM_SIZE; left;) {
        size_t part = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
        if (read_bytes(descriptor, path, piece, part, error))
            return -1;
        sum = libdeflate_crc32(sum, piece, part);
        left -= part;
    }
    int64_t kept;
    if (read_bytes(descriptor, path, &kept, sizeof kept, error))
        return -1;
    if (kept == (int64_t)sum)
        return 0;
    return error_set(error, EX_IOERR, "%s is damaged: its checksum does not fit its bytes", path);
}

static int check_sum(const struct safetensors *file, const char *path, uint64_t *bytes,
                     struct error *error) {
    const struct safetensors_entry *checksum = safetensors_find(file, "checksum");
    const struct safetensors_entry *last = safetensors_at(file, safetensors_count(file) - 1);
    if (checksum != last || checksum->size != CHECKPOINT_CHECKSUM_SIZE)
        return error_set(error, EX_IOERR, "%s is damaged: its checksum is missing", path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    int status;
    if (size < CHECKPOINT_CHECKSUM_SIZE || lseek(descriptor, 0, SEEK_SET) != 0)
        status = error_set(error, EX_IOERR, "%s cannot be read: %s", path, strerror(errno));
    else
        status = sum_file(descriptor, path, (uint64_t)size, error);
    if (descriptor >= 0)
        close(descriptor);
    *bytes = (uint64_t)size;
    return status;
}

int reading_verify(const struct safetensors *file, const char *path,
                   struct checkpoint_report *report, struct error *error) {
    const char *format = safetensors_metadata(file, "format");
    const char *examples = safetensors_metadata(file, "examples");
    const char *time = safetensors_metadata(file, "time");
    if (!format || !safetensors_count(file) || !examples || !time)
        return error_set(error, EX_IOERR, "%s is a safetensors file, but no checkpoint", path);
    if (check_sum(file, path, &report->bytes, error))
        return -1;
    report->examples = strtoull(examples, NULL, 10);
    report->time = strtod(time, NULL);
    return 0;
}
