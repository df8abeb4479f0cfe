/* The daemon's parts, for the files of this directory. daemon.c opens and closes the shared objects
   in struct daemon. Each file owns its part of the changing state; others call its functions. Each
   part calls only the parts above it:

     announce       events, and the topic `status`
     alarms         the event `anomaly`
     run            signals, pausing, stopping, and the reason for the end of the loop
     observe        results of examples and labels: figures, and messages about learning
     journalling    appends examples, makes them durable, acknowledges them
     checkpoints    when a checkpoint is written
     settings       the configuration in force, and all changes of it
     learning       the learner, and its replacement
     feedback       marks an alarm as normal
     moving         streams from and to other daemons, and parameters
     left_out       entries of the journal that are not learned
     replay         learns the journal's entries after a checkpoint
     rollback       removes examples from the learned state
     abnormal       rolls back a stream's examples at an alarm
     source         examples of a socket; loads the module of brokers and fleets (src/cluster)
     take           examples from their socket to the learner
     commands       commands of the control socket
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
    /* Only daemon.c writes these, on opening and closing. */
    struct model model;
    /* The loaded checkpoint; its path is "" without one. journalling.c adds to its warning. */
    struct checkpoint_report resumed;
    void *zmq;
    struct checkpoint *checkpoint;
    struct ingest *ingest;
    struct publish *publish;
    struct control *control;
    struct security *security;
    struct journal *journal; /* NULL without state.journal; opened by journalling.c */
    const struct source_ops *source;

    /* These belong to the source: source.c, or the module. */
    struct acknowledge *acknowledge; /* NULL unless examples.socket is router */
    struct cluster *cluster;         /* NULL unless examples.redis or examples.kafka is set */

    /* Includes values set at run time or reloaded. settings.c writes it. */
    const struct config *config;

    /* Only learning.c writes these. */
    const struct engine_ops *engine;
    struct learner *learner;

    /* Each belongs to the file of its name. */
    struct announcer *announcer;
    struct alarms *alarms;
    struct run *run;
    struct figures *figures;
    struct journalling *journalling;
    struct checkpoints *checkpoints;
    struct settings *settings;
    struct moving *moving;
};

/* Differs between builds with different structs: source.h refuses the module of another build. */
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
