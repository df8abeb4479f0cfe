/* Entries between the learning thread and the journal's: a ring of bytes in which every record is
   contiguous. The caller holds the journal's mutex around each call. The bytes of a record need no
   lock: they belong to the learning thread until the record is put, then to the journal's
   thread. */
#ifndef RUNNEL_JOURNAL_QUEUE_H
#define RUNNEL_JOURNAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "journal_block.h"

struct journal_queue {
    char *bytes;
    size_t capacity;
    size_t head, tail; /* place of the next record, and of the oldest */
    size_t wrap; /* end of the records at the end of the ring; SIZE_MAX: none precede `head` */
    size_t count;
};

/* False: out of memory. Only pages with records use memory. */
bool journal_queue_open(struct journal_queue *queue, size_t capacity);
void journal_queue_close(struct journal_queue *queue);

/* Returns the size of a record followed by `bytes`. */
size_t journal_queue_size(size_t bytes);

/* Returns the place for a record of that size; NULL: no room now. */
struct journal_record *journal_queue_place(struct journal_queue *queue, size_t size);

/* Copies a record with its `size` set, and the data of its pointers, to its place. */
void journal_queue_write(struct journal_record *place, const struct journal_record *record);

/* Adds the complete record at the place. */
void journal_queue_put(struct journal_queue *queue, const struct journal_record *record);

/* Returns the record after `record`, or the oldest for NULL. It must exist in `queue`, which may be
   an earlier copy of the struct. */
const struct journal_record *journal_queue_next(const struct journal_queue *queue,
                                                const struct journal_record *record);

/* Drops `count` records; `last` is the last of them. */
void journal_queue_drop(struct journal_queue *queue, size_t count,
                        const struct journal_record *last);

#endif
