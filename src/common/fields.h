/* The fields of messages. fields.def defines the name, unit, meaning and format of each field
   once, for messages, recordings, metrics, programs and documents. docs/explanation/design.md, "A
   field of a message", describes how to add one. */
#ifndef RUNNEL_FIELDS_H
#define RUNNEL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

struct json_text;

enum { FIELD_BINS = 20 }; /* bins of a histogram over [-1, 1] */

/* An object with a count for each name, without counts of 0. */
struct field_tally {
    const struct field_count {
        const char *name;
        uint64_t count;
    } * counts; /* (size,) */
    size_t size;
};

struct field_table;

/* Rows of numbers, one for each field of `table`: written as a list of objects, or as an object
   of them by name. */
struct field_rows {
    const struct field_table *table;
    const char *const *names; /* (size,); NULL: a list */
    size_t size;
    const double *numbers; /* (size, table->count) */
};

/* A word, or if it is NULL a count. */
struct field_choice {
    const char *word;
    uint64_t count;
};

/* The C type of a value, for each type of fields.def, and whether it is one number. */
#define FIELD_C_NUMBER double /* null when it is not finite */
#define FIELD_C_COUNT uint64_t
#define FIELD_C_TEXT const char * /* null when it is NULL */
#define FIELD_C_FLAG bool
#define FIELD_C_TALLY struct field_tally
#define FIELD_C_ROWS struct field_rows
#define FIELD_C_CHOICE struct field_choice
#define FIELD_C_JSON const char *     /* a value of JSON as text; null when it is NULL */
#define FIELD_C_BINS const uint32_t * /* (FIELD_BINS,) */

#define FIELD_IS_NUMBER 1
#define FIELD_IS_COUNT 1
#define FIELD_IS_TEXT 0
#define FIELD_IS_FLAG 0
#define FIELD_IS_TALLY 0
#define FIELD_IS_ROWS 0
#define FIELD_IS_CHOICE 0
#define FIELD_IS_JSON 0
#define FIELD_IS_BINS 0

enum field_type {
    FIELD_NUMBER,
    FIELD_COUNT,
    FIELD_TEXT,
    FIELD_FLAG,
    FIELD_TALLY,
    FIELD_ROWS,
    FIELD_CHOICE,
    FIELD_JSON,
    FIELD_BINS_OF, /* FIELD_BINS counts */
};

/* The condition for the presence of a field. */
enum field_need {
    NEED_NOTHING,
    NEED_ERROR,     /* targets that are numbers: they have an error in their unit */
    NEED_CLASSES,   /* predictions that are right or wrong */
    NEED_BITS,      /* a loss that is a code length */
    NEED_BASELINE,  /* a loss that the simplest forecast also has */
    NEED_EXPERTS,   /* a mixture of several forecasts */
    NEED_ANOMALY,   /* a daemon with anomaly scores */
    NEED_RECURRENT, /* a layer with separate recurrent sums */
    NEED_CELL,      /* a layer with a cell state */
    NEED_NORM,      /* a layer with normalization */
    NEED_RUNNING,   /* normalization by running statistics */
    NEED_REPLAY,    /* a daemon that replays its journal */
    NEED_CHECKPOINT,
    NEED_JOURNAL,
    NEED_CONSUMER, /* a broker that the daemon reads itself */
    NEED_FLEET,    /* daemons that share the partitions of a broker */
    NEED_KEYS,
    NEED_COLUMNS,      /* inputs with named columns */
    NEED_LABELS,       /* targets that arrive later */
    NEED_TIMES,        /* inputs computed from times */
    NEED_DISTRIBUTION, /* distributions of forecasts */
    NEED_RATE,         /* alarms by a rate */
    NEED_WORDS,        /* symbols or classes that are words */
    NEED_SYMBOLS,      /* counts of symbols */
    NEED_OUTPUTS,      /* a list of outputs */
    NEED_RANKS,        /* a ranking */
    NEED_MESSAGES,     /* messages that are read or written */
    NEED_CHAINS,       /* other layers than those of `model.layers` */
    FIELD_NEEDS,
};
#define FIELD_HAS(need) (1u << (need)) /* the condition's bit in a set */

/* How to combine the numbers of several messages. */
enum field_fold { FOLD_NEWER, FOLD_MEAN, FOLD_LEAST, FOLD_GREATEST };

/* A clock is a gauge that grows with the age of its message. */
enum metric_kind { METRIC_GAUGE, METRIC_COUNTER, METRIC_CLOCK };

struct field {
    /* `group` is the member of the message that contains the field; "" = the message itself. */
    const char *group, *key;
    const char *path; /* "latency_us.p50" */
    const char *name; /* "latency_us_p50": the name of columns */
    enum field_type type;
    size_t offset; /* offset of its value in the struct of its table */
    /* "nats" (of losses; squared errors have no unit), "us", ...; "" = no unit. */
    const char *unit;
    const char *meaning; /* a phrase in Markdown, without a period */
    const char *null;    /* the condition for null; NULL = never */
    enum field_need need;
    enum field_fold fold;
    format_function *format; /* format for people; NULL = as any number or count */

    struct {
        /* The name in Prometheus, after runnel_; NULL = no metric. For rows, the label with
           their names, and the beginning of the names of their members. */
        const char *name;
        enum metric_kind kind;
        const char *unit;  /* the unit at the end of the name; NULL = none */
        double scale;      /* factor from the message's unit to Prometheus's; 0 = 1 */
        const char *label; /* label with the names of a tally; NULL = "reason" */
    } metric;

    struct {
        const char *name;  /* name of runnel-watch's column; NULL = no column */
        const char *title; /* NULL = the name */
        int width;         /* width in characters */
        int place;         /* order from left to right, in steps of 10 */
        int rank; /* columns of the highest rank are hidden first; 0: shown only on request */
    } column;
};

/* ---- Tables ---- */

enum field_table_of {
    FIELDS_OF_EACH, /* the beginning of every message */
    FIELDS_OF_STATUS,
    FIELDS_OF_LOSS,
    FIELDS_OF_COLUMN, /* each object in `columns` of `loss` */
    FIELDS_OF_EXPERT, /* each object in `experts` of `loss` */
    FIELDS_OF_LAYER,  /* each object in `layers` of `state` */
    FIELD_TABLES,
};

/* Indices into the tables: EACH_examples, STATUS_name, FIELD_mean (of `loss`),
   LAYER_hidden_norm. */
enum each_field {
#define EACH_ROW(name, ...) EACH_##name,
#include "fields.def"
    EACH_FIELDS
};
enum status_field {
#define STATUS_ROW(name, ...) STATUS_##name,
#include "fields.def"
    STATUS_FIELDS
};
enum loss_field {
#define ROW_OF_LOSS(name, ...) FIELD_##name,
#include "fields.def"
    FIELDS
};
enum column_field {
#define COLUMN_ROW(name, ...) COLUMN_##name,
#include "fields.def"
    COLUMN_FIELDS
};
enum expert_field {
#define EXPERT_ROW(name, ...) EXPERT_##name,
#include "fields.def"
    EXPERT_FIELDS
};
enum layer_field {
#define LAYER_ROW(name, ...) LAYER_##name,
#include "fields.def"
    LAYER_FIELDS
};

extern const struct field fields_of_each[EACH_FIELDS], fields_of_status[STATUS_FIELDS],
    fields_of_loss[FIELDS], fields_of_column[COLUMN_FIELDS], fields_of_expert[EXPERT_FIELDS],
    fields_of_layer[LAYER_FIELDS];

struct field_table {
    const char *name; /* "loss" */
    const struct field *fields;
    int count;
};
extern const struct field_table field_tables[FIELD_TABLES];

/* ---- Writing ---- */

struct each_fields {
#define EACH_ROW(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};
struct status_fields {
#define STATUS_ROW(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};
struct loss_fields {
#define ROW_OF_LOSS(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};
struct column_fields {
#define COLUMN_ROW(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};
struct expert_fields {
#define EXPERT_ROW(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};
struct layer_fields {
#define LAYER_ROW(name, member, group, key, path, type, ...) FIELD_C_##type name;
#include "fields.def"
};

/* Set all numbers to NaN and all other values to zero. */
void fields_clear(enum field_table_of table, void *values);

/* Add the members of a table to an object. `values` is its struct, `has` the set of conditions
   that hold. A group without present fields is omitted, or null if its fields can be null. */
void fields_write(struct json_text *text, enum field_table_of table, const void *values,
                  unsigned has);

/* ---- Reading ---- */

/* The value in a message, or in a layer; NULL if the member is missing. */
const json_t *field_member(const struct field *field, const json_t *object);

/* The number in a message; NaN if it is missing. */
double field_number(const struct field *field, const json_t *object);

/* The number in a `status` or `loss` message, or in a layer, by its index in the table. */
static inline double status_number(const json_t *message, enum status_field field) {
    return field_number(&fields_of_status[field], message);
}
static inline double loss_number(const json_t *message, enum loss_field field) {
    return field_number(&fields_of_loss[field], message);
}
static inline double layer_number(const json_t *layer, enum layer_field field) {
    return field_number(&fields_of_layer[field], layer);
}

/* The histogram of a layer; false unless it has FIELD_BINS counts. */
bool layer_bins(const json_t *layer, double bins[FIELD_BINS]);

/* Combine the numbers of two messages, each of which may stand for several: NaN if both are
   missing. A weight is a number of messages. */
double field_fold(const struct field *field, double older, double older_weight, double newer,
                  double newer_weight);

/* The format for people; NULL: a count, as exact as the width allows (format_count). */
format_function *field_format(const struct field *field);

/* The meaning as a sentence without Markdown, with the unit; cut to `size`. Returns `text`. */
char *field_sentence(const struct field *field, char *text, size_t size);

/* The condition in Markdown: "`gru`, `lstm`"; "" = always present. */
const char *field_need_text(enum field_need need);

#endif
