/* The insides of the state directory, for checkpoint.c, which has directory, lock and the thread
   that waits for the disk, and checkpoint_kept.c, which has the older checkpoints. */
#ifndef RUNNEL_CHECKPOINT_INTERNAL_H
#define RUNNEL_CHECKPOINT_INTERNAL_H

#include <pthread.h>

#include "checkpoint.h"
#include "checkpoint_file.h"

#define CHECKPOINT_NEWEST "checkpoint.safetensors"
#define CHECKPOINT_PREVIOUS "checkpoint.previous.safetensors"
#define CHECKPOINT_OLDER "checkpoint.%u.safetensors" /* 3, 4, ...: before the previous one */
#define CHECKPOINT_FIRST "checkpoint.first.safetensors"
#define CHECKPOINT_TEMPORARY "checkpoint.tmp"
#define CHECKPOINT_DAMAGED "checkpoint.damaged-%d.safetensors" /* set aside: 1, 2, ... */
#define CHECKPOINT_BACK "checkpoint.back.tmp" /* the first, on its way to be the newest */

enum {
    CHECKPOINT_ASIDE_SIZE = 64, /* of the name of one that is set aside */
};

struct checkpoint {
    char directory[CONFIG_PATH_SIZE];
    int directory_file, lock, event;
    int spare;                         /* a descriptor in reserve, for the file to be written */
    unsigned keep;                     /* the newest so many */
    char aside[CHECKPOINT_ASIDE_SIZE]; /* what the newest, which is damaged, is to be called;
                                              "": it is whole */
    bool unlearned; /* those there are of another configuration, with which nothing was learned:
                       they are to be removed, and are not there for anybody */

    /* The one in flight. The thread has report, status and error until the event. */
    bool busy;
    pthread_t thread;
    int file;
    double started;
    struct checkpoint_report report;
    int status;
    struct error error;
};

/* ---- checkpoint_kept.c ---- */

/* The newest checkpoint is about to be replaced: it becomes the previous one, and so on; of those
   before the newest `keep` - 2 stay. -1 with errno. */
int checkpoint_rotate(int directory, unsigned keep);

/* Whether all that are there have no example, and no entry of the journal beside them. */
bool checkpoint_is_unlearned(const struct checkpoint *checkpoint);

/* -1 with errno. */
int checkpoint_remove_all(const struct checkpoint *checkpoint);

#endif
