/* The results of an experiment on the page (tools/experiment/experiment_store.h). The file is open
   only while it is read, so that runnel-experiment can continue, tidy or replace it. */
#ifndef RUNNEL_WEB_EXPERIMENT_H
#define RUNNEL_WEB_EXPERIMENT_H

#include <stdint.h>

#include "tools/experiment/experiment_store.h"
#include "web_live.h"

struct experiment {
    const char *path; /* directory or file */
    struct experiment_results results;
    uint64_t revision; /* number of reads; 0 = never */
    uint64_t stamp;    /* state of the file when it was read */
    bool complained;
};

/* Returns EX_OK, or prints an error and returns an exit status. */
int experiment_open(struct experiment *experiment, const char *path);
void experiment_close(struct experiment *experiment);

/* Reads the file again if it has changed, and sends the pages an event `experiment`. */
void experiment_follow(struct experiment *experiment, struct live *live);

#endif
