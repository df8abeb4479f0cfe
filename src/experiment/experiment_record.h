/* A stream into a file, once: the messages of runnel-feed or runnel-replay, as they would come to a
   daemon. */
#ifndef RUNNEL_EXPERIMENT_RECORD_H
#define RUNNEL_EXPERIMENT_RECORD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "experiment_spec.h"

/* How far it is; called a few times a second. */
typedef void record_progress(void *context, uint64_t examples);

/* Record into PATH, written as PATH.part and renamed when it is whole and on the disk. The program
   is the one beside this one, else of PATH; it runs in the experiment's directory. -1, and nothing
   is left: EX_TEMPFAIL when *stop becomes true; the program's own status when it has failed, which
   has said why on stderr; EX_IOERR for the disk. */
int record_stream(const struct experiment_spec *spec, size_t stream, const char *path,
                  const volatile sig_atomic_t *stop, record_progress *progress, void *context,
                  struct error *error);

/* What of a stream's arguments are files: as JSON, see experiment_store.h. NULL: out of memory. */
char *record_files(void **memory, const struct experiment_spec *spec, size_t stream);

#endif
