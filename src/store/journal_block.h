/* A block: consecutive entries of one transaction as one row of the journal's file
   (docs/explanation/reliability.md, "The file"). SQLite needs half as long for a row as learning an example
   takes; some thirty small ones fit in a block.

   What is known of the entries is a text, JSON that any program can read:

       [[time,kind,at,key,x,y,steps,flags,epoch,sequence,stamp,producer,of_epoch,of,words],...]

   one list for each entry: `time` in microseconds since 1970; kind: enum journal_kind; `at`: where
   the entry's bytes begin in the block's, and how many of them are its stream's key, its x, and its
   y (null: it has none); steps; flags; epoch and sequence (null: it has none; a sequence as int64);
   the bits of the producer's time as int64 (null: unknown); the producer as int64, which is left
   out when it is 0 and nothing follows; of a label, whose x has 0 bytes, the epoch and sequence of
   its example (null: it is none); of an example with words how many bytes these have. The bytes of
   an entry are key, x, y and words (wire.h). A command has only the first five: its x is its text
   and a zero. */
#ifndef RUNNEL_JOURNAL_BLOCK_H
#define RUNNEL_JOURNAL_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* ---- Kind ----

   The kinds of entries, as numbers of the file (docs/explanation/reliability.md, "The file"): a number is never
   used for another kind. */

enum journal_kind {
    JOURNAL_EXAMPLE = 1,
    JOURNAL_COMMAND, /* any command before format 4; since then one that this version cannot name */
    JOURNAL_RESET,
    JOURNAL_SET,
    JOURNAL_FORGET,
    JOURNAL_ADOPT,
    JOURNAL_IMPORT,
    JOURNAL_SKIP,      /* the place of a dead letter */
    JOURNAL_PARTITION, /* the place of a partition that has come */
    JOURNAL_FEEDBACK,  /* `normal` */
    JOURNAL_ROLLBACK,
    JOURNAL_KINDS
};

/* The kind of a command by the beginning of its text, for files of earlier formats. */
enum journal_kind journal_command_kind(const char *text, size_t size);

enum {
    JOURNAL_FORMAT = 4,           /* of the file: PRAGMA user_version */
    JOURNAL_FORMAT_KINDS = 4,     /* from which on commands have kinds, and blocks `kinds`, */
    JOURNAL_FORMAT_PRODUCERS = 3, /* and streams producers */
    JOURNAL_FORMAT_OLDEST = 2,    /* that can be read */
    JOURNAL_ID = 1381322316,      /* "RUNL": PRAGMA application_id */
    JOURNAL_BLOCK_BYTES = 4032,   /* of text and bytes: a row then just fits in a page of 4096 */
    JOURNAL_BLOCK_ENTRIES = 256,  /* at most: the shortest text of an entry has 16 bytes */
    JOURNAL_ENTRY_TEXT_MAX = 192, /* of one entry's list */
};

/* An entry. Of one that is read from a block, `appended` and `size` are 0. */
struct journal_record {
    uint64_t position;
    double time;       /* Unix time at which it was appended */
    uint64_t appended; /* CLOCK_MONOTONIC in ns */
    double stamp;      /* the producer's own time, 0 = unknown */
    uint64_t sequence; /* of a numbered example */
    uint64_t producer; /* likewise, or of a label: whose number that of its example is */
    uint32_t epoch;
    uint8_t kind;  /* enum journal_kind */
    uint8_t flags; /* enum wire_flag */
    bool numbered;
    struct wire_label label; /* with WIRE_LABEL */
    size_t steps;
    size_t key_size, x_size, y_size, words_size;
    const char *key;    /* in the queue, this and the three below follow the record */
    const void *x;      /* of a command: its text and a zero */
    const void *y;      /* NULL = none */
    const void *words;  /* with WIRE_WORDS */
    uint32_t partition; /* whose place becomes epoch and sequence, 0 = none; not in blocks */
    uint64_t count;     /* see struct journal_place */
    size_t size;        /* with all that follows it */
};

/* Bytes that follow it. */
static inline size_t journal_record_bytes(const struct journal_record *record) {
    return record->key_size + record->x_size + record->y_size + record->words_size;
}

/* The table: a column for each field below but the sizes, and the checksum. The last column is in
   files from JOURNAL_FORMAT_KINDS on. */
#define JOURNAL_BLOCK_COLUMNS_OLDEST "last, count, about, data, crc"
#define JOURNAL_BLOCK_COLUMNS JOURNAL_BLOCK_COLUMNS_OLDEST ", kinds"
enum journal_column {
    JOURNAL_LAST,
    JOURNAL_COUNT,
    JOURNAL_ABOUT,
    JOURNAL_DATA,
    JOURNAL_CRC,
    JOURNAL_BLOCK_KINDS
};

/* In SQL: `kinds` of a block without a command, 1 << JOURNAL_EXAMPLE; a block with one. */
#define JOURNAL_ONLY_EXAMPLES "2"
#define JOURNAL_HAS_COMMAND "kinds <> " JOURNAL_ONLY_EXAMPLES

struct journal_block {
    uint64_t last; /* position of its last entry */
    size_t count;
    const char *about; /* (about_size,) the text */
    size_t about_size;
    const void *data; /* (data_size,) */
    size_t data_size;
    uint32_t kinds; /* of its entries: the bits 1 << kind; 0 = unknown, in an earlier format */
};

/* CRC-32 of the bytes that `checksum` is of (0: none), followed by these. */
uint32_t journal_checksum(uint32_t checksum, const void *bytes, size_t size);

/* CRC-32 of last, count and both sizes as 64-bit numbers, then text and bytes. */
uint32_t journal_block_checksum(const struct journal_block *block);

/* ---- Packing ---- */

struct journal_packer {
    struct journal_block block;
    char about[JOURNAL_BLOCK_BYTES + JOURNAL_ENTRY_TEXT_MAX], data[JOURNAL_BLOCK_BYTES];
};

void journal_packer_begin(struct journal_packer *packer);

/* Add the record after the last one. False: there is no room, and the block has others. One that
   is larger than a block gets one of its own, and its bytes, which then must lie as
   journal_queue_write puts them, are not copied. */
bool journal_packer_add(struct journal_packer *packer, const struct journal_record *record);

/* The block, complete; it is valid until journal_packer_begin. */
const struct journal_block *journal_packer_end(struct journal_packer *packer);

/* ---- Unpacking ---- */

struct journal_unpacker {
    struct journal_block block;
    const char *next; /* in the text */
    size_t used;      /* of the bytes */
    size_t done;      /* entries */
    uint32_t kinds;   /* of those */
};

/* Text and bytes must be valid until the last entry has been read. */
void journal_unpacker_begin(struct journal_unpacker *unpacker, const struct journal_block *block);

/* The next entry: 1; its pointers lead into the block. 0: there are no more, which
   is returned once. -1: the block is not one that journal_packer has made. */
int journal_unpacker_next(struct journal_unpacker *unpacker, struct journal_record *record);

#endif
