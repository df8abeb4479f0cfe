/* Decisions about an update, written once for every engine: clipping, and the check for values
   that are not finite. */
#ifndef RUNNEL_UPDATES_H
#define RUNNEL_UPDATES_H

#include <float.h>
#include <math.h>

#include "engine/engine.h"
#include "formulas.h"

/* The factor of the gradient, as in torch.nn.utils.clip_grad_norm_. clip 0: no clipping. */
FORMULA double update_clip_factor(double clip, double norm) {
    const double epsilon = 1e-6;
    double factor = clip > 0 ? clip / (norm + epsilon) : 1;
    return factor < 1 ? factor : 1;
}

/* Whether the update is made. A gradient whose square exceeds the range of float would make the
   moments infinite forever. */
FORMULA bool update_applies(double loss, double squares, double factor) {
    return loss - loss == 0 && squares * factor * factor <= (double)FLT_MAX;
}

/* The new weight, where the optimizer computed `next`. The bias of a class without occurrences
   stays unchanged; so does a weight whose next value is not finite, since a checkpoint with it
   could not be loaded. */
FORMULA float update_next(float weight, float gradient, float next) {
    bool keeps = weight == ENGINE_HIDDEN_BIAS && gradient == 0.0f;
    return keeps || !(next - next == 0.0f) ? weight : next;
}

#endif
