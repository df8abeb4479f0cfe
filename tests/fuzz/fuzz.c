#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/wire.h"
#include "engine/engines.h"
#include "learner/learner.h"

enum { DESCRIPTOR_PATH_SIZE = 32 };

const struct fuzz_harness fuzz_harnesses[] = {
    {"decode", fuzz_decode},
    {"json", fuzz_json},
    {"config", fuzz_config},
    {"safetensors", fuzz_safetensors},
    {"checkpoint", fuzz_checkpoint},
    {"stream", fuzz_stream},
    {"journal", fuzz_journal},
    {"initial", fuzz_initial},
    {"message", fuzz_message},
    {"pieces", fuzz_pieces},
    {NULL, NULL},
};

const struct fuzz_harness *fuzz_harness(const char *name) {
    const struct fuzz_harness *harness = fuzz_harnesses;
    while (harness->name && strcmp(harness->name, name) != 0)
        harness++;
    return harness->name ? harness : NULL;
}

void fuzz_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static void take(struct fuzz_input *input, void *bytes, size_t size) {
    size_t there = size < input->size ? size : input->size;
    memset(bytes, 0, size);
    if (there == 0)
        return;
    memcpy(bytes, input->bytes, there);
    input->bytes += there;
    input->size -= there;
}

uint8_t fuzz_byte(struct fuzz_input *input) {
    uint8_t value;
    take(input, &value, sizeof value);
    return value;
}

uint16_t fuzz_pair(struct fuzz_input *input) {
    uint16_t value;
    take(input, &value, sizeof value);
    return value;
}

uint64_t fuzz_word(struct fuzz_input *input) {
    uint64_t value;
    take(input, &value, sizeof value);
    return value;
}

void *fuzz_block(struct fuzz_input *input, size_t *size) {
    *size = *size < input->size ? *size : input->size;
    void *block = malloc(*size);
    REQUIRE(block || !*size, "no memory");
    take(input, block, *size);
    return block;
}

static struct {
    int descriptor;
    char path[DESCRIPTOR_PATH_SIZE];
} files[FUZZ_FILE_COUNT];

int fuzz_descriptor(enum fuzz_file which) {
    if (!*files[which].path) {
        files[which].descriptor = memfd_create("fuzz", MFD_CLOEXEC);
        REQUIRE(files[which].descriptor >= 0, "no file in memory");
        snprintf(files[which].path, DESCRIPTOR_PATH_SIZE, FUZZ_FILES "%d", files[which].descriptor);
    }
    return files[which].descriptor;
}

const char *fuzz_file(enum fuzz_file which, const void *bytes, size_t size) {
    int descriptor = fuzz_descriptor(which);
    REQUIRE(ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0 &&
                write(descriptor, bytes, size) == (ssize_t)size,
            "a file in memory cannot be written");
    REQUIRE(lseek(descriptor, 0, SEEK_SET) == 0, "a file in memory cannot be rewound");
    return files[which].path;
}

void *fuzz_contents(enum fuzz_file which, size_t *size) {
    int descriptor = fuzz_descriptor(which);
    off_t end = lseek(descriptor, 0, SEEK_END);
    REQUIRE(end >= 0, "a file in memory has no size");
    *size = (size_t)end;
    void *bytes = malloc(*size);
    REQUIRE(bytes && pread(descriptor, bytes, *size, 0) == end, "a file in memory cannot be read");
    return bytes;
}

static void ignore_learned(void *context, const struct learned *learned) {
    (void)context, (void)learned;
}

static void ignore_forgotten(void *context, const char *key, size_t key_size) {
    (void)context, (void)key, (void)key_size;
}

struct learner *fuzz_learner(const struct config *config, const struct model *model,
                             size_t plan_steps) {
    static struct engines_choice choice;
    const struct learner_observer observer = {.learned = ignore_learned,
                                              .forgotten = ignore_forgotten};
    struct learner *learner;
    struct error error = {0};
    REQUIRE(choice.ops || !engines_choose(&choice, "cpu", NULL, &error), "%s", error.text);
    REQUIRE(!learner_open_empty(&learner, config, model, choice.ops, plan_steps, &observer, &error),
            "%s", error.text);
    return learner;
}

void fuzz_require_sentence(const char *text) {
    size_t size = strlen(text);
    REQUIRE(size > 0 && wire_is_utf8(text, size), "an error that is no text: \"%s\"", text);
    for (const char *c = text; *c; c++)
        REQUIRE((unsigned char)*c >= ' ' && *c != 0x7F, "a control character in \"%s\"", text);
}
