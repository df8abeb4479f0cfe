/* /api/experiment...: the runs of an experiment with settings and figures, the configuration of a
   run, and curves. */
#ifndef RUNNEL_WEB_EXPERIMENT_API_H
#define RUNNEL_WEB_EXPERIMENT_API_H

#include <microhttpd.h>

#include "web_experiment.h"
#include "web_reply.h"

struct reply experiment_answer(const struct experiment *experiment,
                               struct MHD_Connection *connection, const char *path);

#endif
