/* How much of their loss the updates of a network remove. Of every n-th update the engine computes
   the loss again with the parameters after it (operation.probe).

   A network is *stale* when its weights have grown twofold since the last report, or since the
   start, and its plasticity is below half of its best. */
#ifndef RUNNEL_PLASTICITY_H
#define RUNNEL_PLASTICITY_H

#include <stdbool.h>

struct update_result;

/* A row of checkpoints; zeros at the start of learning. */
struct plasticity {
    double planned; /* updates */
    double probes;
    double mean, best; /* exponential moving average of the shares, and its maximum */
    double growth;     /* at the last report; 0: none yet */
};

/* Adds a probe; returns whether the network is stale now. */
bool plasticity_add(struct plasticity *plasticity, const struct update_result *update);

bool plasticity_valid(const struct plasticity *plasticity);

#endif
