/* The mark: a file next to the journal with the position that was last reported durable, as text,
   "POSITION CRC". It is written after each commit and before the acknowledgement. It reveals a log
   that was cut between two transactions, or left out of a copy. It is not synced at each commit:
   after a loss of power it can be some seconds old, but never ahead of a journal with
   JOURNAL_FULL. */
#ifndef RUNNEL_JOURNAL_MARK_H
#define RUNNEL_JOURNAL_MARK_H

#include "journal_store.h"

struct journal_mark {
    char path[JOURNAL_PATH_SIZE];
    int file;          /* -1 = does not exist yet */
    uint64_t position; /* position in the file; 0 = none */
};

int journal_mark_open(struct journal_mark *mark, const char *directory, struct error *error);
void journal_mark_close(struct journal_mark *mark);
int journal_mark_write(struct journal_mark *mark, uint64_t position, struct error *error);

/* Writes any position, even a lower one, and waits for the disk. */
int journal_mark_reset(struct journal_mark *mark, uint64_t position, struct error *error);

#endif
