#include "experiment_examples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/hash.h"

enum { HEADER = sizeof EXAMPLES_HEADER - 1, NUMBER = sizeof(uint32_t) };

static uint32_t number_at(const unsigned char *byte) {
    return byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

/* Where the message that begins at `at` ends; 0: it is not whole. */
static size_t end_of(const struct examples *e, size_t at) {
    if (e->size - at < NUMBER)
        return 0;
    uint32_t frames = number_at(e->bytes + at);
    for (at += NUMBER; frames > 0; frames--) {
        if (e->size - at < NUMBER)
            return 0;
        size_t size = number_at(e->bytes + at);
        at += NUMBER;
        if (e->size - at < size)
            return 0;
        at += size;
    }
    return at;
}

static int find_messages(struct examples *e, const char *path, struct error *error) {
    size_t room = 0;
    for (size_t at = HEADER, end; at < e->size; at = end) {
        end = end_of(e, at);
        if (end == 0)
            return error_set(error, EX_DATAERR,
                             "%s ends in the middle of a message: restore it, or record the "
                             "stream again with --again",
                             path);
        if (e->count == room) {
            enum { FIRST = 1024 };
            room = room ? 2 * room : FIRST;
            uint64_t *larger = realloc(e->at, room * sizeof *larger);
            if (!larger)
                return error_no_memory(error);
            e->at = larger;
        }
        e->at[e->count++] = at;
    }
    snprintf(e->digest, sizeof e->digest, "%016" PRIx64,
             hash_bytes(HASH_BEGIN, e->bytes + HEADER, e->size - HEADER));
    return 0;
}

static int map(struct examples *e, int descriptor, const char *path, struct error *error) {
    struct stat status;
    if (fstat(descriptor, &status))
        return error_set(error, EX_NOINPUT, "%s: %s", path, strerror(errno));
    if (status.st_size < HEADER)
        return error_set(error, EX_DATAERR, "%s is no recorded stream: it is too short", path);
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, EX_NOINPUT, "%s: cannot be mapped: %s", path, strerror(errno));
    e->bytes = bytes;
    e->size = (size_t)status.st_size;
    if (memcmp(e->bytes, EXAMPLES_HEADER, HEADER) != 0)
        return error_set(error, EX_DATAERR, "%s is no recorded stream", path);
    return find_messages(e, path, error);
}

int examples_open(struct examples *examples, const char *path, struct error *error) {
    *examples = (struct examples){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return error_set(error, EX_NOINPUT, "%s: cannot be read: %s", path, strerror(errno));
    int result = map(examples, descriptor, path, error);
    close(descriptor);
    if (result)
        examples_close(examples);
    return result;
}

void examples_close(struct examples *examples) {
    if (examples->bytes)
        munmap((void *)(uintptr_t)examples->bytes, examples->size);
    free(examples->at);
    *examples = (struct examples){0};
}

size_t examples_message(const struct examples *examples, size_t n,
                        struct frame frames[MESSAGE_FRAMES_MAX]) {
    const unsigned char *at = examples->bytes + examples->at[n];
    size_t count = number_at(at);
    at += NUMBER;
    for (size_t f = 0; f < count && f < MESSAGE_FRAMES_MAX; f++) {
        frames[f] = (struct frame){at + NUMBER, number_at(at)};
        at += NUMBER + frames[f].size;
    }
    return count;
}
