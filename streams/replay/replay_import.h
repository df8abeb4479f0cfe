/* A command that puts other parameters in place of those that were learned: the journal names the
   file that has them, which is beside it. */
#ifndef RUNNEL_REPLAY_IMPORT_H
#define RUNNEL_REPLAY_IMPORT_H

#include <stdbool.h>

#include "runnel.h"

struct error;

/* Send the file in pieces; `path` is that of the journal's file. Errors as replay_command, and
   EX_NOINPUT: it is not there. */
int replay_import(const struct runnel_peer *peer, const char *path, const char *command,
                  struct error *error);

#endif
