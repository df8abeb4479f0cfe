/* What the newest numbered examples were, so that the same number with another content is not taken
   for the same example: a checksum of each, for all streams together.

   The table has a fixed size, and newer examples take the places of older ones: a stream's newest
   are there until some JOURNAL_RECENT_PLACES others have come. The hashes have a secret seed:
   nobody can choose a content that is taken for another. */
#ifndef RUNNEL_JOURNAL_RECENT_H
#define RUNNEL_JOURNAL_RECENT_H

#include "journal.h"
#include "journal_block.h"

struct error;
struct journal_recent;

enum {
    JOURNAL_RECENT_PLACES = 1 << 20
}; /* of eight bytes, which cost nothing before they are used */

int journal_recent_open(struct journal_recent **recent, struct error *error);
void journal_recent_close(struct journal_recent **recent);

/* Remember a numbered example by its key, producer, epoch and sequence; its time does not count. */
void journal_recent_put(struct journal_recent *recent, const struct journal_record *record);

/* The same for one that is older than those that were put: it takes nobody's place. */
void journal_recent_put_older(struct journal_recent *recent, const struct journal_record *record);

enum journal_seen journal_recent_find(const struct journal_recent *recent,
                                      const struct journal_record *record);

#endif
