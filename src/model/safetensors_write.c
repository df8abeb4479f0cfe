#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "common/error.h"
#include "safetensors.h"

enum {
    LENGTH_SIZE = sizeof(uint64_t), /* size of the header's length, at the beginning of the file */
    ALIGNMENT = 8,                  /* alignment of the first tensor's bytes in the file */
    PIECE_SIZE = 1 << 16,           /* bytes collected for the sink */
};

struct safetensors_writer {
    safetensors_sink *sink;
    void *context;
    uint64_t header_size;      /* length and header */
    uint64_t data_size, given; /* bytes of all tensors, and those written so far */
    size_t gathered;
    unsigned char piece[PIECE_SIZE];
};

/* Sends the collected bytes to the sink. */
static int safetensors_flush(struct safetensors_writer *writer, struct error *error) {
    size_t size = writer->gathered;
    writer->gathered = 0;
    return size ? writer->sink(writer->context, writer->piece, size, error) : 0;
}

static int gather(struct safetensors_writer *writer, const void *bytes, size_t size,
                  struct error *error) {
    if (size > PIECE_SIZE - writer->gathered && safetensors_flush(writer, error))
        return -1;
    if (size >= PIECE_SIZE)
        return writer->sink(writer->context, bytes, size, error);
    if (size)
        memcpy(writer->piece + writer->gathered, bytes, size);
    writer->gathered += size;
    return 0;
}

/* The JSON of an entry: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} */
static json_t *describe_entry(const struct safetensors_entry *entry) {
    json_t *shape = json_array();
    for (size_t n = 0; n < entry->rank; n++)
        json_array_append_new(shape, json_integer((json_int_t)entry->shape[n]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_type_name(entry->type), "shape",
                     shape, "data_offsets", (json_int_t)entry->begin,
                     (json_int_t)(entry->begin + entry->size));
}

/* The header as JSON; NULL if a text is not UTF-8, or if out of memory. Sets the positions of
   the entries. */
static json_t *describe(struct safetensors_writer *writer, struct safetensors_entry *entries,
                        size_t entry_count, const struct safetensors_text *metadata,
                        size_t metadata_count, struct error *error) {
    json_t *header = json_object();
    if (metadata_count) {
        json_t *texts = json_object();
        for (size_t n = 0; n < metadata_count; n++)
            if (json_object_set_new(texts, metadata[n].key, json_string(metadata[n].value))) {
                error_set(error, EX_SOFTWARE, "cannot write the metadata %s as JSON",
                          metadata[n].key);
                json_decref(texts);
                goto fail;
            }
        json_object_set_new(header, SAFETENSORS_METADATA, texts);
    }
    for (size_t n = 0; n < entry_count; n++) {
        struct safetensors_entry *entry = &entries[n];
        assert(entry->rank <= SAFETENSORS_RANK_MAX && entry->type < SAFETENSORS_TYPES);
        entry->begin = writer->data_size;
        if (!safetensors_measure(entry, &entry->size) ||
            __builtin_add_overflow(writer->data_size, entry->size, &writer->data_size) ||
            writer->data_size > INT64_MAX) {
            error_set(error, EX_SOFTWARE, "tensor %s is too large for a file", entry->name);
            goto fail;
        }
        if (json_object_get(header, entry->name)) {
            error_set(error, EX_SOFTWARE, "duplicate tensor name %s", entry->name);
            goto fail;
        }
        if (json_object_set_new(header, entry->name, describe_entry(entry))) {
            error_set(error, EX_SOFTWARE, "cannot write the tensor name %s as JSON", entry->name);
            goto fail;
        }
    }
    return header;
fail:
    json_decref(header);
    return NULL;
}

/* Spaces pad the header, so that the tensors' bytes are aligned. */
static int write_header(struct safetensors_writer *writer, const json_t *json,
                        struct error *error) {
    char *text = json_dumps(json, JSON_COMPACT);
    if (!text)
        return error_set(error, EX_UNAVAILABLE, "out of memory while writing tensors");
    static const char spaces[ALIGNMENT] = "        ";
    size_t used = strlen(text), padding = (ALIGNMENT - used % ALIGNMENT) % ALIGNMENT;
    uint64_t length = used + padding;
    writer->header_size = LENGTH_SIZE + length;
    int status = gather(writer, &length, sizeof length, error) ||
                 gather(writer, text, used, error) || gather(writer, spaces, padding, error);
    free(text);
    return status ? -1 : 0;
}

int safetensors_start(struct safetensors_writer **writer, struct safetensors_entry *entries,
                      size_t entry_count, const struct safetensors_text *metadata,
                      size_t metadata_count, safetensors_sink *sink, void *context,
                      struct error *error) {
    struct safetensors_writer *opened = malloc(sizeof *opened);
    if (!opened)
        return error_set(error, EX_UNAVAILABLE, "out of memory while writing tensors");
    *writer = opened;
    opened->sink = sink;
    opened->context = context;
    opened->data_size = opened->given = opened->gathered = 0;
    json_t *header = describe(opened, entries, entry_count, metadata, metadata_count, error);
    if (!header || write_header(opened, header, error))
        safetensors_abandon(writer);
    json_decref(header);
    return *writer ? 0 : -1;
}

uint64_t safetensors_file_size(const struct safetensors_writer *writer) {
    return writer->header_size + writer->data_size;
}

int safetensors_put(struct safetensors_writer *writer, const void *bytes, size_t size,
                    struct error *error) {
    if (size > writer->data_size - writer->given)
        return error_set(error, EX_SOFTWARE, "more bytes than the tensors of the file have");
    writer->given += size;
    return gather(writer, bytes, size, error);
}

int safetensors_finish(struct safetensors_writer **writer, struct error *error) {
    uint64_t missing = (*writer)->data_size - (*writer)->given;
    int status = missing ? error_set(error, EX_SOFTWARE,
                                     "%" PRIu64 " bytes of the tensors are missing", missing)
                         : safetensors_flush(*writer, error);
    safetensors_abandon(writer);
    return status;
}

void safetensors_abandon(struct safetensors_writer **writer) {
    free(*writer);
    *writer = NULL;
}

int safetensors_to_file(void *file, const void *bytes, size_t size, struct error *error) {
    const struct safetensors_file *to = file;
    for (size_t done = 0; done < size;) {
        ssize_t count = write(to->descriptor, (const char *)bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, EX_IOERR, "cannot write %s: %s", to->path,
                             strerror(count < 0 ? errno : EIO));
        done += (size_t)count;
    }
    return 0;
}

int safetensors_to_memory(void *memory, const void *bytes, size_t size, struct error *error) {
    struct safetensors_memory *to = memory;
    if (size > to->capacity - to->size) {
        size_t capacity = 2 * to->capacity > to->size + size ? 2 * to->capacity : to->size + size;
        unsigned char *grown = realloc(to->bytes, capacity);
        if (!grown)
            return error_set(error, EX_UNAVAILABLE,
                             "out of memory for a copy of the tensors (%zu bytes)", capacity);
        to->bytes = grown;
        to->capacity = capacity;
    }
    if (size)
        memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return 0;
}
