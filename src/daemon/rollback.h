/* A rollback restores an older checkpoint and replays the journal without the entries that are left
   out. Its own entry in the journal makes that permanent. The earlier state stays until everything
   has succeeded; a kill leaves the one or the other. */
#ifndef RUNNEL_ROLLBACK_H
#define RUNNEL_ROLLBACK_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct error;

struct rollback_report {
    uint64_t position;           /* the rollback's own entry; 0: a dry run */
    uint64_t after;              /* entries after this one are left out */
    uint64_t first;              /* the first entry that is left out */
    uint64_t restored;           /* the checkpoint's newest entry */
    uint64_t replayed;           /* entries learned again */
    uint64_t examples, commands; /* left out */
    double seconds;
};

/* Performs a client's request (docs/reference/protocol.md). 1: impossible, with the reason in
   `error`, and the learned state is unchanged. -1: the daemon cannot continue. */
int rollback_perform(struct daemon *daemon, const json_t *request, struct rollback_report *report,
                     struct error *error);

/* Performs at a start the request in rollback.json of the state directory, which runnel-ctl restore
   writes, and removes the file. -1: impossible, or the daemon cannot continue. */
int rollback_at_start(struct daemon *daemon, struct error *error);

/* For callers that search for entries to leave out. rollback_prepare waits until all taken examples
   are learned and durable, then keeps the journal from dropping entries until rollback_finish; it
   returns the same as rollback_perform, 1 without a journal. Call rollback_check_signals at each
   entry, with a counter: -1 (EX_TEMPFAIL) when the daemon is to stop. */
int rollback_prepare(struct daemon *daemon, struct error *error);
void rollback_finish(struct daemon *daemon);
int rollback_check_signals(struct daemon *daemon, uint64_t *entries, struct error *error);

/* The members of the reply and of the event. */
json_t *rollback_details(const struct rollback_report *report);

#endif
