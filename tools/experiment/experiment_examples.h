/* The messages of a recorded stream, in memory once for all runs: any number of threads may read
   them. A file is "runnel-examples 1\n", then of each message the number of its frames (u32le), and
   of each frame its size (u32le) and its bytes. */
#ifndef RUNNEL_EXPERIMENT_EXAMPLES_H
#define RUNNEL_EXPERIMENT_EXAMPLES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "experiment_spec.h"
#include "sockets/frames.h"

#define EXAMPLES_HEADER "runnel-examples 1\n"

enum { EXAMPLES_DIGEST_SIZE = 17 };

struct error;

struct examples {
    const unsigned char *bytes; /* (size,) mapped */
    size_t size;
    uint64_t *at; /* (count,) where each message begins */
    size_t count;
    char digest[EXAMPLES_DIGEST_SIZE]; /* of all after the header, 16 hexadecimal digits */
};

/* -1: EX_NOINPUT when it cannot be read, EX_DATAERR when it is no such file, or half of one. */
int examples_open(struct examples *examples, const char *path, struct error *error);
void examples_close(struct examples *examples);

/* How many frames message n has, and the first MESSAGE_FRAMES_MAX of them. */
size_t examples_message(const struct examples *examples, size_t n,
                        struct frame frames[MESSAGE_FRAMES_MAX]);

/* ---- Recording: the messages of runnel-feed or runnel-replay, as they would come to a daemon ----
 */

/* Record into PATH, written as PATH.part and renamed when it is whole and on the disk. The program
   is the one beside this one, else of PATH; it runs in the experiment's directory. -1, and nothing
   is left: EX_TEMPFAIL when *stop becomes true; the program's own status when it has failed, which
   has said why on stderr; EX_IOERR for the disk. Unless `quiet`, a terminal shows how far it is. */
int record_stream(const struct experiment_spec *spec, size_t stream, const char *path,
                  const volatile sig_atomic_t *stop, bool quiet, struct error *error);

/* What of a stream's arguments are files: as JSON, see experiment_store.h. NULL: out of memory. */
char *record_files(void **memory, const struct experiment_spec *spec, size_t stream);

#endif
