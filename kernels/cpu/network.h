/* The network in the CPU engine: the layout of parameters, the arrays of each step, and the two
   passes, forward over a run of steps and backward over a window.

   Sizes that end in `padded` and all `rows` are multiples of MATRIX_PAD; gates start at
   multiples of the padded size. Padding is always zero in parameters, activations and gradients,
   so that loops run over whole vectors without checks. */
#ifndef RUNNEL_CPU_NETWORK_H
#define RUNNEL_CPU_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "model/model.h"

#include "bank.h"
#include "isa.h"
#include "matrix.h"
#include "norm.h"

struct threads;

enum {
    NETWORK_NORMS = PLACES * CELL_GROUPS_MAX, /* normalizations of one layer at one step */
    /* numbers over which an optimizer's changes are summed in float; sums of blocks in double */
    NETWORK_BLOCK = 4096,
};

/* Units first..first+length of a sum that are normalized together; `units` of them are not
   padding. */
struct norm_group {
    size_t first, length, units;
};

/* Mean and deviation of each unit at one place of a layer, for norms of rows and running norms.
   One row per age of a step, or 1 if age does not matter. */
struct unit_norm {
    float *mean, *var, *rstd; /* (ages, width) each */
    size_t width;             /* rows; padded for an inner value */
};

/* Data of a learning rule for a stream: rows of numbers, one for each parameter of the layers up
   to the last recurrent one (and of embeddings, if the rule covers them), in the block's order:
   matrices, then vectors. */
struct network_kept {
    enum rule rule;
    size_t layers;                  /* number of those layers; 0: no data */
    struct range matrices, vectors; /* in the block */
    size_t row, rows;               /* numbers in a padded row, and number of rows */

    bool constant; /* a cell's step backward treats the groups' mean and deviation as constants */

    /* Scratch for influence: */
    float *rows_of[2]; /* (most units and inner states of a layer, row) */
    float *states;     /* (most units and inner states, the same) */
    float *pack;       /* (most of these or inputs, a tile) */
    float *state;      /* (state,) */

    /* Scratch for traces: */
    float *signal;      /* (window, states, most padded) */
    float *ih, *weight; /* (states, most rows) */
    float *decay;       /* (states, states, most rows) */
    float *hh, *pull;   /* (most rows) */

    /* Scratch for both: */
    /* (most units and inner states, most inputs) for influence, else (most inputs) */
    float *inputs;
    float *gradient; /* (block,), one more for each state of columns after the first */
    float *d;        /* (most padded) */
};

/* A spatial layer. Its `gates` are the positions of its output, and `size` its channels: sums are
   (positions, padded), and a step's output (channels, positions) without padding. */
struct network_grid {
    struct grid_shape from, to;
    size_t stride, groups;
    uint32_t *offsets; /* (inputs,) of a patch's numbers in x, from its first one */
    float *patches;    /* (ring, positions, inputs) */
    float *mean;       /* (ring, padded) of each channel's norm, if it has one, */
    float *rstd;       /* and the same */
};

struct network_layer {
    enum cell cell;
    enum activation activation;
    const struct cell_kind *kind;
    enum norm_source source; /* the norm's properties: */
    bool centred;
    bool column;    /* its units hear no other one of the layer: struct cell_kind */
    bool diagonal;  /* ... through vectors instead of W_hh */
    bool normal;    /* its output is normalized, not its sums */
    size_t ages;    /* rows of `units`; 0: none */
    float momentum; /* of running statistics */
    struct unit_norm units[PLACES];
    size_t size, padded;          /* H */
    size_t width, wide;           /* numbers of its output, and padded */
    size_t gates, rows;           /* G, and G times padded */
    size_t inputs;                /* I, times the taps */
    size_t taps, dilation, delay; /* see struct layer; delay: layer_delay */
    bool residual;
    size_t at[TENSOR_ROLES]; /* offsets of its tensors in the block; 0 and unused if missing */
    size_t state;            /* offset of h in a padded state; an inner state follows */
    struct range matrices, vectors; /* its learned tensors in the block */
    size_t row;                     /* row of its first state in the learning rule's data */
    struct norm_group groups[CELL_GROUPS_MAX];
    size_t group_count;
    float *mask;      /* (rows,): 1, and 0 for padding */
    float *wide_mask; /* (wide,): the same for the output */
    float *factors;   /* (CELL_FACTORS_MAX, padded) of a cell whose units have parameters */

    /* Arrays of each step, one row per position of the ring, if the cell uses them. */
    float *gathered;           /* (ring, padded inputs) with taps or residual: x of each tap */
    float *summed_ih;          /* (ring, rows) W_ih x + b_ih */
    float *summed_hh;          /* (ring, rows) W_hh h */
    float *gate;               /* (ring, rows) values of the gates */
    float *inner;              /* (ring, padded) the inner value */
    float *squashed;           /* (ring, padded) if the cell finishes */
    float *hidden;             /* (ring, padded) h */
    float *output;             /* (ring, wide) what the layer above gets: h, h + x, or of columns */
    float *joined;             /* (ring, wide) `normal`: the output before its norm */
    struct norm_scale *scales; /* (ring, NETWORK_NORMS) */

    struct network_grid grid;
};

/* Results of one optimizer step; see struct update_result. */
struct network_change {
    double squares; /* of the parameters' change */
    double before;  /* squares of the parameters before it */
};

/* What the first layer gets. */
enum network_form {
    FORM_NUMBERS, /* the x itself */
    FORM_ONE_HOT,
    FORM_EMBEDDED, /* a symbol's row */
    FORM_ENCODED,  /* rows of `encoded`: of an x of parts, what a reader read, or atoms to write */
};

/* A chain of layers (struct chain). Those beside the model's share its block: its first network
   owns the block, and others are its `chains`. Their runs begin at position 0 of the ring. */
struct network {
    const struct model *model;
    const struct chain *chain;
    enum network_form form;
    struct network_layer layers[MODEL_LAYERS_MAX];
    size_t layer_count;
    size_t inputs;                            /* width of what the first layer gets */
    size_t width, wide;                       /* numbers of the last layer's output, and padded */
    bool adds;                                /* gradients are added to those of other runs */
    struct network *chains[MODEL_CHAINS_MAX]; /* of the first network, and itself */
    size_t at[TENSOR_ROLES];                  /* offsets of its other tensors in the block */
    size_t window, ring;                      /* see model_ring */
    size_t positions;                         /* most of a layer; 1 without spatial layers */
    size_t outputs, padded;                   /* K */
    size_t state;                             /* numbers in a padded state */
    size_t age;   /* offset in it of the number of steps since the stream began, if norms use it */
    size_t block; /* numbers in the block of parameters */
    size_t vectors;   /* offset of the vectors in the block; matrices come before */
    size_t trained;   /* end of the vectors: tensors that no optimizer learns follow */
    size_t ages_most; /* ages of steps, see struct model; 0: not used */
    size_t embeddings[MODEL_PARTS_MAX]; /* offsets of the embedded parts of the input */

    float *parameters, *gradient, *moments[MOMENTS_MAX]; /* (block,) each; NULL: unused */
    float *output;                                       /* (ring, padded) */
    float *skipped;   /* (ring, padded) the skip path's part of it */
    float *ages;      /* (ring,) of each step */
    float *encoded;   /* (ring, inputs) FORM_ENCODED */
    double *activity; /* see activities.h */

    /* Scratch of backward. */
    float *d_output;          /* (window, padded) */
    float *d_ih, *d_hh;       /* (window, most rows) */
    float *d_hidden[2];       /* (window, most padded), of the current layer and the one below */
    float *d_state, *d_inner; /* (most padded) */
    float *d_gathered;        /* (window, most padded inputs of taps) */
    float *d_residual;        /* (window, most padded) */
    float *d_start;           /* (state,) of the state before a run; NULL: not wanted */
    float *added;             /* (largest matrix) `adds`: one run's gradient */
    float *pack;              /* (parts, window * most positions, MATRIX_PANEL) */
    float *patches;           /* (most numbers in a step's patches) of their gradient */
    double *squares;          /* (most panels of a matrix) */
    double *loss_scratch;     /* (2 components + 1) */
    const float **x;          /* (ring, or window * most positions) */
    float **y;                /* the same */

    struct network_kept kept;

    /* A chain beside the model's: */
    const union value **atoms;  /* (ring,) of a run */
    float *zeros;               /* (state,) the state before a reader's run */
    float *pooled;              /* scratch of a pool: struct pool_run */
    float *started, *d_started; /* (state_size padded) a writer's starting state, its gradient */
    float *d_given;             /* (width padded of the model's chain) gradient of h */
    struct bank bank;           /* of a ranking's tower; else without room */
    float *scores;              /* (ring,) of candidates */
    size_t held;  /* reader: position of the step whose atoms are in its arrays; SIZE_MAX: none */
    size_t count; /* atoms of the newest run */
    bool ran;     /* writer, tower: since the newest backward began */

    /* Threads that share a product or the optimizer's step of a large network: split.h. */
    struct threads *threads;        /* NULL: only the engine's own */
    size_t parts;                   /* number of threads, at least 1 */
    size_t least;                   /* least multiply-adds of a part */
    struct network_change *changes; /* (blocks of the optimizer), NULL: not shared */

    void *memory; /* all of the above, in one allocation */
    size_t memory_size;
};

static inline size_t network_position(const struct network *n, size_t first, size_t t) {
    return first + t < n->ring ? first + t : first + t - n->ring;
}

/* Numbers of one tap's input, and of the delay line. */
static inline size_t network_tap(const struct network_layer *l) {
    return l->inputs / l->taps;
}

static inline size_t network_line(const struct network_layer *l) {
    return l->delay * network_tap(l);
}

/* The row of a layer's gathered inputs for the step at that position. */
static inline float *network_gathered(const struct network_layer *l, size_t position) {
    return l->gathered + position * matrix_pad(l->inputs);
}

/* The position of the newest step, given that of the model's chain. */
static inline size_t network_newest(const struct network *chain, size_t position) {
    return chain->chain->kind == CHAIN_MODEL ? position : chain->count ? chain->count - 1 : 0;
}

/* The activity of a layer's units. */
static inline double *network_head(const struct network *chain, size_t layer) {
    return chain->activity + engine_activity_at(chain->model, chain->chain->first + layer);
}

/* The network that writes an output's messages, or reads its candidates. */
static inline struct network *network_of_output(const struct network *n, size_t output) {
    return n->chains[model_chain_of_output(n->model, output)];
}

/* The network that reads messages; NULL: none does. */
static inline struct network *network_reader(const struct network *n) {
    return n->model->chain_count > 1 && n->model->chains[1].kind == CHAIN_READER ? n->chains[1]
                                                                                 : NULL;
}

static inline size_t network_blocks(const struct network *n) {
    return (n->trained + NETWORK_BLOCK - 1) / NETWORK_BLOCK;
}

/* The row of a layer's statistics of units for the step at that position. */
static inline size_t network_age(const struct network *n, const struct network_layer *l,
                                 size_t position) {
    size_t age = (size_t)n->ages[position];
    return age < l->ages ? age : l->ages - 1;
}

/* A window, or the steps of a run: step t is at position first + t of the ring. */
struct network_steps {
    size_t first, count;
    const float *state;               /* (state,) before the first step */
    const union value *const *inputs; /* count pointers to (I,); symbols: (1,) */
};

/* The targets of a window's last steps: for each head, entry (t, head) is NULL or points to
   (target_size,). */
struct network_targets {
    size_t from; /* earlier steps have none */
    const union value *const *values;
    /* The loss is the mean over these: over targets, or with a list of outputs over the steps that
       have one. */
    size_t terms;
};

struct network_gradient {
    double loss;    /* mean over the terms, with the current parameters */
    double squares; /* squared norm of the gradient */
};

/* Functions that are compiled once per instruction set. */
struct kernels {
    const char *name;

    /* Forward over a run, layer by layer; keeps all data for backward. Outputs are computed from
       step `outputs_from` on. */
    void (*forward)(struct network *n, const struct network_steps *steps, size_t outputs_from);

    /* Only the outputs, from step `from` on, of a run with kept activations. */
    void (*output)(struct network *n, const struct network_steps *steps, size_t from);

    /* Gradient of the mean loss over a window with kept activations, by the network's learning
       rule, whose data (kept.rows, kept.row) advances. Without targets only that data advances. */
    struct network_gradient (*backward)(struct network *n, const struct network_steps *steps,
                                        const struct network_targets *targets, float *kept);

    /* Loss of one step at a head with activations a (scored,), without the head's weight; if `d` is
       not NULL, it gets their gradients times `scale`. */
    double (*loss)(const struct model *model, const struct model_head *head, const float *a,
                   const union value *y, float scale, float *d, double *scratch);

    /* The same of a head that is late, from the step's h (width,), by the current parameters; see
       writer_loss and ranking_loss. */
    double (*write)(const struct network *n, const struct model_head *head, const float *h,
                    const union value *y);
    double (*rank)(struct network *n, const struct model_head *head, const float *h,
                   const union value *y, float *ranks);

    /* After an optimizer step: moves running statistics towards those of the steps, the last of
       the window, with kept activations. */
    void (*absorb)(struct network *n, size_t first, size_t count);

    /* Recomputes deviations of units after a change of parameters or running statistics. */
    void (*refresh)(struct network *n);

    /* One optimizer step on the gradient times `factor`; t counts from 1. Reads and writes each
       parameter once. */
    struct network_change (*optimize)(struct network *n, const struct optimizer *optimizer,
                                      double rate, double factor, uint64_t t);

    /* Adds an update whose newest step is at that position to the activity of units. */
    void (*activity)(const struct network *n, size_t position);

    /* Norm of a layer's matrices. */
    double (*weights_norm)(const struct network *n, const struct network_layer *l);
};

extern const struct kernels kernels_baseline;
#ifdef RUNNEL_X86
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#ifdef ISA
void network_forward(struct network *n, const struct network_steps *steps, size_t outputs_from);

/* A layer's arithmetic at one position of the ring, from its existing sum of the input. `h`,
   `before`: h and the inner state before the step (padded,), if the cell has them. */
void cell_step(const struct network *n, const struct network_layer *l, size_t position,
               const float *h, const float *before);

/* d: gradient of the step's h (padded,), overwritten by the part of the gradient of the previous
   h that does not pass through the matrix W_hh. Sets the gradients of both sums, d_ih and d_hh
   (rows,); if each sum has its own norm, d_ih is the gradient after that norm. n->d_inner is the
   gradient of the inner state, in and out. Adds to the gradients of gains, of norms' biases, of a
   diagonal's vectors and of units' parameters. */
void cell_step_backward(const struct network *n, const struct network_layer *l, size_t position,
                        const float *h, const float *before, float *d, float *d_ih, float *d_hh);

/* After it: d_ih becomes the gradient of the input's sum in any case. The step before does not wait
   for it. */
void cell_input_backward(const struct network *n, const struct network_layer *l, size_t position,
                         float *d_ih);

/* Before it, for columns: d, the gradient of the step's output (wide,), becomes that of h
   (padded,); that of an inner value that is an output is added to n->d_inner. */
void cell_output_backward(const struct network *n, const struct network_layer *l, size_t position,
                          float *d);

/* All of a spatial layer's passes. Backward works as backward_cells, backward_weights and
   backward_input together. */
void grid_forward(struct network *n, const struct network_steps *steps, size_t k);
double grid_backward(struct network *n, const struct network_steps *steps, size_t k);

/* Backward through the layers of a chain, from n->d_hidden[0] (count, wide). With `input` this
   becomes the gradient of what they got (count, inputs padded). Returns `squares` and those of the
   matrices. */
double chain_backward(struct network *n, const struct network_steps *steps, bool input,
                      double squares);

/* Reads the message of step t into its row of n->encoded. */
void reader_forward(struct network *n, const struct network_steps *steps, size_t t);
/* d (inputs,): the gradient of that row. */
void reader_backward(struct network *n, const struct network_steps *steps, size_t t,
                     const float *d);

/* The loss of a target y among the others of its bank, from the step's h (width,); NAN without
   others. `ranks`, if not NULL, gets its rank and the number of candidates. ranking_backward
   takes the output q (D,) in place of h, needs others, and adds to the gradients of the candidates;
   d (D,) gets that of q, times `scale`. */
double ranking_loss(struct network *n, const struct model_head *head, const float *h,
                    const union value *y, float *ranks);
double ranking_backward(struct network *n, const struct model_head *head, const float *q,
                        const union value *y, float scale, float *d);

/* The mean loss of a message's atoms; h (width,) are the step's, y the message. writer_backward
   also adds to the gradients of the writer, and to d (width,), that of h, times `scale`. */
double writer_loss(const struct network *n, const struct model_head *head, const float *h,
                   const union value *y);
double writer_backward(const struct network *n, const struct model_head *head, const float *h,
                       const union value *y, float scale, float *d);

struct network_gradient network_backward(struct network *n, const struct network_steps *steps,
                                         const struct network_targets *targets);
struct network_gradient influence_backward(struct network *n, const struct network_steps *steps,
                                           const struct network_targets *targets, float *kept);
struct network_gradient traces_backward(struct network *n, const struct network_steps *steps,
                                        const struct network_targets *targets, float *kept);
double loss_step(const struct model *model, const struct model_head *head, const float *a,
                 const union value *y, float scale, float *d, double *scratch);
void units_absorb(struct network *n, size_t first, size_t count);
void units_refresh(struct network *n);

/* Subtracts the part of the gradient that passes through the units' deviation, for weights that
   determine it (normalization_rows_pull). Returns the gradient's squares. */
double units_pull(const struct network *n, const struct network_layer *l, int place,
                  enum tensor_role role, size_t columns);

void activity_add(const struct network *n, size_t position);
double activity_norm(const struct network *n, const struct network_layer *l);
struct network_change optimizer_step(struct network *n, const struct optimizer *optimizer,
                                     double rate, double factor, uint64_t t);
#endif

#endif
