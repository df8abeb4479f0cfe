/* Taking back what was learned: an older checkpoint is restored, the journal is replayed without
   what is left out, and that is journalled, so that it stays left out. The state until then stays
   until all of that has gone well; a kill leaves the one or the other. */
#ifndef RUNNEL_ROLLBACK_H
#define RUNNEL_ROLLBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct error;

struct rollback_report {
    uint64_t position; /* of the rollback's own entry; 0: it was only asked what it would do */
    uint64_t after;    /* what is left out comes after this entry, */
    uint64_t first;    /* beginning with this one */
    uint64_t restored; /* the checkpoint's newest entry */
    uint64_t replayed; /* entries learned again */
    uint64_t examples, commands; /* left out */
    double seconds;
};

/* As a client's request says (docs/reference/protocol.md). 1: it cannot be done, `error` says why, and what
   was learned is as it was. -1: the daemon cannot continue. */
int rollback_perform(struct daemon *daemon, const json_t *request, struct rollback_report *report,
                     struct error *error);

/* At a start: what rollback.json in the state directory asks for (runnel-ctl restore writes one),
   which is removed then. -1: it cannot be done, or the daemon cannot continue. */
int rollback_at_start(struct daemon *daemon, struct error *error);

/* For whoever looks for what a rollback is to leave out. First: all that has been taken is learned
   and durable, and after 0 the journal drops nothing until rollback_finish; returns as
   rollback_perform, 1 without a journal. Then at each of the journal's entries, counted: -1
   (EX_TEMPFAIL) when the daemon is to stop. */
int rollback_prepare(struct daemon *daemon, struct error *error);
void rollback_finish(struct daemon *daemon);
int rollback_look_around(struct daemon *daemon, uint64_t *entries, struct error *error);

/* The report's members, for the reply and the event. */
json_t *rollback_details(const struct rollback_report *report);

#endif
