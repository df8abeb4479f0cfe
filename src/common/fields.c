#include "fields.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_member.h"
#include "json_text.h"

#define FIELD_TYPE_NUMBER FIELD_NUMBER
#define FIELD_TYPE_COUNT FIELD_COUNT
#define FIELD_TYPE_TEXT FIELD_TEXT
#define FIELD_TYPE_FLAG FIELD_FLAG
#define FIELD_TYPE_TALLY FIELD_TALLY
#define FIELD_TYPE_ROWS FIELD_ROWS
#define FIELD_TYPE_CHOICE FIELD_CHOICE
#define FIELD_TYPE_JSON FIELD_JSON
#define FIELD_TYPE_BINS FIELD_BINS_OF

/* Arguments after the unit are the meaning, and designated members. */
#define DESCRIBE(name_, table, group_, key_, path_, type_, unit_, ...)                             \
    {.group = group_,                                                                              \
     .key = key_,                                                                                  \
     .path = path_,                                                                                \
     .name = #name_,                                                                               \
     .type = FIELD_TYPE_##type_,                                                                   \
     .offset = offsetof(struct table, name_),                                                      \
     .unit = unit_,                                                                                \
     .meaning = __VA_ARGS__},

const struct field fields_of_each[EACH_FIELDS] = {
#define EACH_ROW(name, member, ...) DESCRIBE(name, each_fields, __VA_ARGS__)
#include "fields.def"
};
const struct field fields_of_status[STATUS_FIELDS] = {
#define STATUS_ROW(name, member, ...) DESCRIBE(name, status_fields, __VA_ARGS__)
#include "fields.def"
};
const struct field fields_of_loss[FIELDS] = {
#define ROW_OF_LOSS(name, member, ...) DESCRIBE(name, loss_fields, __VA_ARGS__)
#include "fields.def"
};
const struct field fields_of_column[COLUMN_FIELDS] = {
#define COLUMN_ROW(name, member, ...) DESCRIBE(name, column_fields, __VA_ARGS__)
#include "fields.def"
};
const struct field fields_of_expert[EXPERT_FIELDS] = {
#define EXPERT_ROW(name, member, ...) DESCRIBE(name, expert_fields, __VA_ARGS__)
#include "fields.def"
};
const struct field fields_of_layer[LAYER_FIELDS] = {
#define LAYER_ROW(name, member, ...) DESCRIBE(name, layer_fields, __VA_ARGS__)
#include "fields.def"
};

const struct field_table field_tables[FIELD_TABLES] = {
    [FIELDS_OF_EACH] = {"each", fields_of_each, EACH_FIELDS},
    [FIELDS_OF_STATUS] = {"status", fields_of_status, STATUS_FIELDS},
    [FIELDS_OF_LOSS] = {"loss", fields_of_loss, FIELDS},
    [FIELDS_OF_COLUMN] = {"column", fields_of_column, COLUMN_FIELDS},
    [FIELDS_OF_EXPERT] = {"expert", fields_of_expert, EXPERT_FIELDS},
    [FIELDS_OF_LAYER] = {"layer", fields_of_layer, LAYER_FIELDS},
};

/* ---- Writing ---- */

void fields_clear(enum field_table_of table, void *values) {
    static const size_t sizes[FIELD_TABLES] = {
        [FIELDS_OF_EACH] = sizeof(struct each_fields),
        [FIELDS_OF_STATUS] = sizeof(struct status_fields),
        [FIELDS_OF_LOSS] = sizeof(struct loss_fields),
        [FIELDS_OF_COLUMN] = sizeof(struct column_fields),
        [FIELDS_OF_EXPERT] = sizeof(struct expert_fields),
        [FIELDS_OF_LAYER] = sizeof(struct layer_fields),
    };
    memset(values, 0, sizes[table]);
    for (int i = 0; i < field_tables[table].count; i++) {
        const struct field *field = &field_tables[table].fields[i];
        if (field->type == FIELD_NUMBER)
            *(double *)((char *)values + field->offset) = NAN;
    }
}

static void write_text(struct json_text *text, const char *key, const char *value) {
    if (value)
        json_text_string(text, key, value, strlen(value));
    else
        json_text_null(text, key);
}

static void write_tally(struct json_text *text, const char *key, const struct field_tally *tally) {
    json_text_open_object(text, key);
    for (size_t i = 0; i < tally->size; i++)
        if (tally->counts[i].count)
            json_text_count(text, tally->counts[i].name, tally->counts[i].count);
    json_text_close_object(text);
}

static bool is_there(const struct field *field, unsigned has) {
    return field->need == NEED_NOTHING || (has & FIELD_HAS(field->need));
}

static void write_rows(struct json_text *text, const char *key, const struct field_rows *rows,
                       unsigned has) {
    const double *number = rows->numbers;
    if (rows->names)
        json_text_open_object(text, key);
    else
        json_text_open_list(text, key);
    for (size_t i = 0; i < rows->size; i++) {
        json_text_open_object(text, rows->names ? rows->names[i] : NULL);
        for (int n = 0; n < rows->table->count; n++, number++)
            if (is_there(&rows->table->fields[n], has))
                json_text_number(text, rows->table->fields[n].key, *number);
        json_text_close_object(text);
    }
    if (rows->names)
        json_text_close_object(text);
    else
        json_text_close_list(text);
}

static void write_bins(struct json_text *text, const char *key, const uint32_t *bins) {
    json_text_open_list(text, key);
    for (int i = 0; i < FIELD_BINS; i++)
        json_text_count(text, NULL, bins[i]);
    json_text_close_list(text);
}

static void write_value(struct json_text *text, const struct field *field, const void *values,
                        unsigned has) {
    const void *value = (const char *)values + field->offset;
    const struct field_choice *choice = value;
    switch (field->type) {
    case FIELD_NUMBER:
        json_text_number(text, field->key, *(const double *)value);
        break;
    case FIELD_COUNT:
        json_text_count(text, field->key, *(const uint64_t *)value);
        break;
    case FIELD_TEXT:
        write_text(text, field->key, *(const char *const *)value);
        break;
    case FIELD_FLAG:
        json_text_flag(text, field->key, *(const bool *)value);
        break;
    case FIELD_TALLY:
        write_tally(text, field->key, value);
        break;
    case FIELD_ROWS:
        write_rows(text, field->key, value, has);
        break;
    case FIELD_CHOICE:
        if (choice->word)
            write_text(text, field->key, choice->word);
        else
            json_text_count(text, field->key, choice->count);
        break;
    case FIELD_JSON:
        json_text_raw(text, field->key, *(const char *const *)value);
        break;
    case FIELD_BINS_OF:
        write_bins(text, field->key, *(const uint32_t *const *)value);
        break;
    }
}

static void write_group(struct json_text *text, const struct field *field, const struct field *end,
                        const void *values, unsigned has) {
    const char *group = field->group;
    bool null = field->null, open = false;
    for (; field < end; field++) {
        if (!is_there(field, has))
            continue;
        if (!open)
            json_text_open_object(text, group);
        open = true;
        write_value(text, field, values, has);
    }
    if (open)
        json_text_close_object(text);
    else if (null)
        json_text_null(text, group);
}

void fields_write(struct json_text *text, enum field_table_of table, const void *values,
                  unsigned has) {
    const struct field *field = field_tables[table].fields;
    const struct field *end = field + field_tables[table].count;
    while (field < end) {
        const struct field *next = field + 1;
        if (!*field->group) {
            if (is_there(field, has))
                write_value(text, field, values, has);
        } else {
            while (next < end && strcmp(field->group, next->group) == 0)
                next++;
            write_group(text, field, next, values, has);
        }
        field = next;
    }
}

/* ---- Reading ---- */

const json_t *field_member(const struct field *field, const json_t *object) {
    return json_object_get(*field->group ? json_object_get(object, field->group) : object,
                           field->key);
}

double field_number(const struct field *field, const json_t *object) {
    const json_t *member = field_member(field, object);
    return json_is_number(member) ? json_number_value(member) : NAN;
}

bool layer_bins(const json_t *layer, double bins[FIELD_BINS]) {
    return member_counts(layer, fields_of_layer[LAYER_histogram].key, bins, FIELD_BINS) ==
           FIELD_BINS;
}

double field_fold(const struct field *field, double older, double older_weight, double newer,
                  double newer_weight) {
    if (field->fold == FOLD_LEAST)
        return fmin(older, newer);
    if (field->fold == FOLD_GREATEST)
        return fmax(older, newer);
    if (isnan(newer) || isnan(older))
        return isnan(newer) ? older : newer;
    return field->fold == FOLD_NEWER
               ? newer
               : (older * older_weight + newer * newer_weight) / (older_weight + newer_weight);
}

format_function *field_format(const struct field *field) {
    return field->format ? field->format : field->type == FIELD_NUMBER ? format_number : NULL;
}

char *field_sentence(const struct field *field, char *text, size_t size) {
    size_t used = 0;
    for (const char *c = field->meaning; *c && used + 1 < size; c++) {
        if (*c == ']' && c[1] == '(')
            c += strcspn(c, ")");
        else if (*c != '`' && *c != '[')
            text[used++] = *c;
    }
    text[0] = (char)toupper((unsigned char)text[0]);
    const char *unit = strcmp(field->unit, "nats") ? field->unit : "nats or squared error";
    /* Units of counts, rates and shares are clear from their format, and some metrics have the unit
       in their names. */
    bool wanted =
        *field->unit && field->type == FIELD_NUMBER && !field->format && !field->metric.unit;
    snprintf(text + used, size - used, "%s%s%s.", wanted ? " (" : "", wanted ? unit : "",
             wanted ? ")" : "");
    return text;
}

const char *field_need_text(enum field_need need) {
    static const char *const texts[FIELD_NEEDS] = {
        [NEED_NOTHING] = "",
        [NEED_ERROR] = "`squared`, `gaussian`",
        [NEED_CLASSES] = "`softmax`, `bernoulli`",
        [NEED_BITS] = "`softmax`, `bernoulli`, `mixture`",
        [NEED_BASELINE] = "`squared`, `gaussian`, `softmax`, `bernoulli`, `ranking`",
        [NEED_EXPERTS] = "`scale: forecast`, `preset: symbols`",
        [NEED_ANOMALY] = "`anomaly.enabled`",
        [NEED_RECURRENT] = "`gru`, `lstm`",
        [NEED_CELL] = "`lstm`",
        [NEED_NORM] = "a norm",
        [NEED_RUNNING] = "`batch`, `recurrent_batch`",
        [NEED_REPLAY] = "a replay",
        [NEED_CHECKPOINT] = "",
        [NEED_JOURNAL] = "a journal",
        [NEED_CONSUMER] = "`examples.redis`, `examples.kafka`",
        [NEED_FLEET] = "`fleet.lease`",
        [NEED_KEYS] = "keys",
        [NEED_COLUMNS] = "`model.input.columns`",
        [NEED_LABELS] = "`target: later`",
        [NEED_TIMES] = "`model.input.time`",
        [NEED_RATE] = "`anomaly.rate`",
        [NEED_DISTRIBUTION] = "`distribution.enabled`",
        [NEED_WORDS] = "`vocabulary`",
        [NEED_SYMBOLS] = "`preset: symbols`",
        [NEED_OUTPUTS] = "`model.outputs`",
        [NEED_RANKS] = "`ranking`",
        [NEED_MESSAGES] = "`sequence`",
        [NEED_CHAINS] = "`sequence`, `ranking`",
    };
    return texts[need];
}
