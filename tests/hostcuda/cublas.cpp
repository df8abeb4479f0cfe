/* The matrix product of cuBLAS, in the order of its stream. Checks that the caller set up
   repeatable results: no TF32, no atomics, and its own workspace in a capture. */
#include "cublas_v2.h"
#include "dlfcn.h"
#include "race.h"

using namespace hostcuda;

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_size;
    cublasPointerMode_t pointers;
};

namespace {

#define STATUSES(X)                                                                                \
    X(CUBLAS_STATUS_SUCCESS, "success")                                                            \
    X(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")                            \
    X(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")                                \
    X(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function") \
    X(CUBLAS_STATUS_ARCH_MISMATCH, "the function requires a feature absent from the device "       \
                                   "architecture")                                                 \
    X(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed")                         \
    X(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU")                  \
    X(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")                                \
    X(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported")                 \
    X(CUBLAS_STATUS_LICENSE_ERROR, "the functionality requested requires a license")

constexpr int LIBRARY_VERSION = 130100;

cublasStatus_t invalid(const char *function, long value, const char *what) {
    report("%s: %ld %s", function, value, what);
    return CUBLAS_STATUS_INVALID_VALUE;
}

struct product {
    bool transpose_a, transpose_b;
    int m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int lda, ldb, ldc;
};

void multiply(const product &p) {
    for (int column = 0; column < p.n; ++column) {
        for (int row = 0; row < p.m; ++row) {
            float sum = 0.0f;
            for (int i = 0; i < p.k; ++i) {
                const float a =
                    p.transpose_a ? p.a[i + (long)row * p.lda] : p.a[row + (long)i * p.lda];
                const float b =
                    p.transpose_b ? p.b[column + (long)i * p.ldb] : p.b[i + (long)column * p.ldb];
                sum += a * b;
            }
            float *c = &p.c[row + (long)column * p.ldc];
            /* With beta 0 the content of C is ignored, even NaN. */
            *c = p.beta == 0.0f ? p.alpha * sum : p.alpha * sum + p.beta * *c;
        }
    }
}

/* The memory that it reads and writes, column by column. */
void watch(const product &p) {
    const int a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
    const int b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
    const auto columns = [](const float *at, int rows, int count, int leading, race::way how) {
        for (int i = 0; i < count; ++i) {
            race::met(at + (long)i * leading, (size_t)rows * sizeof *at, how, nullptr);
        }
    };
    columns(p.a, a_rows, a_columns, p.lda, race::way::read);
    columns(p.b, b_rows, b_columns, p.ldb, race::way::read);
    columns(p.c, p.m, p.n, p.ldc, race::way::write);
}

/* A matrix of `rows` x `columns` on the device. */
bool matrix(const char *what, const float *at, int rows, int columns, int leading) {
    if (leading < max(rows, 1)) {
        report("cublasSgemm: %s has a leading dimension of %d, for %d rows", what, leading, rows);
        return false;
    }
    if (rows == 0 || columns == 0) {
        return true;
    }
    const size_t elements = (size_t)leading * (size_t)(columns - 1) + (size_t)rows;
    return within(what, side::device, at, elements * sizeof *at);
}

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = nullptr;
    if (begin("cublasCreate_v2")) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (refuse_in_capture("cublasCreate", nullptr)) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = new cublasContext();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    *version = LIBRARY_VERSION;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

/* Drops the workspace, as cuBLAS does. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->stream = stream;
    handle->workspace = nullptr;
    handle->workspace_size = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t size) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if ((uintptr_t)workspace % 256 != 0) {
        return invalid("cublasSetWorkspace", (long)(uintptr_t)workspace, "is no multiple of 256");
    }
    if (!within("cublasSetWorkspace", side::device, workspace, size)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspace_size = size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->pointers = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (mode != CUBLAS_DEFAULT_MATH && mode != CUBLAS_PEDANTIC_MATH) {
        return invalid("cublasSetMathMode", mode, "is no plain FP32");
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (mode != CUBLAS_ATOMICS_NOT_ALLOWED) {
        return invalid("cublasSetAtomicsMode", mode, "gives other bits on every run");
    }
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return text;
        STATUSES(X)
#undef X
    }
    return "unknown status";
}

const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return #name;
        STATUSES(X)
#undef X
    }
    return "unknown status";
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transpose_a,
                              cublasOperation_t transpose_b, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc) {
    if (begin("cublasSgemm_v2")) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (!handle) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (m < 0 || n < 0 || k < 0 || !alpha || !beta) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (handle->pointers != CUBLAS_POINTER_MODE_HOST) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const bool ta = transpose_a != CUBLAS_OP_N, tb = transpose_b != CUBLAS_OP_N;
    if (!matrix("cublasSgemm, A", a, ta ? k : m, ta ? m : k, lda) ||
        !matrix("cublasSgemm, B", b, tb ? n : k, tb ? k : n, ldb) ||
        !matrix("cublasSgemm, C", c, m, n, ldc)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (capturing(handle->stream) && !handle->workspace) {
        report("cublasSgemm in a capture without cublasSetWorkspace after cublasSetStream");
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const product p = {ta, tb, m, n, k, *alpha, *beta, a, b, c, lda, ldb, ldc};
    const cudaError_t error = enqueue(handle->stream, [p] {
        watch(p);
        multiply(p);
        return cudaSuccess;
    });
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* ---- The library for the loader ---- */

static const char LIBRARY[] = "libcublas.so.13";

void *hostcuda_dlopen(const char *name, int) {
    return strcmp(name, LIBRARY) == 0 && !begin("dlopen") ? (void *)LIBRARY : nullptr;
}

char *hostcuda_dlerror(void) {
    static char text[] = "libcublas.so.13: cannot open shared object file";
    return text;
}

void *hostcuda_dlsym(void *library, const char *name) {
    static const struct {
        const char *name;
        void *call;
    } calls[] = {
#define X(call) {#call, (void *)call},
        X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasGetVersion_v2) X(cublasSetStream_v2)
            X(cublasSetWorkspace_v2) X(cublasSetMathMode) X(cublasSetAtomicsMode) X(cublasSgemm_v2)
                X(cublasGetStatusString)
#undef X
    };
    for (const auto &known : calls) {
        if (library == LIBRARY && strcmp(known.name, name) == 0) {
            return known.call;
        }
    }
    return nullptr;
}
}
