/* One unit of one layer at one step, for the formulas of a cell: kernels/cells/. A cell NAME
   defines, for engines that loop over all units,

     NAME_factors          `parameters` only: from the unit's own parameters its factors
     NAME_gates            `gated` only: from ih and hh the gates (with `own`, inner) that depend
                           on them
     NAME_forward          from ih or gate, h and before: gate, new inner, and out
     NAME_finish           `finishes` only: from gate and new inner after its norm: squashed, out
     NAME_finish_backward  `finishes` only: from d, the gradient of out: d.inner after the norm, and
                           that of the finished gate
     NAME_backward         from d, the gradient of out, or for a cell that finishes that of its new
                           inner value: those of the gates' sums, d.own, and d.before; with 2
                           outputs from d and d.inner those of the gates' sums, of the unit's own
                           parameters, d.before and d.h

   Backward functions get a unit with the inputs and results of forward. Between NAME_gates and
   NAME_forward an engine may store gate and inner in memory. */
#ifndef RUNNEL_UNIT_H
#define RUNNEL_UNIT_H

#include "formulas.h"
#include "kinds.h"

struct cell_unit {
    float ih[CELL_GATES_MAX], hh[CELL_GATES_MAX]; /* sums after their norms; hh: `apart` only */
    float h, before;                              /* before the step: h, and the inner state */
    float gate[CELL_GATES_MAX];                   /* values of the gates */
    float inner;
    float squashed;
    float parameter[CELL_PARAMETERS_MAX], factor[CELL_FACTORS_MAX];
    float out;                  /* h after the step */
    enum activation activation; /* the layer's activation, for cells with `function` */
};

struct cell_gradient {
    float gate[CELL_GATES_MAX]; /* gradients of the sums after their norms */
    float own;                  /* gradient of the last gate's recurrent sum */
    float inner;                /* gradient of the new inner value after its norm */
    /* gradient of the previous inner value (`finishes`, 2 outputs) or h, past the weights */
    float before;
    float h; /* 2 outputs: gradient of the previous h */
    float parameter[CELL_PARAMETERS_MAX];
};

/* Cells with fewer stages use these. */
FORMULA void cell_has_no_stage(struct cell_unit *u) {
    (void)u;
}

FORMULA void cell_has_no_finish_backward(const struct cell_unit *u, float d,
                                         struct cell_gradient *g) {
    (void)u, (void)d, (void)g;
}

#endif
