/* The journal's part in taking: what is taken is appended, made durable and acknowledged, and what
   a producer sends again is recognized, and what only seems to be that is rejected. Without
   state.journal all of it does nothing. */
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

/* Open the journal, if there is to be one; the checkpoint has been loaded. */
int journalling_open(struct daemon *daemon, struct error *error);
void journalling_close(struct daemon *daemon);

/* Whether an example can be appended without waiting for the disk. */
bool journalling_has_room(const struct daemon *daemon);

/* What a numbered example is, beside those of its stream and producer that came before. */
struct verdict {
    enum { VERDICT_NEW, VERDICT_DUPLICATE, VERDICT_REJECTED } kind;
    bool number_ignored;       /* new: it is taken without its number */
    enum wire_duplicate why;   /* duplicate; */
    uint64_t position;         /* of its stream's newest one */
    enum reject_reason reason; /* rejected; */
    char text[REJECT_WHY_SIZE];
};
int journalling_judge(struct daemon *daemon, const struct example *example, struct verdict *verdict,
                      struct error *error);

/* Append an example; its position, 0 without a journal. */
int journalling_append(struct daemon *daemon, const struct example *example, uint64_t *position,
                       struct error *error);

/* Append a command that has changed learning; the object is taken over. A `set` says "configured"
   when the configuration itself has changed: a reset goes back to that. */
void journalling_append_command(struct daemon *daemon, enum journal_kind kind, json_t *command);

/* The same for one that says how far a partition of a broker is: journal_partition and its place.
 */
void journalling_append_place(struct daemon *daemon, enum journal_kind kind, json_t *command,
                              uint32_t partition, const struct journal_place *place);

/* Append the command that forgets the stream, which is taken over, and wait until its numbers are
   gone from the disk; -1 when the journal has failed: the daemon is broken. */
int journalling_forget(struct daemon *daemon, json_t *command, const char *key, size_t key_size,
                       struct error *error);

/* Acknowledge what has become durable; -1 when the journal has failed: the daemon is broken. */
int journalling_turn(struct daemon *daemon, struct error *error);

/* The same, once everything is durable. */
int journalling_sync(struct daemon *daemon, struct error *error);

/* A checkpoint is safe on disk: what is not after the oldest of them may go. */
void journalling_checkpoint_written(struct daemon *daemon);

/* Warn when the journal's disk is nearly full. */
void journalling_watch_disk(struct daemon *daemon);

/* What `status` says of it; false without a journal. */
bool journalling_report(const struct daemon *daemon, struct status_fields *status);

#endif
