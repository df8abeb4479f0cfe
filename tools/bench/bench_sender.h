/* A thread that pushes generated examples into a socket as fast as it takes them. */
#ifndef RUNNEL_BENCH_SENDER_H
#define RUNNEL_BENCH_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench_data.h"

struct bench_sender;
struct error;

/* Connects and waits. Context, architecture and data must outlive it. */
int bench_sender_open(struct bench_sender **sender, void *zmq_context, const char *endpoint,
                      const struct architecture *architecture, const struct bench_data *data,
                      struct error *error);
void bench_sender_close(struct bench_sender **sender);

/* Send, or wait. Returns when the thread has begun or has stopped to send. */
void bench_sender_flow(struct bench_sender *sender, bool flowing);

/* Examples sent so far; exact while it waits. */
uint64_t bench_sender_sent(struct bench_sender *sender);

#endif
