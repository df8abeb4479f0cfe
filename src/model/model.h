/* The structure of a network: its description (plain data, from the configuration) and the one
   table of its tensors. Engines, checkpoints, export, initial values and tests iterate over that
   table.

   Equations: README.md, "How it learns"; layer normalization as in Ba, Kiros and Hinton (2016),
   eq. 3 and 4. kinds.h lists cells, activations and norms with their tensors. H is a layer's
   size, G the number of its gates, I the width of its input. */
#ifndef RUNNEL_MODEL_H
#define RUNNEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "columns.h"
#include "common/time_zone.h"
#include "kernels/kinds.h"

struct error;

enum {
    MODEL_LAYERS_MAX = 16,
    SEQUENCE_LAYERS_MAX = 4, /* of a chain that reads or writes messages */
    OUTPUTS_MAX = 4,
    OUTPUT_NAME_SIZE = 17,
    /* the model's layers, those of its reader, and of each output's writer or tower */
    MODEL_CHAINS_MAX = 2 + OUTPUTS_MAX,
    MODEL_LAYERS_ALL = MODEL_LAYERS_MAX + (1 + OUTPUTS_MAX) * SEQUENCE_LAYERS_MAX,
    /* parts of an input: one per column, and one for the time */
    MODEL_PARTS_MAX = COLUMNS_MAX + 1,
    /* of a pool 4, and of an output up to 6; running statistics only of the model's layers */
    MODEL_TENSORS_MAX = COLUMNS_MAX + 2 + 2 * PLACES * MODEL_LAYERS_MAX + 11 * MODEL_LAYERS_ALL +
                        4 + 6 * OUTPUTS_MAX,
    MODEL_TENSOR_NAME_SIZE = 96,
    TENSOR_DIMENSIONS_MAX = 3,
};

enum input_kind { INPUT_REAL, INPUT_SYMBOL };
/* PREVIOUS: the stream's x before; SAME: the step's own x. Both are known with the step. */
enum target { TARGET_GIVEN, TARGET_NEXT, TARGET_LATER, TARGET_PREVIOUS, TARGET_SAME };

/* Transformation of an x before the network: none; running standardization; features in the
   stream's own units (docs/explanation/forecasts.md). */
enum input_scale { SCALE_NONE, SCALE_STANDARD, SCALE_FORECAST };

/* Reference value of a target. FALSE, TRUE and NONE are the words of the configuration. With
   SCALE_FORECAST it is 0 (the level is predicted), the last value, or the forecast of the expert
   ar12. */
enum relative { RELATIVE_FALSE, RELATIVE_TRUE, RELATIVE_NONE, RELATIVE_LAST, RELATIVE_AR12 };

/* Features of an example's time, after all other inputs, in this order: the standardized
   logarithm of the gap since the stream's last example; sine and cosine of the time of day, week
   and year. See docs/reference/time.md. */
enum time_feature { TIME_GAP, TIME_DAY, TIME_WEEK, TIME_YEAR, TIME_FEATURES };
enum { TIME_WIDTH_MAX = 1 + 2 * (TIME_FEATURES - 1) };

/* The horizons of TARGET_NEXT: distances from a step to its targets, ascending. */
enum { AHEAD_MAX = 16 };
struct ahead {
    size_t count; /* 0: one horizon, 1 step ahead */
    size_t steps[AHEAD_MAX];
};

/* Numbers on a grid, in this order. */
struct grid_shape {
    size_t channels, rows, columns;
};

/* A rising list of numbers. */
enum { LEVELS_MAX = 32 };
struct levels {
    size_t count;
    double of[LEVELS_MAX];
};
struct radius { /* the same, small: each layer has one */
    size_t count;
    double of[2];
};

struct layer {
    enum cell cell;
    size_t size;   /* H; of a spatial layer its channels, which follow from `shape` */
    bool diagonal; /* recurrent: diagonal */
    /* Of a spatial layer: the shape of its output, whose rows and columns follow from its input;
       the patch of a position, and the distance between two */
    struct grid_shape shape;
    size_t kernel, stride;
    size_t norm_groups; /* parts of its channels that are normalized together */
    size_t
        memory; /* largest starting memory of a unit in steps, 0 = starting biases as elsewhere */
    struct radius radius; /* least and largest share of its state that an rtu's unit keeps */
    enum norm norm;
    enum activation activation; /* function of a cell that has one */
    float gain;                 /* starting value of every gain */
    float forget_bias;          /* added to the forget gate's starting bias */
    float norm_momentum;        /* momentum of a norm with running statistics */
    size_t norm_steps;          /* steps of a norm with statistics by age */
    /* Causal convolution over steps: the sum is of the inputs of `taps` steps, `dilation` steps
       apart, the newest last. 0: 1. */
    size_t taps, dilation;
    bool residual; /* the layer's input is added to its output */
};

/* A chain of layers that reads a message, an x of several atoms, or writes one. */
struct sequence {
    size_t layer_count; /* 0: an x, or a target, is one vector */
    struct layer layers[SEQUENCE_LAYERS_MAX];
    size_t longest;   /* most atoms of a message */
    enum pool pool;   /* of a reader */
    size_t attention; /* A of such a pool; else 0 */
    size_t embedding; /* of a writer of given targets: width of its embedding, 0 = one-hot */
};

struct input {
    enum input_kind kind;         /* real with columns, except for a single symbol */
    size_t size;                  /* real: numbers in x; symbol: size of the alphabet */
    struct grid_shape shape;      /* of its numbers, for spatial layers; zeros: unknown */
    size_t embedding;             /* symbol: width of the learned embedding, 0 = one-hot */
    enum input_scale scale;       /* `standard` uses memory and limit */
    uint64_t memory;              /* number of values that the scale remembers, 0 = all */
    double limit;                 /* largest distance from the mean in deviations, 0 = no limit */
    bool hold;                    /* missing: hold; with columns: for at least one of them */
    struct vocabulary vocabulary; /* words of symbols */
    /* The number of symbols that words are hashed to (common/word_hash.h), 0 = no hash. */
    size_t hash;
    size_t column_count; /* 0: no columns are listed */
    struct column columns[COLUMNS_MAX];
    unsigned time; /* a set of enum time_feature */
    char time_zone[TIME_ZONE_NAME_SIZE];
    struct sequence sequence; /* an x is a message that these layers read */
};

/* loss: ranking: a target is a candidate, ranked among the last `negatives` targets of all streams.
   Layers without state read it (struct chain). */
enum ranking_score { RANKING_DOT, RANKING_COSINE, RANKING_ORDER };
enum ranking_objective { RANKING_SOFTMAX, RANKING_HINGE };
struct ranking {
    enum ranking_score score;
    enum ranking_objective objective;
    double temperature, margin; /* cosine; hinge */
    size_t negatives;           /* 0: another loss */
    enum input_kind kind;       /* a candidate: numbers, or a symbol */
    size_t size;                /* as of an input */
    struct grid_shape shape;
    size_t layer_count;
    struct layer layers[SEQUENCE_LAYERS_MAX];
};

struct output {
    enum loss loss;
    size_t size;       /* numbers in a target, or classes */
    size_t components; /* components of losses that have them */
    enum target target;
    enum relative relative;
    bool skip;              /* linear path from the input to the output */
    bool solved;            /* readout: rls: least squares solve the output's tensors */
    struct ahead ahead;     /* horizons of next */
    size_t patience;        /* largest number of open steps of later; one more closes the oldest */
    enum input_scale scale; /* scale of targets of given and later */
    uint64_t memory;
    double limit;
    /* The columns of x that are targets of next, in order; 0: all of x. Else the number of names
       of y; 0: no names. */
    size_t column_count;
    uint16_t columns[COLUMNS_MAX];
    struct vocabulary vocabulary; /* classes; with `next` the vocabulary of the input */
    char name[OUTPUT_NAME_SIZE];  /* in a list of outputs; "": the only output */
    double weight;                /* its share of a step's loss; 1 of an only output */
    struct sequence sequence;     /* a target is a message that these layers write */
    struct ranking ranking;
};

struct architecture {
    struct input input;
    struct layer layers[MODEL_LAYERS_MAX];
    size_t layer_count;
    struct output output; /* the first one */
    struct output others[OUTPUTS_MAX - 1];
    size_t other_count;
    /* names of given and later: (output.column_count,) */
    char target_names[COLUMNS_MAX][COLUMN_NAME_SIZE];
};

struct tensor {
    char name[MODEL_TENSOR_NAME_SIZE];
    enum tensor_role role;
    /* index of its layer (model_layer); of its output; 0 for the input's */
    size_t layer;
    size_t rows;    /* first dimension */
    size_t columns; /* second dimension of a matrix; 0 for a vector */
    /* dimensions in files after the first, if they are several: their product is `columns` */
    size_t dimensions[TENSOR_DIMENSIONS_MAX];
    size_t gates; /* the rows are `gates` equal groups; 1 without gates */
    /* offset of its first number in the block of all parameters, row-major float32 */
    size_t offset;
};

/* A piece of the encoded input, which the first layer and the skip path use. Needed if the
   encoded input differs from the engine's x: with columns that are symbols, or a hashed symbol. */
struct input_part {
    size_t from;   /* its first number in the engine's x */
    size_t at;     /* its first number in the encoded input */
    size_t width;  /* numbers in the encoded input */
    size_t size;   /* alphabet of a symbol; 0: `width` numbers */
    size_t tensor; /* embedding of a symbol, else MODEL_NO_TENSOR */
};

#define MODEL_NO_TENSOR SIZE_MAX

/* Layers one above the other, each a range of the model's layers. The first are model.layers;
   others read or write the atoms of a message, or read candidates (tower), and each of their runs
   begins with a state of zeros or one made of h. */
enum chain_kind { CHAIN_MODEL, CHAIN_READER, CHAIN_WRITER, CHAIN_TOWER };
struct chain {
    enum chain_kind kind;
    size_t output;       /* of a writer or tower */
    size_t first, count; /* its layers: model_layer */
    size_t inputs;       /* width of an encoded atom or candidate */
    size_t width;        /* of the last layer's output; without layers `inputs` */
    size_t state_size;   /* numbers in its state */
};

/* A target of a step: a horizon of the only output, or an output of a list. */
struct model_head {
    size_t output;      /* number of its output: model_output */
    size_t at, scored;  /* its first activation in K, and their number: 0 of a writer */
    size_t target_size; /* numbers in its target */
    float weight;       /* its share of a step's loss */
    bool late;          /* a writer or ranking: SCORE computes its loss from h */
};

struct model {
    struct architecture architecture;
    struct tensor tensors[MODEL_TENSORS_MAX];
    /* All tensors, and the first of them, which an optimizer learns. A solved output and running
       statistics follow them. */
    size_t tensor_count, learned_count;
    size_t parameters, learned;                      /* numbers in all tensors; in those learned */
    size_t input_width[MODEL_LAYERS_ALL];            /* I of each layer; for a one-hot symbol V */
    struct grid_shape input_shape[MODEL_LAYERS_ALL]; /* the same, of spatial layers */
    /* offset of a layer's h in the state of its chain; an inner state follows it. With taps it is
       the offset of the delay line (layer_delay, I): the last inputs, the oldest first, zeros at
       the beginning */
    size_t state_offset[MODEL_LAYERS_ALL];
    size_t state_size; /* S: numbers in one stream's state */
    struct chain chains[MODEL_CHAINS_MAX];
    size_t chain_count, layer_count; /* chains, and layers of all of them */
    size_t encoded; /* width of what model.layers get: the encoded x, or of a message the pool's */
    size_t ages;    /* largest number of steps of norms by age; 0: no such norm */
    /* Offset of the age in the state, its last number, if `ages` is not 0. The age is the number
       of steps since the stream began, at most `ages`. */
    size_t age_offset;
    size_t x_size; /* numbers in a received x: I; 1 for a symbol; one per column */
    /* Numbers in the engine's x: I; with scale: forecast features of x; 1 for a symbol; for columns
       their encodings, with a symbol instead of its row. The last `times` of them are from the
       example's time. */
    /* With a reader 1 number, how many atoms the message has, then `longest` atoms of
       `features_atom` numbers. */
    size_t features, features_atom;
    size_t times;
    /* Parts in order; consecutive numbers are one part. */
    struct input_part parts[MODEL_PARTS_MAX];
    /* 0: the encoded input is the engine's x or its one symbol. A hashed and embedded symbol is
       a part, because its row may count negatively. */
    size_t part_count;
    size_t embeddings; /* embedded parts */
    /* Inputs of the least squares of a solved output: the last layer's h, the skip path's x and
       1; else 0. */
    size_t solved;
    /* K: activations of the last linear layer, one head after the other. */
    size_t outputs;
    /* Numbers in one target, the most of a head: size; 1 class for softmax. Of a writer 1 number,
       how many atoms it has, then those; of a ranking a candidate. */
    size_t target_size;
    /* Numbers in a row of y: a target, an atom of it, or a candidate; and its output, the first one
       if all targets are those of x. */
    size_t y_size, sent;
    size_t horizons; /* targets per step: heads */
    size_t scored;   /* activations for one target, the most of a head */
    struct model_head heads[AHEAD_MAX];
    /* Numbers kept of each open step besides outputs: h, for heads that are late; or the inputs of
       the least squares but the 1. */
    size_t kept;
    bool late;    /* a head is late */
    size_t known; /* scale: forecast: columns that are known ahead, last in x, horizons each */
    size_t open;  /* largest number of a stream's open steps, right after a STEP */
};

/* Whether the layer's units are columns, see struct cell_kind; the numbers it gives the layer
   above; and whether its sums are normalized, or its output. */
static inline bool layer_is_columns(const struct layer *layer) {
    return layer->diagonal || cell_kind(layer->cell)->columns;
}
static inline size_t layer_positions(const struct layer *layer) {
    return cell_kind(layer->cell)->spatial ? layer->shape.rows * layer->shape.columns : 1;
}
static inline size_t layer_width(const struct layer *layer) {
    return cell_kind(layer->cell)->outputs * layer->size * layer_positions(layer);
}
static inline size_t layer_taps(const struct layer *layer) {
    return layer->taps ? layer->taps : 1;
}
/* Steps from the newest to the oldest of its inputs. */
static inline size_t layer_delay(const struct layer *layer) {
    return (layer_taps(layer) - 1) * (layer->dilation ? layer->dilation : 1);
}
static inline bool layer_takes_norm(const struct layer *layer) {
    const struct norm_kind *norm = norm_kind(layer->norm);
    if (cell_kind(layer->cell)->spatial)
        return norm->source != SOURCE_ROWS && !norm->by_age;
    return !layer_is_columns(layer) || norm->outputs;
}
static inline bool layer_normalizes_sums(const struct layer *layer) {
    return norm_kind(layer->norm)->source != SOURCE_NOTHING && !layer_is_columns(layer);
}
static inline bool layer_normalizes_output(const struct layer *layer) {
    return norm_kind(layer->norm)->source != SOURCE_NOTHING && layer_is_columns(layer);
}

/* The number of the chain that has layer n of all; and of the one that writes or ranks an output; 0
   without one. */
size_t model_chain_of_layer(const struct model *model, size_t n);
size_t model_chain_of_output(const struct model *model, size_t output);

/* Layer n of all chains; and an output. */
const struct layer *model_layer(const struct model *model, size_t n);
static inline const struct output *architecture_output(const struct architecture *a, size_t k) {
    return k ? &a->others[k - 1] : &a->output;
}
static inline const struct output *model_output(const struct model *model, size_t k) {
    return architecture_output(&model->architecture, k);
}

/* Whether an x, or a target of the output, is a message. */
static inline bool input_is_message(const struct input *input) {
    return input->sequence.layer_count > 0;
}
/* Numbers in the weights that the pool gives atoms; 0: it has none. */
static inline size_t input_weights(const struct input *input) {
    return input->sequence.attention ? input->sequence.longest : 0;
}
static inline bool output_is_message(const struct output *output) {
    return output->sequence.layer_count > 0;
}
static inline bool output_ranks(const struct output *output) {
    return output->ranking.negatives > 0;
}

/* Measures of its scores besides the loss; a message has only those of the loss itself. And its
   baseline: messages of numbers and the hinge loss have none. */
static inline unsigned output_metrics(const struct output *output) {
    unsigned metrics = loss_kind(output->loss)->metrics;
    return output_is_message(output) ? metrics & METRIC_BITS : metrics;
}
static inline enum loss_baseline output_baseline(const struct output *output) {
    enum loss_baseline baseline = loss_kind(output->loss)->baseline;
    if (output_is_message(output))
        return baseline == BASELINE_CLASSES ? BASELINE_MESSAGE : BASELINE_NONE;
    bool none = output_ranks(output) && output->ranking.objective == RANKING_HINGE;
    return none ? BASELINE_NONE : baseline;
}

/* Whether its targets, or their atoms, are symbols or classes; and the number of these. */
static inline bool output_has_classes(const struct output *output) {
    return output_ranks(output) ? output->ranking.kind == INPUT_SYMBOL
                                : loss_kind(output->loss)->class_id;
}
/* Numbers of a ranking's candidate. */
static inline size_t output_candidate_size(const struct output *output) {
    return output_has_classes(output) ? 1 : output->ranking.size;
}
static inline size_t output_classes(const struct output *output) {
    return output_ranks(output) ? output->ranking.size : output->size;
}

/* Distance from a step to its target at a horizon, or of a listed output at its number. */
static inline size_t output_ahead(const struct output *output, size_t horizon) {
    return horizon < output->ahead.count ? output->ahead.steps[horizon] : 1;
}

/* The number of x for number k of a target of `next`. */
static inline size_t output_column(const struct output *output, size_t k) {
    return output->column_count ? output->columns[k] : k;
}

/* Source of the targets: the x of later steps (or with previous and same of others), the message
   with x, or a later label. And whether x also has experts, so that the network is one of several
   forecasts (scale: forecast). */
static inline bool output_is_next(const struct output *output) {
    return output->target == TARGET_NEXT;
}
static inline bool output_is_later(const struct output *output) {
    return output->target == TARGET_LATER;
}
static inline bool output_is_input(const struct output *output) {
    return output->target != TARGET_GIVEN && output->target != TARGET_LATER;
}

/* The first output, or head of a list, whose targets are sent (given, later), or are in x; without
   one the number of outputs. At most one is sent; those in x have the same columns. */
static inline size_t model_output_with(const struct model *model, bool in_x) {
    size_t k = 0;
    while (k <= model->architecture.other_count && output_is_input(model_output(model, k)) != in_x)
        k++;
    return k;
}
static inline bool model_has_output(const struct model *model, bool in_x) {
    return model_output_with(model, in_x) <= model->architecture.other_count;
}

/* Whether the targets of some output come from that source. */
static inline bool model_has_target(const struct model *model, enum target target) {
    for (size_t k = 0; k <= model->architecture.other_count; k++)
        if (model_output(model, k)->target == target)
            return true;
    return false;
}
static inline bool model_waits_for_x(const struct model *model) {
    return model_has_target(model, TARGET_NEXT);
}
static inline bool model_waits_for_labels(const struct model *model) {
    return model_has_target(model, TARGET_LATER);
}

/* Whether the scale of an only output, or of x, is that of the head's targets. */
static inline bool model_scales(const struct model *model, size_t head) {
    const struct output *output = model_output(model, model->heads[head].output);
    return !model->architecture.other_count ||
           (output_is_input(output) && !loss_kind(output->loss)->class_id);
}

/* The most rows of an example's x or y: its steps, or their atoms. */
size_t model_most_rows(const struct model *model);

/* The heads of the first output: its horizons. Headline losses, baselines and predictions are its
   own, and have heads[0].target_size and heads[0].scored numbers. */
static inline size_t model_ahead(const struct model *model) {
    return model->horizons - model->architecture.other_count;
}

static inline bool targets_are_inputs(const struct model *model) {
    return output_is_next(&model->architecture.output);
}
static inline bool targets_are_labels(const struct model *model) {
    return output_is_later(&model->architecture.output);
}
static inline bool input_has_experts(const struct input *input) {
    return input->scale == SCALE_FORECAST;
}
static inline bool inputs_have_experts(const struct model *model) {
    return input_has_experts(&model->architecture.input);
}

/* Whether inputs and targets are standardized; each column may differ. */
static inline bool input_is_standard(const struct input *input) {
    return input->scale == SCALE_STANDARD;
}
static inline bool output_is_standard(const struct output *output) {
    return output->scale == SCALE_STANDARD;
}

/* Whether x are numbers, or columns other than a single symbol; else x is one symbol. */
static inline bool input_is_real(const struct input *input) {
    return input->kind == INPUT_REAL;
}

/* Positions in a slot's ring: the closed steps of a window and the open ones. */
static inline size_t model_ring(const struct model *model, size_t window) {
    return window + model->open;
}

/* If several steps may be open, each position has its own place for outputs; else there is one
   place. The number of places, and the place of a position. */
static inline size_t model_places(const struct model *model, size_t window) {
    return model->open > 1 ? model_ring(model, window) : 1;
}
static inline size_t model_place(const struct model *model, size_t position) {
    return model->open > 1 ? position : 0;
}

/* Derives what follows from other keys of a spatial layer, from the shape of its input, in which
   its kernel fits. Returns the shape of its output; zeros for another layer. */
struct grid_shape layer_derive(struct layer *layer, struct grid_shape from);

/* Build the table. The architecture must have been accepted by config_load. */
void model_build(struct model *model, const struct architecture *architecture);

/* The numbers in a tensor. */
size_t tensor_size(const struct tensor *tensor);

/* The tensor of that role and layer, or NULL. */
const struct tensor *model_find(const struct model *model, enum tensor_role role, size_t layer);

/* The tensor of that name, or NULL. */
const struct tensor *model_named(const struct model *model, const char *name);

/* Fill `values` (tensor_size(tensor),) with its starting values, which depend only on the seed
   and the tensor's name:
     weight_hh         a random orthogonal matrix per gate; diagonal: uniform in +-1
     other weights     uniform in +-1/sqrt(fan-in); as in torch.nn.init, fan-in is the second
                       dimension: I, for the output H, for the embedding E
     bias_ih, bias_hh  uniform in +-1/sqrt(H), as in torch.nn.LSTM
     output.bias, the bias of conv, and of dense without norm
                       uniform in +-1/sqrt(fan-in), as in torch.nn.Linear
     gains             `gain`;  norms' biases 0
     log_decay         ln -ln r, r^2 uniform between the squares of `radius`
     log_phase         the logarithm of an angle uniform in 0 to 2 pi
     running_mean 0, running_var 1; a solved output 0
   forget_bias is added to the forget gate of norm_ih.bias, or of bias_ih without norm of the sums.
   With `memory` +-ln(T - 1), T uniform in 1 to `memory`, replaces the bias_ih of some gates.
   Returns -1 (EX_UNAVAILABLE) if out of memory. */
int model_initialize(const struct model *model, const struct tensor *tensor, uint64_t seed,
                     float *values, struct error *error);

/* Numbers in a slot's record, the format of a slot between an engine and a checkpoint: state (S)
   | outputs (places, K) | what else open steps keep (places, kept) |
   for each position of the ring: state before (S) | x (features) | y (horizons, target_size) |
   for each horizon 1.0 if that y is to be learned, else 0. Symbols and classes keep their bits. */
size_t slot_record_size(const struct model *model, size_t window);

/* ---- summary.c ---- */

/* Names in the configuration; NULL after the last. */
const char *input_kind_name(enum input_kind kind);
const char *input_scale_name(enum input_scale scale);
const char *target_name(enum target target);

/* The name of number k of x: "load", or without columns "x[3]". Returns `name`. */
const char *input_label(const struct input *input, size_t k, char name[COLUMN_NAME_SIZE]);

/* The names of the columns of the input, or of the targets, "load, host"; "" without columns.
   Returns `text`. */
enum { MODEL_NAMES_SIZE = COLUMNS_MAX * (COLUMN_NAME_SIZE + 1) };
const char *model_column_names(const struct architecture *architecture, bool targets,
                               char text[MODEL_NAMES_SIZE]);

/* Whether only the CPU engine can play the model: the key that decides, "model.input.sequence". */
enum { MODEL_LACKS_SIZE = 96 };
bool model_of_cpu(const struct architecture *architecture, char text[MODEL_LACKS_SIZE]);

enum { MODEL_SUMMARY_SIZE = 1024 };

/* "real 8 (standard) > lstm 128 norm > squared 8, next" */
void model_summary(const struct architecture *architecture, char text[MODEL_SUMMARY_SIZE]);

#endif
