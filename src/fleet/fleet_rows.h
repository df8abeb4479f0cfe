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

#endif
