/* The daemon's parts, for the files of this room. What daemon.c opens and closes is here for all of
   them to use. What changes while the daemon runs belongs to one file each, which alone knows what
   is in it: others ask its functions. From the ground up, each part calls only those before it:

     announce       events, and the topic `status`
     alarms         the event of what is abnormal
     run            signals, pausing, stopping, and what ended the loop
     observe        the results of examples and labels: figures, and messages about learning
     journalling    what is taken is appended, made durable, acknowledged
     checkpoints    when one is written
     settings       the configuration in force, and all that changes it
     learning       the learner, and another in its place
     feedback       an alarm was none
     moving         streams come from another daemon and go there, and parameters
     left_out       entries of the journal that are not learned
     replay         what the journal has after a checkpoint is learned
     rollback       what was learned is taken back
     abnormal       what a stream sent at an alarm is taken back
     source         examples of a socket; loads the module of brokers and fleets (src/cluster)
     take           examples from their socket to the learner
     commands       what the control socket asks for
     daemon         opens, loops, closes */
#ifndef RUNNEL_PARTS_H
#define RUNNEL_PARTS_H

#include <stdint.h>

#include "learner/learner.h"
#include "model/model.h"
#include "security/security.h"
#include "sockets/acknowledge.h"
#include "sockets/control.h"
#include "sockets/ingest.h"
#include "sockets/publish.h"
#include "store/checkpoint.h"
#include "store/journal.h"

struct daemon {
    /* Written by daemon.c alone, when it opens and closes. */
    struct model model;
    struct checkpoint_report resumed; /* from where; its path is "" without a checkpoint. What is to
                                         be said of the journal journalling.c adds to its warning */
    void *zmq;
    struct checkpoint *checkpoint;
    struct ingest *ingest;
    struct publish *publish;
    struct control *control;
    struct security *security;
    struct journal *journal; /* NULL without state.journal; journalling.c opens it */
    const struct source_ops *source;

    /* The source's: source.c, or the module's. */
    struct acknowledge *acknowledge; /* NULL unless examples.socket is router */
    struct cluster *cluster;         /* NULL unless examples.redis or examples.kafka */

    /* In force: with what was set in flight or reloaded. settings*.c write it. */
    const struct config *config;

    /* learning.c writes these. */
    const struct engine_ops *engine;
    struct learner *learner;

    /* Each its own file's. */
    struct announcer *announcer;
    struct alarms *alarms;
    struct run *run;
    struct figures *figures;
    struct journalling *journalling;
    struct checkpoints *checkpoints;
    struct settings *settings;
    struct moving *moving;
};

/* Differs between builds whose structs differ: a module of another build is refused (source.h). */
#define DAEMON_LAYOUT                                                                              \
    ((((sizeof(struct daemon) * 31 + sizeof(struct config)) * 31 + sizeof(struct source_ops)) *    \
          31 +                                                                                     \
      sizeof(struct status_fields)) *                                                              \
         31 +                                                                                      \
     sizeof(struct example))

/* Examples and steps learned. */
static inline uint64_t daemon_examples(const struct daemon *daemon) {
    return learner_counters(daemon->learner).examples;
}

static inline uint64_t daemon_steps(const struct daemon *daemon) {
    return learner_counters(daemon->learner).steps;
}

#endif
