/* Rules of columns: what the rest of the configuration takes from them, and what they take from it.
 */
#include <stdio.h>
#include <string.h>

#include "config_internal.h"

static const char columns_path[] = "model.input.columns", names_path[] = "model.output.columns";

static bool given(const struct reading *reading, const char *path) {
    return config_place(reading, path)->given;
}

static struct input *input_of(struct reading *reading) {
    return &reading->draft.config.architecture.input;
}

/* ---- Printing ---- */

void config_print_columns(const struct input *input, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (size_t n = 0; n < input->column_count && used < size; n++) {
        const struct column *column = &input->columns[n];
        used += (size_t)snprintf(text + used, size - used, n ? ", {" : "[{");
        for (unsigned k = 0; k < COLUMN_KEYS && used < size; k++) {
            const struct config_key *key = &config_column_keys[k];
            char value[CONFIG_TEXT_SIZE];
            if (key->is && strcmp(key->is, column_kind_name(column->kind)) != 0)
                continue;
            config_value_print(key, 0, config_column_draft(column), value, sizeof value);
            if (strcmp(value, key->fallback) != 0)
                used += (size_t)snprintf(text + used, size - used, "%s%s: %s", k ? ", " : "",
                                         key->path, value);
        }
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "}");
    }
    if (input->column_count && used < size)
        snprintf(text + used, size - used, "]");
}

void config_print_column_names(const struct draft *draft, char *text, size_t size) {
    const struct architecture *architecture = &draft->config.architecture;
    const struct output *output = &architecture->output;
    size_t used = 0;
    *text = 0;
    for (size_t n = 0; n < output->column_count && used < size; n++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", n ? ", " : "[",
                                 output->target == TARGET_NEXT
                                     ? architecture->input.columns[output->columns[n]].name
                                     : architecture->target_names[n]);
    if (output->column_count && used < size)
        snprintf(text + used, size - used, "]");
}

/* ---- Before other keys ---- */

bool config_columns_say(const struct reading *reading, const char *path) {
    static const char vocabulary[] = "model.input.vocabulary.";
    bool symbol = reading->draft.config.architecture.input.kind == INPUT_SYMBOL;
    return given(reading, columns_path) &&
           (!strcmp(path, "model.input.kind") || !strcmp(path, "model.input.size") ||
            (symbol && (!strcmp(path, "model.input.embedding") ||
                        !strncmp(path, vocabulary, sizeof vocabulary - 1))));
}

/* One symbol alone, without times beside it, is what its short form is. */
int config_begin_columns(struct reading *reading) {
    static const char *const said[] = {"model.input.kind", "model.input.size",
                                       "model.input.embedding"};
    struct input *input = input_of(reading);
    if (!given(reading, columns_path))
        return 0;
    for (size_t n = 0; n < sizeof said / sizeof *said; n++)
        if (given(reading, said[n]))
            return config_fail(reading, said[n],
                               "found beside model.input.columns, which says what an input is; "
                               "leave it out");
    const struct column *first = &input->columns[0];
    bool symbol = input->column_count == 1 && first->kind == COLUMN_SYMBOL && !first->hash &&
                  !config_has_time(reading);
    input->kind = symbol ? INPUT_SYMBOL : INPUT_REAL;
    input->size = symbol ? first->size : input->column_count;
    input->embedding = symbol ? first->embedding : 0;
    input->vocabulary = symbol ? first->vocabulary : (struct vocabulary){0};
    return 0;
}

/* ---- Inputs ---- */

static bool says(const struct column *column, enum column_key key) {
    return column->given >> key & 1;
}

/* What it does not say it has from model.input. */
static int inherit(struct reading *reading, size_t n) {
    const struct input *input = input_of(reading);
    struct column *column = &input_of(reading)->columns[n];
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s.%zu", columns_path, n);
    if (!says(column, COLUMN_SCALE))
        column->standard = input->scale == SCALE_STANDARD;
    if (!column->standard && (says(column, COLUMN_MEMORY) || says(column, COLUMN_LIMIT)))
        return config_fail(reading, path,
                           "found %s of the column %s with scale: none; it is allowed only with "
                           "scale: standard",
                           says(column, COLUMN_MEMORY) ? "memory" : "limit", column->name);
    if (column->standard && !says(column, COLUMN_MEMORY))
        column->memory = input->memory;
    if (column->standard && !says(column, COLUMN_LIMIT))
        column->limit = input->limit;
    if (!says(column, COLUMN_MISSING))
        column->hold = input->hold;
    return 0;
}

/* Experts say something of every column, in units of their own. */
static int check_forecast(struct reading *reading, size_t n) {
    static const enum column_key own[] = {COLUMN_SCALE, COLUMN_MEMORY, COLUMN_LIMIT, COLUMN_MASK};
    const struct column *column = &input_of(reading)->columns[n];
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s.%zu", columns_path, n);
    if (column->kind != COLUMN_REAL)
        return config_fail(reading, path,
                           "found the %s %s; allowed with scale: forecast are real columns alone: "
                           "use scale: standard, which takes all kinds",
                           column_kind_name(column->kind), column->name);
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (says(column, own[k]))
            return config_fail(reading, path,
                               "found %s of the column %s; with scale: forecast every column is in "
                               "units of its own: leave it out",
                               config_column_keys[own[k]].path, column->name);
    return 0;
}

static int check_input(struct reading *reading) {
    struct input *input = input_of(reading);
    bool forecast = input->scale == SCALE_FORECAST, standard = false, hold = false;
    size_t width = 0;
    for (size_t n = 0; n < input->column_count; n++) {
        const struct column *column = &input->columns[n];
        if (forecast && check_forecast(reading, n) != 0)
            return -1;
        if (column->kind == COLUMN_REAL && inherit(reading, n) != 0)
            return -1;
        standard |= column->standard;
        hold |= column->hold;
        width += column_width(column);
    }
    if (width > (size_t)INPUT_MAX)
        return config_fail(reading, columns_path,
                           "found columns that make %zu inputs; allowed are at most %.0f: give "
                           "symbols an embedding",
                           width, INPUT_MAX);
    if (!forecast)
        input->scale = standard ? SCALE_STANDARD : SCALE_NONE;
    input->hold = hold;
    return 0;
}

/* ---- Targets of `next` ---- */

static size_t find(const struct input *input, const char *name) {
    size_t n = 0;
    while (n < input->column_count && strcmp(input->columns[n].name, name) != 0)
        n++;
    return n;
}

static int choose_named(struct reading *reading) {
    const struct input *input = input_of(reading);
    struct output *output = &reading->draft.config.architecture.output;
    for (size_t n = 0; n < output->column_count; n++) {
        const char *name = reading->draft.output_columns[n];
        size_t column = find(input, name);
        if (column == input->column_count)
            return config_fail(reading, names_path,
                               "found %s, which no column of model.input.columns is called", name);
        for (size_t m = 0; m < n; m++)
            if (output->columns[m] == column)
                return config_fail(reading, names_path, "found %s twice; once is allowed", name);
        output->columns[n] = (uint16_t)column;
    }
    return 0;
}

/* All real columns; for classes the symbol. */
static int choose_by_kind(struct reading *reading, const struct loss_kind *loss) {
    const struct input *input = input_of(reading);
    struct output *output = &reading->draft.config.architecture.output;
    enum column_kind kind = loss->class_id ? COLUMN_SYMBOL : COLUMN_REAL;
    output->column_count = 0;
    for (size_t n = 0; n < input->column_count; n++)
        if (input->columns[n].kind == kind)
            output->columns[output->column_count++] = (uint16_t)n;
    if (output->column_count == 0)
        return config_fail(reading, "model.output.loss",
                           "found %s with target: next, but no column is a %s; it predicts %s",
                           loss->name, column_kind_name(kind),
                           loss->class_id ? "a symbol" : "numbers");
    if (loss->class_id && output->column_count > 1)
        return config_fail(reading, names_path,
                           "missing; needed with loss: %s is the one symbol that is predicted",
                           loss->name);
    return 0;
}

static int check_target(struct reading *reading, const struct loss_kind *loss,
                        const struct column *column) {
    if (loss->class_id != (column->kind == COLUMN_SYMBOL))
        return config_fail(reading, names_path, "found the %s %s with loss: %s, which predicts %s",
                           column_kind_name(column->kind), column->name, loss->name,
                           loss->class_id ? "one symbol" : "numbers, not symbols");
    if (column->standard && loss->parts[0].unit == UNIT_NONE)
        return config_fail(reading, names_path,
                           "found %s, which is scaled; allowed with loss: %s is scale: none, since "
                           "scaled targets would leave their range",
                           column->name, loss->name);
    return 0;
}

static int check_targets(struct reading *reading) {
    const struct input *input = input_of(reading);
    struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *loss = loss_kind(output->loss);
    if ((given(reading, names_path) ? choose_named(reading) : choose_by_kind(reading, loss)) != 0)
        return -1;
    for (size_t n = 0; n < output->column_count; n++)
        if (check_target(reading, loss, &input->columns[output->columns[n]]) != 0)
            return -1;
    size_t most = loss->class_id ? 1 : loss->size ? loss->size : output->column_count;
    if (output->column_count != most)
        return config_fail(reading, names_path, "found %zu columns; allowed with loss: %s is %zu",
                           output->column_count, loss->name, most);
    size_t size = loss->class_id ? input->columns[output->columns[0]].size : output->column_count;
    if (given(reading, "model.output.size") && output->size != size)
        return config_fail(reading, "model.output.size",
                           "found %zu; with target: next and columns it is %zu: leave it out",
                           output->size, size);
    output->size = size;
    return 0;
}

/* ---- Targets that are sent ---- */

/* Names of what y has; sizes follow from them. */
static int check_sent(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    struct output *output = &architecture->output;
    const struct loss_kind *loss = loss_kind(output->loss);
    size_t most = loss->class_id ? 1 : loss->size ? loss->size : output->column_count;
    if (!given(reading, names_path))
        return 0;
    memcpy(architecture->target_names, reading->draft.output_columns,
           sizeof architecture->target_names);
    for (size_t n = 0; n < output->column_count; n++)
        for (size_t m = 0; m < n; m++)
            if (!strcmp(architecture->target_names[m], architecture->target_names[n]))
                return config_fail(reading, names_path, "found %s twice; once is allowed",
                                   architecture->target_names[n]);
    if (output->column_count != most)
        return config_fail(reading, names_path, "found %zu names; allowed with loss: %s is %zu",
                           output->column_count, loss->name, most);
    if (loss->class_id)
        return 0;
    if (given(reading, "model.output.size") && output->size != output->column_count)
        return config_fail(reading, "model.output.size",
                           "found %zu beside %zu names in model.output.columns: leave it out",
                           output->size, output->column_count);
    output->size = output->column_count;
    return 0;
}

int config_check_columns(struct reading *reading) {
    struct input *input = input_of(reading);
    const struct output *output = &reading->draft.config.architecture.output;
    bool names = given(reading, names_path);
    if (output->target != TARGET_NEXT && check_sent(reading) != 0)
        return -1;
    if (output->target != TARGET_NEXT)
        return input->column_count ? check_input(reading) : 0;
    if (names && !input->column_count)
        return config_fail(reading, names_path,
                           "found without model.input.columns, whose names it has; leave it out");
    if (!input->column_count)
        return 0;
    if (names && input->scale == SCALE_FORECAST)
        return config_fail(reading, names_path,
                           "found with scale: forecast, which forecasts every column; leave it "
                           "out");
    if (check_input(reading) != 0)
        return -1;
    return input->scale == SCALE_FORECAST ? 0 : check_targets(reading);
}
