/* The gradient of each tensor, as a sum over the window's steps of outer products: G[row][column] =
   sum over t of A[t][row] B[t][column]. Short windows never form it in memory: its norm follows
   from the inner products of the A and of the B with one another, |G|^2 = sum over t, s of
   (A_t . A_s) (B_t . B_s), and the optimizer makes each element where it uses it. Long ones form it
   with cuBLAS.

   Weights whose rows decide the deviation of their units have a second part, G[row][column] -= pull
   [row] W[row][column]. It nearly cancels what the first has along W, so that no norm of the parts
   would do: short windows make each element twice, for the norm and for the optimizer. */
#ifndef RUNNEL_CUDA_GRADIENT_CUH
#define RUNNEL_CUDA_GRADIENT_CUH

#include "blas.cuh"
#include "network.cuh"

enum factor_kind {
    FACTOR_ONE,    /* 1: the tensor is a vector, and stands as one row */
    FACTOR_ARRAY,  /* (window, stride) in the block of activations */
    FACTOR_SYMBOL, /* 1 at the step's symbol, else 0; (window,) symbols there */
};

struct factor {
    enum factor_kind kind;
    uint32_t offset, stride;
};

enum {
    TILE_THREADS = 256,
    TILE_STEPS = 16,   /* of the window that are staged at once */
    TILE_ROWS = 4,     /* of a thread */
    QUAD_BITS_MIN = 3, /* float4 columns of a tile: 2 to that power */
    QUAD_BITS_MAX = 6,
    RESIDENT_BLOCKS = 4, /* of the optimizer, a multiprocessor: as many as run at once */
    GEMM_STEPS = 32,     /* windows from this length on form the gradient with cuBLAS */
};

/* Rows and columns of a tile: powers of two. */
static __host__ __device__ __forceinline__ uint32_t tile_rows(uint32_t quad_bits) {
    return TILE_THREADS * TILE_ROWS >> quad_bits;
}

static __host__ __device__ __forceinline__ uint32_t tile_columns(uint32_t quad_bits) {
    return QUAD << quad_bits;
}

/* A tensor as the gradient and the optimizer walk it, in tiles. */
struct walked {
    uint32_t offset, rows, columns, ld; /* in the block of parameters */
    struct factor a, b;
    uint32_t
        pull; /* (rows,) in the block of activations: the tensor times this is taken off; NONE */
    uint32_t quad_bits, column_tiles, first_tile;
};

struct gradient_plan {
    const struct walked *tensors; /* (count,) on the device */
    const struct walked *host;    /* the same, here */
    uint32_t count, tiles;
    size_t numbers; /* in the block of parameters, up to the end of the last of them */
    bool pulls;     /* some tensor has such a part */
    uint32_t multiprocessors;
    cublasHandle_t blas; /* NULL: no window is long enough */
};

/* Numbers of `squares` that a norm may leave. */
uint32_t gradient_partials(const struct gradient_plan *plan);

/* Whether a window of so many steps forms its gradient in network.gradient. */
bool gradient_is_formed(const struct gradient_plan *plan, uint32_t length);

/* Leave partial sums of the gradient's squares in network.squares, `*partials` of them; the
   gradient itself too if it is formed. */
cudaError_t launch_gradient(const struct network *n, const struct gradient_plan *plan,
                            uint32_t length, uint32_t *partials, cudaStream_t stream);

#endif
