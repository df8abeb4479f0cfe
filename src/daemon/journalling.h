/* Appends examples to the journal, makes them durable and acknowledges them. Recognizes examples
   that a producer sends again, and rejects those that only reuse a number. Does nothing if
   state.journal is disabled. */
#ifndef RUNNEL_JOURNALLING_H
#define RUNNEL_JOURNALLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "sockets/frames.h"
#include "store/journal_block.h"

struct daemon;
struct error;
struct example;
struct journal_place;
struct status_fields;

/* Opens the journal if it is enabled, after the checkpoint has been loaded. */
int journalling_open(struct daemon *daemon, struct error *error);
void journalling_close(struct daemon *daemon);

/* Returns whether an example can be appended without waiting for the disk. */
bool journalling_has_room(const struct daemon *daemon);

/* The result of comparing a numbered example with earlier ones of its stream and producer. */
struct verdict {
    enum { VERDICT_NEW, VERDICT_DUPLICATE, VERDICT_REJECTED } kind;
    bool number_ignored;       /* new: learned without its number */
    enum wire_duplicate why;   /* duplicate: the reason */
    uint64_t position;         /* duplicate: its stream's newest example */
    enum reject_reason reason; /* rejected: the reason, with `text` */
    char text[REJECT_WHY_SIZE];
};
int journalling_check(struct daemon *daemon, const struct example *example, struct verdict *verdict,
                      struct error *error);

/* Appends an example and returns its position, 0 without a journal. */
int journalling_append(struct daemon *daemon, const struct example *example, uint64_t *position,
                       struct error *error);

/* Appends a command that has changed learning, and takes over the object. A `set` has "configured"
   when the configuration file changed: a reset goes back to that value. */
void journalling_append_command(struct daemon *daemon, enum journal_kind kind, json_t *command);

/* Appends a command with the place of a broker's partition: journal_partition and its
   place. */
void journalling_append_place(struct daemon *daemon, enum journal_kind kind, json_t *command,
                              uint32_t partition, const struct journal_place *place);

/* Appends the command that forgets the stream, takes it over, and waits until the stream's numbers
   are deleted from the disk. -1: the journal has failed and the daemon is broken. */
int journalling_forget(struct daemon *daemon, json_t *command, const char *key, size_t key_size,
                       struct error *error);

/* Acknowledges durable entries; -1: the journal has failed and the daemon is broken. */
int journalling_turn(struct daemon *daemon, struct error *error);

/* Waits until everything is durable, then acknowledges it. */
int journalling_sync(struct daemon *daemon, struct error *error);

/* Drops entries before the oldest checkpoint, since a newer checkpoint is safe on disk. */
void journalling_checkpoint_written(struct daemon *daemon);

/* Warns when the journal's disk is nearly full. */
void journalling_watch_disk(struct daemon *daemon);

/* Fills in the journal's fields of `status`; false without a journal. */
bool journalling_report(const struct daemon *daemon, struct status_fields *status);

#endif
