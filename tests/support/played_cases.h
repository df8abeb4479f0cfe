/* Models that together launch every kernel of the CUDA engine, with every cell, norm, loss and
   optimizer. */
#ifndef RUNNEL_TESTS_PLAYED_CASES_H
#define RUNNEL_TESTS_PLAYED_CASES_H

#include "played.h"

enum { PLAYED_CASES = 17 };

extern const struct played played_cases[PLAYED_CASES];

/* Members of two small shapes, out of step. */
extern const struct played played_members;

#endif
