/* What an update decides on, written once for every engine: clipping, and the guard against what is
   not finite. */
#ifndef RUNNEL_UPDATES_H
#define RUNNEL_UPDATES_H

#include <float.h>
#include <math.h>

#include "engine/engine.h"
#include "formulas.h"

/* As torch.nn.utils.clip_grad_norm_: what the gradient is multiplied with. clip 0: no clipping. */
FORMULA double update_clip_factor(double clip, double norm) {
    const double epsilon = 1e-6;
    double factor = clip > 0 ? clip / (norm + epsilon) : 1;
    return factor < 1 ? factor : 1;
}

/* Whether an update may be made. A gradient whose square leaves the range of float would make the
   moments infinite for good. */
FORMULA bool update_applies(double loss, double squares, double factor) {
    return loss - loss == 0 && squares * factor * factor <= (double)FLT_MAX;
}

/* What a weight becomes where the optimizer says `next`. The bias of a class that has not come
   stays as it is; so does a weight whose next value is not finite, for a checkpoint with that could
   not be loaded. */
FORMULA float update_next(float weight, float gradient, float next) {
    bool keeps = weight == ENGINE_HIDDEN_BIAS && gradient == 0.0f;
    return keeps || !(next - next == 0.0f) ? weight : next;
}

#endif
