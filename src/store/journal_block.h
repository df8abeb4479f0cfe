/* A block: consecutive entries of one transaction as one row of the journal's file, whose columns
   docs/reference/journal.md describes. SQLite needs half as long for a row as learning an example
   takes; a block has room for about thirty small ones. */
#ifndef RUNNEL_JOURNAL_BLOCK_H
#define RUNNEL_JOURNAL_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* ---- Kind ----

   The kinds of entries are numbers in the file (docs/reference/journal.md): a
   number is never reused for another kind. */

enum journal_kind {
    JOURNAL_EXAMPLE = 1,
    JOURNAL_COMMAND, /* any command before format 4; later, one without a kind of its own */
    JOURNAL_RESET,
    JOURNAL_SET,
    JOURNAL_FORGET,
    JOURNAL_ADOPT,
    JOURNAL_IMPORT,
    JOURNAL_SKIP,      /* the place of a dead letter */
    JOURNAL_PARTITION, /* the place of an assigned partition */
    JOURNAL_FEEDBACK,  /* the command `normal` */
    JOURNAL_ROLLBACK,
    JOURNAL_SILENCE,
    JOURNAL_KINDS
};

/* Returns the kind of a command by the beginning of its text, for files of earlier formats. */
enum journal_kind journal_command_kind(const char *text, size_t size);

enum {
    JOURNAL_FORMAT = 4,           /* the file's format: PRAGMA user_version */
    JOURNAL_FORMAT_KINDS = 4,     /* the first format in which commands and blocks have kinds */
    JOURNAL_FORMAT_PRODUCERS = 3, /* the first format in which streams have producers */
    JOURNAL_FORMAT_OLDEST = 2,    /* the oldest format that can be read */
    JOURNAL_ID = 1381322316,      /* "RUNL": PRAGMA application_id */
    JOURNAL_BLOCK_BYTES = 4032,   /* text and bytes: a row just fits into a page of 4096 */
    JOURNAL_BLOCK_ENTRIES = 256,  /* the shortest text of an entry has 16 bytes */
    JOURNAL_ENTRY_TEXT_MAX = 192, /* bytes of one entry's list */
};

/* An entry. If it is read from a block, `appended` and `size` are 0. */
struct journal_record {
    uint64_t position;
    double time;       /* Unix time of appending */
    uint64_t appended; /* CLOCK_MONOTONIC in ns */
    double stamp;      /* the producer's own time, 0 = unknown */
    uint64_t sequence; /* numbered example: its sequence */
    uint64_t producer; /* producer of a numbered example, or of a label's example */
    uint32_t epoch;
    uint8_t kind;  /* enum journal_kind */
    uint8_t flags; /* enum wire_flag */
    bool numbered;
    struct wire_label label; /* set with WIRE_LABEL */
    size_t steps;
    size_t key_size, x_size, y_size, words_size;
    const char *key;    /* in the queue, the bytes of these four follow the record */
    const void *x;      /* a command has its text and a zero */
    const void *y;      /* NULL = none */
    const void *words;  /* set with WIRE_WORDS */
    uint32_t partition; /* the partition that epoch and sequence move, 0 = none; not in blocks */
    uint64_t count;     /* see struct journal_place */
    size_t size;        /* size of the record and the bytes that follow it */
};

/* Returns the number of bytes that follow the record. */
static inline size_t journal_record_bytes(const struct journal_record *record) {
    return record->key_size + record->x_size + record->y_size + record->words_size;
}

/* The columns of the table: the fields below without the sizes, and the checksum. Files have the
   last column from JOURNAL_FORMAT_KINDS on. */
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

/* In SQL: `kinds` of a block without a command, 1 << JOURNAL_EXAMPLE; and a block with one. */
#define JOURNAL_ONLY_EXAMPLES "2"
#define JOURNAL_HAS_COMMAND "kinds <> " JOURNAL_ONLY_EXAMPLES

struct journal_block {
    uint64_t last; /* position of its last entry */
    size_t count;
    const char *about; /* (about_size,) the text */
    size_t about_size;
    const void *data; /* (data_size,) */
    size_t data_size;
    uint32_t kinds; /* bits 1 << kind of its entries; 0 = unknown, in an earlier format */
};

/* Continues a CRC-32 with these bytes; a new `checksum` is 0. */
uint32_t journal_checksum(uint32_t checksum, const void *bytes, size_t size);

/* CRC-32 of last, count and both sizes as 64-bit numbers, then text and bytes. */
uint32_t journal_block_checksum(const struct journal_block *block);

/* ---- Packing ---- */

struct journal_packer {
    struct journal_block block;
    char about[JOURNAL_BLOCK_BYTES + JOURNAL_ENTRY_TEXT_MAX], data[JOURNAL_BLOCK_BYTES];
};

void journal_packer_begin(struct journal_packer *packer);

/* Adds the record after the last one. False: no room, and the block has others. A record larger
   than a block gets its own block. Its bytes are not copied, and must be in the layout of
   journal_queue_write. */
bool journal_packer_add(struct journal_packer *packer, const struct journal_record *record);

/* Completes the block; it is valid until journal_packer_begin. */
const struct journal_block *journal_packer_end(struct journal_packer *packer);

/* ---- Unpacking ---- */

struct journal_unpacker {
    struct journal_block block;
    const char *next; /* next byte of the text */
    size_t used;      /* bytes used */
    size_t done;      /* entries read */
    uint32_t kinds;   /* kinds of the entries read */
};

/* Text and bytes must be valid until the last entry has been read. */
void journal_unpacker_begin(struct journal_unpacker *unpacker, const struct journal_block *block);

/* Reads the next entry. 1: its pointers refer to the block; 0: no more entries, returned once; -1:
   the block was not made by journal_packer. */
int journal_unpacker_next(struct journal_unpacker *unpacker, struct journal_record *record);

#endif
