/* Which entries of the journal are left out of what is learned. A rollback is an entry itself: it
   leaves out entries before its own, and stays in force: what is learned is what the journal has,
   in its order, without what one of its rollbacks leaves out. So nothing is deleted, and whoever
   replays the journal comes to the same state. */
#ifndef RUNNEL_LEFT_OUT_H
#define RUNNEL_LEFT_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct journal_entry;

enum { ROLLBACK_CHOICES = 256 }; /* streams and spans, together */

/* One rollback. Without a stream, a span and a partition it leaves out all; else the examples of
   the streams, examples and commands of the spans, and of partitions what is beyond an offset. A
   span may be of one stream: then only what that stream sent in it, but for labels, which are for
   examples that may be outside; one for an example that was left out changes nothing. Rollbacks are
   never left out. */
struct rollback {
    uint64_t position; /* of its own entry, */
    uint64_t after;    /* what is not between this and that is none of its matter */
    uint64_t first;    /* the first entry that it leaves out; 0 = not known yet */
    json_t *streams;   /* a list of keys */
    size_t span_count;
    struct rollback_span {
        uint64_t first, last;
        json_t *stream; /* its key; NULL: all that is there */
    } spans[ROLLBACK_CHOICES];
    size_t partition_count;
    struct rollback_partition { /* of a broker: examples of this producer, numbered after these, or
                                  all of them, with the sequence ROLLBACK_ALL */
        uint64_t producer;
        uint32_t epoch;
        uint64_t sequence;
        json_t *name; /* for people */
    } * partitions;
};

/* A sequence, -1 in JSON: what is before it is nothing. */
#define ROLLBACK_ALL UINT64_MAX

/* Streams, spans and partitions from a command, the journal's or a client's: `without`, a list of
   keys; `spans`, a list of [first, last] and [first, last, key]; `beyond`, a list of [producer,
   epoch, sequence, name]; each may be missing. EX_USAGE. */
int rollback_choose(struct rollback *rollback, const json_t *command, struct error *error);
void rollback_release(struct rollback *rollback);

/* As the journal has it, which another daemon with the same journal can be sent, and back.
   `position` is that of the entry. EX_IOERR. */
json_t *rollback_command(const struct rollback *rollback);
int rollback_read(struct rollback *rollback, const json_t *command, uint64_t position,
                  struct error *error);

/* Whether it says what to leave out. */
bool rollback_chooses(const struct rollback *rollback);

bool rollback_has(const struct rollback *rollback, const struct journal_entry *entry);

/* The rollbacks that are known; all zeros is a list of none. */
struct left_out {
    struct rollback **rollbacks;
    size_t count;
};

/* Takes over what the rollback holds. */
int left_out_add(struct left_out *list, const struct rollback *rollback, struct error *error);

/* Add the one that an entry of the journal is. */
int left_out_note(struct left_out *list, const struct journal_entry *entry, struct error *error);
void left_out_free(struct left_out *list);

/* Whether the rollback that is the entry at a position is known. */
bool left_out_knows(const struct left_out *list, uint64_t position);

/* Whether one of them has the entry. */
bool left_out_has(const struct left_out *list, const struct journal_entry *entry);

/* Whether the state after the entry at a position has nothing that is left out later. */
bool left_out_allows(const struct left_out *list, uint64_t position);

#endif
