/* The messages of a recorded stream, in memory once for all runs; any number of threads may read
   them. A file is "runnel-examples 1
   ", then for each message the number of its frames (u32le), and for each frame its size (u32le)
   and its bytes. */
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
    uint64_t *at; /* (count,) offset of each message */
    size_t count;
    char digest[EXAMPLES_DIGEST_SIZE]; /* digest of all after the header, 16 hexadecimal digits */
};

/* -1: EX_NOINPUT if it cannot be read, EX_DATAERR if it is another or an incomplete file. */
int examples_open(struct examples *examples, const char *path, struct error *error);
void examples_close(struct examples *examples);

/* The number of frames of message n, and its first MESSAGE_FRAMES_MAX frames. */
size_t examples_message(const struct examples *examples, size_t n,
                        struct frame frames[MESSAGE_FRAMES_MAX]);

/* ---- Recording: the messages of runnel-feed or runnel-replay, as sent to a daemon ---- */

/* Records to PATH: writes PATH.part, and renames it when it is complete and on disk. The program
   is in this program's directory or in PATH; it runs in the experiment's directory. -1, with
   nothing left: EX_TEMPFAIL if *stop became true; the program's own status if it failed, after
   its error on stderr; EX_IOERR for the disk. Shows progress on a terminal unless `quiet`. */
int record_stream(const struct experiment_spec *spec, size_t stream, const char *path,
                  const volatile sig_atomic_t *stop, bool quiet, struct error *error);

/* The files among a stream's arguments, as JSON, see experiment_store.h. NULL: out of memory. */
char *record_files(void **memory, const struct experiment_spec *spec, size_t stream);

#endif
