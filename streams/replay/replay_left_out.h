/* What a fleet's rollbacks leave out: examples of a partition that another daemon has learned. They
   are not sent, and neither are those rollbacks: what remains is what a daemon learns that never
   saw them, and their numbers may come again. So the positions of the daemon that learns are not
   the journal's. */
#ifndef RUNNEL_REPLAY_LEFT_OUT_H
#define RUNNEL_REPLAY_LEFT_OUT_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct replay_entry;
struct replay_journal;
struct replay_left_out;

/* The rollbacks of the entries from `first` to `last`. EX_DATAERR: the journal is damaged, or one
   leaves out what comes before `first` and is there: an earlier call has sent it. */
int replay_left_out_open(struct replay_left_out **left_out, struct replay_journal *journal,
                         const char *path, uint64_t first, uint64_t last, struct error *error);
void replay_left_out_close(struct replay_left_out **left_out);

/* Whether one of them leaves the entry out, or is it. */
bool replay_left_out_has(const struct replay_left_out *left_out, const struct replay_entry *entry);

/* An entry, after those before it, has not been sent. */
int replay_left_out_note(struct replay_left_out *left_out, uint64_t position, struct error *error);

/* A rollback as the daemon that learns has the positions, to be freed; NULL: out of memory. */
char *replay_left_out_rollback(const struct replay_left_out *left_out, const char *command);

#endif
