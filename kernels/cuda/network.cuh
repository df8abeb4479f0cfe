/* The network as the kernels see it: where everything lies, as offsets into blocks of device
   memory, small enough to be passed to each kernel by value; and the queue from which the kernels
   of a captured graph learn which slot and positions they work on.

   All that a network keeps on the device is one block, its *arena*. Networks of equal shape have
   equal arenas, and one launch plays several of them: blockIdx.z is the member, whose arena and
   queue a table in the kernel's arguments names. So they stand in the bank of constants, where a
   lone network has its pointers, too. What members may have apart from one another (rate, clip, the
   optimizer's constants) is in their queues.

   A plan is cut into *segments*: one slot's run of steps with their scores, and the update after
   it. Every segment begins with the kernel `begin`, which takes the next entry of the queue and
   makes it the current one; the other kernels of the segment read that. */
#ifndef RUNNEL_CUDA_NETWORK_CUH
#define RUNNEL_CUDA_NETWORK_CUH

#include "device.cuh"

extern "C" {
#include "model/model.h"
}

#include "optimizers.h"

enum {
    GROUPS = CELL_GROUPS_MAX,   /* most normalization groups of one sum */
    SCALES = PLACES * GROUPS,   /* normalizations of one layer at one step */
    SCALE_NUMBERS = 2 * SCALES, /* a mean and a 1 / deviation each */
    NONE = 0xffffffff,          /* no row */
    COLUMN_GROUP = 64,          /* columns of a transposed product that a block owns */
    TOGETHER_MAX = 64,          /* networks that one launch plays */
    GRAIN = 256,                /* bytes: blocks of an arena begin at multiples of it */
};

/* How the rows of a transposed product are shared out: `chunks` of `chunk_rows` rows each, whose
   sums are put together by who reads them; `groups` of COLUMN_GROUP columns. */
struct split {
    uint16_t first_block, chunks, chunk_rows, groups;
    uint32_t partial; /* offset of the sums, see struct network_layer */
};

struct network_layer {
    uint8_t cell, activation;
    uint8_t source, centred; /* as its norm's kind says */
    uint8_t gates, states;   /* as the cell's kind says, likewise: */
    uint8_t apart, inner, finishes, own, carries;
    uint8_t group_gates;   /* of the first group; the others are the second */
    uint32_t size, rows;   /* H, G H */
    uint32_t inputs;       /* I */
    uint32_t ld_ih, ld_hh; /* numbers in a row of W_ih and W_hh, with padding */

    /* In the block of parameters. What the layer lacks is 0 and unused. */
    uint32_t weight_ih, weight_hh, bias_ih, bias_hh;
    uint32_t gain[PLACES], norm_bias[PLACES];

    uint32_t state; /* of h in a slot's state; an inner state follows */

    /* Norms of units. ages: rows of their numbers, one for each age of a step; 0: the norm has
       none. units: where in the block of such numbers the layer's begin (unit_numbers). pull: (2,
       rows) in the block of activations: what W_ih and W_hh are multiplied with and taken off their
       gradients, see normalization_rows_pull. */
    uint32_t ages, units, pull;

    /* In the block of activations, kept of each step at its position of the ring. */
    uint32_t sum_ih, sum_hh; /* (ring, rows) W_ih x + b_ih and W_hh h, before normalization */
    uint32_t gate;           /* (ring, rows) the gates' values */
    uint32_t inner_value;    /* (ring, H) */
    uint32_t squashed;       /* (ring, H) of a cell that finishes */
    uint32_t hidden;         /* (ring, H) h */
    uint32_t scales;         /* (ring, SCALE_NUMBERS) */

    /* In the block of activations, of each step of the window that is being learned. */
    uint32_t d_ih, d_hh;     /* (window, padded rows) gradients of the sums */
    uint32_t d_bias[PLACES]; /* (window, rows or H) gradients after gain and bias: of the bias */
    uint32_t d_gain[PLACES]; /* (window, rows or H) those times x: of the gain */
    uint32_t input, before;  /* (window, ld_ih), (window, ld_hh) what the weights met */
    uint32_t carry;          /* (2, H) gradient that reaches the step before past W_hh: of its
                                inner state or its h; by t % 2 */

    /* Forward: blocks of a wave. */
    uint16_t first_ih, blocks_ih, first_hh, blocks_hh;

    /* Backward. partial: ih (window, chunks, ld_ih), hh (2, chunks, ld_hh) by t % 2. */
    struct split split_ih, split_hh;
};

/* Of a slot, offsets in floats from its start; the state (S,) stands at 0. */
struct slot_layout {
    uint32_t output;              /* (places, K) of open steps */
    uint32_t before, state;       /* (ring, state) */
    uint32_t input, input_row;    /* (ring, input_row) */
    uint32_t target, target_size; /* (ring, horizons, target_size) */
    uint32_t learned;             /* (ring, horizons) 1 where a target is to be learned from */
    uint32_t solved, solved_row;  /* (places, solved_row) what outputs are solved with, less the 1
                                     after it; 0: they are not solved */
    uint32_t size;
};

struct score_entry {
    uint32_t target;   /* row of the plan's targets */
    uint32_t result;   /* row of the results */
    uint32_t position; /* of the step in the ring */
    uint32_t horizon;
    uint32_t learn;
};

struct step_entry {
    uint32_t input;  /* row of the plan's inputs */
    uint32_t output; /* row of the results, or NONE */
    uint32_t score;  /* index of its score_entry, or NONE */
};

struct segment {
    uint32_t slot;
    uint32_t forget;       /* zero the state first */
    uint32_t lead;         /* score of the step before the run, or NONE */
    uint32_t first, steps; /* the run: index of its first step_entry, and how many */
    uint32_t lead_solve;   /* row of the plan's targets that the output is solved with before the
                              run, or NONE */
    uint32_t solve;        /* likewise after the update */
    uint32_t lead_solved, solved; /* positions of the steps that this is about */
    uint32_t position;            /* of the run's first step in the ring */
    uint32_t window, length;      /* the update: position of its first step, and its steps */
    uint32_t closed, terms;
    uint32_t update;   /* row of the results */
    uint32_t measure;  /* position of the step to be measured */
    uint32_t measured; /* row of the results */
};

/* Which steps a forward is of: those of the segment's run, or its update's window again. */
enum steps_of { STEPS_OF_RUN, STEPS_OF_WINDOW };

/* The head of what is uploaded for a plan. Pointers are the device's; results stand in pinned
   memory. */
struct queue {
    uint32_t cursor; /* of the next segment */
    unsigned ticket;
    double rate, clip;
    struct optimizer optimizer;
    float momentum[MODEL_LAYERS_MAX]; /* of running statistics */
    const struct segment *segments;
    const struct step_entry *steps;
    const struct score_entry *scores;
    const union value *inputs, *targets;
    double *losses;
    float *scored, *outputs;
    struct update_result *updates;
    struct layer_statistics *measures;
};

/* What an update leaves from kernel to kernel. */
struct update_state {
    uint64_t updates;                 /* applied so far */
    struct optimizer_numbers numbers; /* of the update that is under way, if it is applied */
    uint32_t applied;                 /* whether the last one was */
    unsigned ticket;
};

/* Blocks of an arena, in grains from its start; 0: there is none. */
struct blocks {
    uint32_t parameters, gradient; /* (block,) floats each */
    uint32_t moments[MOMENTS_MAX]; /* likewise */
    uint32_t activations;
    uint32_t units; /* see struct network_layer */
    uint32_t slots; /* (slots, slot.size) */
    uint32_t current, state;
    uint32_t losses;   /* (window,) doubles, of the window's steps, 0 where nothing is learned */
    uint32_t squares;  /* doubles: partial sums of the gradient's squares */
    uint32_t changes;  /* (2, tiles) doubles: partial sums of an update's change, and of what it
                          changed */
    uint32_t solution; /* see solve.cuh */
};

struct network {
    /* Of a launch; zero in an engine, whose networks of equal shape are equal but for these. */
    uint32_t members;
    uint8_t queue_of[TOGETHER_MAX]; /* (members,) */
    char *arenas[TOGETHER_MAX];     /* (members,) */
    struct queue *queues;           /* of all that are played together */

    struct blocks at;
    struct slot_layout slot;
    uint32_t layer_count, ring, window;
    uint32_t outputs, ld_output; /* K, numbers in a row of W_out, those of the skip path included */
    uint32_t skip_from; /* column of W_out from which on the skip path's stand, so that one product
                           makes an output of h and x; 0: they do not, but where it has rows of its
                           own, of which a one-hot symbol chooses a column, */
    uint32_t output_skip, ld_skip; /* they stand here in the block of parameters; 0: no skip path */
    uint32_t age, ages; /* where in a slot's state the steps since the stream began stand, if
                           norms go by it, and how far these count; 0: they do not */
    uint32_t rows_norms, running_norms; /* whether some layer's deviations are made of rows; run */
    uint32_t input_real; /* x is numbers as the slot has it; of columns among which are symbols not:
                            see inputs.cuh */
    uint32_t input_size, embedding_size, ld_embedding;
    uint32_t loss, target_size, components;
    uint32_t horizons, scored; /* targets of a step, and outputs of each: K / horizons */
    uint32_t many;             /* whether more than one step may be open: see model_place */
    uint32_t together;         /* see struct loss_kind */
    uint32_t embedding, output_weight, output_bias; /* in the block of parameters */
    uint32_t output;                                /* (ring, K) in the block of activations */
    uint32_t d_output;                              /* (window, padded K) */
    uint32_t top;                                   /* (window, ld_output) the h that W_out met */
    uint32_t d_embedding;                           /* (window, ld_embedding) */
    uint32_t ids;                                   /* (window,) symbols */
    uint16_t first_output, blocks_output;           /* forward: blocks of a wave */
    uint16_t blocks_forward, blocks_backward;
    struct split split_output; /* partial: (window, chunks, ld_output) */
    struct network_layer layers[MODEL_LAYERS_MAX];
};

static_assert(sizeof(struct network) <= 4000, "kernel parameters must fit in 4096 bytes");

/* ---- what a block of a launch works on ---- */

/* In bytes. */
static __host__ __device__ __forceinline__ size_t grains(uint32_t count) {
    return (size_t)count * GRAIN;
}

template <typename Number>
static __device__ __forceinline__ Number *block_of(const struct network &n, uint32_t at) {
    return (Number *)(n.arenas[blockIdx.z] + grains(at));
}

static __device__ __forceinline__ float *parameters_of(const struct network &n) {
    return block_of<float>(n, n.at.parameters);
}

static __device__ __forceinline__ float *gradient_of(const struct network &n) {
    return block_of<float>(n, n.at.gradient);
}

static __device__ __forceinline__ float *activations_of(const struct network &n) {
    return block_of<float>(n, n.at.activations);
}

static __device__ __forceinline__ float *units_of(const struct network &n) {
    return block_of<float>(n, n.at.units);
}

static __device__ __forceinline__ struct segment *current_of(const struct network &n) {
    return block_of<struct segment>(n, n.at.current);
}

static __device__ __forceinline__ struct update_state *state_of(const struct network &n) {
    return block_of<struct update_state>(n, n.at.state);
}

static __device__ __forceinline__ double *losses_of(const struct network &n) {
    return block_of<double>(n, n.at.losses);
}

static __device__ __forceinline__ double *squares_of(const struct network &n) {
    return block_of<double>(n, n.at.squares);
}

static __device__ __forceinline__ double *changes_of(const struct network &n) {
    return block_of<double>(n, n.at.changes);
}

static __device__ __forceinline__ struct queue *queue_of(const struct network &n) {
    return n.queues + n.queue_of[blockIdx.z];
}

static __device__ __forceinline__ float *slot_of(const struct network &n, const struct segment *s) {
    return block_of<float>(n, n.at.slots) + (size_t)s->slot * n.slot.size;
}

/* ---- places ---- */

static __host__ __device__ __forceinline__ uint32_t ring_position(const struct network &n,
                                                                  uint32_t first, uint32_t t) {
    return first + t < n.ring ? first + t : first + t - n.ring;
}

/* Up to whole float4s. */
static __host__ __device__ __forceinline__ uint32_t padded(uint32_t numbers) {
    return (numbers + QUAD - 1) / QUAD * QUAD;
}

/* The place of an open step's output, and of what that is solved with. */
static __host__ __device__ __forceinline__ uint32_t place_of(const struct network &n,
                                                             uint32_t position) {
    return n.many ? position : 0;
}

/* The row of a layer's numbers of units for step t of a run or window, whose first step had `state`
   before it. */
static __device__ __forceinline__ uint32_t age_of(const struct network &n,
                                                  const struct network_layer &l, const float *state,
                                                  uint32_t t) {
    if (l.ages <= 1)
        return 0;
    uint32_t age = (uint32_t)fmaxf(state[n.age], 0.0f) + t;
    return age < l.ages ? age : l.ages - 1;
}

static __host__ __device__ __forceinline__ uint32_t units_width(const struct network_layer &l,
                                                                uint32_t place) {
    return place == PLACE_INNER ? l.size : l.rows;
}

/* Where in the block of units' numbers a place's begin: mean, var and 1 / deviation, (ages, width)
   each. */
static __host__ __device__ __forceinline__ size_t unit_numbers(const struct network_layer &l,
                                                               uint32_t place) {
    return l.units + (size_t)3 * l.ages * l.rows * place;
}

static __host__ __device__ __forceinline__ bool is_one_hot(const struct network &n) {
    return !n.input_real && !n.embedding_size;
}

/* Columns of W_out through which a gradient is wanted: of h, and of an input that is learned. */
static __host__ __device__ __forceinline__ uint32_t gradient_columns(const struct network &n) {
    return n.skip_from && !n.embedding_size ? n.skip_from : n.ld_output;
}

/* The x of layer 0 at a position of the ring, padded: the step's own, or its symbol's embedding. Of
   no use where the symbol is one-hot. */
static __device__ __forceinline__ const float *input_at(const struct network &n, const float *slot,
                                                        uint32_t position) {
    const float *x = slot + n.slot.input + (size_t)position * n.slot.input_row;
    if (n.input_real)
        return x;
    uint32_t id = ((const union value *)x)->id;
    return parameters_of(n) + n.embedding + (size_t)id * n.ld_embedding;
}

/* The sum over chunks of a split product's column. */
static __device__ __forceinline__ float joined(const struct network &n, const struct split &split,
                                               uint32_t ld, uint32_t index, uint32_t column) {
    const float *partial =
        activations_of(n) + split.partial + (size_t)index * split.chunks * ld + column;
    float sum = 0;
    for (uint32_t chunk = 0; chunk < split.chunks; chunk++)
        sum += partial[(size_t)chunk * ld];
    return sum;
}

/* Rows of the first normalization group of a sum. */
static __host__ __device__ __forceinline__ uint32_t group_rows(const struct network_layer &l) {
    return l.group_gates * l.size;
}

static __host__ __device__ __forceinline__ uint32_t group_count(const struct network_layer &l) {
    return group_rows(l) < l.rows ? 2 : 1;
}

/* Group `k` of a layer's sums; the second may be none. */
static __host__ __device__ __forceinline__ void
group_bounds(const struct network_layer &l, uint32_t k, uint32_t *first, uint32_t *end) {
    *first = k == 0 ? 0 : group_rows(l);
    *end = k == 0 ? group_rows(l) : l.rows;
}

#endif
