/* The input of layer 0 and the skip path if x is not a row of numbers: a symbol's embedding,
   encoded columns with symbols (model.part_count), or a symbol that may be negated.

   Such an x is encoded into a table after the tensors in the block of parameters, with one row
   per position of the ring. A slot's row of input begins with that position, in the place of a
   symbol, followed by x. So all other kernels treat x as an embedded symbol, and do not handle
   columns. Like the activations, the table holds one slot's steps at a time. */
#ifndef RUNNEL_CUDA_INPUTS_CUH
#define RUNNEL_CUDA_INPUTS_CUH

#include "network.cuh"

/* See struct input_part. */
struct encoded_part {
    uint32_t from, at, width, size;
    uint32_t ld;     /* numbers in a padded row of its embedding; 0: no embedding, else: */
    uint32_t weight; /* (size, ld) in the block of parameters */
    uint32_t ids; /* offset in the block of activations, for each step of the window: the symbol, */
    uint32_t d;   /* (window, ld) and the gradient of its row */
};

struct encoding {
    const struct encoded_part *parts; /* (count,) on the device */
    uint32_t count;                   /* 0: x is not encoded */
    uint32_t features;                /* numbers in x */
    bool learned;                     /* some part has an embedding */
};

/* Before a forward: encodes its steps with the current embeddings, those of a run from the
   plan's inputs, which the slot stores. One launch; none without columns to encode. */
cudaError_t launch_encode(const struct network *n, const struct encoding *encoding,
                          enum steps_of of, uint32_t steps, unsigned threads, cudaStream_t stream);

/* After backward: the gradient of each step's embedded inputs. One launch; none without
   embeddings. */
cudaError_t launch_inputs_backward(const struct network *n, const struct encoding *encoding,
                                   uint32_t length, unsigned threads, cudaStream_t stream);

#endif
