/* The network for the kernel, and the queue of what it plays.

   One launch of `play` plays whole plans of several networks, each by its own team of blocks (see
   exchange.cuh). A plan is cut into *segments*: one slot's run of steps with their scores, and the
   update after it. Every block has the network in its shared memory, with pointers to its numbers:
   those that stay on chip during the plan are its own.

   Matrices are dealt to the team in *strips* of some rows: the block with a strip multiplies with
   it, forward and backward, and makes its gradient and its optimizer's step. */
#ifndef RUNNEL_CUDA_NETWORK_CUH
#define RUNNEL_CUDA_NETWORK_CUH

#include "exchange.cuh"

extern "C" {
#include "model/model.h"
}

#include "optimizers.h"

enum {
    GROUPS = CELL_GROUPS_MAX,   /* most normalization groups of one sum */
    SCALES = PLACES * GROUPS,   /* normalizations of one layer at one step */
    SCALE_NUMBERS = 2 * SCALES, /* a mean and a 1 / deviation each */
    NONE = 0xffffffff,          /* no row */
    TOGETHER_MAX = 64,          /* networks played by one launch */
    GRAIN = 256,                /* bytes: blocks of an arena begin at multiples of it */
    QUAD_BITS_MIN = 3,          /* float4 columns of a tile: 2 to that power, see tile.cuh */
    QUAD_BITS_MAX = 6,
    TILE_ROWS = 4, /* of a thread */
    STRIP_ROWS_MAX = PLAY_THREADS * TILE_ROWS >> QUAD_BITS_MIN,
};

/* The strips of one matrix: `count` from number `first` on, of a tile's rows each but for the last.
   A transposed product has a sum of each strip, and its reader adds them up. */
struct strips {
    uint32_t first, count;
    uint32_t partial; /* offset of the sums, see struct network_layer; unused without product */
};

enum matrix { MATRIX_IH, MATRIX_HH, MATRIX_OUTPUT };

/* Rows first..end of a matrix. */
struct strip {
    uint8_t layer, matrix;
    uint32_t first, end;
    uint32_t number; /* in its matrix */
    uint32_t tensor; /* number of its tensor, see tile.cuh; NONE: not learned */
    uint32_t before; /* numbers of all strips before it */
};

struct network_layer {
    uint8_t cell, activation;
    uint8_t source, centred; /* of its norm's kind */
    uint8_t gates, states;   /* of the cell's kind: */
    uint8_t apart, inner, finishes, own, carries;
    uint8_t group_gates;   /* size of the first group; the others are the second */
    uint8_t recurrent;     /* has W_hh */
    uint8_t columns;       /* see struct cell_kind; `source` is then that of the sums: nothing */
    uint8_t normalized;    /* columns: whether their output is */
    uint8_t outputs;       /* state vectors of H numbers in its output */
    uint32_t size, rows;   /* numbers of its output, H but for columns; G H */
    uint32_t inputs;       /* I */
    uint32_t ld_ih, ld_hh; /* numbers in a padded row of W_ih and W_hh */

    /* Offsets in the block of parameters, by role; 0 and unused if missing. */
    union {
        uint32_t tensors[TENSOR_MEAN_IH]; /* of layer 0 also those of embedding and output */
        struct {
            uint32_t embedding, weight_ih, weight_hh; /* (rows, ld_hh), diagonal: (rows,) */
            uint32_t bias_ih, bias_hh;
            uint32_t gain[PLACES], norm_bias[PLACES];     /* of columns the first ones: (size,) */
            uint32_t own_parameters[CELL_PARAMETERS_MAX]; /* of units: (H,) each */
        };
    };

    uint32_t state; /* offset of h in a slot's state; an inner state follows */

    /* Norms of units. ages: rows of their numbers, one for each age of a step; 0: no such norm.
       units: offset of the layer's numbers in their block (unit_numbers), or of the factors of
       units with their own parameters, (CELL_FACTORS_MAX, H). pull: (2, rows) in the
       block of activations: factors of W_ih and W_hh that are subtracted from their gradients,
       see normalization_rows_pull. */
    uint32_t ages, units, pull;

    /* Offsets in the block of activations, for each step at its position of the ring. */
    /* (ring, rows) W_ih x + b_ih and W_hh h, before normalization; of columns (ring, size) follow,
       the output before normalization */
    uint32_t sum_ih, sum_hh;
    uint32_t gate;        /* (ring, rows) values of the gates */
    uint32_t inner_value; /* (ring, H) */
    uint32_t squashed;    /* (ring, H) of a cell that finishes */
    uint32_t hidden;      /* (ring, H) h */
    uint32_t scales;      /* (ring, SCALE_NUMBERS) */

    /* Offsets in the block of activations, for each step of the window that is learned. */
    uint32_t d_ih, d_hh; /* (window, padded rows) gradients of the sums */
    uint32_t
        d_bias[PLACES]; /* (window, padded rows or H) gradients after gain and bias: of the bias */
    uint32_t d_gain[PLACES]; /* (window, padded rows or H) those times x: of the gain */
    uint32_t input;          /* (window, ld_ih) inputs of W_ih, */
    union {
        uint32_t before; /* (window, ld_hh) of W_hh; */
        /* gradients of diagonal W_hh, (window, padded rows); or of each own parameter of the
           units, (window, padded H) */
        uint32_t d_weight;
    };
    /* (2, H) gradient of the previous inner state or h, past W_hh; by t % 2; of columns of all
       their states */
    uint32_t carry;

    /* partial: ih (2, strips, ld_ih), by t % 2, of layer 0 (window, strips, ld_ih), if its input
       has a gradient; hh (2, strips, ld_hh). */
    struct strips ih, hh;
    /* Offsets in the inbox of a cluster's block, by t % 2: the sums of W_ih x and W_hh h (2, 2,
       rows); in their place backward the sums of strips, of hh, and of ih if it has a layer below.
     */
    uint32_t inbox;
    uint8_t parameters;     /* of a unit, see own_parameters */
    uint8_t input_gradient; /* whether its input has one */
};

/* Offsets in a slot, in floats; the state (S,) is at 0. */
struct slot_layout {
    uint32_t output;              /* (places, K) of open steps */
    uint32_t before, state;       /* (ring, state) */
    uint32_t input, input_row;    /* (ring, input_row) */
    uint32_t target, target_size; /* (ring, horizons, target_size) */
    uint32_t learned;             /* (ring, horizons) 1 if the target is to be learned */
    /* (places, solved_row) inputs of the least squares, except the 1; 0: not solved */
    uint32_t solved, solved_row;
    uint32_t size;
};

struct score_entry {
    uint32_t target;   /* row of the plan's targets */
    uint32_t result;   /* row of the results */
    uint32_t position; /* position of the step in the ring */
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
    uint32_t first, steps; /* the run: index of its first step_entry, and their number */
    uint32_t lead_solve;   /* row of the plan's targets for the SOLVE before the run, or NONE */
    uint32_t solve;        /* row for the SOLVE after the update, or NONE */
    uint32_t lead_solved, solved; /* positions of the steps of these */
    uint32_t position;            /* position of the run's first step in the ring */
    uint32_t window, length;      /* the update: position of its first step, and its steps */
    uint32_t closed, terms;
    uint32_t update;    /* row of the results */
    uint32_t recompute; /* the update's window must be computed again */
    uint32_t probe;     /* the update's losses are computed once more after it */
    uint32_t measure;   /* position of the step to be measured, or NONE */
    uint32_t measured;  /* row of the results */
};

/* The steps of a forward: those of the segment's run, or of its update's window. */
enum steps_of { STEPS_OF_RUN, STEPS_OF_WINDOW };

/* The head of a plan. Pointers are the device's; results are in pinned memory. */
struct queue {
    uint32_t count;   /* segments */
    uint32_t refresh; /* the units' deviations must be computed first */
    uint32_t keep;    /* the plan is long enough to keep numbers on chip, see keep.cuh */
    double rate, clip;
    struct optimizer optimizer;
    float momentum[MODEL_LAYERS_MAX]; /* of running statistics */
    volatile uint32_t *done;          /* set when the plan has been played */
    struct segment *segments;
    struct step_entry *steps;
    struct score_entry *scores;
    union value *inputs, *targets;
    double *losses;
    float *scored, *outputs;
    struct update_result *updates;
    char *measures; /* see measure.cuh */
};

/* Data of an update for later phases. */
struct update_state {
    unsigned arrived;                 /* see struct team */
    uint64_t updates;                 /* number of applied updates */
    struct optimizer_numbers numbers; /* numbers of the current update, if it is applied */
    double loss;                      /* of the last one, before it */
    uint32_t applied;                 /* whether the last one was applied */
};

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

/* The least squares of a solved output, see solve.cuh. */
struct solving {
    double *p;                  /* (inputs, stride) */
    double *weights;            /* (outputs, stride) */
    double *t;                  /* (stride,), followed by grow */
    double *product, *diagonal; /* (stride,) r, and P's diagonal */
    uint32_t inputs, outputs, stride;
    double keep, prior;
};

/* What an update does. */
struct decision {
    bool applies;
    double norm;   /* norm of the gradient before clipping */
    double factor; /* of clipping */
    double loss;
};

/* Where numbers are that the optimizer changes; NULL if they do not exist. */
struct stored {
    float *weights, *moments[MOMENTS_MAX];
    const float *start;
};

struct __align__(16) network {
    struct team team;
    uint32_t own, own_end;      /* the block's strips */
    const struct strip *strips; /* (strip_count,) */
    uint32_t strip_count;
    struct queue *queue;
    const struct segment *current;
    bool joins;            /* a backward wave adds up sums, see join_wave */
    mutable uint32_t wave; /* see begin_waves */
    mutable struct decision decision;
    mutable struct stored stored;
    const struct walked *tensors; /* (tensor_count,) */
    uint32_t tensor_count, tiles; /* tiles of all tensors */
    uint32_t pulls;               /* some tensor has a pull */
    uint32_t widest_vector;       /* slices of the longest vector, see gradient.cuh */
    struct encoding encoding;
    struct solving solved;

    /* Its numbers; while they are on chip, those there. */
    float *parameters, *gradient, *moments[MOMENTS_MAX], *start, *activations, *units, *slots;
    struct {
        uint32_t parameters, moments, activations, units; /* of each, in whole float4s */
    } counts;
    /* What the other blocks of a cluster send to this one, in its shared memory: the numbers that
       the next wave waits for. NULL in other scopes. */
    float *inbox;
    uint32_t inbox_size;
    uint32_t kept_at; /* where it begins, or what stays on chip: a float of shared memory */
    /* Shared memory for what stays on chip, and the network in device memory. */
    float *chip, *chip_end;
    const struct network *original;
    /* The block's strips before `held_end` are on chip: weights, then as many moments. */
    uint32_t held_end, held_moments, held_numbers;
    struct update_state *state;
    double *losses, *squares, *changes, *norms, *activity;

    struct slot_layout slot;
    uint32_t layer_count, ring, window;
    /* K, numbers in a row of W_out, including those of the skip path */
    uint32_t outputs, ld_output;
    /* column of W_out at which the skip path's begin, so that one product computes an output
       from h and x; 0: none, or separate rows, of which a one-hot symbol selects a column, */
    uint32_t skip_from;
    uint32_t output_skip, ld_skip; /* here in the block of parameters; 0: no skip path */
    /* offset in a slot's state of the number of steps since the stream began, and its limit; 0:
       norms do not use it */
    uint32_t age, ages;
    /* whether some layer's deviations are from rows; or running; or has factors of units
       with their own parameters */
    uint8_t rows_norms, running_norms, factors;
    /* x is the slot's numbers; not so for columns with symbols: see inputs.cuh */
    uint32_t input_real;
    uint32_t input_size, embedding_size, ld_embedding;
    uint32_t loss, target_size, components;
    uint32_t horizons, scored; /* targets of a step, and outputs of each: K / horizons */
    uint32_t many;             /* whether several steps may be open: see model_place */
    uint32_t together;         /* see struct loss_kind */
    uint32_t embedding, output_weight, output_bias; /* offsets in the block of parameters */
    uint32_t output;                                /* (ring, K) in the block of activations */
    uint32_t d_output;                              /* (window, padded K) */
    uint32_t top;         /* (window, ld_output) the h that is the input of W_out */
    uint32_t d_embedding; /* (window, ld_embedding) */
    uint32_t ids;         /* (window,) symbols */
    struct strips out;    /* partial: (window, strips, ld_output) */
    struct network_layer layers[MODEL_LAYERS_MAX];
};

/* Shared memory: the scratch of reductions, the block's network, and what a phase needs. */
enum { WORKSPACE = SCRATCH + sizeof(struct network) / sizeof(float) };

DEVICE struct network &block_network() {
    return *(struct network *)(shared_memory + SCRATCH);
}

/* A layer's numbers in the block of activity: activities.h. */
DEVICE double *activity_head(const struct network &n, uint32_t layer) {
    double *head = n.activity + 1;
    for (uint32_t k = 0; k < layer; k++)
        head += ACTIVITY_HEAD + ACTIVITY_ROWS * (size_t)n.layers[k].size;
    return head;
}

DEVICE float *slot_of(const struct network &n) {
    return n.slots + (size_t)n.current->slot * n.slot.size;
}

/* The number of a wave is in shared memory, like all that must outlast the call of a phase: a phase
   may use every register. */
DEVICE void begin_waves(const struct network &n) {
    if (threadIdx.x == 0)
        n.wave = 0;
    __syncthreads();
}

DEVICE void end_wave(const struct network &n) {
    team_sync();
    if (threadIdx.x == 0)
        n.wave++;
    __syncthreads();
}

DEVICE uint32_t step_count(const struct network &n, enum steps_of of) {
    return of == STEPS_OF_RUN ? n.current->steps : n.current->length;
}

/* ---- Places ---- */

BOTH uint32_t ring_position(const struct network &n, uint32_t first, uint32_t t) {
    return first + t < n.ring ? first + t : first + t - n.ring;
}

/* Rounded up to whole float4s. */
BOTH uint32_t padded(uint32_t numbers) {
    return (numbers + QUAD - 1) / QUAD * QUAD;
}

/* The place of an open step's output, and of the inputs of its least squares. */
BOTH uint32_t place_of(const struct network &n, uint32_t position) {
    return n.many ? position : 0;
}

/* The row of a layer's numbers of units for step t of a run or window with `state` before its
   first step. */
DEVICE uint32_t age_of(const struct network &n, const struct network_layer &l, const float *state,
                       uint32_t t) {
    if (l.ages <= 1)
        return 0;
    uint32_t age = (uint32_t)fmaxf(state[n.age], 0.0f) + t;
    return age < l.ages ? age : l.ages - 1;
}

BOTH uint32_t units_width(const struct network_layer &l, uint32_t place) {
    return place == PLACE_INNER ? l.size : l.rows;
}

/* Numbers in the gain and in the bias of a place's norm; 0: none. */
BOTH uint32_t norm_width(const struct network_layer &l, uint32_t place) {
    if (l.source == SOURCE_NOTHING)
        return place == PLACE_IH && l.normalized ? l.size : 0;
    bool exists = place == PLACE_IH || (place == PLACE_HH ? l.apart : l.finishes);
    return exists ? units_width(l, place) : 0;
}

/* Offset of a place in the block of units' numbers: mean, var and 1 / deviation, (ages, width)
   each. */
BOTH size_t unit_numbers(const struct network_layer &l, uint32_t place) {
    return l.units + (size_t)3 * l.ages * l.rows * place;
}

BOTH bool is_one_hot(const struct network &n) {
    return !n.input_real && !n.embedding_size;
}

/* Columns of W_out with a gradient: of h, and of a learned input. */
BOTH uint32_t gradient_columns(const struct network &n) {
    return n.skip_from && !n.embedding_size ? n.skip_from : n.ld_output;
}

/* The x of layer 0 at a position of the ring, padded: the step's own, or its symbol's embedding.
   Unused for a one-hot symbol. */
DEVICE const float *input_at(const struct network &n, const float *slot, uint32_t position) {
    const float *x = slot + n.slot.input + (size_t)position * n.slot.input_row;
    if (n.input_real)
        return x;
    uint32_t id = ((const union value *)x)->id;
    return n.parameters + n.embedding + (size_t)id * n.ld_embedding;
}

/* Where the sums of a layer's inputs or of its h at step t are, for the next wave. */
DEVICE float *inbox_sums(const struct network &n, const struct network_layer &l, bool recurrent,
                         uint32_t t) {
    return n.inbox + l.inbox + (size_t)(2 * (t % 2) + recurrent) * l.rows;
}

/* The sums of strips of a transposed product at step t (count, ld), likewise. */
BOTH uint32_t partial_numbers(const struct network_layer &l, bool recurrent) {
    return recurrent ? l.hh.count * l.ld_hh : l.ih.count * l.ld_ih;
}

DEVICE float *inbox_partials(const struct network &n, const struct network_layer &l, bool recurrent,
                             uint32_t t) {
    uint32_t hh = partial_numbers(l, true), below = &l > n.layers,
             both = hh + below * partial_numbers(l, false);
    return n.inbox + l.inbox + (size_t)(t % 2) * both + (recurrent ? 0 : hh);
}

DEVICE float *kept_partials(const struct network &n, const struct network_layer &l, bool recurrent,
                            uint32_t t) {
    bool waits = recurrent || &l > n.layers; /* only the next wave reads it */
    return n.activations + (recurrent ? l.hh : l.ih).partial +
           (size_t)(waits ? t % 2 : t) * partial_numbers(l, recurrent);
}

/* Numbers of strips' sums from which the blocks of a grid add them up once, between two barriers,
   in the place of the first strip's: else every block reads all of them. No bit depends on it. */
enum { JOIN_NUMBERS = 1 << 12 };

DEVICE uint32_t partial_count(const struct network &n, const struct network_layer &l,
                              bool recurrent) {
    bool once = n.team.scope == SCOPE_GRID && partial_numbers(l, recurrent) >= JOIN_NUMBERS;
    return once ? 1 : recurrent ? l.hh.count : l.ih.count;
}

/* A transposed product's column: the sum over its strips' sums (count, ld). */
DEVICE float joined(const float *partials, uint32_t count, uint32_t ld, uint32_t column) {
    float sum = 0;
#pragma unroll 16
    for (uint32_t k = 0; k < count; k++)
        sum += partials[(size_t)k * ld + column];
    return sum;
}

/* The output's at step t of the window, after join_output. */
DEVICE float output_joined(const struct network &n, uint32_t t, uint32_t column) {
    return n.activations[n.out.partial + (size_t)t * n.out.count * n.ld_output + column];
}

/* Rows of the first normalization group of a sum. */
BOTH uint32_t group_rows(const struct network_layer &l) {
    return l.group_gates * l.size;
}

/* Group `k` of a layer's sums; the second may be empty. */
BOTH void group_bounds(const struct network_layer &l, uint32_t k, uint32_t *first, uint32_t *end) {
    *first = k == 0 ? 0 : group_rows(l);
    *end = k == 0 ? group_rows(l) : l.rows;
}

#endif
