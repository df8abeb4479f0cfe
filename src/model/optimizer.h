/* What makes parameters of gradients: the description of an optimizer, plain data from the
   configuration. */
#ifndef RUNNEL_OPTIMIZER_H
#define RUNNEL_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_RMSPROP, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };

/* PyTorch's definitions (torch.optim). */
struct optimizer {
    enum optimizer_kind kind;
    double rate;
    double momentum;     /* sgd */
    bool nesterov;       /* sgd */
    double alpha;        /* rmsprop */
    double beta1, beta2; /* adam, adamw */
    double epsilon;      /* rmsprop, adam, adamw */
    double weight_decay; /* adamw: decoupled; else added to the gradient */
};

/* Blocks of numbers beside the parameters that the optimizer keeps: 0, 1 or 2. */
size_t optimizer_blocks(const struct optimizer *optimizer);

#endif
