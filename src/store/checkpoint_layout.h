/* The entries of a checkpoint: parts/rows.h lists the learner's state; this module adds tensors,
   words and keys. And what differs between a file and the configuration that reads it: refused, or
   marked as lacked in the layout, so that it starts from scratch. */
#ifndef RUNNEL_CHECKPOINT_LAYOUT_H
#define RUNNEL_CHECKPOINT_LAYOUT_H

#include "checkpoint.h"
#include "common/wire.h"
#include "model/parameters.h"
#include "model/safetensors.h"
#include "parts/rows.h"

#define CHECKPOINT_MEMORY "anomaly_memory" /* metadata: contexts in a memory */
#define CHECKPOINT_SHARE "anomaly_share"   /* metadata: a hash of anomaly.share */

enum {
    CHECKPOINT_DESCRIPTION_SIZE = 2048,          /* bytes of a configuration's description */
    CHECKPOINT_SHARE_SIZE = 17,                  /* bytes of the text of a hash of anomaly.share */
    CHECKPOINT_NAME_SIZE = PARAMETERS_NAME_SIZE, /* bytes of an entry's name */
    CHECKPOINT_KEY_SIZE = 1 + WIRE_KEY_MAX,      /* a row of streams.keys: size, key, zeros */
    /* A row of learner.words: vocabulary and place in the order of use (uint32), number of words
       that had appeared (uint64), size, word, zeros. */
    CHECKPOINT_WORD_PLACE = 4,
    CHECKPOINT_WORD_APPEARED = 8,
    CHECKPOINT_WORD_LENGTH = 16,
    CHECKPOINT_WORD_BYTES = 17,
    CHECKPOINT_WORD_SIZE = CHECKPOINT_WORD_BYTES + WIRE_WORD_MAX,
};

enum checkpoint_kind { ENTRY_TENSOR, ENTRY_KEPT, ENTRY_WORDS, ENTRY_KEYS, ENTRY_CHECKSUM };

struct checkpoint_entry {
    enum checkpoint_kind kind;
    const struct state_row *row; /* the row of ENTRY_KEPT */
    void *self;                  /* the part of the row */
    /* ^ENTRY_TENSOR: block 0 has parameters, block n the n-th moments. */
    size_t member, block, tensor;
    bool lacked;   /* missing in the file, or does not fit */
    uint64_t used; /* rows read, if the entry counts its `used` rows */
    char name[CHECKPOINT_NAME_SIZE];
};

/* All entries of a checkpoint, in the file's order. */
struct checkpoint_layout {
    struct learner *learner;
    size_t streams, count, capacity;
    struct safetensors_entry *entries; /* (count,) */
    struct checkpoint_entry *of;       /* (count,) the meaning of each */
    void *buffer;                      /* room for the largest tensor or row */
    bool begins;                       /* windows of streams start from scratch */
    bool moments;                      /* so do the optimizer's moments */
};

/* Lists the entries of a checkpoint of that learner with that many streams. -1: out of memory
   (EX_UNAVAILABLE). Close it in any case. */
int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error);
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* Returns whether the entry has a row for each stream; its keys do not count. */
bool checkpoint_is_row(const struct checkpoint_entry *of);

/* Returns whether the entry has the starting values for `pull`. */
bool checkpoint_is_start(const struct checkpoint_layout *layout, const struct checkpoint_entry *of);

/* Returns whether the entry belongs to anomalies, which all start from scratch if one does not
   fit. */
bool checkpoint_is_watched(const struct checkpoint_entry *of);

/* Returns the bytes of one row. */
size_t checkpoint_row_size(const struct safetensors_entry *entry);

/* Returns the size of the largest read or write of an entry. */
size_t checkpoint_piece_size(const struct safetensors_entry *entry,
                             const struct checkpoint_entry *of);

/* The slots with rows of an entry. */
struct checkpoint_slots {
    const struct learner *learner;
    uint32_t next;        /* next slot of the streams, least recently used first */
    size_t shared, count; /* then the shared slots */
};

struct checkpoint_slots checkpoint_slots(const struct learner *learner,
                                         const struct state_row *row);

/* Returns false at the end. */
bool checkpoint_next_slot(struct checkpoint_slots *slots, uint32_t *slot);

/* The source of entries that are read. */
struct checkpoint_source {
    const char *path;          /* used in messages */
    struct safetensors *file;  /* NULL: use `blob` */
    const unsigned char *blob; /* the bytes of entries, each at its `begin` */
};

/* Appends to the report's warning. */
void checkpoint_warn(struct checkpoint_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Formats a hash of anomaly.share. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]);

/* Describes network and learning in one line. */
void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]);

/* Sets `begins` and `moments` of the layout. -1 (EX_CONFIG): the file has another model or learning
   configuration. */
int checkpoint_check_digest(struct checkpoint_layout *layout,
                            const struct checkpoint_source *source, const struct config *config,
                            struct checkpoint_report *report, struct error *error);

/* Marks entries that the file lacks, because it is older or did not keep them. Returns the number
   of entries that the file must have. */
size_t checkpoint_mark_lacked(struct checkpoint_layout *layout, const struct safetensors *file);

/* Marks entries that start from scratch under this configuration. */
void checkpoint_mark_changed(struct checkpoint_layout *layout, const struct safetensors *file,
                             const struct config *config, struct checkpoint_report *report);

#endif
