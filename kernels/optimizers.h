/* The optimizers' formulas, each in its own file (optimizers/), written once for every engine: one
   step of one parameter, without branches that depend on it, so that loops over them vectorize.

   An optimizer NAME defines
     struct NAME_numbers   values common to all parameters of an update, rounded once
     NAME_prepare          those values, for update t = 1, 2, ... with the learning rate `rate`
     NAME_step             a parameter's new value, from its clipped gradient; changes `kept`
                           moments, all of NAME_kind or the least (see moments_need) */
#ifndef RUNNEL_OPTIMIZERS_H
#define RUNNEL_OPTIMIZERS_H

#include <math.h>
#include <string.h>

#include "formulas.h"
#include "kinds.h"

/* A key of several optimizers: 0 would divide 0 by 0 where a gradient is 0. */
#define EPSILON_KEY                                                                                \
    {                                                                                              \
        KIND_KEY(epsilon), .minimum = 1e-30, .maximum = 1, .fallback = "1e-8",                     \
                           .what = "added to the divisor", .example = "1e-8"                       \
    }

#define INCLUDE_OPTIMIZERS
#include "kinds.def"

struct optimizer_numbers {
    enum optimizer_id kind;
    float pull; /* rate * pull, at most 1 */
    union {
#define OPTIMIZER(name) struct name##_numbers name;
#include "kinds.def"
    } of;
};

FORMULA struct optimizer_numbers optimizer_prepare(const struct optimizer *o, double rate,
                                                   uint64_t t) {
    struct optimizer_numbers numbers;
    memset(&numbers, 0,
           /* includes fields that this optimizer does not use: engines keep all of them */
           sizeof numbers);
    numbers.kind = o->kind;
    double pull = rate * o->pull;
    numbers.pull = (float)(pull < 1 ? pull : 1);
    switch (o->kind) {
#define OPTIMIZER(name)                                                                            \
case OPTIMIZER_##name:                                                                             \
    numbers.of.name = name##_prepare(o, rate, (double)t);                                          \
    break;
#include "kinds.def"
    case OPTIMIZERS:
        break;
    }
    return numbers;
}

/* After the optimizer's step; its time constant is 1 / (rate pull) updates. */
FORMULA float optimizer_pull(float pull, float weight, float start) {
    return weight - pull * (weight - start);
}

#endif
