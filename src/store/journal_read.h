/* The reading connection: finds streams, and replays. No statement stays open after a call: an open
   transaction prevents the reuse of the write-ahead log. */
#ifndef RUNNEL_JOURNAL_READ_H
#define RUNNEL_JOURNAL_READ_H

#include "journal_recent.h"
#include "journal_store.h"

struct journal_reading {
    const char *path;
    sqlite3 *file;
    sqlite3_stmt *look_up;
    size_t input_bytes, target_bytes, largest; /* sizes of this daemon's examples */
    bool messages, target_messages;            /* as in struct journal_options */
};

/* The numbers of a stream; the slots of streams number them. */
struct journal_last {
    uint32_t epoch;
    uint64_t sequence, position;
};

/* Path and sizes must be set. */
int journal_read_open(struct journal_reading *reading, struct error *error);
void journal_read_close(struct journal_reading *reading);

/* Returns the time of the newest row of `streams`; now if the table is empty. */
int journal_read_age(struct journal_reading *reading, double *time, struct error *error);

/* Reads the file: 1, 0 or -1 as in journal_last. */
int journal_look_up(struct journal_reading *reading, const char *key, size_t key_size,
                    uint64_t producer, struct journal_last *last, struct error *error);

/* Returns whether the file has numbers of the stream: 1, 0 or -1. */
int journal_read_has(struct journal_reading *reading, const char *key, size_t key_size,
                     struct error *error);

/* Implement journal_has_kind and journal_replay. */
int journal_read_has_kind(struct journal_reading *reading, uint64_t after, enum journal_kind kind,
                          struct error *error);
int journal_read_all(struct journal_reading *reading, uint64_t after, journal_visit *visit,
                     void *context, struct error *error);

/* Reads the newest numbered entries of the file, a bounded number; skips unreadable ones. */
void journal_read_recent(struct journal_reading *reading, struct journal_recent *recent);

#endif
