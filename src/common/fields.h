/* The fields of messages. What a field is called, in which unit it is, what it means and how it is
   shown stands once, in fields.def; from there come

     - the JSON of `status`, `loss` and `state` (fields_write, and the structs with their values),
     - what is recorded of it: columns of SQLite and CSV, tags of TensorBoard,
     - the names, kinds and help of Prometheus, and /api/columns of runnel-web,
     - the columns of runnel-watch, and how runnel-top puts several messages together,
     - the tables of docs/reference/protocol.md (`make documents`).

   To add one: docs/explanation/design.md, "A field of a message". Nothing here knows who writes or reads them.
 */
#ifndef RUNNEL_FIELDS_H
#define RUNNEL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

struct json_text;

enum { FIELD_BINS = 20 }; /* of a histogram over [-1, 1] */

/* An object with a count for each name; those that are 0 are left out. */
struct field_tally {
    const struct field_count {
        const char *name;
        uint64_t count;
    } * counts; /* (size,) */
    size_t size;
};

struct field_table;

/* Rows of numbers, of the fields of `table` each: a list of objects, or an object of them by name.
 */
struct field_rows {
    const struct field_table *table;
    const char *const *names; /* (size,); NULL: a list */
    size_t size;
    const double *numbers; /* (size, table->count) */
};

/* A word, or where that is NULL a count. */
struct field_choice {
    const char *word;
    uint64_t count;
};

/* What a value is in C, for each type of fields.def, and whether it is one number. */
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

/* What the daemon or the network must have for a field to be there. */
enum field_need {
    NEED_NOTHING,
    NEED_ERROR,     /* targets that are numbers: an error in their units */
    NEED_CLASSES,   /* predictions that are right or wrong */
    NEED_BITS,      /* a loss that is a code length */
    NEED_BASELINE,  /* a loss that a simple forecast has, too */
    NEED_EXPERTS,   /* several forecasts that are mixed */
    NEED_ANOMALY,   /* a daemon that looks for what is abnormal */
    NEED_RECURRENT, /* a layer whose recurrent sums stand apart */
    NEED_CELL,      /* a layer with a cell state */
    NEED_NORM,      /* a layer that is normalized */
    NEED_RUNNING,   /* by running statistics */
    NEED_REPLAY,    /* a daemon that replays its journal */
    NEED_CHECKPOINT,
    NEED_JOURNAL,
    NEED_CONSUMER, /* a broker that the daemon reads itself */
    NEED_FLEET,    /* daemons that share a broker's partitions out */
    NEED_KEYS,
    NEED_COLUMNS, /* inputs whose columns have names */
    NEED_LABELS,  /* targets that come later */
    NEED_TIMES,   /* inputs that are made of times */
    NEED_WORDS,   /* symbols or classes that are words */
    FIELD_NEEDS,
};
#define FIELD_HAS(need) (1u << (need)) /* in a set of them */

/* What becomes of the numbers of several messages that one stands for. */
enum field_fold { FOLD_NEWER, FOLD_MEAN, FOLD_LEAST, FOLD_GREATEST };

/* A clock is a gauge that grows with the time since its message. */
enum metric_kind { METRIC_GAUGE, METRIC_COUNTER, METRIC_CLOCK };

struct field {
    const char *group, *key; /* `group`: the member of the message that holds it; "" = none does */
    const char *path;        /* "latency_us.p50" */
    const char *name;        /* "latency_us_p50": of columns */
    enum field_type type;
    size_t offset;       /* of its value in the struct of its table */
    const char *unit;    /* "nats" (of losses, but of squared errors, which have none), "us", ...;
                            "" = a pure number, or none at all */
    const char *meaning; /* a phrase in Markdown, without a period */
    const char *null;    /* when it is null; NULL = never */
    enum field_need need;
    enum field_fold fold;
    format_function *format; /* how people read it; NULL = as any number or count */

    struct {
        const char *name; /* in Prometheus, after runnel_; NULL = there is none. Of rows: the label
                             that tells them apart, and the beginning of their members' names */
        enum metric_kind kind;
        const char *unit;  /* the end of the name, where that is one; NULL = none */
        double scale;      /* from the message's unit to Prometheus'; 0 = the same */
        const char *label; /* of a tally: what its names are; NULL = "reason" */
    } metric;

    struct {
        const char *name;  /* of runnel-watch's column; NULL = there is none */
        const char *title; /* NULL = the name */
        int width;         /* in characters */
        int place;         /* from left to right, in steps of 10 */
        int rank; /* where not all fit, those of the lowest stay; 0: only when it is asked for */
    } column;
};

/* ---- Tables ---- */

enum field_table_of {
    FIELDS_OF_EACH, /* what every message begins with */
    FIELDS_OF_STATUS,
    FIELDS_OF_LOSS,
    FIELDS_OF_COLUMN, /* of each object in `columns` of `loss` */
    FIELDS_OF_EXPERT, /* in `experts` */
    FIELDS_OF_LAYER,  /* of each object in `layers` of `state` */
    FIELD_TABLES,
};

/* Places in the tables: EACH_examples, STATUS_name, FIELD_mean (of `loss`), LAYER_hidden_norm. */
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

/* Nothing is known yet: numbers are NaN, all else is zero. */
void fields_clear(enum field_table_of table, void *values);

/* Add the members of a table to an object: `values` is its struct, `has` the set of what is there
   of that which fields need. A group of which nothing is there is left out, or null where its
   fields can be. */
void fields_write(struct json_text *text, enum field_table_of table, const void *values,
                  unsigned has);

/* ---- Reading ---- */

/* What a message, or a layer of one, has there: NULL when it has no such member. */
const json_t *field_member(const struct field *field, const json_t *object);

/* The number there; NaN where there is none. */
double field_number(const struct field *field, const json_t *object);

/* The same by its place in the table of `status` or `loss` messages, or of a layer's. */
static inline double status_number(const json_t *message, enum status_field field) {
    return field_number(&fields_of_status[field], message);
}
static inline double loss_number(const json_t *message, enum loss_field field) {
    return field_number(&fields_of_loss[field], message);
}
static inline double layer_number(const json_t *layer, enum layer_field field) {
    return field_number(&fields_of_layer[field], layer);
}

/* A layer's histogram; false where there is none of FIELD_BINS counts. */
bool layer_bins(const json_t *layer, double bins[FIELD_BINS]);

/* The number of two messages, or of two that stand for several: NaN where neither has one. A weight
   is how many messages one stands for. */
double field_fold(const struct field *field, double older, double older_weight, double newer,
                  double newer_weight);

/* How people read it; NULL: a count, as exact as there is room for (format_count). */
format_function *field_format(const struct field *field);

/* For people: "nats or squared error". */
const char *field_unit_text(const struct field *field);

/* Its meaning as a sentence without marks and links, with the unit; cut to `size`. Returns `text`.
 */
char *field_sentence(const struct field *field, char *text, size_t size);

/* With what it is there alone, in Markdown: "`gru`, `lstm`"; "" = always. */
const char *field_need_text(enum field_need need);

#endif
