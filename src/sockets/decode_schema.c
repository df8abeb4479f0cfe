#include "decode_schema.h"

#include <string.h>

#include "common/text.h"

/* One of x and y, in the words of the schema. */
struct part {
    const char *dtype, *columns; /* names of its members */
    const char *what;            /* that it has */
    const struct shape *shape;   /* NULL: there is none */
};

static enum reject_reason check_type(const json_t *schema, const struct part *part, char *why) {
    const json_t *dtype = json_object_get(schema, part->dtype);
    const char *name = json_string_value(dtype);
    char quoted[TEXT_QUOTE_SIZE];
    if (!dtype || !part->shape)
        return REJECT_NOT;
    if (!name)
        return reject(REJECT_JSON, why, "the schema's \"%s\" is no string", part->dtype);
    if (strcmp(name, shape_type(part->shape)) == 0)
        return REJECT_NOT;
    return reject(REJECT_SCHEMA, why, "the schema's %s is %s, but this model takes %s", part->dtype,
                  text_quote(quoted, name, strlen(name)), shape_type(part->shape));
}

/* The name of a column: a string, or an object with one. */
static const char *column_name(const json_t *column) {
    return json_string_value(json_is_object(column) ? json_object_get(column, "name") : column);
}

/* How many columns there are; -1: it is neither a list nor a count. */
static int count_columns(const json_t *columns, size_t *count) {
    const double most = 1e9;
    double number = json_number_value(columns);
    *count = json_is_array(columns) ? json_array_size(columns) : (size_t)number;
    if (!json_is_array(columns) &&
        !(json_is_number(columns) && number >= 0 && number <= most && number == (double)*count))
        return -1;
    const json_t *column;
    size_t i;
    json_array_foreach(columns, i, column) {
        if (!column_name(column))
            return -1;
    }
    return 0;
}

/* A column where it stands: its name, and its kind where that is said. */
static enum reject_reason check_column(const json_t *column, size_t n, const struct column *own,
                                       char *why) {
    const char *name = column_name(column), *wanted = column_kind_name(own->kind);
    const json_t *kind = json_is_object(column) ? json_object_get(column, "kind") : NULL;
    char quoted[TEXT_QUOTE_SIZE];
    if (strcmp(name, own->name) != 0)
        return reject(REJECT_SCHEMA, why,
                      "column %zu of the schema is %s, but this model's is '%s'", n,
                      text_quote(quoted, name, strlen(name)), own->name);
    if (!kind)
        return REJECT_NOT;
    if (!json_is_string(kind))
        return reject(REJECT_JSON, why, "the \"kind\" of the schema's column '%s' is no string",
                      own->name);
    if (strcmp(json_string_value(kind), wanted) == 0)
        return REJECT_NOT;
    return reject(REJECT_SCHEMA, why,
                  "the schema's column '%s' is of the kind %s, but this model's is %s", own->name,
                  text_quote(quoted, json_string_value(kind), json_string_length(kind)), wanted);
}

/* Their names and kinds, where the model's have names, too. */
static enum reject_reason check_names(const json_t *columns, const struct shape *shape, char *why) {
    enum reject_reason reason = REJECT_NOT;
    for (size_t n = 0; shape->columns && n < json_array_size(columns) && reason == REJECT_NOT; n++)
        reason = check_column(json_array_get(columns, n), n, &shape->columns[n], why);
    return reason;
}

static enum reject_reason check_columns(const json_t *schema, const struct part *part, char *why) {
    const json_t *columns = json_object_get(schema, part->columns);
    size_t count, expected = part->shape ? part->shape->width : 0;
    char quoted[TEXT_QUOTE_SIZE];
    if (!columns)
        return REJECT_NOT;
    if (count_columns(columns, &count))
        return reject(REJECT_JSON, why, "the schema's \"%s\" is no list of names and no count",
                      part->columns);
    if (count == expected)
        return part->shape ? check_names(columns, part->shape, why) : REJECT_NOT;
    if (!part->shape)
        return reject(REJECT_SCHEMA, why,
                      "the schema has %zu %s, but this model's target is the next x; send no y",
                      count, part->what);
    if (!json_is_array(columns) || count < expected)
        return reject(REJECT_SCHEMA, why, "the schema has %zu %s, but this model takes %zu", count,
                      part->what, expected);
    const char *first = column_name(json_array_get(columns, expected));
    return reject(REJECT_SCHEMA, why,
                  "the schema has %zu %s, but this model takes %zu: %s is the first too many",
                  count, part->what, expected, text_quote(quoted, first, strlen(first)));
}

/* The names of columns that an x is to have, in any order: none is unknown, and each that must be
   there is. */
static enum reject_reason check_row(const json_t *names, const struct shape *x, char *why) {
    bool said[COLUMNS_MAX] = {false};
    char quoted[TEXT_QUOTE_SIZE], known[SHAPE_NAMES_SIZE];
    const json_t *name;
    size_t i;
    if (!names)
        return REJECT_NOT;
    if (!json_is_array(names))
        return reject(REJECT_JSON, why, "the schema's \"names\" is no list of names");
    if (!x->columns)
        return reject(REJECT_SCHEMA, why,
                      "the schema has names, but this model has no model.input.columns");
    json_array_foreach(names, i, name) {
        if (!json_is_string(name))
            return reject(REJECT_JSON, why, "the schema's \"names\" is no list of names");
        size_t k = shape_column(x, json_string_value(name), i);
        if (k == x->width)
            return reject(REJECT_SCHEMA, why,
                          "the schema has an unknown column %s; the columns are %s",
                          text_quote(quoted, json_string_value(name), json_string_length(name)),
                          shape_names(x, known));
        said[k] = true;
    }
    for (size_t k = 0; k < x->width; k++)
        if (!said[k] && !x->columns[k].hold)
            return reject(REJECT_SCHEMA, why,
                          "the schema has no column %s, which must be there (missing: hold lets a "
                          "real one be left out)",
                          x->columns[k].name);
    return REJECT_NOT;
}

enum reject_reason decode_schema(const json_t *schema, const struct shape *x, const struct shape *y,
                                 char why[REJECT_WHY_SIZE]) {
    const struct part parts[] = {{"dtype", "columns", "columns", x},
                                 {"target_dtype", "targets", "targets", y}};
    enum reject_reason reason = REJECT_NOT;
    if (!json_is_object(schema))
        return reject(REJECT_JSON, why, "\"schema\" is no object");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && reason == REJECT_NOT; i++) {
        reason = check_type(schema, &parts[i], why);
        if (reason == REJECT_NOT)
            reason = check_columns(schema, &parts[i], why);
    }
    return reason == REJECT_NOT ? check_row(json_object_get(schema, "names"), x, why) : reason;
}
