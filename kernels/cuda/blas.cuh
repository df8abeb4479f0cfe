/* cuBLAS: a library that only networks with long windows need. It is loaded when the first of them
   opens, so that all others learn on machines that do not have it. */
#ifndef RUNNEL_CUDA_BLAS_CUH
#define RUNNEL_CUDA_BLAS_CUH

#include <cublas_v2.h>

#include "device.cuh"

enum { BLAS_WORKSPACE = 32 << 20 }; /* bytes: as much as cuBLAS asks for on Hopper */

/* A handle for plain float32 (no TF32), the same bits on every run: no atomics, one stream, a
   workspace of its own, of BLAS_WORKSPACE bytes. -1 with a sentence; `way_out` ends it. */
int blas_open(cublasHandle_t *handle, cudaStream_t stream, void *workspace, const char *way_out,
              struct error *error);

/* It may be NULL. */
void blas_close(cublasHandle_t handle);

/* Of the library, 0 where that is not known. */
int blas_version(cublasHandle_t handle);

/* C (rows, ld) = A^T B over `length` rows of A (length, stride_a) and B (length, stride_b). */
cudaError_t blas_multiply(cublasHandle_t handle, uint32_t rows, uint32_t ld, uint32_t length,
                          const float *a, uint32_t stride_a, const float *b, uint32_t stride_b,
                          float *c);

#endif
