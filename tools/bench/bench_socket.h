/* End to end: a separate runneld learns examples that a sender sends to its socket at full
   speed, one per message. */
#ifndef RUNNEL_BENCH_SOCKET_H
#define RUNNEL_BENCH_SOCKET_H

#include <stdint.h>

#include "bench_data.h"
#include "bench_memory.h"

struct bench_socket;
struct error;

struct bench_socket_options {
    const char *program; /* path of runneld; NULL: in this program's directory */
    const char *config;
    const char *const *overrides; /* (override_count,) */
    size_t override_count;
    const char *examples; /* endpoint to bind, where port * is chosen by the system; NULL: ipc */
};

/* Starts the daemon on a temporary state directory, and the sender, which waits. */
int bench_socket_open(struct bench_socket **socket, const struct bench_socket_options *options,
                      const struct architecture *architecture, const struct bench_data *data,
                      struct error *error);
/* Ends the daemon and removes its directory. */
void bench_socket_close(struct bench_socket **socket);

/* Sends examples for about `seconds` after a warm-up, and waits until the daemon is idle.
   Returns the seconds per example, by the daemon's own clock and count. */
int bench_socket_time(struct bench_socket *socket, double seconds, double *example,
                      struct error *error);

/* Counts of the daemon. */
uint64_t bench_socket_examples(const struct bench_socket *socket); /* learned by the last reading */
struct resident bench_socket_resident(const struct bench_socket *socket);

#endif
