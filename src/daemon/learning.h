/* The daemon's learner: opened at the start, and again where another state is to be learned from.
 */
#ifndef RUNNEL_LEARNING_H
#define RUNNEL_LEARNING_H

struct checkpoint_kept;
struct daemon;
struct engines_choice;
struct error;
struct learner;

enum { LEARNING_BATCH_MAX = 256 }; /* examples in a batch */

/* Without parameters yet; on the engine that was chosen, or on auto's second choice. */
int learning_open(struct daemon *daemon, struct engines_choice *engine, struct error *error);
void learning_close(struct daemon *daemon);

/* Put one with the state of a checkpoint in its place. It is given back in `*before`, to be handed
   to the next two functions; with `before` NULL it is closed first. On error (then, the daemon has
   none) it stays. */
int learning_go_back(struct daemon *daemon, const struct checkpoint_kept *kept,
                     struct learner **before, struct error *error);
void learning_keep(struct daemon *daemon, struct learner **before);
void learning_undo(struct daemon *daemon, struct learner **before);

#endif
