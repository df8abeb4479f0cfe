/* The daemon's parts, for the files of this directory. daemon.c opens and closes the shared objects
   in struct daemon. Each file owns its part of the changing state; others call its functions. Each
   part calls only the ones before it: announce, alarms, run, observe, journalling, checkpoints,
   settings, learning, feedback, moving, left_out, replay, rollback, abnormal, source, take,
   commands, daemon. */
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
