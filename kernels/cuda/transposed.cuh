/* Products with transposed weights: columns are distributed over blocks in groups, rows in
   chunks. Readers of the product add the chunks' sums in order. */
#ifndef RUNNEL_CUDA_TRANSPOSED_CUH
#define RUNNEL_CUDA_TRANSPOSED_CUH

#include "network.cuh"

/* Rows first..end of d times COLUMN_GROUP of the first `columns` columns of W (rows, ld): out[c]
   = sum over rows of W[row][c] d[row]. `d` (end - first,) and `sums` (warps, 2, COLUMN_GROUP)
   are in shared memory. Each half of a warp processes a row at a time, four columns per lane.
   Bound by the bytes of the weights. */
static __device__ void multiply_transposed(const float *weight, uint32_t ld, uint32_t columns,
                                           uint32_t first, uint32_t end, const float *d,
                                           uint32_t group, float *sums, float *out) {
    enum { HALF = LANES / 2, ROWS = 4 };
    uint32_t halves = blockDim.x / HALF, half = threadIdx.x / HALF, lane = threadIdx.x % HALF;
    uint32_t column = group * COLUMN_GROUP + lane * QUAD;
    float4 sum = make_float4(0, 0, 0, 0);
    if (column < columns)
#pragma unroll ROWS
        for (uint32_t row = first + half; row < end; row += halves) {
            float4 w = *(const float4 *)(weight + (size_t)row * ld + column);
            float x = d[row - first];
            sum.x += w.x * x;
            sum.y += w.y * x;
            sum.z += w.z * x;
            sum.w += w.w * x;
        }
    ((float4 *)sums)[half * HALF + lane] = sum;
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < COLUMN_GROUP; c += blockDim.x) {
        if (group * COLUMN_GROUP + c >= columns)
            break;
        float total = 0;
        for (uint32_t k = 0; k < halves; k++)
            total += sums[k * COLUMN_GROUP + c];
        out[group * COLUMN_GROUP + c] = total;
    }
}

/* Its shared memory, in floats, for a block of `threads`. */
static __host__ __device__ __forceinline__ uint32_t transposed_sums(unsigned threads) {
    return threads / (LANES / 2) * COLUMN_GROUP;
}

/* The piece of a split product that belongs to a block. */
struct piece {
    uint32_t chunk, group, first, end; /* rows first..end */
};

static __device__ __forceinline__ struct piece piece_of(const struct split &split, uint32_t rows,
                                                        uint32_t block) {
    struct piece p;
    uint32_t groups = split.groups ? split.groups : 1;
    p.chunk = block / groups;
    p.group = block % groups;
    p.first = p.chunk * split.chunk_rows;
    p.end = p.first + split.chunk_rows < rows ? p.first + split.chunk_rows : rows;
    return p;
}

#endif
