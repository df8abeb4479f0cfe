/* The results of an experiment that the page shows (tools/experiment/experiment_store.h). The file
   is opened when it is read and closed again, so that runnel-experiment can go on in it, tidy it,
   or begin it again. */
#ifndef RUNNEL_WEB_EXPERIMENT_H
#define RUNNEL_WEB_EXPERIMENT_H

#include <stdint.h>

#include "tools/experiment/experiment_store.h"
#include "web_live.h"

struct experiment {
    const char *path; /* directory or file */
    struct experiment_results results;
    uint64_t revision; /* how often it was read; 0 = never */
    uint64_t stamp;    /* of the file as it was then */
    bool complained;
};

/* EX_OK, or complains and returns an exit status. */
int experiment_open(struct experiment *experiment, const char *path);
void experiment_close(struct experiment *experiment);

/* Read the file again if it has changed, and tell the pages: event `experiment`. */
void experiment_follow(struct experiment *experiment, struct live *live);

#endif
