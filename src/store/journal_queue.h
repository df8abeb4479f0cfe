/* Entries between the learning thread and the journal's: a ring of bytes in which every record lies
   in one piece. It knows no lock: the journal's mutex stands around each call, but for the bytes of
   records, which belong to the learning thread until they are put and then to the journal's. */
#ifndef RUNNEL_JOURNAL_QUEUE_H
#define RUNNEL_JOURNAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal_block.h"

struct journal_queue {
    char *bytes;
    size_t capacity;
    size_t head, tail; /* where the next is put, and where the oldest lies */
    size_t wrap;       /* where those at the end of the ring end; SIZE_MAX: none lies before them */
    size_t count;
};

/* False: out of memory. Memory is used only where records lie. */
bool journal_queue_open(struct journal_queue *queue, size_t capacity);
void journal_queue_close(struct journal_queue *queue);

/* What a record needs with `bytes` after it. */
size_t journal_queue_size(size_t bytes);

/* Where a record of that size may be written, or NULL: not now. */
struct journal_record *journal_queue_place(struct journal_queue *queue, size_t size);

/* Copy a record, its `size` set, and what its pointers lead to, to its place. */
void journal_queue_write(struct journal_record *place, const struct journal_record *record);

/* The record at the place is complete. */
void journal_queue_put(struct journal_queue *queue, const struct journal_record *record);

/* The record after `record`, or with NULL the oldest. There must be one, as of `queue`, which may
   be a copy of the struct from when the count was looked at. */
const struct journal_record *journal_queue_next(const struct journal_queue *queue,
                                                const struct journal_record *record);

/* `count` records are done with; `last` is the last of them. */
void journal_queue_drop(struct journal_queue *queue, size_t count,
                        const struct journal_record *last);

#endif
