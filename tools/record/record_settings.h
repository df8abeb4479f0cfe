/* What TensorBoard's plugin hparams is told of a run: the settings of the daemon's configuration
   that decide what is computed, and its tags. */
#ifndef RUNNEL_RECORD_SETTINGS_H
#define RUNNEL_RECORD_SETTINGS_H

#include <jansson.h>

#include "common/event_file.h"

/* Write them as the beginning of a session, from a `status` message; one of a daemon that does not
   tell its configuration has none, and nothing is written. -1: out of memory. */
int settings_write(struct event_file *file, double time, const json_t *status);

#endif
