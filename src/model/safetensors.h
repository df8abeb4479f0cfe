/* Files in the safetensors format (huggingface.co/docs/safetensors): the length of a JSON header
   (u64), the header, which gives every tensor's name, type, shape and place, and the tensors' bytes
   one after another without gaps. Numbers are little-endian, matrices row-major.

   Errors: one sentence that names the file and what is wrong with it; EX_IOERR, unless said
   otherwise. Nothing in a file can make these functions do anything but return -1. */
#ifndef RUNNEL_SAFETENSORS_H
#define RUNNEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct safetensors;
struct safetensors_writer;

#define SAFETENSORS_METADATA "__metadata__" /* the header's entry that is no tensor */

enum { SAFETENSORS_RANK_MAX = 8 };

enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_U8,
    SAFETENSORS_U32,
    SAFETENSORS_U64,
    SAFETENSORS_I64,
    /* Known, so that a file that has them can be opened; runnel writes none of them. */
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
    uint64_t begin, size; /* bytes: where in the tensors' bytes, how many. Filled by the reader and
                             by safetensors_start */
};

/* A line of the header's __metadata__. */
struct safetensors_text {
    const char *key, *value;
};

/* "F32" and so on. */
const char *safetensors_type_name(enum safetensors_type type);

/* The bytes of an entry by its type and shape; false when they do not fit into 64 bits. */
bool safetensors_measure(const struct safetensors_entry *entry, uint64_t *size);

/* ---- Writing (safetensors_write.c) ---- */

/* Takes the file's bytes, in order. Returns 0, or -1 with an error. */
typedef int safetensors_sink(void *context, const void *bytes, size_t size, struct error *error);

/* Start a file with all its entries in the order in which their bytes will be put; fills their
   `begin` and `size`. Nothing of the arguments is kept but sink and context.
   EX_SOFTWARE: a name used twice, text that is not UTF-8. */
int safetensors_start(struct safetensors_writer **writer, struct safetensors_entry *entries,
                      size_t entry_count, const struct safetensors_text *metadata,
                      size_t metadata_count, safetensors_sink *sink, void *context,
                      struct error *error);

/* The size in bytes of the file that was started. */
uint64_t safetensors_file_size(const struct safetensors_writer *writer);

/* The next bytes of the tensors: entry after entry, cut as the caller likes. Gathered into large
   pieces before they reach the sink. EX_SOFTWARE: more than the entries hold. */
int safetensors_put(struct safetensors_writer *writer, const void *bytes, size_t size,
                    struct error *error);

/* Pass on what is gathered: after it the sink has seen every byte before the next put. */
int safetensors_flush(struct safetensors_writer *writer, struct error *error);

/* Pass on what is gathered and free the writer, also when it fails. EX_SOFTWARE: bytes are missing.
 */
int safetensors_finish(struct safetensors_writer **writer, struct error *error);

/* Free a writer whose file is given up. */
void safetensors_abandon(struct safetensors_writer **writer);

/* A sink into an open file. Continues after interruptions and short writes. */
struct safetensors_file {
    int descriptor;
    const char *path; /* for errors */
};
int safetensors_to_file(void *file, const void *bytes, size_t size, struct error *error);

/* A sink into memory. `bytes` starts NULL, grows by realloc and is the caller's to free. */
struct safetensors_memory {
    unsigned char *bytes;
    size_t size, capacity;
};
int safetensors_to_memory(void *memory, const void *bytes, size_t size, struct error *error);

/* ---- Reading ---- */

/* Open a file and check all of its structure: the header's length and JSON, every entry's type,
   shape and place, and that the tensors fill the rest of the file exactly. */
int safetensors_open(struct safetensors **file, const char *path, struct error *error);
void safetensors_close(struct safetensors **file);

/* Entries in the order of their bytes. They are valid until close. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensors_entry *safetensors_at(const struct safetensors *file, size_t index);

/* The entry of that name, or NULL. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* A text of __metadata__, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* Copy `size` of an entry's bytes, from its byte `first` on. They must lie inside the entry. */
int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry,
                     uint64_t first, void *bytes, size_t size, struct error *error);

#endif
