/* Files written and read back, a file of the Python safetensors package, and damaged files.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "model/safetensors.h"
#include "temporary_file.h"

/* A header's JSON followed by `data` zero bytes. */
static void store_header(const char *json, size_t data) {
    unsigned char bytes[4096] = {0};
    uint64_t length = strlen(json);
    assert_true(sizeof length + length + data <= sizeof bytes);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, json, length);
    store(bytes, sizeof length + length + data);
}

static void assert_refused(const char *why) {
    struct safetensors *file = NULL;
    struct error error = {0};
    if (safetensors_open(&file, path, &error) == 0)
        fail_msg("opened a file that is wrong: %s", why);
    assert_null(file);
    if (!strstr(error.text, path) || !strstr(error.text, why))
        fail_msg("'%s' should name the file and contain '%s'", error.text, why);
}

/* Written by the Python package safetensors 0.5: {"a": [[1, 2], [3, 4]] float32,
   "b": [7, 8, 9] uint8, "n": -5 int64 without dimensions}, metadata {"kind": "test"}. */
static const unsigned char from_python[] =
    "\xc8\0\0\0\0\0\0\0{\"__metadata__\":{\"kind\":\"test\"},\"n\":{\"dtype\":\"I64\",\"shape\":[],"
    "\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]}}      "
    "\xfb\xff\xff\xff\xff\xff\xff\xff\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\7\10\11";
enum { FROM_PYTHON_SIZE = sizeof from_python - 1 };

static void reads_what_python_wrote(void **state) {
    store(from_python, FROM_PYTHON_SIZE);
    struct safetensors *file;
    struct error error;
    assert_int_equal(safetensors_open(&file, path, &error), 0);
    assert_int_equal(safetensors_count(file), 3);
    assert_string_equal(safetensors_at(file, 0)->name, "n");
    assert_string_equal(safetensors_at(file, 2)->name, "b");
    assert_string_equal(safetensors_metadata(file, "kind"), "test");
    assert_null(safetensors_metadata(file, "a"));
    assert_null(safetensors_find(file, "__metadata__"));
    assert_null(safetensors_find(file, "c"));

    const struct safetensors_entry *a = safetensors_find(file, "a");
    assert_non_null(a);
    assert_int_equal(a->type, SAFETENSORS_F32);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 2);
    float last[2];
    assert_int_equal(safetensors_read(file, a, 8, last, sizeof last, &error), 0);
    assert_true(last[0] == 3.0F && last[1] == 4.0F);

    const struct safetensors_entry *n = safetensors_find(file, "n");
    assert_int_equal(n->rank, 0);
    int64_t number;
    assert_int_equal(safetensors_read(file, n, 0, &number, sizeof number, &error), 0);
    assert_int_equal(number, -5);
    safetensors_close(&file);
    assert_null(file);
}

enum { LARGE = 50000, SMALL = 3 };

static const struct safetensors_text texts[] = {{"kind", "checkpoint"},
                                                {"digest", "0123 \"quoted\" \xc3\xa4"}};

struct content {
    float large[LARGE];
    unsigned char small[SMALL];
    uint64_t count;
};

static void fill(struct content *content) {
    memset(content, 0, sizeof *content);
    for (size_t n = 0; n < LARGE; n++)
        content->large[n] = (float)n / 7.0F;
    memcpy(content->small, "\1\2\3", SMALL);
    content->count = UINT64_MAX - 1;
}

/* Write `large` whole, or in portions of `portion` bytes. */
static int write_content(const struct content *content, size_t portion, safetensors_sink *sink,
                         void *context, uint64_t *size, struct error *error) {
    struct safetensors_entry entries[] = {
        {.name = "small", .type = SAFETENSORS_U8, .rank = 1, .shape = {SMALL}},
        {.name = "large", .type = SAFETENSORS_F32, .rank = 2, .shape = {LARGE / 5, 5}},
        {.name = "nothing", .type = SAFETENSORS_F64, .rank = 2, .shape = {0, 4}},
        {.name = "count \xe2\x82\xac", .type = SAFETENSORS_U64},
    };
    struct safetensors_writer *writer;
    if (safetensors_start(&writer, entries, 4, texts, 2, sink, context, error))
        return -1;
    *size = safetensors_file_size(writer);
    int status = safetensors_put(writer, content->small, SMALL, error);
    for (size_t done = 0; !status && done < sizeof content->large; done += portion) {
        size_t left = sizeof content->large - done;
        status = safetensors_put(writer, (const char *)content->large + done,
                                 left < portion ? left : portion, error);
    }
    if (!status)
        status = safetensors_put(writer, &content->count, sizeof content->count, error);
    if (!status)
        return safetensors_finish(&writer, error);
    safetensors_abandon(&writer);
    return -1;
}

static void check_content(const struct content *content) {
    struct safetensors *file;
    struct error error;
    assert_int_equal(safetensors_open(&file, path, &error), 0);
    assert_int_equal(safetensors_count(file), 4);
    for (size_t n = 0; n < 2; n++)
        assert_string_equal(safetensors_metadata(file, texts[n].key), texts[n].value);
    const struct safetensors_entry *large = safetensors_find(file, "large");
    const struct safetensors_entry *small = safetensors_find(file, "small");
    const struct safetensors_entry *count = safetensors_find(file, "count \xe2\x82\xac");
    assert_non_null(safetensors_find(file, "nothing"));
    assert_true(large && small && count);
    struct content back;
    fill(&back);
    memset(back.large, 0, sizeof back.large);
    assert_int_equal(safetensors_read(file, large, 0, back.large, sizeof back.large, &error), 0);
    assert_int_equal(safetensors_read(file, small, 0, back.small, SMALL, &error), 0);
    assert_int_equal(safetensors_read(file, count, 0, &back.count, sizeof back.count, &error), 0);
    assert_memory_equal(&back, content, sizeof back);
    safetensors_close(&file);
}

static void reads_what_it_wrote(void **state) {
    static struct content content;
    fill(&content);
    struct error error;
    uint64_t size;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct safetensors_file to = {descriptor, path};
    assert_int_equal(write_content(&content, 1000, safetensors_to_file, &to, &size, &error), 0);
    assert_int_equal(lseek(descriptor, 0, SEEK_END), size);
    close(descriptor);
    check_content(&content);

    /* In memory, and in one piece: the same bytes. */
    struct safetensors_memory memory = {0};
    assert_int_equal(
        write_content(&content, SIZE_MAX, safetensors_to_memory, &memory, &size, &error), 0);
    assert_int_equal(memory.size, size);
    unsigned char *stored = malloc(memory.size);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(stored, 1, memory.size, file), memory.size);
    fclose(file);
    assert_memory_equal(stored, memory.bytes, memory.size);
    free(stored);

    /* The tensors' bytes begin at a multiple of 8, so that readers can map them. */
    uint64_t length;
    memcpy(&length, memory.bytes, sizeof length);
    assert_int_equal(length % 8, 0);
    free(memory.bytes);
}

static void a_full_disk_is_an_error(void **state) {
    static struct content content;
    fill(&content);
    struct error error = {0};
    uint64_t size;
    int descriptor = open("/dev/full", O_WRONLY);
    if (descriptor < 0)
        skip();
    struct safetensors_file to = {descriptor, "/dev/full"};
    assert_int_equal(write_content(&content, 1000, safetensors_to_file, &to, &size, &error), -1);
    assert_string_equal(error.text, "cannot write /dev/full: No space left on device");
    assert_int_equal(error.status, EX_IOERR);
    close(descriptor);
}

/* A pipe accepts large pieces in short writes. */
static void short_writes_go_on(void **state) {
    static struct content content;
    fill(&content);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error;
        uint64_t size;
        struct safetensors_file to = {ends[1], "pipe"};
        close(ends[0]);
        _exit(write_content(&content, SIZE_MAX, safetensors_to_file, &to, &size, &error) ? 1 : 0);
    }
    close(ends[1]);
    FILE *file = fopen(path, "wb");
    unsigned char bytes[777];
    ssize_t count;
    while ((count = read(ends[0], bytes, sizeof bytes)) > 0)
        assert_int_equal(fwrite(bytes, 1, (size_t)count, file), count);
    fclose(file);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_content(&content);
}

static void the_writer_counts(void **state) {
    struct error error;
    struct safetensors_memory memory = {0};
    struct safetensors_writer *writer;
    struct safetensors_entry one = {.name = "a", .type = SAFETENSORS_F32, .rank = 1, .shape = {2}};
    const float values[3] = {0};
    assert_int_equal(
        safetensors_start(&writer, &one, 1, NULL, 0, safetensors_to_memory, &memory, &error), 0);
    assert_int_equal(safetensors_put(writer, values, 3 * sizeof *values, &error), -1);
    assert_int_equal(safetensors_put(writer, values, sizeof *values, &error), 0);
    assert_int_equal(safetensors_finish(&writer, &error), -1);
    assert_string_equal(error.text, "4 bytes of the tensors are missing");
    assert_null(writer);
    free(memory.bytes);

    struct safetensors_entry twice[] = {one, one};
    memory = (struct safetensors_memory){0};
    assert_int_equal(
        safetensors_start(&writer, twice, 2, NULL, 0, safetensors_to_memory, &memory, &error), -1);
    assert_null(writer);
    one.name = "\xff";
    assert_int_equal(
        safetensors_start(&writer, &one, 1, NULL, 0, safetensors_to_memory, &memory, &error), -1);
    const struct safetensors_text broken = {"key", "\xff"};
    one.name = "a";
    assert_int_equal(
        safetensors_start(&writer, &one, 1, &broken, 1, safetensors_to_memory, &memory, &error),
        -1);
    free(memory.bytes);
}

static void every_truncation_is_refused(void **state) {
    for (size_t size = 0; size < FROM_PYTHON_SIZE; size++) {
        store(from_python, size);
        assert_refused(path);
    }
    unsigned char longer[FROM_PYTHON_SIZE + 1] = {0};
    memcpy(longer, from_python, FROM_PYTHON_SIZE);
    store(longer, sizeof longer);
    assert_refused("after the header, got 28");
}

/* A damaged file is rejected, or all its contents can be read. */
static void survive(void) {
    struct safetensors *file = NULL;
    struct error error;
    if (safetensors_open(&file, path, &error))
        return;
    for (size_t n = 0; n < safetensors_count(file); n++) {
        const struct safetensors_entry *entry = safetensors_at(file, n);
        unsigned char bytes[FROM_PYTHON_SIZE];
        assert_true(entry->size <= sizeof bytes);
        assert_int_equal(safetensors_read(file, entry, 0, bytes, entry->size, &error), 0);
        assert_ptr_equal(safetensors_find(file, entry->name), entry);
    }
    safetensors_metadata(file, "kind");
    safetensors_close(&file);
}

static void no_flipped_bit_does_harm(void **state) {
    unsigned char bytes[FROM_PYTHON_SIZE];
    for (size_t bit = 0; bit < 8 * (size_t)FROM_PYTHON_SIZE; bit++) {
        memcpy(bytes, from_python, sizeof bytes);
        bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        store(bytes, sizeof bytes);
        survive();
    }
    uint32_t random = 1;
    for (size_t round = 0; round < 3000; round++) {
        memcpy(bytes, from_python, sizeof bytes);
        for (size_t n = 0; n < 1 + round % 5; n++) {
            random = random * 1664525U + 1013904223U;
            bytes[(random >> 8) % sizeof bytes] = (unsigned char)random ^ (unsigned char)round;
        }
        store(bytes, sizeof bytes);
        survive();
    }
}

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void errors_name_the_cause(void **state) {
    const struct {
        const char *json;
        size_t data;
        const char *why;
    } cases[] = {
        {"", 0, "not JSON"},
        {"{\"a\":", 0, "not JSON"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":1}", 0, "tensor a has an unknown dtype"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}", 8,
         "not JSON: duplicate"},
        {"{" ENTRY("a", "F31", "[1]", "[0,4]") "}", 4, "tensor a has an unknown dtype"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a has an unknown dtype"},
        {"{" ENTRY("a", "F32", "1", "[0,4]") "}", 4, "tensor a has an invalid shape"},
        {"{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", 4, "tensor a has an invalid shape"},
        {"{" ENTRY("a", "F32", "[1.0]", "[0,4]") "}", 4, "tensor a has an invalid shape"},
        {"{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
         "tensor a has an invalid shape"},
        {"{" ENTRY("a", "F32", "[1]", "[0]") "}", 4, "tensor a has invalid data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[4,0]") "}", 4, "tensor a has invalid data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[-4,0]") "}", 4, "tensor a has invalid data_offsets"},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4, "which do not match its shape"},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0,
         "which do not match its shape"},
        {"{" ENTRY("a", "F32", "[2305843009213693952,2]", "[0,0]") "}", 0,
         "which do not match its shape"},
        {"{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 4, "truncated: tensor a"},
        {"{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 8, "tensor a begins at byte 4"},
        {"{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "F32", "[2]", "[4,12]") "}", 12,
         "tensor b begins at byte 4"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[8,12]") "}", 12,
         "tensor b begins at byte 8"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "}", 8, "after the header, got 8"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not a JSON object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "metadata k must be a string"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        store_header(cases[n].json, cases[n].data);
        assert_refused(cases[n].why);
    }
    store("PK\3\4", 4);
    assert_refused("not a safetensors file");
    store("\x89PNG\r\n\x1a\n and so on", 18);
    assert_refused("not a safetensors file");
    store("\xff\xff\0\0\0\0\0\0{}", 10);
    assert_refused("truncated");
}

static void what_is_no_file_is_refused(void **state) {
    unlink(path);
    assert_refused("No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("not a regular file");
    unlink(path);
    struct safetensors *file;
    struct error error;
    assert_int_equal(safetensors_open(&file, directory, &error), -1);
    assert_non_null(strstr(error.text, "not a regular file"));
}

static void a_file_that_shrinks_is_an_error(void **state) {
    store(from_python, FROM_PYTHON_SIZE);
    struct safetensors *file;
    struct error error;
    assert_int_equal(safetensors_open(&file, path, &error), 0);
    assert_int_equal(truncate(path, FROM_PYTHON_SIZE - 1), 0);
    unsigned char bytes[3];
    assert_int_equal(
        safetensors_read(file, safetensors_find(file, "b"), 0, bytes, sizeof bytes, &error), -1);
    assert_non_null(strstr(error.text, "truncated while it was read"));
    safetensors_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_python_wrote),
        cmocka_unit_test(reads_what_it_wrote),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(short_writes_go_on),
        cmocka_unit_test(the_writer_counts),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(no_flipped_bit_does_harm),
        cmocka_unit_test(errors_name_the_cause),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_file_that_shrinks_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
