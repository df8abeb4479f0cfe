/* What a network is made of: its description (plain data, from the configuration) and the one table
   of its tensors. Both engines, checkpoints, export, initial values and the tests walk that table.

   Equations: README.md, "How it learns"; layer normalization as in Ba, Kiros and Hinton (2016),
   eq. 3 and 4. What cells, activations and norms there are, with their tensors: kinds.h. H is a
   layer's size, G its gates, I the width of its input. */
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
    MODEL_PARTS_MAX = COLUMNS_MAX + 1, /* of an input: one a column, and one of the time */
    MODEL_TENSORS_MAX = COLUMNS_MAX + 2 + (9 + 2 * PLACES) * MODEL_LAYERS_MAX + 3,
    MODEL_TENSOR_NAME_SIZE = 64,
};

enum input_kind { INPUT_REAL, INPUT_SYMBOL };
enum target { TARGET_GIVEN, TARGET_NEXT, TARGET_LATER };

/* What an x becomes before a network sees it: itself; its running standardization; features in
   units of the stream's own (docs/explanation/forecasts.md). */
enum input_scale { SCALE_NONE, SCALE_STANDARD, SCALE_FORECAST };

/* What a target is relative to. FALSE, TRUE and NONE are as one would write them. With
   SCALE_FORECAST: nothing (the level is predicted), the last value, or what the expert ar12 says.
 */
enum relative { RELATIVE_FALSE, RELATIVE_TRUE, RELATIVE_NONE, RELATIVE_LAST, RELATIVE_AR12 };

/* What an example's time gives, after all other inputs and in this order: the standardized
   logarithm of the gap since the stream's last example; sine and cosine of the time of day, week
   and year. docs/reference/time.md. */
enum time_feature { TIME_GAP, TIME_DAY, TIME_WEEK, TIME_YEAR, TIME_FEATURES };
enum { TIME_WIDTH_MAX = 1 + 2 * (TIME_FEATURES - 1) };

/* The horizons of TARGET_NEXT: how many steps after a step its targets are, ascending. */
enum { AHEAD_MAX = 16 };
struct ahead {
    size_t count; /* 0: one, 1 step ahead */
    size_t steps[AHEAD_MAX];
};

struct input {
    enum input_kind kind;         /* with columns: real, but of one symbol alone */
    size_t size;                  /* real: numbers in x; symbol: size of the alphabet */
    size_t embedding;             /* symbol: width of the learned embedding, 0 = one-hot */
    enum input_scale scale;       /* with `standard`: */
    uint64_t memory;              /* values that the scale remembers, 0 = all */
    double limit;                 /* sd that a value is at most away, 0 = no limit */
    bool hold;                    /* missing: hold; of columns: of one of them */
    struct vocabulary vocabulary; /* symbol */
    size_t hash;         /* symbol: words are hashed (common/word_hash.h) to so many ids, 0 = not */
    size_t column_count; /* 0: no columns are listed */
    struct column columns[COLUMNS_MAX];
    unsigned time; /* a set of enum time_feature: what of an example's time the network sees */
    char time_zone[TIME_ZONE_NAME_SIZE];
};

struct layer {
    enum cell cell;
    size_t size; /* H */
    enum norm norm;
    enum activation activation; /* of a cell with a function */
    float gain;                 /* starting value of every gain */
    float forget_bias;          /* added to the forget gate's starting bias */
    float norm_momentum;        /* of a norm with running statistics */
    size_t norm_steps;          /* of one whose statistics go by age */
};

struct output {
    enum loss loss;
    size_t size;       /* numbers in a target, or classes */
    size_t components; /* of losses that have them */
    enum target target;
    enum relative relative;
    bool skip;              /* a linear path from the input to the output */
    bool solved;            /* readout: rls: the output's tensors are solved by least squares */
    struct ahead ahead;     /* next */
    size_t patience;        /* later: steps that may be open; the oldest of more closes */
    enum input_scale scale; /* given and later: of targets, as of an input */
    uint64_t memory;
    double limit;
    size_t column_count; /* next: the columns of x that are targets, in their order; 0: all of x.
                            Else what y's numbers are called; 0: nothing */
    uint16_t columns[COLUMNS_MAX];
    struct vocabulary vocabulary; /* of classes; with `next` it is the input's */
};

struct architecture {
    struct input input;
    struct layer layers[MODEL_LAYERS_MAX];
    size_t layer_count;
    struct output output;
    char target_names[COLUMNS_MAX][COLUMN_NAME_SIZE]; /* given and later: (output.column_count,) */
};

struct tensor {
    char name[MODEL_TENSOR_NAME_SIZE];
    enum tensor_role role;
    size_t layer;   /* index of its layer; 0 for embeddings and output */
    size_t rows;    /* first dimension */
    size_t columns; /* second dimension of a matrix, 0 of a vector */
    size_t gates;   /* the rows are `gates` equal groups: G, 1 where there are none */
    size_t offset;  /* of its first number in the block of all parameters, row-major float32 */
};

/* A piece of the encoded input, what the first layer and the skip path see, where that is not the
   engine's x as it stands: some columns are symbols, or one that is hashed. */
struct input_part {
    size_t from;   /* its first number in the engine's x */
    size_t at;     /* its first number in the encoded input */
    size_t width;  /* numbers there */
    size_t size;   /* of a symbol its alphabet; 0: `width` numbers as they are */
    size_t tensor; /* of a symbol that is embedded its tensor, else MODEL_NO_TENSOR */
};

#define MODEL_NO_TENSOR SIZE_MAX

struct model {
    struct architecture architecture;
    struct tensor tensors[MODEL_TENSORS_MAX];
    size_t tensor_count, learned_count; /* all, and the first of them, which an optimizer learns:
                                           an output that is solved and running statistics stand
                                           after them */
    size_t parameters, learned;         /* numbers in the block of all tensors; of those learned */
    size_t input_width[MODEL_LAYERS_MAX];  /* I of each layer; symbol one-hot: V */
    size_t state_offset[MODEL_LAYERS_MAX]; /* of a layer's h in the state; an inner state follows */
    size_t state_size;                     /* S: numbers in one stream's state */
    size_t ages;       /* of norms that go by age, the most steps; 0: there are none */
    size_t age_offset; /* with ages: of the steps since the stream began, at most ages, in the
                          state; its last number */
    size_t x_size;     /* numbers in an x as it is sent: I; of a symbol 1; of columns one each */
    size_t features;   /* numbers in the engine's x: I, with scale: forecast 3 I or 4 I; of a symbol
                          1; of columns what they encode, with a symbol's id for its row; with the
                          last `times` of them, of the example's time */
    size_t times;
    struct input_part parts[MODEL_PARTS_MAX]; /* in their order; numbers that follow each other are
                                                 one part */
    size_t part_count;  /* 0: the encoded input is the engine's x, or that of one symbol (which is a
                           part where it is hashed and embedded: its row may count as minus that) */
    size_t embeddings;  /* parts that are embedded */
    size_t solved;      /* of an output that is solved: inputs of its least squares, the last
                           layer's h, the skip path's x and 1; else 0 */
    size_t outputs;     /* K: activations of the last linear layer, those of one horizon after
                           those of another */
    size_t target_size; /* numbers in one target: size; softmax: 1 class id */
    size_t horizons;    /* targets of one step, each with K / horizons activations */
    size_t open;        /* steps of a stream that are open at once at most, right after a STEP */
};

/* Steps from a step to its target at a horizon. */
static inline size_t output_ahead(const struct output *output, size_t horizon) {
    return output->ahead.count ? output->ahead.steps[horizon] : 1;
}

/* The number of x that is number k of a target of `next`. */
static inline size_t output_column(const struct output *output, size_t k) {
    return output->column_count ? output->columns[k] : k;
}

/* Where targets come from: they are the x of later steps; or are sent, with x, or later as labels.
   Whether x goes to experts first, and the network is one of several forecasts (scale: forecast).
 */
static inline bool output_is_next(const struct output *output) {
    return output->target == TARGET_NEXT;
}
static inline bool output_is_later(const struct output *output) {
    return output->target == TARGET_LATER;
}
static inline bool targets_are_inputs(const struct model *model) {
    return output_is_next(&model->architecture.output);
}
static inline bool targets_are_labels(const struct model *model) {
    return output_is_later(&model->architecture.output);
}
static inline bool targets_are_given(const struct model *model) {
    return model->architecture.output.target == TARGET_GIVEN;
}
static inline bool input_has_experts(const struct input *input) {
    return input->scale == SCALE_FORECAST;
}
static inline bool inputs_have_experts(const struct model *model) {
    return input_has_experts(&model->architecture.input);
}

/* Whether inputs and targets are standardized, those of columns as each of them says. */
static inline bool input_is_standard(const struct input *input) {
    return input->scale == SCALE_STANDARD;
}
static inline bool output_is_standard(const struct output *output) {
    return output->scale == SCALE_STANDARD;
}

/* Whether x are numbers, or of columns that are no symbol alone; else one symbol. */
static inline bool input_is_real(const struct input *input) {
    return input->kind == INPUT_REAL;
}

/* Positions of a slot's ring: the closed steps of a window and the open ones. */
static inline size_t model_ring(const struct model *model, size_t window) {
    return window + model->open;
}

/* Where more than one step may be open, what was said of each is kept at its position, else there
   is one place for it: how many places there are, and which is a position's. */
static inline size_t model_places(const struct model *model, size_t window) {
    return model->open > 1 ? model_ring(model, window) : 1;
}
static inline size_t model_place(const struct model *model, size_t position) {
    return model->open > 1 ? position : 0;
}

/* Build the table. The architecture must be one that config_load has accepted. */
void model_build(struct model *model, const struct architecture *architecture);

/* The numbers in a tensor. */
size_t tensor_size(const struct tensor *tensor);

/* The tensor of that role and layer, or NULL when the model has none. */
const struct tensor *model_find(const struct model *model, enum tensor_role role, size_t layer);

/* The tensor of that name, or NULL. */
const struct tensor *model_named(const struct model *model, const char *name);

/* Fill `values` (tensor_size(tensor),) with its starting values, a function of seed and tensor name
   alone:
     weight_hh         a random orthogonal matrix per gate
     other weights     uniform in +-1/sqrt(fan-in), where fan-in is, as in torch.nn.init, the second
                       dimension: I, for the output H, for the embedding E
     bias_ih, bias_hh  uniform in +-1/sqrt(H), as in torch.nn.LSTM
     output.bias, and a dense layer's bias without norm
                       uniform in +-1/sqrt(fan-in), as in torch.nn.Linear
     gains             `gain`;  norms' biases 0
     running_mean 0, running_var 1; an output that is solved 0
   and forget_bias is added to the forget gate of norm_ih.bias, of bias_ih without norm.
   Returns -1 (EX_UNAVAILABLE) when out of memory. */
int model_initialize(const struct model *model, const struct tensor *tensor, uint64_t seed,
                     float *values, struct error *error);

/* Numbers in a slot's record: the form in which a slot travels between an engine and a checkpoint.
   state (S) | outputs (places, K) | of a model with `solved` what these are solved with
   (places, solved - 1) | for each position of the ring: state before (S) | x (features) | y
   (horizons, target_size) | for each horizon 1.0 when that y is to be learned from, else 0. Symbols
   and class ids keep their bits. */
size_t slot_record_size(const struct model *model, size_t window);

/* ---- summary.c ---- */

/* What the configuration calls them; NULL after the last. */
const char *input_kind_name(enum input_kind kind);
const char *input_scale_name(enum input_scale scale);
const char *target_name(enum target target);

/* What number k of x is called: "load", or without columns "x[3]". Returns `name`. */
const char *input_label(const struct input *input, size_t k, char name[COLUMN_NAME_SIZE]);

/* The names of an input's columns, or of targets, "load, host"; "" without columns. Returns `text`.
 */
enum { MODEL_NAMES_SIZE = COLUMNS_MAX * (COLUMN_NAME_SIZE + 1) };
const char *model_column_names(const struct architecture *architecture, bool targets,
                               char text[MODEL_NAMES_SIZE]);

enum { MODEL_SUMMARY_SIZE = 1024 };

/* "real 8 (standard) > lstm 128 norm > squared 8, next" */
void model_summary(const struct architecture *architecture, char text[MODEL_SUMMARY_SIZE]);

#endif
