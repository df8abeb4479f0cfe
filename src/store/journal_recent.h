/* Checksums of the newest numbered examples of all streams, to detect another example with the same
   number.

   The table has a fixed size, in which newer examples replace older ones: a stream's newest stay
   until about JOURNAL_RECENT_PLACES others have followed. The hashes have a secret seed, so that
   nobody can choose an example with the same checksum as another. */
#ifndef RUNNEL_JOURNAL_RECENT_H
#define RUNNEL_JOURNAL_RECENT_H

#include "journal.h"
#include "journal_block.h"

struct error;
struct journal_recent;

enum {
    JOURNAL_RECENT_PLACES = 1 << 20
}; /* places have eight bytes, which use no memory until they are written */

int journal_recent_open(struct journal_recent **recent, struct error *error);
void journal_recent_close(struct journal_recent **recent);

/* Adds a numbered example by its key, producer, epoch and sequence, without its time. */
void journal_recent_put(struct journal_recent *recent, const struct journal_record *record);

/* Adds an example older than those in the table; it replaces none. */
void journal_recent_put_older(struct journal_recent *recent, const struct journal_record *record);

enum journal_seen journal_recent_find(const struct journal_recent *recent,
                                      const struct journal_record *record);

#endif
