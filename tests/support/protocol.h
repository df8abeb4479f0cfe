/* The online protocol of README.md a second time, as simple as possible: lists of steps, no
   plans, no rings, no slots. Its arithmetic is the hash engine's. */
#ifndef RUNNEL_TESTS_PROTOCOL_H
#define RUNNEL_TESTS_PROTOCOL_H

#include "observed.h"
#include "workload.h"

/* Play all examples with the parameters that the hash engine has now, all outputs wanted; returns
   the parameters afterwards. */
uint64_t protocol_run(const struct workload *workload, uint64_t parameters,
                      struct observations *observations);

#endif
