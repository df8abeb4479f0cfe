/* The daemon's learner: opened at the start, and replaced to continue from another state. */
#ifndef RUNNEL_LEARNING_H
#define RUNNEL_LEARNING_H

struct checkpoint_kept;
struct daemon;
struct engines_choice;
struct error;
struct learner;

enum { LEARNING_BATCH_MAX = 256 }; /* examples in a batch */

/* Opens the learner without parameters, on the chosen engine or on the second choice of `auto`. */
int learning_open(struct daemon *daemon, struct engines_choice *engine, struct error *error);
void learning_close(struct daemon *daemon);

/* Replaces the learner by one with the state of a checkpoint. `*before` returns the earlier
   learner, for learning_keep or learning_undo; with `before` NULL it is closed first. On error the
   learner stays, unless it was closed. */
int learning_go_back(struct daemon *daemon, const struct checkpoint_kept *kept,
                     struct learner **before, struct error *error);
void learning_keep(struct daemon *daemon, struct learner **before);
void learning_undo(struct daemon *daemon, struct learner **before);

#endif
