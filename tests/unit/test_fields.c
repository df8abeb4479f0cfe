/* The table of fields: its consistency, and its agreement with the descriptors of kinds. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/fields.h"
#include "common/json_text.h"
#include "engine/engine.h"
#include "kernels/kinds.h"

enum { TEXT_SIZE = 1024 };

/* Compare each field with each other, in all tables. */
typedef void check_pair(const struct field *a, const struct field *b, bool same_table);

static void check_pairs(check_pair *check) {
    for (int s = 0; s < FIELD_TABLES; s++)
        for (int i = 0; i < field_tables[s].count; i++)
            for (int t = s; t < FIELD_TABLES; t++)
                for (int j = t == s ? i + 1 : 0; j < field_tables[t].count; j++)
                    check(&field_tables[s].fields[i], &field_tables[t].fields[j], s == t);
}

static void differ(const char *a, const char *b) {
    if (a && b)
        assert_string_not_equal(a, b);
}

static void check_names(const struct field *a, const struct field *b, bool same_table) {
    if (same_table)
        assert_string_not_equal(a->name, b->name);
    differ(a->metric.name, b->metric.name);
    differ(a->column.name, b->column.name);
    if (a->column.name && b->column.name)
        assert_int_not_equal(a->column.place, b->column.place);
}

static void names_are_taken_once(void **state) {
    check_pairs(check_names);
}

/* Names are unquoted columns of SQL. */
static void check_name(const char *name) {
    static const char *const words[] = {"index",  "order", "group",    "from",     "to",
                                        "values", "table", "where",    "limit",    "select",
                                        "set",    "in",    "is",       "number",   "run",
                                        "layer",  "level", "messages", "histogram"};
    assert_true(islower((unsigned char)*name));
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(name));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_string_not_equal(name, words[i]);
}

static void check_metric(const struct field *field) {
    const char *name = field->metric.name, *unit = field->metric.unit;
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(name));
    if (unit) /* OpenMetrics requires it at the end */
        assert_string_equal(name + strlen(name) - strlen(unit), unit);
}

static void check_column(const struct field *field) {
    const char *title = field->column.title ? field->column.title : field->column.name;
    assert_true((int)strlen(title) <= field->column.width);
    assert_true(field->column.place > 0 && field->column.rank >= 0);
    assert_true(field->type == FIELD_NUMBER || field->type == FIELD_COUNT);
}

static void rows_are_whole(void **state) {
    for (int t = 0; t < FIELD_TABLES; t++)
        for (int i = 0; i < field_tables[t].count; i++) {
            const struct field *field = &field_tables[t].fields[i];
            bool recorded =
                t >= FIELDS_OF_LOSS && (field->type == FIELD_NUMBER || field->type == FIELD_COUNT);
            char path[TEXT_SIZE];
            snprintf(path, sizeof path, "%s%s%s", field->group, *field->group ? "." : "",
                     field->key);
            assert_string_equal(field->path, path);
            assert_true(*field->meaning && field->meaning[strlen(field->meaning) - 1] != '.');
            assert_non_null(field_need_text(field->need));
            if (recorded)
                check_name(field->name);
            if (field->metric.name)
                check_metric(field);
            if (field->column.name)
                check_column(field);
        }
}

/* fields_write opens each group once. */
static void groups_stand_together(void **state) {
    for (int t = 0; t < FIELD_TABLES; t++)
        for (int i = 1; i < field_tables[t].count; i++) {
            const char *group = field_tables[t].fields[i].group;
            bool begins = *group && strcmp(group, field_tables[t].fields[i - 1].group) != 0;
            for (int before = 0; begins && before < i; before++)
                assert_string_not_equal(group, field_tables[t].fields[before].group);
        }
}

static json_t *written(enum field_table_of table, const void *values, unsigned has) {
    struct json_text text = {0};
    json_text_begin(&text);
    fields_write(&text, table, values, has);
    assert_true(json_text_end(&text));
    json_t *object = json_loadb(text.bytes, text.size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_text_free(&text);
    return object;
}

/* Rows without names are a list; rows with names are an object. */
static void rows_are_objects(void **state) {
    static const char *const names[] = {"last", "ar3"};
    const double numbers[] = {1, 0.25, NAN, 0.75}, errors[] = {2, 1, 0.5, 6, 7, 4, 3, NAN, 8, 9};
    struct loss_fields loss;
    fields_clear(FIELDS_OF_LOSS, &loss);
    loss.columns = (struct field_rows){&field_tables[FIELDS_OF_COLUMN], NULL, 2, errors};
    loss.experts = (struct field_rows){&field_tables[FIELDS_OF_EXPERT], names, 2, numbers};
    json_t *object = written(FIELDS_OF_LOSS, &loss, ~0u);
    json_t *row = json_array_get(json_object_get(object, "columns"), 1);
    assert_true(json_is_null(json_object_get(row, "skill")));
    assert_true(json_number_value(json_object_get(row, "rmse")) == 4);
    assert_true(json_number_value(json_object_get(row, "crps")) == 8);
    row = json_object_get(json_object_get(object, "experts"), "ar3");
    assert_true(json_is_null(json_object_get(row, "mean")));
    assert_true(json_number_value(json_object_get(row, "weight")) == 0.75);
    json_decref(object);
    object = written(FIELDS_OF_LOSS, &loss, FIELD_HAS(NEED_ERROR));
    row = json_array_get(json_object_get(object, "columns"), 1);
    assert_true(json_number_value(json_object_get(row, "rmse")) == 4);
    assert_null(json_object_get(row, "crps"));
    json_decref(object);
}

/* Written values are read from the same member. */
static void values_come_back(void **state) {
    struct loss_fields loss;
    fields_clear(FIELDS_OF_LOSS, &loss);
    for (int i = 0; i < FIELDS; i++)
        if (fields_of_loss[i].type == FIELD_NUMBER) {
            double *value = (double *)((char *)&loss + fields_of_loss[i].offset);
            assert_true(isnan(*value));
            *value = i + 0.5;
        } else if (fields_of_loss[i].type == FIELD_COUNT) {
            uint64_t *value = (uint64_t *)((char *)&loss + fields_of_loss[i].offset);
            assert_int_equal(*value, 0);
            *value = (uint64_t)i;
        }
    json_t *object = written(FIELDS_OF_LOSS, &loss, ~0u);
    for (int i = 0; i < FIELDS; i++)
        if (fields_of_loss[i].type == FIELD_NUMBER)
            assert_true(loss_number(object, (enum loss_field)i) == i + 0.5);
        else if (fields_of_loss[i].type == FIELD_COUNT)
            assert_true(loss_number(object, (enum loss_field)i) == i);
        else
            assert_true(isnan(loss_number(object, (enum loss_field)i)));
    json_decref(object);
}

static void what_is_not_there_is_left_out(void **state) {
    const struct field_count reasons[] = {{"json", 2}, {"key", 0}};
    struct status_fields status;
    fields_clear(FIELDS_OF_STATUS, &status);
    status.name = "a\"b";
    status.journal_keep = (struct field_choice){NULL, 7};
    status.security_refused_by = (struct field_tally){reasons, 2};
    json_t *object = written(FIELDS_OF_STATUS, &status, 0);
    assert_string_equal(json_string_value(json_object_get(object, "name")), "a\"b");
    assert_true(json_is_null(json_object_get(object, "resumed")));
    assert_true(json_is_null(json_object_get(object, "uptime")));
    assert_true(json_is_false(json_object_get(object, "predictions")));
    /* because its fields can be null */
    assert_true(json_is_null(json_object_get(object, "checkpoint")));
    assert_null(json_object_get(object, "journal"));
    assert_null(json_object_get(object, "security"));
    json_decref(object);
    object = written(FIELDS_OF_STATUS, &status, FIELD_HAS(NEED_JOURNAL) | FIELD_HAS(NEED_KEYS));
    assert_true(status_number(object, STATUS_journal_keep) == 7);
    json_t *expected = json_pack("{s:i}", "json", 2);
    assert_true(
        json_equal(field_member(&fields_of_status[STATUS_security_refused_by], object), expected));
    json_decref(expected);
    json_decref(object);
    struct loss_fields loss = {.metric_bits = 1};
    object = written(FIELDS_OF_LOSS, &loss, FIELD_HAS(NEED_BITS));
    assert_int_equal(json_object_size(json_object_get(object, "metric")), 1);
    json_decref(object);
    const uint32_t bins[FIELD_BINS] = {3};
    const struct layer_fields layer = {.kind = "gru", .size = 64, .histogram = bins};
    object = written(FIELDS_OF_LAYER, &layer, FIELD_HAS(NEED_RECURRENT));
    assert_non_null(json_object_get(object, "summed_recurrent"));
    assert_null(json_object_get(object, "cell"));
    double read[FIELD_BINS];
    assert_true(layer_bins(object, read) && read[0] == 3 && read[1] == 0);
    json_decref(object);
}

static const struct folded {
    enum field_fold fold;
    double older, newer, both;
} folds[] = {{FOLD_NEWER, 1, 2, 2},      {FOLD_NEWER, 1, NAN, 1},    {FOLD_MEAN, 1, 5, 2},
             {FOLD_MEAN, NAN, 5, 5},     {FOLD_MEAN, 1, NAN, 1},     {FOLD_LEAST, 1, 2, 1},
             {FOLD_LEAST, NAN, 2, 2},    {FOLD_GREATEST, 1, 2, 2},   {FOLD_GREATEST, 1, NAN, 1},
             {FOLD_MEAN, NAN, NAN, NAN}, {FOLD_LEAST, NAN, NAN, NAN}};

static void messages_become_one(void **state) {
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        const struct field field = {.fold = folds[i].fold};
        double both = field_fold(&field, folds[i].older, 3, folds[i].newer, 1);
        assert_true(isnan(folds[i].both) ? isnan(both) : both == folds[i].both);
    }
}

static void meanings_are_sentences(void **state) {
    char text[TEXT_SIZE], small[8];
    assert_string_equal(field_sentence(&fields_of_loss[FIELD_metric_bits], text, sizeof text),
                        "Mean divided by ln 2 (bits).");
    assert_string_equal(field_sentence(&fields_of_loss[FIELD_rejected_by], text, sizeof text),
                        "Messages rejected in this run, by reason.");
    field_sentence(&fields_of_loss[FIELD_mean], small, sizeof small);
    assert_string_equal(small, "Mean lo");
}

/* Add a name in Markdown to a list. */
static void add_name(char list[TEXT_SIZE], const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, TEXT_SIZE - used, "%s`%s`", used ? ", " : "", name);
}

static void check_losses(enum field_need need, enum metric metric) {
    char list[TEXT_SIZE] = "";
    for (int i = 0; i < LOSSES; i++)
        if (loss_kind((enum loss)i)->metrics & metric)
            add_name(list, loss_kind((enum loss)i)->name);
    assert_string_equal(field_need_text(need), list);
}

static void check_baselines(void) {
    char list[TEXT_SIZE] = "";
    for (int i = 0; i < LOSSES; i++)
        if (loss_kind((enum loss)i)->baseline != BASELINE_NONE)
            add_name(list, loss_kind((enum loss)i)->name);
    assert_string_equal(field_need_text(NEED_BASELINE), list);
}

static void kinds_are_those_of_the_list(void **state) {
    char all[TEXT_SIZE] = "", recurrent[TEXT_SIZE] = "", cells[TEXT_SIZE] = "";
    for (int i = 0; i < CELLS; i++) {
        const struct cell_kind *cell = cell_kind((enum cell)i);
        add_name(all, cell->kind.name);
        if (cell->apart)
            add_name(recurrent, cell->kind.name);
        if (cell->states > cell->outputs)
            add_name(cells, cell->kind.name);
    }
    assert_string_equal(fields_of_layer[LAYER_kind].meaning, all);
    assert_string_equal(field_need_text(NEED_RECURRENT), recurrent);
    assert_string_equal(field_need_text(NEED_CELL), cells);
    check_losses(NEED_ERROR, METRIC_RMSE);
    check_losses(NEED_CLASSES, METRIC_ACCURACY);
    check_losses(NEED_BITS, METRIC_BITS);
    check_baselines();
    assert_int_equal(FIELD_BINS, MEASURE_BINS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_once),
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(groups_stand_together),
        cmocka_unit_test(rows_are_objects),
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(what_is_not_there_is_left_out),
        cmocka_unit_test(messages_become_one),
        cmocka_unit_test(meanings_are_sentences),
        cmocka_unit_test(kinds_are_those_of_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
