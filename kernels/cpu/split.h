/* The products of matrix.h, shared by the network's threads if that pays. Rows or columns of a
   matrix are split into one range per thread, or fewer if a range would be too little work. Each
   thread has the same range, and so the same part of the matrix, in every step. Bits do not
   depend on the number of threads: every number has its own sum, and one thread adds sums over
   panels in the panels' order. For the files that are compiled once per instruction set. */
#ifndef RUNNEL_CPU_SPLIT_H
#define RUNNEL_CPU_SPLIT_H

#include "common/threads.h"
#include "network.h"

/* Number of parts of some work with at most `most` pieces; `work` in multiply-adds. */
static inline size_t split_parts(const struct network *n, size_t work, size_t most) {
    if (n->parts < 2)
        return 1;
    size_t parts = work / n->least < most ? work / n->least : most;
    return parts < 1 ? 1 : parts < n->parts ? parts : n->parts;
}

#ifdef ISA
void split_project(const struct network *n, const float *w, size_t rows, size_t columns,
                   const float *bias, const float *const *x, float *const *y, size_t count);
void split_multiply(const struct network *n, const float *w, size_t rows, size_t columns,
                    const float *bias, const float *x, float *y, bool turn);
void split_transposed(const struct network *n, const float *w, size_t rows, size_t columns,
                      const float *d, float *out, bool turn);
void split_transposed_many(const struct network *n, const float *w, size_t rows, size_t columns,
                           const float *d, float *out, size_t stride, size_t count);

/* Returns the sum of the gradient's squares, without those it is added to. */
double split_gradient(const struct network *n, float *gradient, size_t rows, size_t columns,
                      const float *d, const float *const *x, size_t count);
#endif

#endif
