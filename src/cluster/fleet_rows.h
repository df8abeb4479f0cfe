/* What a fleet writes to a log beside its commands, as bytes: states of streams, one row after the
   other (u32 size of the key, u32 size of the state, key, state, as the machine has numbers), and
   the text that says where they are. Others may write there, too: nothing of it is believed. */
#ifndef RUNNEL_FLEET_ROWS_H
#define RUNNEL_FLEET_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet_command.h"
#include "fleet_link.h"

struct error;

enum { FLEET_ROW_HEAD = 2 }; /* numbers */

/* Bytes in a topic: messages from the offset `first` to `last` whose key is `tag`. */
struct fleet_span {
    int64_t first, last;
    uint64_t tag;
};

/* "FIRST LAST TAG", the tag of 16 hexadecimal digits. False: it is none, or ends before it begins.
 */
void fleet_span_print(const struct fleet_span *span, char where[FLEET_WHERE_SIZE]);
bool fleet_span_scan(const char *where, struct fleet_span *span);

/* Publications are visited from the newest to the oldest: of a stream its first row counts. All
   zeros at first. */
struct fleet_rows {
    struct fleet_row *seen; /* (room,), a power of two; key NULL: nothing is there */
    size_t count, room;
    uint64_t visited; /* streams that are not forgotten */
};

/* All rows of one publication, whose bytes stay where they are until the last one has been visited.
   *whole: they are as many as were written, and none is cut short. -1: out of memory, or what
   `visit` said. */
int fleet_rows_visit(struct fleet_rows *rows, const unsigned char *bytes, size_t size,
                     uint64_t written, fleet_visit *visit, void *context, bool *whole,
                     struct error *error);
void fleet_rows_free(struct fleet_rows *rows);

/* ---- A snapshot as messages of the log: in pieces, since brokers take 1 MB at once ---- */

enum { FLEET_PIECE_BYTES = 512 * 1024, FLEET_PIECE_HEAD = 96 };

/* Whether a message is one: no command is. */
bool fleet_piece_is(const void *message, size_t size);

/* How many pieces `size` bytes are, at least 1. */
size_t fleet_piece_count(size_t size);

/* One of them, as a message (FLEET_PIECE_HEAD + FLEET_PIECE_BYTES,), whose size this gives. The
   snapshot is that of `position`. */
size_t fleet_piece_write(unsigned char *message, const void *snapshot, size_t size,
                         uint64_t position, size_t piece);

/* Pieces put together again, in any order, of a few snapshots at once; all zeros at first. */
struct fleet_pieces {
    unsigned char *bytes; /* of the snapshot that is whole, until the next call */
    size_t size;
    struct fleet_gathered *gathered; /* its own */
};

/* 1: one snapshot is whole; 0: not yet; -1: out of memory. What is no piece, or does not fit those
   that are there, is left out. */
int fleet_pieces_add(struct fleet_pieces *pieces, const void *message, size_t size);
void fleet_pieces_free(struct fleet_pieces *pieces);

#endif
