#include "blas.cuh"

#include <dlfcn.h>
#include <pthread.h>

#include "gradient.cuh"

#define TEXT(number) #number
#define TEXT_OF(number) TEXT(number)
#define LIBRARY "libcublas.so." TEXT_OF(CUBLAS_VER_MAJOR)

#define CALLS(CALL)                                                                                \
    CALL(cublasCreate_v2)                                                                          \
    CALL(cublasDestroy_v2)                                                                         \
    CALL(cublasGetVersion_v2)                                                                      \
    CALL(cublasSetStream_v2)                                                                       \
    CALL(cublasSetWorkspace_v2)                                                                    \
    CALL(cublasSetMathMode)                                                                        \
    CALL(cublasSetAtomicsMode)                                                                     \
    CALL(cublasSgemm_v2)                                                                           \
    CALL(cublasGetStatusString)

#define POINTER(name) decltype(&::name) name;
static struct { CALLS(POINTER) } blas;

/* ---- The library ---- */

static int find_calls(void *library, struct error *error) {
#define FIND(name)                                                                                 \
    if (!(*(void **)&blas.name = dlsym(library, #name)))                                           \
        return error_set(                                                                          \
            error, EX_UNAVAILABLE,                                                                 \
            "%s: symbol %s not found; install cuBLAS of the CUDA toolkit that built this module",  \
            LIBRARY, #name);
    CALLS(FIND)
    return 0;
}

/* The library stays loaded until the process ends, like all libraries that load CUDA. */
static int load(const char *way_out, struct error *error) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&one_at_a_time);
    int result = 0;
    void *library = loaded ? NULL : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        result = find_calls(library, error);
    else if (!loaded)
        result = error_set(
            error, EX_UNAVAILABLE,
            "cannot load cuBLAS, which a window of %d or more steps requires: %s; install it, add "
            "its directory to LD_LIBRARY_PATH, or lower learning.window%s",
            GEMM_STEPS, dlerror(), way_out);
    loaded = result == 0;
    pthread_mutex_unlock(&one_at_a_time);
    return result;
}

/* ---- The interface ---- */

int blas_open(cublasHandle_t *handle, cudaStream_t stream, void *workspace, const char *way_out,
              struct error *error) {
    if (load(way_out, error))
        return -1;
    cublasStatus_t status = blas.cublasCreate_v2(handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = blas.cublasSetStream_v2(*handle, stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = blas.cublasSetWorkspace_v2(*handle, workspace, BLAS_WORKSPACE);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = blas.cublasSetMathMode(*handle, CUBLAS_PEDANTIC_MATH);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = blas.cublasSetAtomicsMode(*handle, CUBLAS_ATOMICS_NOT_ALLOWED);
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "cannot start cuBLAS: %s",
                     blas.cublasGetStatusString(status));
}

void blas_close(cublasHandle_t handle) {
    if (handle)
        blas.cublasDestroy_v2(handle);
}

int blas_version(cublasHandle_t handle) {
    int version = 0;
    return blas.cublasGetVersion_v2(handle, &version) == CUBLAS_STATUS_SUCCESS ? version : 0;
}

/* cuBLAS stores matrices by columns: for it this is C^T = B^T A. */
cudaError_t blas_multiply(cublasHandle_t handle, uint32_t rows, uint32_t ld, uint32_t length,
                          const float *a, uint32_t stride_a, const float *b, uint32_t stride_b,
                          float *c) {
    const float one = 1, zero = 0;
    cublasStatus_t status =
        blas.cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_T, (int)ld, (int)rows, (int)length, &one,
                            b, (int)stride_b, a, (int)stride_a, &zero, c, (int)ld);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}
