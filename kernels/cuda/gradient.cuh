/* The gradient of each tensor, as a sum over the window's steps of outer products: G[row][column] =
   sum over t of A[t][row] B[t][column]. Short windows do not store it: its norm follows from inner
   products of the A and of the B, |G|^2 = sum over t, s of (A_t . A_s) (B_t . B_s), and the
   optimizer computes each element where it uses it. Long windows store it, computed by cuBLAS.

   Weights whose rows determine the deviation of their units have a second part, G[row][column]
   -= pull [row] W[row][column]. It nearly cancels the first part along W, so the norm cannot be
   computed from the parts: short windows compute each element twice, for the norm and for the
   optimizer. */
#ifndef RUNNEL_CUDA_GRADIENT_CUH
#define RUNNEL_CUDA_GRADIENT_CUH

#include "blas.cuh"
#include "network.cuh"

enum factor_kind {
    FACTOR_ONE,    /* 1: the tensor is a vector, treated as one row */
    FACTOR_ARRAY,  /* (window, stride) in the block of activations */
    FACTOR_SYMBOL, /* 1 at the step's symbol, else 0; (window,) symbols there */
};

struct factor {
    enum factor_kind kind;
    uint32_t offset, stride;
};

enum {
    TILE_THREADS = 256,
    TILE_STEPS = 16,   /* steps of the window that are staged at once */
    TILE_ROWS = 4,     /* of a thread */
    QUAD_BITS_MIN = 3, /* float4 columns of a tile: 2 to that power */
    QUAD_BITS_MAX = 6,
    RESIDENT_BLOCKS = 4, /* blocks of the optimizer per multiprocessor: as many as run at once */
    GEMM_STEPS = 32,     /* windows from this length on form the gradient with cuBLAS */
};

/* Rows and columns of a tile: powers of two. */
static __host__ __device__ __forceinline__ uint32_t tile_rows(uint32_t quad_bits) {
    return TILE_THREADS * TILE_ROWS >> quad_bits;
}

static __host__ __device__ __forceinline__ uint32_t tile_columns(uint32_t quad_bits) {
    return QUAD << quad_bits;
}

/* A tensor for the gradient and the optimizer, in tiles. */
struct walked {
    uint32_t offset, rows, columns, ld; /* offset in the block of parameters, and sizes */
    struct factor a, b;
    uint32_t
        /* (rows,) in the block of activations: factor of the tensor that is subtracted; NONE */
        pull;
    uint32_t quad_bits, column_tiles, first_tile;
};

struct gradient_plan {
    const struct walked *tensors; /* (count,) on the device */
    const struct walked *host;    /* the same on the host */
    uint32_t count, tiles;
    size_t numbers; /* numbers in the block of parameters, up to the end of the last tensor */
    bool pulls;     /* some tensor has a pull */
    uint32_t multiprocessors;
    cublasHandle_t blas; /* NULL: no window is long enough */
};

/* The most numbers of `squares` that a norm writes. */
uint32_t gradient_partials(const struct gradient_plan *plan);

/* Whether a window of that many steps stores its gradient in network.gradient. */
bool gradient_is_formed(const struct gradient_plan *plan, uint32_t length);

/* Writes partial sums of the gradient's squares to network.squares, `*partials` of them; also
   the gradient, if it is formed. */
cudaError_t launch_gradient(const struct network *n, const struct gradient_plan *plan,
                            uint32_t length, uint32_t *partials, cudaStream_t stream);

#endif
