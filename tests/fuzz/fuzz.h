/* The fuzz harnesses and what they share. A harness is one function that takes any bytes apart and
   drives one module with them: libfuzzer.c calls it with bytes that are made up, replay.c with the
   seeds. A rule that is broken ends the process, as a sanitizer would. */
#ifndef RUNNEL_FUZZ_H
#define RUNNEL_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the module accepted what the bytes gave to it. */
bool fuzz_decode(const uint8_t *bytes, size_t size);
bool fuzz_json(const uint8_t *bytes, size_t size);
bool fuzz_config(const uint8_t *bytes, size_t size);
bool fuzz_safetensors(const uint8_t *bytes, size_t size);
bool fuzz_checkpoint(const uint8_t *bytes, size_t size);
bool fuzz_stream(const uint8_t *bytes, size_t size);
bool fuzz_journal(const uint8_t *bytes, size_t size);
bool fuzz_initial(const uint8_t *bytes, size_t size);
bool fuzz_message(const uint8_t *bytes, size_t size);
bool fuzz_pieces(const uint8_t *bytes, size_t size);

/* Their names; after the last comes one without. */
struct fuzz_harness {
    const char *name;
    bool (*play)(const uint8_t *bytes, size_t size);
};
extern const struct fuzz_harness fuzz_harnesses[];

/* The harness of that name, or NULL. */
const struct fuzz_harness *fuzz_harness(const char *name);

/* Say which rule is broken and abort. */
#define REQUIRE(holds, ...)                                                                        \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fuzz_fail(__FILE__, __LINE__, __VA_ARGS__);                                            \
    } while (0)
void fuzz_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* Bytes that are taken from the front; zeros when none are left. */
struct fuzz_input {
    const uint8_t *bytes;
    size_t size;
};
uint8_t fuzz_byte(struct fuzz_input *input);
uint16_t fuzz_pair(struct fuzz_input *input);
uint64_t fuzz_word(struct fuzz_input *input);

/* The next `size` bytes, or as many as there are, in a block of exactly that size, so that a
   sanitizer sees every byte beyond; `size` becomes theirs. To be freed. */
void *fuzz_block(struct fuzz_input *input, size_t *size);

/* A file in memory that holds these bytes, until the next call for the same one. Returns its path,
   which always begins with FUZZ_FILES. */
enum fuzz_file { FUZZ_GIVEN, FUZZ_FIRST, FUZZ_SECOND, FUZZ_FILE_COUNT };
#define FUZZ_FILES "/proc/self/fd/"
const char *fuzz_file(enum fuzz_file which, const void *bytes, size_t size);

/* That file's descriptor, and its bytes (to be freed). */
int fuzz_descriptor(enum fuzz_file which);
void *fuzz_contents(enum fuzz_file which, size_t *size);

/* A new learner on the CPU without parameters, with plans of so many steps, which tells nobody
   anything; to be closed. */
struct config;
struct model;
struct learner;
struct learner *fuzz_learner(const struct config *config, const struct model *model,
                             size_t plan_steps);

/* The sentence of an error: it says something, in UTF-8 of one line. */
void fuzz_require_sentence(const char *text);

#endif
