/* Files in the safetensors format (huggingface.co/docs/safetensors): the length of a JSON header
   (u64), the header with every tensor's name, type, shape and position, and the contiguous bytes
   of the tensors. Numbers are little-endian, matrices row-major.

   Errors: one sentence with the file and the cause; EX_IOERR, unless documented otherwise. These
   functions return -1 for every invalid file. */
#ifndef RUNNEL_SAFETENSORS_H
#define RUNNEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct safetensors;
struct safetensors_writer;

#define SAFETENSORS_METADATA "__metadata__" /* the header's entry for metadata */

enum { SAFETENSORS_RANK_MAX = 8 };

enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_U8,
    SAFETENSORS_U32,
    SAFETENSORS_U64,
    SAFETENSORS_I64,
    /* Files with these types can be opened; runnel does not write them. */
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I8,
    SAFETENSORS_I16,
    SAFETENSORS_U16,
    SAFETENSORS_I32,
    SAFETENSORS_BOOL,
    SAFETENSORS_TYPES,
};

struct safetensors_entry {
    const char *name; /* UTF-8; not "__metadata__" */
    enum safetensors_type type;
    size_t rank; /* 0 = one number */
    uint64_t shape[SAFETENSORS_RANK_MAX];
    /* Position in the tensors' bytes, and size in bytes. Set by the reader and by
       safetensors_start. */
    uint64_t begin, size;
};

/* An entry of the header's __metadata__. */
struct safetensors_text {
    const char *key, *value;
};

/* The name of a type: "F32". */
const char *safetensors_type_name(enum safetensors_type type);

/* Compute the bytes of an entry from its type and shape; false if they do not fit into 64 bits. */
bool safetensors_measure(const struct safetensors_entry *entry, uint64_t *size);

/* ---- Writing (safetensors_write.c) ---- */

/* Receives the bytes of the file in order. Returns 0, or -1 with an error. */
typedef int safetensors_sink(void *context, const void *bytes, size_t size, struct error *error);

/* Start a file with all its entries, in the order of their bytes; sets their `begin` and `size`.
   Only sink and context must outlive the call. EX_SOFTWARE: a duplicate name, or text that is
   not UTF-8. */
int safetensors_start(struct safetensors_writer **writer, struct safetensors_entry *entries,
                      size_t entry_count, const struct safetensors_text *metadata,
                      size_t metadata_count, safetensors_sink *sink, void *context,
                      struct error *error);

/* The size of the started file in bytes. */
uint64_t safetensors_file_size(const struct safetensors_writer *writer);

/* Append the next bytes of the tensors, entry after entry, in pieces of any size. They are
   collected before they reach the sink. EX_SOFTWARE: more bytes than the entries have. */
int safetensors_put(struct safetensors_writer *writer, const void *bytes, size_t size,
                    struct error *error);

/* Send the collected bytes to the sink and free the writer, also on failure. EX_SOFTWARE:
   missing bytes. */
int safetensors_finish(struct safetensors_writer **writer, struct error *error);

/* Free a writer without finishing its file. */
void safetensors_abandon(struct safetensors_writer **writer);

/* A sink for an open file. Handles interruptions and short writes. */
struct safetensors_file {
    int descriptor;
    const char *path; /* path for errors */
};
int safetensors_to_file(void *file, const void *bytes, size_t size, struct error *error);

/* A sink for memory. `bytes` begins as NULL, grows with realloc, and the caller frees it. */
struct safetensors_memory {
    unsigned char *bytes;
    size_t size, capacity;
};
int safetensors_to_memory(void *memory, const void *bytes, size_t size, struct error *error);

/* ---- Reading ---- */

/* Open a file and check its structure: the header's length and JSON, every entry's type, shape
   and position, and that the tensors fill the rest of the file exactly. */
int safetensors_open(struct safetensors **file, const char *path, struct error *error);
void safetensors_close(struct safetensors **file);

/* The entries in the order of their bytes, valid until close. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensors_entry *safetensors_at(const struct safetensors *file, size_t index);

/* The entry of that name, or NULL. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* A text of __metadata__, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* Copy `size` bytes of an entry, from its byte `first` on. They must lie within the entry. */
int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry,
                     uint64_t first, void *bytes, size_t size, struct error *error);

#endif
