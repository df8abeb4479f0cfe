/* The components of a network and its learning: cells, activations, norms, losses, optimizers
   and learning rules. Each kind is one file (kernels/cells/, kernels/norms/, kernels/losses/,
   kernels/optimizers/, kernels/rules/) with its formulas and a constant description, whose type
   is here; kinds.def lists them. Other code decides by descriptions, never by the kind itself. */
#ifndef RUNNEL_KINDS_H
#define RUNNEL_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number of an input or a target: symbols and class ids use `id`. */
union value {
    float real;
    uint32_t id;
};

/* A kind's description is a constant that C++ (the CUDA engine) can use at compile time. */
#ifdef __cplusplus
#    define KIND_CONSTANT static constexpr
#else
#    define KIND_CONSTANT static const
#endif

enum { LAYER_KEYS_MAX = 6 };

/* Properties of all kinds of a layer. */
struct layer_kind {
    const char *name;
    /* its meaning, without a |; NULL: the name is enough, for all kinds of the group */
    const char *what;
    /* those of the layer's keys that apply only to some kinds, including this one */
    const char *keys[LAYER_KEYS_MAX];
};

/* ---- Tensors ---- */

/* The normalized values of a layer: its two sums, and an inner value. A layer of columns
   normalizes its output instead, see struct cell_kind. */
enum { PLACE_IH, PLACE_HH, PLACE_INNER, PLACES };

/* The role of a tensor. Each place with a norm has a gain and a bias, and for norms with running
   statistics also these, which are not learned: TENSOR_GAIN_IH + place, and so on. */
enum tensor_role {
    TENSOR_EMBEDDING, /* embedding.weight (V, E) */
    /* layers.N.weight_ih (GH, I); dense: layers.N.weight (H, I); conv: (C', C, kernel, kernel) */
    TENSOR_WEIGHT_IH,
    TENSOR_WEIGHT_HH, /* layers.N.weight_hh (GH, H); recurrent: diagonal: (GH,) */
    TENSOR_BIAS_IH,   /* layers.N.bias_ih (GH,); dense: layers.N.bias (H,) */
    TENSOR_BIAS_HH,   /* layers.N.bias_hh (GH,), without norm or diagonal only */
    /* layers.N.norm_ih.gain (GH,); rnn, dense: layers.N.norm.gain (H,); of the output of columns:
       layers.N.norm.gain (outputs H,) */
    TENSOR_GAIN_IH,
    TENSOR_GAIN_HH,         /* layers.N.norm_hh.gain (GH,), lstm and gru */
    TENSOR_GAIN_INNER,      /* layers.N.norm_c.gain (H,), lstm */
    TENSOR_NORM_BIAS_IH,    /* layers.N.norm_ih.bias, with the shape of its gain */
    TENSOR_NORM_BIAS_HH,    /* layers.N.norm_hh.bias */
    TENSOR_NORM_BIAS_INNER, /* layers.N.norm_c.bias */
    TENSOR_UNIT_0,          /* a unit's own parameters: rtu: layers.N.log_decay (H,) */
    TENSOR_UNIT_1,          /* rtu: layers.N.log_phase (H,) */
    /* of a reader's pool: input.pool.weight_key (A, H), .weight_query (A, H), .bias (A,), .score
       (A,) */
    TENSOR_POOL,
    TENSOR_POOL_1,
    TENSOR_POOL_2,
    TENSOR_POOL_3,
    TENSOR_ATOM_EMBEDDING,   /* output.embedding.weight, of a writer of given symbols */
    TENSOR_CANDIDATE_ROWS,   /* output.candidates.embedding.weight (V, D) */
    TENSOR_CANDIDATE_BIAS,   /* output.candidates.bias (V,), of symbols */
    TENSOR_START_WEIGHT,     /* output.start.weight (S of the writer, H of the last layer) */
    TENSOR_START_BIAS,       /* output.start.bias (S,) */
    TENSOR_CANDIDATE_WEIGHT, /* output.candidates.weight (D, width of the tower) */
    TENSOR_WRITER_WEIGHT,    /* output.weight (K, H of the writer's last layer) */
    TENSOR_WRITER_BIAS,      /* output.bias (K,) */
    TENSOR_OUTPUT_WEIGHT,    /* output.weight (K, H of the last layer) */
    TENSOR_OUTPUT_BIAS,      /* output.bias (K,) */
    TENSOR_OUTPUT_SKIP,      /* output.weight_skip (K, width of the encoded input) */
    TENSOR_MEAN_IH,          /* layers.N.norm_ih.running_mean (GH,) or (norm_steps, GH) */
    TENSOR_MEAN_HH,          /* layers.N.norm_hh.running_mean, lstm and gru */
    TENSOR_MEAN_INNER,       /* layers.N.norm_c.running_mean (H,) or (norm_steps, H), lstm */
    TENSOR_VAR_IH,           /* layers.N.norm_ih.running_var, with the shape of its running_mean */
    TENSOR_VAR_HH,           /* layers.N.norm_hh.running_var */
    TENSOR_VAR_INNER,        /* layers.N.norm_c.running_var */
    TENSOR_ROLES,
};

/* ---- Cells ---- */

enum cell {
#define CELL(name) CELL_##name,
#define GRID_CELL(name) CELL_##name,
#include "kinds.def"
    CELLS,
};

enum activation {
#define ACTIVATION(name) ACTIVATION_##name,
#include "kinds.def"
    ACTIVATIONS,
};

enum {
    CELL_GATES_MAX = 4,
    CELL_GROUPS_MAX = 2,
    CELL_TENSORS_MAX = 4,
    CELL_PARAMETERS_MAX = 2,
    CELL_FACTORS_MAX = 5,
};

/* The second dimension of a tensor: none, the layer's inputs I, or its units H. */
enum tensor_columns { COLUMNS_NONE, COLUMNS_INPUTS, COLUMNS_UNITS };

struct cell_tensor {
    enum tensor_role role;
    const char *name;
    enum tensor_columns columns;
    bool unnormalized; /* only if the sums have no norm */
    bool of_unit;      /* (H,) instead of (GH,) */
};

/* A cell forms sums of G gates for each of its H units, W_ih x + b_ih and, if it carries a
   state, W_hh h. They are normalized, and formulas compute from them the values of the gates,
   possibly an inner value, and the new state.

   In a layer of columns no unit hears another one of its layer: cells with `columns`, whose only
   sum is W_ih x + b_ih, and any other cell with `recurrent: diagonal`, whose recurrent sum is w h +
   b_hh, unit by unit, with the vectors weight_hh and bias_hh (GH,). layer_is_columns() says so;
   all else follows from the same formulas:

     forward   the sums have no norm (as SOURCE_NOTHING). The new states are those of the formulas:
               h and, with 2 `states`, the inner value. They are carried to the next step as they
               are. The layer above gets the output, `outputs` H numbers: h, then with 2 `outputs`
               (rtu) the inner value, all of them normalized as one group if the layer has a norm.
     factors   NAME_factors computes numbers of a unit from its own parameters; they change only
               with these.
     backward  the gradient of the output, back through its norm, is that of the states. To it is
               added what comes from the next step: `g.before` of the inner value (or of h, as for
               other cells), `g.h` with 2 outputs, and diagonal: the sum over gates of w d_hh.
               Gradients of the vectors: weight_hh d_hh h, bias_hh d_hh; of the unit's own
               parameters g.parameter.
     snap1     exact, `states` numbers e_i a parameter. With D_ij = ds_i / ds_j of the previous step
               (weights of the diagonal included) and I_i = ds_i / dp of the step alone, both from
               the step backward with a gradient of 1 for state i alone:
               gradient += sum_ij delta_i D_ij e_j + that of the step alone, delta_i the gradient
               of state i in this step;   e_i = sum_j D_ij e_j + I_i

   A spatial cell forms the same sum at each position of a grid, from the patch of its input there:
   H are its channels, and gains, biases and running statistics are those of a channel. Its units
   are channels x rows x columns, in this order, and it has no state. It has no formulas of a unit:
   kinds.def lists it apart from the others. */
struct cell_kind {
    struct layer_kind kind;
    size_t gates;   /* G */
    size_t outputs; /* vectors of states that are the layer's output: h, or h and the inner one */
    size_t states;  /* vectors carried from step to step: none, h, or h and the inner one */
    bool columns;   /* no recurrent sum: units never hear each other */
    size_t parameters; /* a unit's own parameters, TENSOR_UNIT_0 on */
    bool apart;        /* the two sums are normalized separately; else their sum is normalized */
    bool gated;        /* the values of the gates are kept for backward */
    bool inner;        /* the inner value is kept for backward */
    bool finishes;     /* a second stage computes h, from the inner value after its own norm */
    bool own; /* the gradient of the last gate's recurrent sum differs from that of its other sum */
    /* a gradient reaches the previous state without W_hh: its inner value if the cell finishes,
       else h */
    bool carries;
    bool function;                       /* the cell's function is the layer's activation */
    bool spatial;                        /* a sum at each position of a grid */
    size_t group_gates[CELL_GROUPS_MAX]; /* gates that are normalized together, group by group */
    size_t forget_gate;                  /* the gate whose bias gets forget_bias; 0: none */
    /* sign with which ln(T - 1), T the starting memory of a unit, is the gate's starting bias */
    int memory[CELL_GATES_MAX];
    /* `finishes`: the gate whose gradient the second stage computes; else G */
    size_t finished_gate;
    struct cell_tensor tensors[CELL_TENSORS_MAX];
    const char *norms[PLACES]; /* "norm_ih": the name of the norm's tensors there */

    /* Elementwise operations per unit, at least. */
    double functions; /* sigmoids and tanhs */
    double forward;   /* other flops: sums and products of gates */
    double backward;  /* backward, including the derivatives of sigmoid and tanh */
};

struct activation_kind {
    struct layer_kind kind;
    double functions; /* as above */
};

const struct cell_kind *cell_kind(enum cell cell);
const struct activation_kind *activation_kind(enum activation activation);

/* ---- Norms ---- */

enum norm {
#define NORM(name) NORM_##name,
#include "kinds.def"
    NORMS,
};

/* g (a - mean) / deviation + b: the source of a sum's mean and deviation, and so of its
   gradient. */
enum norm_source {
    SOURCE_NOTHING, /* no norm: neither gain nor bias, and the recurrent sum has a bias */
    SOURCE_GROUP,   /* a's group of units, in this step of this stream */
    /* mean 0, and deviation = sqrt(sum of squares + epsilon) of the rows of the matrices that
       form a; of an inner value 1. Gradients also pass through it to the matrices */
    SOURCE_ROWS,
    /* each unit's running mean and variance, constants for the gradient; an update moves them
       after its optimizer step */
    SOURCE_RUNNING,
};

struct norm_kind {
    struct layer_kind kind;
    enum norm_source source;
    bool centred; /* SOURCE_GROUP: the mean is the group's, else 0 */
    bool outputs; /* layers of columns may have it, for their output */
    /* SOURCE_RUNNING: separate statistics for each step since the stream began; the last of
       norm_steps serves all later steps */
    bool by_age;
    const char *summary; /* name for the line that describes a running model: " norm" */

    /* Flops per number, at least. */
    double forward, backward;
};

const struct norm_kind *norm_kind(enum norm norm);

/* ---- Losses ---- */

enum loss {
#define LOSS(name, walk) LOSS_##name,
#include "kinds.def"
    LOSSES,
};

/* The number of activations in a part. */
enum part_extent {
    EXTENT_NONE, /* after the last part */
    EXTENT_ONCE,
    EXTENT_NUMBERS, /* output.size: numbers of the target, or classes */
    EXTENT_COMPONENTS,
};

/* The meaning of an activation a in a prediction. */
enum part_meaning {
    MEANS_ITSELF,
    MEANS_PROBABILITY,         /* s(a) */
    MEANS_SHARE,               /* softmax over the part */
    MEANS_EXPONENTIAL,         /* e^a */
    MEANS_ROOT_OF_EXPONENTIAL, /* e^(a / 2): the deviation of a log variance */
    MEANS_TANH,
};

/* How a prediction is converted from the scale of standardized targets to original units. */
enum part_unit {
    UNIT_NONE,  /* not supported: the loss has no scaled targets */
    UNIT_LEVEL, /* times the deviation, plus the mean */
    UNIT_WIDTH, /* times the deviation */
};

/* The activations a of one step consist of parts, one after the other. */
struct loss_part {
    const char *name; /* name in a published prediction; NULL if the loss has no other part */
    enum part_extent extent;
    enum part_meaning meaning;
    enum part_unit unit;
};

/* Published measures of the scored targets, besides the loss. */
enum metric {
    METRIC_RMSE = 1, /* error of the first part, in original units */
    /* the largest activation is that of the class, or a number's probability is on the target's
       side of 1/2 */
    METRIC_ACCURACY = 2,
    METRIC_BITS = 4, /* the loss in bits, since losses are in nats */
    METRIC_RANK = 8, /* rank of the target among candidates */
};

/* The simplest forecast from a stream's own targets, as a reference for networks. */
enum loss_baseline {
    BASELINE_NONE,
    BASELINE_VALUE,   /* the last value, or the mean so far if it is unknown */
    BASELINE_NORMAL,  /* a normal around that */
    BASELINE_CLASSES, /* frequency of each class */
    BASELINE_RATES,   /* the mean of each number, a probability */
    BASELINE_MESSAGE, /* of a message: frequency of each class, and of the end */
    BASELINE_CHANCE,  /* all candidates are equally likely */
};

enum {
    LOSS_PARTS_MAX = 8,
    NUMBER_PARTS_MAX = 2,    /* activations of one number, see `numbers` in kinds.def */
    COMPONENT_PARTS_MAX = 6, /* parts of one component, see `components` there */
};

struct loss_kind {
    const char *name;
    const char *what; /* its meaning and its prediction */
    bool class_id;    /* a target is one class id, else output.size numbers; NaN: not observed */
    bool ranks;       /* a target is a candidate, ranked among others: struct ranking */
    bool unit_range;  /* numbers of a target are in [0, 1] */
    size_t size;      /* numbers of a target, if only one size is allowed; else 0 */
    const char *size_reason; /* the meaning of those numbers */
    /* `components`: the first numbers of a target, which count only if all are observed; later
       ones are probabilities */
    size_t together;
    unsigned metrics; /* of enum metric */
    /* the square of a number's error, which least squares minimize; else a logarithm */
    bool squares;
    enum loss_baseline baseline;
    /* `components`: ONCE for a separate number, then components, their logits first */
    struct loss_part parts[LOSS_PARTS_MAX];
};

const struct loss_kind *loss_kind(enum loss loss);

/* Activations in a part, with the configuration's output.size and output.components. */
size_t loss_part_size(const struct loss_part *part, size_t size, size_t components);

/* Whether the loss has parts per component, and so the key `components`. */
bool loss_has_components(const struct loss_kind *kind);

/* ---- Pools ---- */

enum pool {
#define POOL(name) POOL_##name,
#include "kinds.def"
    POOLS,
};

enum { POOL_TENSORS_MAX = 4 };

/* The dimensions of a pool's tensor: A numbers, A x H or A x H of the whole message. */
struct pool_tensor {
    const char *name;
    bool matrix; /* (A, H), else (A,) */
};

/* A pool makes one vector of a message's T outputs h_t (H,). */
struct pool_kind {
    const char *name;
    const char *what;
    size_t vectors; /* H-vectors in its result */
    bool attends;   /* has A numbers of a score: the key `attention` */
    struct pool_tensor tensors[POOL_TENSORS_MAX]; /* TENSOR_POOL on; up to the first without name */
};

const struct pool_kind *pool_kind(enum pool pool);

/* ---- Optimizers ---- */

enum optimizer_id {
#define OPTIMIZER(name) OPTIMIZER_##name,
#include "kinds.def"
    OPTIMIZERS,
};

/* `rate: auto` */
#define RATE_AUTO (-1.0)

/* The configured optimizer. */
struct optimizer {
    enum optimizer_id kind;
    double rate;         /* RATE_AUTO for an optimizer without rate */
    double weight_decay; /* decay of the parameters towards 0 */
    double pull;         /* towards their starting values; a rateless optimizer has none */
#define KEY_OF_OPTIMIZERS(type, name) type name;
#include "kinds.def"
};

/* A key of an optimizer. Its meaning may differ between optimizers. */
struct kind_key {
    const char *name;
    size_t offset; /* offset of the field in struct optimizer */
    bool boolean;  /* else a real number in [minimum, maximum] */
    double minimum, maximum;
    bool below;           /* the maximum itself is not allowed */
    const char *fallback; /* the default, as text */
    const char *earlier;  /* the default of earlier versions; NULL: the same */
    const char *needs;    /* a key that must be above 0 if this one is true; NULL: none */
    const char *what;     /* its meaning, in a few words */
    const char *more;     /* further sentences; NULL: none */
    const char *example;  /* an example of a value */
};

/* The beginning of a key, by the name of its field. */
#define KIND_KEY(field) .name = #field, .offset = offsetof(struct optimizer, field)

enum { MOMENTS_MAX = 5, KIND_KEYS_MAX = 6 };

struct optimizer_kind {
    const char *name;
    const char *what;                    /* its meaning */
    struct kind_key keys[KIND_KEYS_MAX]; /* up to the first without a name */
    bool rateless;                       /* no learning rate: `rate: auto` */
    bool keeps_start; /* the first of its moments is the parameter's starting value */
    size_t moments;   /* numbers kept for each parameter, at most MOMENTS_MAX */
    /* a key: only if it is above 0, all moments are kept, else the last `moments_least`; NULL: all
     */
    const char *moments_need;
    size_t moments_least;
    double flops; /* per step of one parameter, including clipping, at least */
};

const struct optimizer_kind *optimizer_kind(enum optimizer_id id);

/* The optimizer's key of that name, or NULL; and a key's value, 1 for true. */
const struct kind_key *optimizer_key(enum optimizer_id id, const char *name);
double optimizer_value(const struct optimizer *optimizer, const struct kind_key *key);

/* Blocks of numbers that the optimizer keeps for the parameters, at most MOMENTS_MAX. With `pull`
   the last one has the parameters' starting values: optimizer_start is its number, SIZE_MAX without
   it. */
size_t optimizer_moments(const struct optimizer *optimizer);
size_t optimizer_start(const struct optimizer *optimizer);

/* ---- Learning rules ---- */

enum rule {
#define RULE(name) RULE_##name,
#include "kinds.def"
    RULES,
};

/* Data of a learning rule for a stream, besides its state and steps. All but the first do not
   need a window: the data summarizes the steps before an update's own. */
enum rule_keeps {
    KEEPS_NOTHING,
    KEEPS_INFLUENCE, /* J (states of all recurrent layers, parameters that reach them) */
    /* a number for each parameter of a recurrent layer: its influence on the last state vector
       of its own unit */
    KEEPS_TRACE,
};

struct rule_kind {
    const char *name;
    const char *what; /* its meaning */
    enum rule_keeps keeps;
    size_t states; /* KEEPS_TRACE: number of state vectors of the supported cells, or none */
    /* KEEPS_TRACE: the trace also passes through a unit's recurrent weight from itself */
    bool through_weights;
    bool columns; /* layers of columns can learn by it, whatever their number of states */
};

const struct rule_kind *rule_kind(enum rule rule);

/* Whether a layer can learn by the rule; `diagonal`: recurrent: diagonal. */
bool rule_takes(enum rule rule, enum cell cell, bool diagonal);

#endif
