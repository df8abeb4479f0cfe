/* A second implementation of the online protocol of README.md, as simple as possible: lists of
   steps, without plans, rings or slots. Its arithmetic is the hash engine's. */
#ifndef RUNNEL_TESTS_PROTOCOL_H
#define RUNNEL_TESTS_PROTOCOL_H

#include "observed.h"
#include "workload.h"

/* Plays all examples with the current parameters of the hash engine, with all outputs; returns
   the final parameters. */
uint64_t protocol_run(const struct workload *workload, uint64_t parameters,
                      struct observations *observations);

#endif
