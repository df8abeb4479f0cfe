/* Learning again from the journal: at a start what it has after the checkpoint, and at a rollback
   what it has after an older one, without what is left out. */
#ifndef RUNNEL_REPLAY_H
#define RUNNEL_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "left_out.h"
#include "store/checkpoint.h"

struct daemon;
struct error;

/* At a start. Also 0 when it was asked to stop meanwhile: then run_is_replaying says so to the
   end. */
int replay_journal(struct daemon *daemon, struct error *error);

/* The newest checkpoint whose state has nothing of what is left out, and after which the journal
   has all: 0, or -1 (EX_IOERR) with a sentence. */
int replay_choose(const struct daemon *daemon, const struct left_out *list,
                  struct checkpoint_kept *kept, struct error *error);

/* Learn all of the journal but `list` again, in place of what was learned; `kept` is where that
   began, which becomes the newest checkpoint. On error what was learned is as it was. When the
   journal has a rollback that the list does not know it is added, and learning begins again with
   it. `counted`, one of the list: how many examples and commands it leaves out that are not left
   out without it. */
struct replayed {
    uint64_t entries, examples, commands;
};
int replay_without(struct daemon *daemon, struct left_out *list, const struct rollback *counted,
                   struct checkpoint_kept *kept, struct replayed *replayed, struct error *error);

#endif
