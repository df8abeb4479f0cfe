/* Entries of the journal that are left out of learning. A rollback is itself an entry that leaves
   out earlier entries and stays effective. Nothing is deleted, and every replay of the journal
   leads to the same state. */
#ifndef RUNNEL_LEFT_OUT_H
#define RUNNEL_LEFT_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct journal_entry;

enum { ROLLBACK_CHOICES = 256 }; /* streams and spans together */

/* One rollback. Without streams, spans and partitions it leaves out all entries. Otherwise it
   leaves out the examples of the streams, the examples and commands of the spans, and the examples
   of partitions beyond an offset. A span of one stream leaves out only the stream's own examples,
   not its labels: they can belong to examples outside, and have no effect if their example is left
   out. A rollback never leaves out another rollback. */
struct rollback {
    uint64_t position; /* its own entry */
    uint64_t after;    /* leaves out only entries between this and `position` */
    uint64_t first;    /* the first entry that it leaves out; 0 = unknown */
    json_t *streams;   /* a list of keys */
    size_t span_count;
    struct rollback_span {
        uint64_t first, last;
        json_t *stream; /* its key; NULL: all streams */
    } spans[ROLLBACK_CHOICES];
    size_t partition_count;
    /* One partition of a broker: the producer's examples numbered after `sequence`, or all of them
       (ROLLBACK_ALL). */
    struct rollback_partition {
        uint64_t producer;
        uint32_t epoch;
        uint64_t sequence;
        json_t *name; /* used in messages */
    } * partitions;
};

/* A sequence that precedes all others; -1 in JSON. */
#define ROLLBACK_ALL UINT64_MAX

/* Reads streams, spans and partitions from a command: `without`, a list of keys; `spans`, a list of
   [first, last] and [first, last, key]; `beyond`, a list of [producer, epoch, sequence, name]. Each
   is optional. EX_USAGE. */
int rollback_choose(struct rollback *rollback, const json_t *command, struct error *error);
void rollback_release(struct rollback *rollback);

/* Write and read the command of the journal, which also works on another daemon with the same
   journal. `position` is that of the entry. EX_IOERR. */
json_t *rollback_command(const struct rollback *rollback);
int rollback_read(struct rollback *rollback, const json_t *command, uint64_t position,
                  struct error *error);

/* Returns whether the rollback has streams, spans or partitions. */
bool rollback_chooses(const struct rollback *rollback);

bool rollback_has(const struct rollback *rollback, const struct journal_entry *entry);

/* The known rollbacks; all zeros is an empty list. */
struct left_out {
    struct rollback **rollbacks;
    size_t count;
};

/* Takes over the contents of the rollback. */
int left_out_add(struct left_out *list, const struct rollback *rollback, struct error *error);

/* Adds the rollback of a journal entry. */
int left_out_note(struct left_out *list, const struct journal_entry *entry, struct error *error);
void left_out_free(struct left_out *list);

/* Returns whether the list has the rollback whose entry is at the position. */
bool left_out_contains(const struct left_out *list, uint64_t position);

/* Returns whether a rollback leaves out the entry. */
bool left_out_has(const struct left_out *list, const struct journal_entry *entry);

/* Returns whether the state after the entry at a position contains no entry that is left out
   later. */
bool left_out_allows(const struct left_out *list, uint64_t position);

#endif
