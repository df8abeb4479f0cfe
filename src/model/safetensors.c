#include "safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "common/error.h"

enum {
    LENGTH_SIZE = sizeof(uint64_t), /* size of the header's length, at the beginning of the file */
    HEADER_MAX = 100000000,         /* limit of the format */
};

static const struct {
    const char *name;
    size_t size;
} types[SAFETENSORS_TYPES] = {
    [SAFETENSORS_F32] = {"F32", 4},   [SAFETENSORS_F64] = {"F64", 8},
    [SAFETENSORS_U8] = {"U8", 1},     [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_U64] = {"U64", 8},   [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_F16] = {"F16", 2},   [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I8] = {"I8", 1},     [SAFETENSORS_I16] = {"I16", 2},
    [SAFETENSORS_U16] = {"U16", 2},   [SAFETENSORS_I32] = {"I32", 4},
    [SAFETENSORS_BOOL] = {"BOOL", 1},
};

const char *safetensors_type_name(enum safetensors_type type) {
    return types[type].name;
}

bool safetensors_measure(const struct safetensors_entry *entry, uint64_t *size) {
    *size = types[entry->type].size;
    for (size_t n = 0; n < entry->rank; n++)
        if (__builtin_mul_overflow(*size, entry->shape[n], size))
            return false;
    return true;
}

struct safetensors {
    char *path;
    int descriptor;
    json_t *header; /* owns names and metadata */
    const json_t *metadata;
    struct safetensors_entry *entries; /* sorted by position */
    struct safetensors_entry **names;  /* sorted by name */
    size_t count;
    uint64_t data_begin, data_size; /* position and size of the tensors' bytes in the file */
};

#define DAMAGED(file, error, ...)                                                                  \
    (error_set(error, EX_IOERR, __VA_ARGS__), error_prefix(error, "%s", (file)->path))

/* Read exactly `size` bytes at `offset`. */
static int read_at(const struct safetensors *file, uint64_t offset, void *bytes, size_t size,
                   struct error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t count =
            pread(file->descriptor, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set(error, EX_IOERR, "cannot read %s: %s", file->path, strerror(errno));
        if (count == 0)
            return DAMAGED(file, error, "the file was truncated while it was read");
        done += (size_t)count;
    }
    return 0;
}

/* Open the file and determine its size. Does not wait for a FIFO. */
static int open_file(struct safetensors *file, uint64_t *size, struct error *error) {
    struct stat status;
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0 || fstat(file->descriptor, &status))
        return error_set(error, EX_IOERR, "cannot open %s: %s", file->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return DAMAGED(file, error, "not a regular file");
    *size = (uint64_t)status.st_size;
    return 0;
}

static int read_header(struct safetensors *file, struct error *error) {
    uint64_t size = 0, length;
    if (open_file(file, &size, error))
        return -1;
    if (size < LENGTH_SIZE)
        return DAMAGED(file, error,
                       "not a safetensors file: %" PRIu64 " bytes, less than the length of a "
                       "header",
                       size);
    if (read_at(file, 0, &length, sizeof length, error))
        return -1;
    if (length > HEADER_MAX)
        return DAMAGED(file, error, "not a safetensors file: header of %" PRIu64 " bytes", length);
    if (length > size - LENGTH_SIZE)
        return DAMAGED(file, error,
                       "truncated: expected a header of %" PRIu64 " bytes, got a file of %" PRIu64,
                       length, size);
    file->data_begin = LENGTH_SIZE + length;
    file->data_size = size - file->data_begin;

    char *text = malloc(length + 1);
    if (!text)
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", file->path);
    int status = read_at(file, LENGTH_SIZE, text, length, error);
    if (!status) {
        json_error_t problem;
        file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
        if (!file->header)
            status = DAMAGED(file, error, "the header is not JSON: %s", problem.text);
        else if (!json_is_object(file->header))
            status = DAMAGED(file, error, "the header is not a JSON object");
    }
    free(text);
    return status;
}

static int read_metadata(struct safetensors *file, struct error *error) {
    file->metadata = json_object_get(file->header, SAFETENSORS_METADATA);
    if (!file->metadata)
        return 0;
    if (!json_is_object(file->metadata))
        return DAMAGED(file, error, SAFETENSORS_METADATA " is not a JSON object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)file->metadata, key, value) {
        if (!json_is_string(value))
            return DAMAGED(file, error, "the metadata %.100s must be a string", key);
    }
    return 0;
}

/* Read a size or an offset: a JSON integer that is not negative. */
static bool read_natural(const json_t *json, uint64_t *number) {
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return false;
    *number = (uint64_t)json_integer_value(json);
    return true;
}

static bool read_type(const json_t *json, enum safetensors_type *type) {
    const char *name = json_string_value(json);
    for (size_t n = 0; name && n < SAFETENSORS_TYPES; n++)
        if (strcmp(name, types[n].name) == 0) {
            *type = (enum safetensors_type)n;
            return true;
        }
    return false;
}

static bool read_shape(const json_t *json, struct safetensors_entry *entry) {
    if (!json_is_array(json) || json_array_size(json) > SAFETENSORS_RANK_MAX)
        return false;
    entry->rank = json_array_size(json);
    for (size_t n = 0; n < entry->rank; n++)
        if (!read_natural(json_array_get(json, n), &entry->shape[n]))
            return false;
    return true;
}

/* Read one entry of the header; `entry->name` is set. */
static int read_entry(const struct safetensors *file, const json_t *json,
                      struct safetensors_entry *entry, struct error *error) {
    const json_t *offsets = json_object_get(json, "data_offsets");
    uint64_t end, size;
    if (!read_type(json_object_get(json, "dtype"), &entry->type))
        return DAMAGED(file, error, "tensor %.100s has an unknown dtype", entry->name);
    if (!read_shape(json_object_get(json, "shape"), entry))
        return DAMAGED(file, error,
                       "tensor %.100s has an invalid shape; expected at most %d "
                       "sizes",
                       entry->name, SAFETENSORS_RANK_MAX);
    if (json_array_size(offsets) != 2 || !read_natural(json_array_get(offsets, 0), &entry->begin) ||
        !read_natural(json_array_get(offsets, 1), &end) || end < entry->begin)
        return DAMAGED(file, error,
                       "tensor %.100s has invalid data_offsets; expected [begin, "
                       "end]",
                       entry->name);
    entry->size = end - entry->begin;
    if (!safetensors_measure(entry, &size) || size != entry->size)
        return DAMAGED(file, error,
                       "tensor %.100s has %" PRIu64 " bytes, which do not match "
                       "its shape",
                       entry->name, entry->size);
    if (end > file->data_size)
        return DAMAGED(file, error,
                       "truncated: tensor %.100s ends at byte %" PRIu64 ", but the tensors have "
                       "%" PRIu64 " bytes",
                       entry->name, end, file->data_size);
    return 0;
}

static int by_place(const void *left, const void *right) {
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

static int by_name(const void *left, const void *right) {
    const struct safetensors_entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Check that the tensors are contiguous, and end at the end of the file. */
static int check_places(const struct safetensors *file, struct error *error) {
    uint64_t end = 0;
    for (size_t n = 0; n < file->count; n++) {
        const struct safetensors_entry *entry = &file->entries[n];
        if (entry->begin != end)
            return DAMAGED(file, error,
                           "tensor %.100s begins at byte %" PRIu64 ", expected the end of the "
                           "previous tensor (%" PRIu64 ")",
                           entry->name, entry->begin, end);
        end += entry->size;
    }
    if (end != file->data_size)
        return DAMAGED(file, error,
                       "expected %" PRIu64 " bytes of tensors after the header, got %" PRIu64, end,
                       file->data_size);
    return 0;
}

static int read_entries(struct safetensors *file, struct error *error) {
    size_t count = json_object_size(file->header);
    file->entries = calloc(count + 1, sizeof *file->entries);
    file->names = calloc(count + 1, sizeof *file->names);
    if (!file->entries || !file->names)
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", file->path);
    const char *name;
    json_t *json;
    json_object_foreach(file->header, name, json) {
        if (json == file->metadata)
            continue;
        struct safetensors_entry *entry = &file->entries[file->count++];
        entry->name = name;
        if (read_entry(file, json, entry, error))
            return -1;
    }
    qsort(file->entries, file->count, sizeof *file->entries, by_place);
    for (size_t n = 0; n < file->count; n++)
        file->names[n] = &file->entries[n];
    qsort(file->names, file->count, sizeof(struct safetensors_entry *), by_name);
    return check_places(file, error);
}

int safetensors_open(struct safetensors **file, const char *path, struct error *error) {
    struct safetensors *opened = calloc(1, sizeof *opened);
    *file = opened;
    if (opened)
        opened->descriptor = -1;
    if (!opened || !(opened->path = strdup(path))) {
        safetensors_close(file);
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", path);
    }
    if (read_header(opened, error) || read_metadata(opened, error) || read_entries(opened, error)) {
        safetensors_close(file);
        return -1;
    }
    return 0;
}

void safetensors_close(struct safetensors **file) {
    struct safetensors *old = *file;
    *file = NULL;
    if (!old)
        return;
    if (old->descriptor >= 0)
        close(old->descriptor);
    json_decref(old->header);
    free(old->entries);
    free(old->names);
    free(old->path);
    free(old);
}

size_t safetensors_count(const struct safetensors *file) {
    return file->count;
}

const struct safetensors_entry *safetensors_at(const struct safetensors *file, size_t index) {
    assert(index < file->count);
    return &file->entries[index];
}

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name) {
    const struct safetensors_entry key = {.name = name}, *wanted = &key;
    struct safetensors_entry **found =
        bsearch(&wanted, file->names, file->count, sizeof(struct safetensors_entry *), by_name);
    return found ? *found : NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->metadata, key));
}

int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry,
                     uint64_t first, void *bytes, size_t size, struct error *error) {
    assert(first <= entry->size && size <= entry->size - first);
    return read_at(file, file->data_begin + entry->begin + first, bytes, size, error);
}
