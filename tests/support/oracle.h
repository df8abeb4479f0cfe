/* The contract's equations, in double and as plainly as possible, as a reference for engines.
   Shares no arithmetic with kernels/; gradients are central differences. */
#ifndef RUNNEL_TESTS_ORACLE_H
#define RUNNEL_TESTS_ORACLE_H

#include "engine/engine.h"
#include "model/model.h"

/* Largest layer, input and target of the oracle; outputs may be four times that. */
enum { ORACLE_WIDTH_MAX = 136, ORACLE_OUTPUTS_MAX = 4 * ORACLE_WIDTH_MAX };

/* One step: advances the state (S,), and sets its output (K,). x: (I,), for symbols (1,).
   parameters: (model.parameters,). */
void oracle_step(const struct model *model, const double *parameters, double *state,
                 const union value *x, double *output);

/* Loss of one step; NaN if no target is observed. y: (target_size,). */
double oracle_loss(const struct model *model, const double *output, const union value *y);

/* A window: steps from a state before the first of them, with the learned targets. */
struct oracle_window {
    const double *state;        /* (S,) */
    const union value *inputs;  /* (length, I) */
    const union value *targets; /* (length, target_size) */
    const bool *learned;        /* (length,): whether that step's target is learned */
    size_t length;
    size_t closed; /* only the last `closed` targets count */
};

/* The mean loss over the learned targets; NaN without any. */
double oracle_mean_loss(const struct model *model, const double *parameters,
                        const struct oracle_window *window);

/* Its gradient: (model.learned,). Restores `parameters`. */
void oracle_gradient(const struct model *model, double *parameters,
                     const struct oracle_window *window, double *gradient);

/* Moves the running statistics of norms among `parameters`, as an update on the window does:
   towards those of its last `closed` steps. */
void oracle_absorb(const struct model *model, double *parameters,
                   const struct oracle_window *window);

/* PyTorch's optimizers, and COCOB-Backprop's algorithm 2. The moments are (count,) each, zero
   before the first update; `update` counts from 1. First clips the gradient in place to norm
   `clip`; 0 = no clipping. */
void oracle_update(const struct optimizer *optimizer, double clip, size_t update, size_t count,
                   double *parameters, double *gradient, double *const moments[MOMENTS_MAX]);

#endif
