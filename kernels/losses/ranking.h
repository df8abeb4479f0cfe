/* A target, the candidate c_0, ranked by its score with the output q among the last targets of all
   streams. */
#ifndef RUNNEL_LOSSES_RANKING_H
#define RUNNEL_LOSSES_RANKING_H

#include "losses.h"

static const struct loss_kind ranking_kind = {
    .name = "ranking",
    .what = "rank of the target among the last ones of all streams; predicts a vector of `size`",
    .ranks = true,
    .metrics = METRIC_RANK,
    .baseline = BASELINE_CHANCE,
    .parts = {{NULL, EXTENT_NUMBERS, MEANS_ITSELF, UNIT_NONE}},
};

#endif
