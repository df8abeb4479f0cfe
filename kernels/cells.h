/* The formulas of all cells by their number. Engines call these with a constant cell, once per
   cell, so that the compiler keeps only that cell's formula. */
#ifndef RUNNEL_CELLS_H
#define RUNNEL_CELLS_H

#include "unit.h"

#define INCLUDE_CELLS
#include "kinds.def"

FORMULA void cell_factors(enum cell cell, struct cell_unit *u) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_factors(u);                                                                             \
    break;
#include "kinds.def"
    default:
        break;
    }
}

FORMULA void cell_gates(enum cell cell, struct cell_unit *u) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_gates(u);                                                                               \
    break;
#include "kinds.def"
    default:
        break;
    }
}

FORMULA void cell_forward(enum cell cell, struct cell_unit *u) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_forward(u);                                                                             \
    break;
#include "kinds.def"
    default:
        break;
    }
}

FORMULA void cell_finish(enum cell cell, struct cell_unit *u) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_finish(u);                                                                              \
    break;
#include "kinds.def"
    default:
        break;
    }
}

FORMULA void cell_finish_backward(enum cell cell, const struct cell_unit *u, float d,
                                  struct cell_gradient *g) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_finish_backward(u, d, g);                                                               \
    break;
#include "kinds.def"
    default:
        break;
    }
}

FORMULA void cell_backward(enum cell cell, const struct cell_unit *u, float d,
                           struct cell_gradient *g) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    name##_backward(u, d, g);                                                                      \
    break;
#include "kinds.def"
    default:
        break;
    }
}

#endif
