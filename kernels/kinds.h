/* What a network and its learning are put together from: losses and optimizers. Each kind is one
   file (kernels/losses/, kernels/optimizers/) with a constant description, whose type stands here,
   beside its formulas; kinds.def lists them. Everybody decides by what a description says, never by
   which kind it is. */
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

/* What a prediction tells of an activation a. */
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

/* What is told of the scored targets beside the loss. */
enum metric {
    METRIC_RMSE = 1,     /* of the first part, in original units */
    METRIC_ACCURACY = 2, /* the largest activation is that of the class, or a number's probability
                            lies on the target's side of 1/2 */
    METRIC_BITS = 4,     /* the loss in bits, for the loss is in nats */
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

/* As configured. */
struct optimizer {
    enum optimizer_id kind;
    double rate;
    double weight_decay; /* pull of the parameters towards 0 */
#define KEY_OF_OPTIMIZERS(type, name) type name;
#include "kinds.def"
};

/* A key that an optimizer takes. Those that take the same key say the same of it. */
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

enum { MOMENTS_MAX = 2, KIND_KEYS_MAX = 6 };

struct optimizer_kind {
    const char *name;
    struct kind_key keys[KIND_KEYS_MAX]; /* up to the one without a name */
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

#endif
