/* What a network and its learning are put together from: cells, activations, norms, losses,
   optimizers and learning rules. Each kind is one file (kernels/cells/, kernels/norms/,
   kernels/losses/, kernels/optimizers/, kernels/rules/) with a constant description, whose type is
   here, beside its formulas; kinds.def lists them. Everybody decides by what a description says,
   never by which kind it is. */
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

/* A kind's description: a constant, which C++ (the CUDA engine) can use where it compiles. */
#ifdef __cplusplus
#    define KIND_CONSTANT static constexpr
#else
#    define KIND_CONSTANT static const
#endif

enum { LAYER_KEYS_MAX = 4 };

/* What all kinds of a layer have. */
struct layer_kind {
    const char *name;
    const char *what;                 /* it is, without a |; NULL: names say it, those of all */
    const char *keys[LAYER_KEYS_MAX]; /* those of the layer's keys that count only with some kinds,
                                         this one among them */
};

/* ---- Tensors ---- */

/* What a layer normalizes: its two sums, and an inner value. */
enum { PLACE_IH, PLACE_HH, PLACE_INNER, PLACES };

/* What a tensor is for. Of the norm at each place there are a gain and a bias, and of a norm that
   keeps them running statistics, which are not learned: TENSOR_GAIN_IH + place, and so on. */
enum tensor_role {
    TENSOR_EMBEDDING,       /* embedding.weight (V, E) */
    TENSOR_WEIGHT_IH,       /* layers.N.weight_ih (GH, I); dense: layers.N.weight (H, I) */
    TENSOR_WEIGHT_HH,       /* layers.N.weight_hh (GH, H) */
    TENSOR_BIAS_IH,         /* layers.N.bias_ih (GH,); dense: layers.N.bias (H,) */
    TENSOR_BIAS_HH,         /* layers.N.bias_hh (GH,), without norm only */
    TENSOR_GAIN_IH,         /* layers.N.norm_ih.gain (GH,); rnn, dense: layers.N.norm.gain (H,) */
    TENSOR_GAIN_HH,         /* layers.N.norm_hh.gain (GH,), lstm and gru */
    TENSOR_GAIN_INNER,      /* layers.N.norm_c.gain (H,), lstm */
    TENSOR_NORM_BIAS_IH,    /* layers.N.norm_ih.bias, likewise */
    TENSOR_NORM_BIAS_HH,    /* layers.N.norm_hh.bias */
    TENSOR_NORM_BIAS_INNER, /* layers.N.norm_c.bias */
    TENSOR_OUTPUT_WEIGHT,   /* output.weight (K, H of the last layer) */
    TENSOR_OUTPUT_BIAS,     /* output.bias (K,) */
    TENSOR_OUTPUT_SKIP,     /* output.weight_skip (K, width of the encoded input) */
    TENSOR_MEAN_IH,         /* layers.N.norm_ih.running_mean (GH,) or (norm_steps, GH) */
    TENSOR_MEAN_HH,         /* layers.N.norm_hh.running_mean, lstm and gru */
    TENSOR_MEAN_INNER,      /* layers.N.norm_c.running_mean (H,) or (norm_steps, H), lstm */
    TENSOR_VAR_IH,          /* layers.N.norm_ih.running_var, likewise */
    TENSOR_VAR_HH,          /* layers.N.norm_hh.running_var */
    TENSOR_VAR_INNER,       /* layers.N.norm_c.running_var */
    TENSOR_ROLES,
};

/* ---- Cells ---- */

enum cell {
#define CELL(name) CELL_##name,
#include "kinds.def"
    CELLS, /* how many there are */
};

enum activation {
#define ACTIVATION(name) ACTIVATION_##name,
#include "kinds.def"
    ACTIVATIONS, /* how many there are */
};

enum {
    CELL_GATES_MAX = 4,
    CELL_GROUPS_MAX = 2,
    CELL_TENSORS_MAX = 4,
};

/* The second dimension of a tensor: none, the layer's inputs I, or its units H. */
enum tensor_columns { COLUMNS_NONE, COLUMNS_INPUTS, COLUMNS_UNITS };

struct cell_tensor {
    enum tensor_role role;
    const char *name;
    enum tensor_columns columns;
    bool unnormalized; /* the layer has it only without norm */
};

/* A cell forms sums of G gates for each of its H units, W_ih x + b_ih and, if it carries a state,
   W_hh h. They are normalized, and formulas make of them the values of the gates, perhaps an inner
   value, and the new state. */
struct cell_kind {
    struct layer_kind kind;
    size_t gates;  /* G */
    size_t states; /* vectors carried from step to step: none, h, or h and the inner one */
    bool apart;    /* the two sums are normalized each by itself; else added, then normalized */
    bool gated;    /* the values of the gates are kept for backward */
    bool inner;    /* so is the inner value */
    bool finishes; /* h is made in a second stage, of the inner value after a norm of its own */
    bool own;      /* the last gate's recurrent sum has another gradient than its other sum */
    bool carries;  /* some gradient of the state before reaches it past W_hh: of the inner value,
                      if the cell finishes, else of h */
    bool function; /* the layer's activation decides the cell's function */
    size_t group_gates[CELL_GROUPS_MAX]; /* gates that are normalized together, group by group */
    size_t forget_gate;                  /* whose bias forget_bias is added to; 0: none */
    size_t finished_gate; /* `finishes`: whose gradient the second stage gives; else G */
    struct cell_tensor tensors[CELL_TENSORS_MAX];
    const char *norms[PLACES]; /* "norm_ih": what tensors of the norm there are called */

    /* Elementwise work, for each unit, at least. */
    double functions; /* sigmoids and tanhs */
    double forward;   /* other flops: sums and products of gates */
    double backward;  /* likewise, with the derivatives of sigmoid and tanh */
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
    NORMS, /* how many there are */
};

/* g (a - mean) / deviation + b: where mean and deviation of a sum come from, and so its gradient.
 */
enum norm_source {
    SOURCE_NOTHING, /* there is no norm, neither gain nor bias, and the recurrent sum has a bias */
    SOURCE_GROUP,   /* the group of units that a stands in, of this step of this stream */
    SOURCE_ROWS,    /* mean 0; the rows of the matrices that form a: deviation =
                       sqrt(their sum of squares + epsilon); of an inner value 1. Gradients reach
                       the matrices through it, too */
    SOURCE_RUNNING, /* each unit's running mean and variance, constants to the gradient, which an
                       update moves after its optimizer step */
};

struct norm_kind {
    struct layer_kind kind;
    enum norm_source source;
    bool centred;        /* SOURCE_GROUP: the mean is the group's, else 0 */
    bool by_age;         /* SOURCE_RUNNING: statistics apart for each step since the stream began,
                            the last of norm_steps for all later ones */
    const char *summary; /* what the line that describes a running model says of it: " norm" */

    /* Flops of one number, at least. */
    double forward, backward;
};

const struct norm_kind *norm_kind(enum norm norm);

/* ---- Losses ---- */

enum loss {
#define LOSS(name, walk) LOSS_##name,
#include "kinds.def"
    LOSSES, /* how many there are */
};

/* How many activations a part of them has. */
enum part_extent {
    EXTENT_NONE, /* after the last part */
    EXTENT_ONCE,
    EXTENT_NUMBERS, /* output.size: numbers of the target, or classes */
    EXTENT_COMPONENTS,
};

/* What a prediction says of an activation a. */
enum part_meaning {
    MEANS_ITSELF,
    MEANS_PROBABILITY,         /* s(a) */
    MEANS_SHARE,               /* softmax over the part */
    MEANS_EXPONENTIAL,         /* e^a */
    MEANS_ROOT_OF_EXPONENTIAL, /* e^(a / 2): the deviation of a log variance */
    MEANS_TANH,
};

/* How a prediction returns from the scale of standardized targets to original units. */
enum part_unit {
    UNIT_NONE,  /* there is none: the loss takes no scaled targets */
    UNIT_LEVEL, /* times the deviation, plus the mean */
    UNIT_WIDTH, /* times the deviation */
};

/* The activations a of one step come in parts, one after the other. */
struct loss_part {
    const char *name; /* in a published prediction; NULL when the loss has no other part */
    enum part_extent extent;
    enum part_meaning meaning;
    enum part_unit unit;
};

/* What is published of the scored targets beside the loss. */
enum metric {
    METRIC_RMSE = 1,     /* of the first part, in original units */
    METRIC_ACCURACY = 2, /* the largest activation is that of the class, or a number's probability
                            lies on the target's side of 1/2 */
    METRIC_BITS = 4,     /* the loss in bits, for the loss is in nats */
};

/* The simplest forecast, made of a stream's own targets: what a network has to be better than. */
enum loss_baseline {
    BASELINE_NONE,
    BASELINE_VALUE,   /* the last value, or where that is not known the mean so far */
    BASELINE_NORMAL,  /* a normal around that */
    BASELINE_CLASSES, /* how often each class has come */
    BASELINE_RATES,   /* the mean of each number, a probability */
};

enum {
    LOSS_PARTS_MAX = 8,
    NUMBER_PARTS_MAX = 2,    /* activations of one number, see `numbers` in kinds.def */
    COMPONENT_PARTS_MAX = 6, /* of one component, see `components` there */
};

struct loss_kind {
    const char *name;
    const char *what;        /* it is, and what it predicts */
    bool class_id;           /* a target is one class id, else output.size numbers; NaN: one that is
                                not observed */
    bool unit_range;         /* numbers of a target lie in [0, 1] */
    size_t size;             /* of a target, where only one is allowed; else 0 */
    const char *size_reason; /* what those numbers are */
    size_t together;  /* `components`: the first numbers of a target, which count only when all
                         of them are observed; those after them are probabilities */
    unsigned metrics; /* of enum metric */
    bool squares; /* the square of a number's error: least squares minimize it. Else a logarithm */
    enum loss_baseline baseline;
    struct loss_part parts[LOSS_PARTS_MAX]; /* `components`: ONCE a number by itself, then
                                               components, their logits first */
};

const struct loss_kind *loss_kind(enum loss loss);

/* Activations in a part, with the configuration's output.size and output.components. */
size_t loss_part_size(const struct loss_part *part, size_t size, size_t components);

/* Whether the loss has parts per component: it then takes the key `components`. */
bool loss_has_components(const struct loss_kind *kind);

/* ---- Optimizers ---- */

enum optimizer_id {
#define OPTIMIZER(name) OPTIMIZER_##name,
#include "kinds.def"
    OPTIMIZERS, /* how many there are */
};

/* `rate: auto` */
#define RATE_AUTO (-1.0)

/* As configured. */
struct optimizer {
    enum optimizer_id kind;
    double rate;         /* RATE_AUTO with a kind that has none */
    double weight_decay; /* pull of the parameters towards 0 */
#define KEY_OF_OPTIMIZERS(type, name) type name;
#include "kinds.def"
};

/* A key that an optimizer takes. Others that take it may say something else of it. */
struct kind_key {
    const char *name;
    size_t offset; /* of the field in struct optimizer */
    bool boolean;  /* else a real number in [minimum, maximum] */
    double minimum, maximum;
    bool below;           /* the maximum itself is not allowed */
    const char *fallback; /* the default, as one would write it */
    const char *needs;    /* a key that has to be above 0 where this one is true; NULL: none */
    const char *what;     /* its meaning, in a few words */
    const char *more;     /* the rest of it, in whole sentences; NULL: none */
    const char *example;  /* a value as one would write it */
};

/* The beginning of one, by the name of its field. */
#define KIND_KEY(field) .name = #field, .offset = offsetof(struct optimizer, field)

enum { MOMENTS_MAX = 5, KIND_KEYS_MAX = 6 };

struct optimizer_kind {
    const char *name;
    const char *what;                    /* it is */
    struct kind_key keys[KIND_KEYS_MAX]; /* up to the one without a name */
    bool rateless;                       /* there is no learning rate: `rate: auto` */
    bool keeps_start;         /* the first of its moments is the parameter's starting value */
    size_t moments;           /* numbers that it keeps beside each parameter, at most MOMENTS_MAX */
    const char *moments_need; /* a key: they are kept only where it is above 0; NULL: always */
    double flops;             /* of one parameter's step, clipping included, at least */
};

const struct optimizer_kind *optimizer_kind(enum optimizer_id id);

/* The optimizer's key of that name, or NULL; and a key's value, 1 for true. */
const struct kind_key *optimizer_key(enum optimizer_id id, const char *name);
double optimizer_value(const struct optimizer *optimizer, const struct kind_key *key);

/* Blocks of numbers beside the parameters that the optimizer keeps, at most MOMENTS_MAX. */
size_t optimizer_moments(const struct optimizer *optimizer);

/* ---- Learning rules ---- */

enum rule {
#define RULE(name) RULE_##name,
#include "kinds.def"
    RULES, /* how many there are */
};

/* What a rule keeps of a stream beside its state and its steps. All but the first do without a
   window: what came before an update's own steps is in what they keep. */
enum rule_keeps {
    KEEPS_NOTHING,
    KEEPS_INFLUENCE, /* J (states of all recurrent layers, parameters that reach them) */
    KEEPS_TRACE,     /* a number for each parameter of a recurrent layer: its influence on the last
                        state vector of its own unit alone */
};

struct rule_kind {
    const char *name;
    const char *what; /* it is */
    enum rule_keeps keeps;
    size_t states;        /* KEEPS_TRACE: of cells that carry so many state vectors, or none */
    bool through_weights; /* KEEPS_TRACE: the trace passes a unit's recurrent weights from itself */
};

const struct rule_kind *rule_kind(enum rule rule);

/* Whether a layer can learn by the rule. */
bool rule_takes(enum rule rule, enum cell cell);

#endif
