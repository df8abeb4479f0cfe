/* End to end: a runneld of its own learns what a sender pushes into its examples socket at full
   speed, one example a message. */
#ifndef RUNNEL_BENCH_SOCKET_H
#define RUNNEL_BENCH_SOCKET_H

#include <stdint.h>

#include "bench_data.h"
#include "bench_memory.h"

struct bench_socket;
struct error;

struct bench_socket_options {
    const char *program; /* runneld; NULL = beside this program */
    const char *config;
    const char *const *overrides; /* (override_count,) */
    size_t override_count;
    const char *examples; /* endpoint to bind, a port of * is chosen by the system; NULL = ipc */
};

/* Start the daemon on a temporary state directory and the sender, which waits. */
int bench_socket_open(struct bench_socket **socket, const struct bench_socket_options *options,
                      const struct architecture *architecture, const struct bench_data *data,
                      struct error *error);
/* Ends the daemon and removes its directory. */
void bench_socket_close(struct bench_socket **socket);

/* Let examples flow for about `seconds` after a warm-up, and then wait until the daemon rests. The
   result is the seconds that it took for an example, by its own clock and count. */
int bench_socket_time(struct bench_socket *socket, double seconds, double *example,
                      struct error *error);

/* Of the daemon. */
uint64_t bench_socket_examples(const struct bench_socket *socket); /* learned by the last reading */
struct resident bench_socket_resident(const struct bench_socket *socket);

#endif
