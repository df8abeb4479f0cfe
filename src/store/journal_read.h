/* The connection that reads: looking up streams, and replaying. Nothing is read for longer than a
   call takes: a transaction that is left open would keep the write-ahead log from being used again.
 */
#ifndef RUNNEL_JOURNAL_READ_H
#define RUNNEL_JOURNAL_READ_H

#include "journal_recent.h"
#include "journal_store.h"

struct journal_reading {
    const char *path;
    sqlite3 *file;
    sqlite3_stmt *look_up;
    size_t input_bytes, target_bytes, largest; /* of this daemon's examples */
};

/* What is known of a stream; streams' slots number them. */
struct journal_last {
    uint32_t epoch;
    uint64_t sequence, position;
};

/* Path and sizes must be set. */
int journal_read_open(struct journal_reading *reading, struct error *error);
void journal_read_close(struct journal_reading *reading);

/* The time of the row of `streams` that was written last; now when there is none. */
int journal_read_age(struct journal_reading *reading, double *time, struct error *error);

/* Look into the file: 1, 0 or -1 as journal_last. */
int journal_look_up(struct journal_reading *reading, const char *key, size_t key_size,
                    uint64_t producer, struct journal_last *last, struct error *error);

/* Whether the file has any numbers of the stream: 1, 0 or -1. */
int journal_read_has(struct journal_reading *reading, const char *key, size_t key_size,
                     struct error *error);

/* As journal_has_kind and journal_replay. */
int journal_read_has_kind(struct journal_reading *reading, uint64_t after, enum journal_kind kind,
                          struct error *error);
int journal_read_all(struct journal_reading *reading, uint64_t after, journal_visit *visit,
                     void *context, struct error *error);

/* Remember the newest numbered entries of the file, as far as they can be read: a bounded number.
 */
void journal_read_recent(struct journal_reading *reading, struct journal_recent *recent);

#endif
