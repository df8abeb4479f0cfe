/* What layer 0 and the skip path see of an x that is no row of numbers: a symbol's embedding, or
   what columns encode among which are symbols (model.part_count), or a symbol that may count as
   minus.

   Such an x is encoded into a table, one row a position of the ring, which stands behind the
   tensors in the block of parameters; a slot's row of input begins with that position, where it
   would have a symbol, and x follows. So all other kernels take x for an embedded symbol, and know
   of columns nothing. Like the activations the table holds one slot's steps at a time. */
#ifndef RUNNEL_CUDA_INPUTS_CUH
#define RUNNEL_CUDA_INPUTS_CUH

#include "network.cuh"

/* See struct input_part. */
struct encoded_part {
    uint32_t from, at, width, size;
    uint32_t ld;     /* numbers in a row of its embedding, with padding; 0: it has none, else: */
    uint32_t weight; /* (size, ld) in the block of parameters */
    uint32_t ids;    /* in the block of activations, of each step of the window: the symbol, */
    uint32_t d;      /* (window, ld) and the gradient of its row */
};

struct encoding {
    const struct encoded_part *parts; /* (count,) on the device */
    uint32_t count;                   /* 0: x is not encoded */
    uint32_t features;                /* numbers in x */
    bool learned;                     /* some part has an embedding */
};

/* Before a forward: encode its steps with today's embeddings, those of a run from the plan's
   inputs, which the slot keeps. One launch; none without columns to encode. */
cudaError_t launch_encode(const struct network *n, const struct encoding *encoding,
                          enum steps_of of, uint32_t steps, unsigned threads, cudaStream_t stream);

/* After backward: the gradient of each step's embedded inputs. One launch; none without. */
cudaError_t launch_inputs_backward(const struct network *n, const struct encoding *encoding,
                                   uint32_t length, unsigned threads, cudaStream_t stream);

#endif
