/* After a crash: what the journal has after the checkpoint is learned again. */
#ifndef RUNNEL_REPLAY_H
#define RUNNEL_REPLAY_H

struct daemon;
struct error;

/* Also 0 when it was asked to stop meanwhile: then run_is_replaying says so to the end. */
int replay_journal(struct daemon *daemon, struct error *error);

#endif
