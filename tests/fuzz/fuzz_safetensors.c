/* Safetensors files: a byte, the header's length in two bytes, then the file from the header on;
   after an odd first byte eight further bytes replace the file's length field. A file that can
   be opened can be read, and written again with the same tensors; it may have a model's
   parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fuzz.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/safetensors.h"

enum { METADATA_MAX = 1, PARAMETERS = 4 };

static void require_entries(const struct safetensors *file) {
    uint64_t end = 0;
    for (size_t n = 0; n < safetensors_count(file); n++) {
        const struct safetensors_entry *entry = safetensors_at(file, n);
        uint64_t size;
        REQUIRE(safetensors_measure(entry, &size) && size == entry->size, "the size of %s",
                entry->name);
        REQUIRE(entry->begin == end, "the place of %s", entry->name);
        REQUIRE(safetensors_find(file, entry->name) == entry, "%s is not found", entry->name);
        REQUIRE(*safetensors_type_name(entry->type), "a type without name");
        end += size;
    }
    REQUIRE(!safetensors_find(file, SAFETENSORS_METADATA), "metadata as a tensor");
}

static void *tensor(const struct safetensors *file, const struct safetensors_entry *entry) {
    struct error error = {0};
    void *bytes = malloc(entry->size);
    REQUIRE(bytes || !entry->size, "no memory");
    REQUIRE(!safetensors_read(file, entry, 0, bytes, entry->size, &error), "%s", error.text);
    return bytes;
}

/* Writes the file again, into memory. */
static struct safetensors_memory rewrite(const struct safetensors *file) {
    struct safetensors_memory memory = {0};
    struct safetensors_writer *writer;
    struct error error = {0};
    size_t count = safetensors_count(file);
    const char *format = safetensors_metadata(file, "format");
    struct safetensors_text text = {"format", format};
    struct safetensors_entry *entries = calloc(count + 1, sizeof *entries);
    REQUIRE(entries, "no memory");
    for (size_t n = 0; n < count; n++)
        entries[n] = *safetensors_at(file, n);
    REQUIRE(!safetensors_start(&writer, entries, count, &text, format ? METADATA_MAX : 0,
                               safetensors_to_memory, &memory, &error),
            "%s", error.text);
    for (size_t n = 0; n < count; n++) {
        void *bytes = tensor(file, safetensors_at(file, n));
        REQUIRE(!safetensors_put(writer, bytes, entries[n].size, &error), "%s", error.text);
        free(bytes);
    }
    uint64_t size = safetensors_file_size(writer);
    REQUIRE(!safetensors_finish(&writer, &error), "%s", error.text);
    REQUIRE(memory.size == size, "a file of another size than was said");
    free(entries);
    return memory;
}

static void require_same(const struct safetensors *file, const struct safetensors *other) {
    REQUIRE(safetensors_count(file) == safetensors_count(other), "tensors were lost");
    for (size_t n = 0; n < safetensors_count(file); n++) {
        const struct safetensors_entry *a = safetensors_at(file, n);
        const struct safetensors_entry *b = safetensors_find(other, a->name);
        REQUIRE(b && a->type == b->type && a->rank == b->rank && a->size == b->size &&
                    !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape),
                "%s was written as another tensor", a->name);
        void *left = tensor(file, a), *right = tensor(other, b);
        REQUIRE(!a->size || !memcmp(left, right, a->size), "%s has other bytes", a->name);
        free(left);
        free(right);
    }
    const char *a = safetensors_metadata(file, "format"),
               *b = safetensors_metadata(other, "format");
    REQUIRE(!a == !b && (!a || !strcmp(a, b)), "other metadata");
}

/* Loads it as initial values of the smallest model. */
static bool load_parameters(const char *path) {
    static const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 1},
        .layers = {{.cell = CELL_dense, .size = 1, .activation = ACTIVATION_tanh}},
        .layer_count = 1,
        .output = {LOSS_squared, 1, 0, TARGET_NEXT},
    };
    static struct model model;
    float values[PARAMETERS];
    struct error error = {0};
    model_build(&model, &architecture);
    REQUIRE(model.parameters == PARAMETERS, "a model of %zu parameters", model.parameters);
    if (parameters_load(&model, "", path, values, &error)) {
        fuzz_require_sentence(error.text);
        return false;
    }
    for (size_t n = 0; n < PARAMETERS; n++)
        REQUIRE(isfinite(values[n]), "a parameter that is no number");
    return true;
}

/* The file that the input describes. */
static const char *given(struct fuzz_input input) {
    bool repair = !(fuzz_byte(&input) & 1);
    uint64_t length = fuzz_pair(&input);
    size_t size = sizeof length + input.size;
    unsigned char *bytes = malloc(size);
    REQUIRE(bytes, "no memory");
    if (!repair)
        length = fuzz_word(&input);
    else if (length > input.size)
        length = input.size;
    memcpy(bytes, &length, sizeof length);
    if (input.size)
        memcpy(bytes + sizeof length, input.bytes, input.size);
    const char *path = fuzz_file(FUZZ_GIVEN, bytes, sizeof length + input.size);
    free(bytes);
    return path;
}

bool fuzz_safetensors(const uint8_t *bytes, size_t size) {
    struct safetensors *file, *other;
    struct error error = {0};
    const char *path = given((struct fuzz_input){bytes, size});
    bool loaded = load_parameters(path);
    if (safetensors_open(&file, path, &error)) {
        fuzz_require_sentence(error.text);
        REQUIRE(!file && !loaded, "a file that is not open");
        return false;
    }
    require_entries(file);
    struct safetensors_memory memory = rewrite(file);
    path = fuzz_file(FUZZ_FIRST, memory.bytes, memory.size);
    REQUIRE(!safetensors_open(&other, path, &error), "%s", error.text);
    require_entries(other);
    require_same(file, other);
    safetensors_close(&other);
    safetensors_close(&file);
    free(memory.bytes);
    return true;
}
