/* The mark: a file beside the journal with the position up to which entries have been called
   durable, as text, "POSITION CRC". It is written after each commit and before what the commit made
   durable is acknowledged, so that a log that was cut between two transactions, or left out of a
   copy, is noticed. It is not synced with each commit: after a loss of power it may be some seconds
   old, never ahead of a journal with JOURNAL_FULL. */
#ifndef RUNNEL_JOURNAL_MARK_H
#define RUNNEL_JOURNAL_MARK_H

#include "journal_store.h"

struct journal_mark {
    char path[JOURNAL_PATH_SIZE];
    int file;          /* -1 = not there yet */
    uint64_t position; /* that it has; 0 = none */
};

int journal_mark_open(struct journal_mark *mark, const char *directory, struct error *error);
void journal_mark_close(struct journal_mark *mark);
int journal_mark_write(struct journal_mark *mark, uint64_t position, struct error *error);

/* The same, also for a position below what it has: waits for the disk. */
int journal_mark_reset(struct journal_mark *mark, uint64_t position, struct error *error);

#endif
