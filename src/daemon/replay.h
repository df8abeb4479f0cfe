/* Learns again from the journal: at a start the entries after the checkpoint, and at a rollback
   those after an older one, without the entries that are left out. */
#ifndef RUNNEL_REPLAY_H
#define RUNNEL_REPLAY_H

#include <stdint.h>

#include "left_out.h"
#include "store/checkpoint.h"

struct daemon;
struct error;

/* Replays at a start. Also returns 0 after a request to stop: run_is_replaying then stays true. */
int replay_journal(struct daemon *daemon, struct error *error);

/* Finds the newest checkpoint that contains no entry of the list and is followed by the whole rest
   of the journal. Returns 0, or -1 (EX_IOERR). */
int replay_choose(const struct daemon *daemon, const struct left_out *list,
                  struct checkpoint_kept *kept, struct error *error);

/* Learns the whole journal except `list` again, and replaces the learned state; on error that
   stays. `kept` returns the checkpoint where it began, which becomes the newest. A rollback in the
   journal that is not in the list is added to it, and learning begins again. `counted`, one of the
   list: counts the examples and commands that only it leaves out. */
struct replayed {
    uint64_t entries, examples, commands;
};
int replay_without(struct daemon *daemon, struct left_out *list, const struct rollback *counted,
                   struct checkpoint_kept *kept, struct replayed *replayed, struct error *error);

#endif
