/* cuBLAS, which only networks with long windows need. The first of them loads it, so that other
   networks run on machines without it. */
#ifndef RUNNEL_CUDA_BLAS_CUH
#define RUNNEL_CUDA_BLAS_CUH

#include <cublas_v2.h>

#include "device.cuh"

enum { BLAS_WORKSPACE = 32 << 20 }; /* bytes: cuBLAS's recommendation for Hopper */

/* A handle for plain float32 (no TF32), with the same bits in every run: no atomics, one stream,
   its own workspace of BLAS_WORKSPACE bytes. -1 with an error that ends with `way_out`. */
int blas_open(cublasHandle_t *handle, cudaStream_t stream, void *workspace, const char *way_out,
              struct error *error);

/* It may be NULL. */
void blas_close(cublasHandle_t handle);

/* The version of the library; 0: unknown. */
int blas_version(cublasHandle_t handle);

/* C (rows, ld) = A^T B over `length` rows of A (length, stride_a) and B (length, stride_b). */
cudaError_t blas_multiply(cublasHandle_t handle, uint32_t rows, uint32_t ld, uint32_t length,
                          const float *a, uint32_t stride_a, const float *b, uint32_t stride_b,
                          float *c);

#endif
