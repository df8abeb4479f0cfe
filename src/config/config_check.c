/* Defaults, and rules between the keys of the model and its streams: one section and one function
   of `checks` for each feature. */
#include "config_read.h"

#include "common/error.h"
#include "forecast/forecast.h"
#include "symbols/symbols.h"

static const char columns_path[] = "model.input.columns", names_path[] = "model.output.columns";
static const char time_path[] = "model.input.time", zone_path[] = "model.input.time_zone";

static struct input *input_of(struct reading *reading) {
    return &reading->draft.config.architecture.input;
}

static struct output *output_of(struct reading *reading) {
    return &reading->draft.config.architecture.output;
}

const char *config_losses(bool (*fits)(const struct loss_kind *kind), char text[CONFIG_TEXT_SIZE]) {
    char words[CONFIG_TEXT_SIZE] = "";
    for (enum loss loss = 0; loss < LOSSES; loss++)
        if (fits(loss_kind(loss)))
            config_words_add(words, loss_kind(loss)->name);
    config_words_list(words, text, CONFIG_TEXT_SIZE);
    return text;
}

/* ---- Presets ---- */

enum { F = 1 << PRESET_FORECAST, S = 1 << PRESET_SYMBOLS };

/* Values of presets. A layer's values apply if no layer is given. */
static const struct {
    unsigned presets; /* a set */
    const char *path, *value;
} preset_values[] = {
    {F, "model.input.kind", "real"},
    {S, "model.input.kind", "symbol"},
    {F, "model.input.scale", "forecast"},
    {F, "model.input.missing", "hold"},
    {F, "model.layers.*.cell", "gru"},
    {S, "model.layers.*.cell", "lstm"},
    {F, "model.layers.*.size", "64"},
    {S, "model.layers.*.size", "128"},
    {F, "model.output.loss", "squared"},
    {S, "model.output.loss", "softmax"},
    {F | S, "model.output.target", "next"},
    {F, "model.output.relative", "ar12"},
    {F, "model.output.readout", "rls"},
    {F | S, "learning.window", "16"},
    {F, "learning.stride", "4"},
    {F | S, "learning.optimizer.kind", "adam"},
    {F, "learning.optimizer.rate", "0.0003"},
    {S, "learning.optimizer.rate", "0.002"},
    {F | S, "learning.clip", "1"},
    {S, "combine", "logistic"},
    {F | S, "anomaly.enabled", "true"},
    {F | S, "anomaly.surprise", "true"},
    {F, "distribution.enabled", "true"},
};

static bool has_preset(const struct reading *reading, enum preset preset) {
    return reading->draft.config.preset == preset;
}

void config_preset_layers(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    if (has_preset(reading, PRESET_NONE) || architecture->layer_count ||
        config_section_given(reading, "model.layers"))
        return;
    reading->preset_layer = true;
    architecture->layer_count = 1;
}

/* The preset's value of a missing key; NULL = none. */
static const char *preset_value(const struct reading *reading, const struct config_key *key) {
    for (size_t n = 0; n < sizeof preset_values / sizeof *preset_values; n++)
        if (preset_values[n].presets >> reading->draft.config.preset & 1 &&
            !strcmp(preset_values[n].path, key->path))
            return config_key_layered(key) && !reading->preset_layer ? NULL
                                                                     : preset_values[n].value;
    return NULL;
}

static void add_preset_members(struct reading *reading) {
    struct config *config = &reading->draft.config;
    if (!has_preset(reading, PRESET_FORECAST) || config->members_given || reading->origin.member)
        return;
    config->members_given = true;
    config->member_count = 2;
    strcpy(config->members[0].name, "change");
    strcpy(config->members[1].name, "level");
    /* the first member sets nothing */
    static const char sets[] = "\0model.output.relative=none\0";
    memcpy(config->sets, sets, sizeof sets);
    config->sets_size = sizeof sets;
    config->members[1].sets = 1;
}

/* ---- Single keys ---- */

/* Whether the key was set for all layers but does not apply to this layer: it then belongs to
   the others. */
static bool is_of_others(const struct reading *reading, const struct config_key *key,
                         size_t layer) {
    if (!reading->places[key - config_keys][layer].all)
        return false;
    for (size_t n = 0; n < reading->draft.config.architecture.layer_count; n++)
        if (config_key_counts(key, n, &reading->draft))
            return true;
    return false;
}

/* Whether the key at that path follows from columns. A single symbol alone is a short form, too. */
static bool columns_define(const struct reading *reading, const char *path) {
    bool symbol = reading->draft.config.architecture.input.kind == INPUT_SYMBOL;
    return config_given(reading, columns_path) &&
           (!strcmp(path, "model.input.kind") || !strcmp(path, "model.input.size") ||
            (symbol && (!strcmp(path, "model.input.embedding") ||
                        config_path_below(path, "model.input.vocabulary"))));
}

/* Whether a target of the loss is a level, which can be scaled and has differences. */
static bool has_levels(const struct loss_kind *kind) {
    return kind->parts[0].unit == UNIT_LEVEL;
}

/* The value that a missing key inherits from others; false: its default. Targets that are levels
   have the scale of the inputs. A vocabulary defines an alphabet: its words, and one symbol for
   unknown words. */
static bool follows(const struct reading *reading, const char *path, char text[CONFIG_TEXT_SIZE]) {
    const struct input *input = &reading->draft.config.architecture.input;
    const struct output *output = &reading->draft.config.architecture.output;
    bool scaled = input->scale == SCALE_STANDARD && has_levels(loss_kind(output->loss)) &&
                  !*output->name && !output_is_message(output);
    bool next = output->target == TARGET_NEXT;
    const struct {
        const char *key, *from;
        bool follows;
    } inherited[] = {{"model.output.scale", "model.input.scale", scaled},
                     {"model.output.memory", "model.input.memory", scaled},
                     {"model.output.limit", "model.input.limit", scaled},
                     {"model.output.sequence.longest", "model.input.sequence.longest", true},
                     {"model.output.candidates.kind", "model.input.kind", next},
                     {"model.output.candidates.size", "model.input.size", next}};
    for (size_t n = 0; n < sizeof inherited / sizeof *inherited; n++)
        if (inherited[n].follows && !strcmp(inherited[n].key, path))
            return config_word_at(&reading->draft, inherited[n].from, 0, text);
    if (strcmp(path, "model.input.size") != 0 || input->kind != INPUT_SYMBOL ||
        (!input->vocabulary.capacity && !input->hash))
        return false;
    snprintf(text, CONFIG_TEXT_SIZE, "%zu",
             input->hash ? input->hash : input->vocabulary.capacity + 1);
    return true;
}

/* A given key must apply, and a required key must be given; a missing key gets its default. */
static int check_presence(struct reading *reading, const struct config_key *key, size_t layer) {
    char path[CONFIG_KEY_SIZE], word[CONFIG_TEXT_SIZE], text[CONFIG_TEXT_SIZE];
    struct place *place = &reading->places[key - config_keys][layer];
    bool given = place->given || columns_define(reading, key->path);
    bool counts = config_key_counts(key, layer, &reading->draft);
    if (given && !counts && is_of_others(reading, key, layer))
        given = place->given = false;
    const char *value = given || !counts ? NULL : preset_value(reading, key);
    if (!given && counts && !value && follows(reading, key->path, word))
        value = word;
    config_key_path(key, layer, path);
    if (given && !counts) {
        const char *when = config_path_last(key->when);
        config_words_list(key->is, text, sizeof text);
        return config_fail(reading, path, "requires %s: %s%s, got %s: %s", when, text,
                           key->symbols ? " or preset: symbols" : "", when,
                           config_word_at(&reading->draft, key->when, layer, word));
    }
    if (!given && !value && counts && key->flags & KEY_REQUIRED) {
        config_value_expected(key, text, sizeof text);
        return config_fail(reading, path, "missing; expected %s (%s)", text, key->what);
    }
    if (value)
        config_value_store(key, layer, value, false, &reading->draft);
    else if (!given)
        config_value_default(key, layer, &reading->draft);
    return 0;
}

static int begin_columns(struct reading *reading);

/* A message's layers can be the only ones. */
static int check_layers_given(const struct reading *reading) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    if (architecture->layer_count || input_is_message(&architecture->input))
        return 0;
    return config_section_given(reading, "model.layers")
               ? config_fail(reading, "model.layers",
                             "expected a list of 1 to %d layers, or with model.input.sequence 0 to "
                             "%d, got 0",
                             MODEL_LAYERS_MAX, MODEL_LAYERS_MAX)
               : config_fail(reading, "model.layers", "missing; expected a list of 1 to %d layers",
                             MODEL_LAYERS_MAX);
}

/* Check the keys in the table's order: a key follows the keys that decide whether it applies. */
int config_check_section(struct reading *reading, const char *section) {
    size_t layers = reading->draft.config.architecture.layer_count;
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (!config_key_below(key, section))
            continue;
        if (config_key_layered(key) && check_layers_given(reading) != 0)
            return -1;
        for (size_t n = 0; n < (config_key_layered(key) ? layers : 1); n++)
            if (check_presence(reading, key, n) != 0)
                return -1;
    }
    return 0;
}

static int check_keys(struct reading *reading) {
    config_preset_layers(reading);
    return begin_columns(reading) ? -1 : config_check_section(reading, "");
}

/* ---- Words and new classes: derived sizes, and rules ---- */

/* The number of classes; 0 if no vocabulary defines it. */
static size_t words_classes(const struct reading *reading) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct output *output = &architecture->output;
    bool words = architecture->input.vocabulary.capacity || architecture->input.hash;
    if (!loss_kind(output->loss)->class_id)
        return 0;
    if (output->vocabulary.capacity)
        return output->vocabulary.capacity + 1;
    return output_is_input(output) && words ? architecture->input.size : 0;
}

/* A size that follows from other keys must not be given. */
static int check_one(const struct reading *reading, const char *path, const char *other) {
    if (!config_given(reading, path) || !config_given(reading, other))
        return 0;
    return config_fail(reading, path, "cannot be combined with %s; remove one of them", other);
}

static int check_words(struct reading *reading) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    static const char of_input[] = "model.input.vocabulary.capacity";
    static const char of_output[] = "model.output.vocabulary.capacity";
    if ((input->vocabulary.capacity && check_one(reading, "model.input.size", of_input)) ||
        (input->hash && check_one(reading, "model.input.size", "model.input.hash")) ||
        (input->hash && input->vocabulary.capacity &&
         check_one(reading, "model.input.hash", of_input)) ||
        (output->vocabulary.capacity && check_one(reading, "model.output.size", of_output)))
        return -1;
    for (size_t k = 0; output->vocabulary.capacity && k < input->column_count; k++)
        if (input->columns[k].vocabulary.capacity && !strcmp(input->columns[k].name, "output"))
            return config_fail(reading, of_output,
                               "cannot be combined with a column of words named output; rename "
                               "that column");
    if (output->vocabulary.capacity && output_is_input(output))
        return config_fail(reading, of_output,
                           "not supported with target: %s, whose classes are the inputs; use "
                           "model.input.vocabulary",
                           target_name(output->target));
    return 0;
}

/* ---- Times: inputs and time zone ---- */

static int check_time(struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    bool clock = input->time & ~(1U << TIME_GAP);
    struct time_zone *zone = NULL;
    struct error error;
    if (config_given(reading, zone_path) && !clock)
        return config_fail(reading, zone_path,
                           "requires day, week or year in model.input.time; remove this key");
    if (input->time && input->kind == INPUT_SYMBOL)
        return config_fail(reading, time_path,
                           "not supported with kind: symbol; write the symbol as "
                           "model.input.columns: [{name: NAME, kind: symbol, size: %zu}]",
                           input->size);
    /* Only a check: the learner reads the file again. */
    if (clock && time_zone_open(&zone, input->time_zone, &error))
        return config_fail(reading, zone_path, "%s", error.text);
    time_zone_close(&zone);
    return 0;
}

/* ---- Columns: derived keys, and inherited keys ---- */

/* Called before the other keys are checked: input.kind and input.size follow from columns. A
   single symbol without times is converted to its short form. */
static int begin_columns(struct reading *reading) {
    static const char *const defined[] = {"model.input.kind", "model.input.size",
                                          "model.input.embedding"};
    struct input *input = input_of(reading);
    if (!config_given(reading, columns_path))
        return 0;
    for (size_t n = 0; n < sizeof defined / sizeof *defined; n++)
        if (config_given(reading, defined[n]))
            return config_fail(reading, defined[n],
                               "cannot be combined with model.input.columns, which defines the "
                               "inputs; remove this key");
    const struct column *first = &input->columns[0];
    bool symbol = input->column_count == 1 && first->kind == COLUMN_SYMBOL && !first->hash &&
                  !(config_given(reading, time_path) && input->time);
    input->kind = symbol ? INPUT_SYMBOL : INPUT_REAL;
    input->size = symbol ? first->size : input->column_count;
    input->embedding = symbol ? first->embedding : 0;
    input->vocabulary = symbol ? first->vocabulary : (struct vocabulary){0};
    return 0;
}

static bool column_sets(const struct column *column, enum column_key key) {
    return column->given >> key & 1;
}

/* Keys that the column does not set inherit from model.input. */
static int inherit(struct reading *reading, size_t n) {
    const struct input *input = input_of(reading);
    struct column *column = &input_of(reading)->columns[n];
    const char *path = CONFIG_PATH("%s.%zu", columns_path, n);
    if (!column_sets(column, COLUMN_SCALE))
        column->standard = input->scale == SCALE_STANDARD;
    if (!column->standard &&
        (column_sets(column, COLUMN_MEMORY) || column_sets(column, COLUMN_LIMIT)))
        return config_fail(reading, path,
                           "%s of column %s requires scale: standard, got scale: none",
                           column_sets(column, COLUMN_MEMORY) ? "memory" : "limit", column->name);
    if (column->standard && !column_sets(column, COLUMN_MEMORY))
        column->memory = input->memory;
    if (column->standard && !column_sets(column, COLUMN_LIMIT))
        column->limit = input->limit;
    if (!column_sets(column, COLUMN_MISSING))
        column->hold = input->hold;
    return 0;
}

/* Experts forecast every column, in units of their own. */
static int check_forecast_column(struct reading *reading, size_t n) {
    static const enum column_key own[] = {COLUMN_SCALE, COLUMN_MEMORY, COLUMN_LIMIT, COLUMN_MASK};
    const struct column *column = &input_of(reading)->columns[n];
    const char *path = CONFIG_PATH("%s.%zu", columns_path, n);
    if (column->kind != COLUMN_REAL)
        return config_fail(reading, path,
                           "the %s %s is not supported with scale: forecast, which requires "
                           "real columns; use scale: standard for other kinds",
                           column_kind_name(column->kind), column->name);
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (column_sets(column, own[k]))
            return config_fail(reading, path,
                               "%s of column %s is not supported with scale: forecast, which "
                               "scales every column itself; remove it",
                               config_column_keys[own[k]].path, column->name);
    return 0;
}

static int check_input(struct reading *reading) {
    struct input *input = input_of(reading);
    bool forecast = input->scale == SCALE_FORECAST, standard = false, hold = false;
    size_t width = 0;
    for (size_t n = 0; n < input->column_count; n++) {
        const struct column *column = &input->columns[n];
        if (forecast && check_forecast_column(reading, n) != 0)
            return -1;
        if (column->kind == COLUMN_REAL && inherit(reading, n) != 0)
            return -1;
        standard |= column->standard;
        hold |= column->hold;
        width += column_width(column);
    }
    if (width > (size_t)INPUT_MAX)
        return config_fail(reading, columns_path,
                           "expected columns of at most %.0f inputs together, got %zu; use an "
                           "embedding for symbols",
                           INPUT_MAX, width);
    if (!forecast)
        input->scale = standard ? SCALE_STANDARD : SCALE_NONE;
    input->hold = hold;
    return 0;
}

static int choose_named(struct reading *reading) {
    const struct input *input = input_of(reading);
    struct output *output = output_of(reading);
    for (size_t n = 0; n < output->column_count; n++) {
        const char *name = reading->draft.output_columns[n];
        size_t column = 0;
        while (column < input->column_count && strcmp(input->columns[column].name, name) != 0)
            column++;
        if (column == input->column_count)
            return config_fail(reading, names_path,
                               "unknown column %s (not in model.input.columns)", name);
        for (size_t m = 0; m < n; m++)
            if (output->columns[m] == column)
                return config_fail(reading, names_path, "duplicate column %s", name);
        output->columns[n] = (uint16_t)column;
    }
    return 0;
}

/* All real columns, or the symbol for classes. */
static int choose_by_kind(struct reading *reading, const struct loss_kind *loss) {
    const struct input *input = input_of(reading);
    struct output *output = output_of(reading);
    enum column_kind kind = loss->class_id ? COLUMN_SYMBOL : COLUMN_REAL;
    output->column_count = 0;
    for (size_t n = 0; n < input->column_count; n++)
        if (input->columns[n].kind == kind && !input->columns[n].known)
            output->columns[output->column_count++] = (uint16_t)n;
    if (output->column_count == 0)
        return config_fail(reading, "model.output.loss",
                           "%s predicts %s, but no column is a %s (target: next)", loss->name,
                           loss->class_id ? "a symbol" : "numbers", column_kind_name(kind));
    if (loss->class_id && output->column_count > 1)
        return config_fail(reading, names_path,
                           "missing; loss: %s requires the name of the one symbol to predict",
                           loss->name);
    return 0;
}

static int set_size(struct reading *reading, size_t size) {
    struct output *output = output_of(reading);
    if (config_given(reading, "model.output.size") && output->size != size)
        return config_fail(reading, "model.output.size",
                           "expected %zu with target: next and these columns, got %zu; remove "
                           "this key",
                           size, output->size);
    output->size = size;
    return 0;
}

static int check_next_columns(struct reading *reading) {
    const struct input *input = input_of(reading);
    struct output *output = output_of(reading);
    const struct loss_kind *loss = loss_kind(output->loss);
    if ((config_given(reading, names_path) ? choose_named(reading)
                                           : choose_by_kind(reading, loss)) != 0)
        return -1;
    for (size_t n = 0; n < output->column_count; n++) {
        const struct column *column = &input->columns[output->columns[n]];
        if (loss->class_id != (column->kind == COLUMN_SYMBOL))
            return config_fail(reading, names_path,
                               "the %s %s is not supported with loss: %s, which predicts %s",
                               column_kind_name(column->kind), column->name, loss->name,
                               loss->class_id ? "one symbol" : "numbers, not symbols");
        if (column->standard && loss->parts[0].unit == UNIT_NONE)
            return config_fail(reading, names_path,
                               "column %s must have scale: none with loss: %s, because scaled "
                               "targets leave the range of this loss",
                               column->name, loss->name);
    }
    size_t most = loss->class_id ? 1 : loss->size ? loss->size : output->column_count;
    if (output->column_count != most)
        return config_fail(reading, names_path, "expected %zu columns with loss: %s, got %zu", most,
                           loss->name, output->column_count);
    size_t size = loss->class_id ? input->columns[output->columns[0]].size : output->column_count;
    return set_size(reading, size);
}

/* Names of the numbers of y; sizes follow from them. */
static int check_sent(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    struct output *output = &architecture->output;
    const struct loss_kind *loss = loss_kind(output->loss);
    size_t most = loss->class_id ? 1 : loss->size ? loss->size : output->column_count;
    if (!config_given(reading, names_path))
        return 0;
    memcpy(architecture->target_names, reading->draft.output_columns,
           sizeof architecture->target_names);
    for (size_t n = 0; n < output->column_count; n++)
        for (size_t m = 0; m < n; m++)
            if (!strcmp(architecture->target_names[m], architecture->target_names[n]))
                return config_fail(reading, names_path, "duplicate name %s",
                                   architecture->target_names[n]);
    if (output->column_count != most)
        return config_fail(reading, names_path, "expected %zu names with loss: %s, got %zu", most,
                           loss->name, output->column_count);
    if (loss->class_id)
        return 0;
    if (config_given(reading, "model.output.size") && output->size != output->column_count)
        return config_fail(reading, "model.output.size",
                           "expected %zu, the number of names in model.output.columns, got %zu; "
                           "remove this key",
                           output->column_count, output->size);
    output->size = output->column_count;
    return 0;
}

/* ---- Columns that are known ahead ---- */

/* Counts the columns that are not known ahead; they come first. */
static int count_unknown(struct reading *reading, size_t *count) {
    const struct input *input = input_of(reading);
    const struct output *output = output_of(reading);
    size_t furthest = output->ahead.count ? output->ahead.steps[output->ahead.count - 1] : 1;
    *count = 0;
    for (size_t n = 0; n < input->column_count; n++) {
        const struct column *column = &input->columns[n];
        const char *path = CONFIG_PATH("%s.%zu", columns_path, n);
        if (!column->known && (*count)++ < n)
            return config_fail(reading, path,
                               "column %s must be listed before column %s, which is known ahead",
                               column->name, input->columns[n - 1].name);
        if (column->known && output->target != TARGET_NEXT)
            return config_fail(reading, path,
                               "known of column %s requires model.output.target: next, got %s",
                               column->name, target_name(output->target));
        for (size_t m = 0; column->known && m < output->column_count; m++)
            if (!strcmp(reading->draft.output_columns[m], column->name))
                return config_fail(reading, names_path,
                                   "column %s is known ahead; remove it here, "
                                   "or its known in model.input.columns",
                                   column->name);
        if (column->known && column->known < furthest)
            return config_fail(reading, path,
                               "known of column %s: expected at least %zu, the furthest step of "
                               "model.output.ahead, got %zu",
                               column->name, furthest, column->known);
    }
    return *count ? 0
                  : config_fail(reading, columns_path,
                                "all columns are known ahead; expected a column to forecast");
}

/* Replaces each known column by one for each horizon. */
static int expand_known(struct reading *reading) {
    struct input *input = input_of(reading);
    struct output *output = output_of(reading);
    size_t count, horizons = output->ahead.count ? output->ahead.count : 1;
    if (!input->column_count)
        return 0;
    if (count_unknown(reading, &count) != 0)
        return -1;
    size_t known = input->column_count - count, all = count + known * horizons;
    if (known == 0)
        return 0;
    if (all > COLUMNS_MAX)
        return config_fail(reading, columns_path,
                           "expected at most %d columns, with the known ones once for each step of "
                           "model.output.ahead, got %zu",
                           COLUMNS_MAX, all);
    for (size_t k = all; k-- > count;) {
        size_t h = (k - count) % horizons;
        struct column column = input->columns[count + (k - count) / horizons];
        size_t used = strlen(column.name);
        column.horizon = h;
        if (horizons > 1 && snprintf(column.name + used, COLUMN_NAME_SIZE - used, "+%zu",
                                     output->ahead.steps[h]) >= (int)(COLUMN_NAME_SIZE - used))
            return config_fail(reading, columns_path,
                               "the name of known column %s is too long; expected at most %d "
                               "letters with several steps in model.output.ahead",
                               column.name, COLUMN_NAME_SIZE - (int)sizeof "+4096");
        input->columns[k] = column;
    }
    input->size = input->column_count = all;
    if (input->scale != SCALE_FORECAST)
        return 0;
    output->column_count = count;
    for (size_t k = 0; k < count; k++)
        output->columns[k] = (uint16_t)k;
    return set_size(reading, count);
}

static int check_columns(struct reading *reading) {
    struct input *input = input_of(reading);
    const struct output *output = output_of(reading);
    bool names = config_given(reading, names_path);
    if (expand_known(reading) != 0)
        return -1;
    if (!output_is_input(output) && check_sent(reading) != 0)
        return -1;
    if (!output_is_input(output))
        return input->column_count ? check_input(reading) : 0;
    if (names && !input->column_count)
        return config_fail(reading, names_path, "requires model.input.columns; remove this key");
    if (!input->column_count)
        return 0;
    if (names && input->scale == SCALE_FORECAST)
        return config_fail(reading, names_path,
                           "not supported with scale: forecast, which forecasts every column; "
                           "remove this key");
    if (check_input(reading) != 0)
        return -1;
    return input->scale == SCALE_FORECAST ? 0 : check_next_columns(reading);
}

/* ---- Targets: source and scale ---- */

static int check_output_size(struct reading *reading) {
    static const char path[] = "model.output.size";
    struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *kind = loss_kind(output->loss);
    bool given = config_given(reading, path);
    if (!given && kind->size)
        output->size = kind->size;
    else if (output->column_count && (output_is_input(output) || !kind->class_id))
        return 0; /* check_columns sets it */
    else if (!given && words_classes(reading))
        output->size = words_classes(reading);
    else if (!given && (reading->draft.config.preset ||
                        reading->draft.config.architecture.input.scale == SCALE_FORECAST))
        output->size = reading->draft.config.architecture.input.size;
    else if (!given)
        return config_fail(reading, path,
                           "missing; expected the count of numbers in a target, or of classes");
    return config_expect(reading, !kind->size || output->size == kind->size, path, NULL,
                         "%zu with loss: %s (%s)", kind->size, kind->name, kind->size_reason);
}

static bool has_class(const struct loss_kind *kind) {
    return kind->class_id;
}

static bool has_numbers(const struct loss_kind *kind) {
    return !kind->class_id && !kind->ranks;
}

/* An input of the stream is the target with `target: next`, `previous` or `same`: loss and sizes
   must match. */
static int check_next(struct reading *reading) {
    const struct input *input = input_of(reading);
    const struct output *output = output_of(reading);
    const struct loss_kind *kind = loss_kind(output->loss);
    char text[CONFIG_TEXT_SIZE];
    bool symbols = input->kind == INPUT_SYMBOL;
    const char *target = target_name(output->target);
    if (!output_is_input(output) || output->column_count || kind->ranks)
        return 0;
    return config_expect(reading, symbols == kind->class_id, "model.output.loss", NULL,
                         "%s with target: %s and %s inputs",
                         config_losses(symbols ? has_class : has_numbers, text), target,
                         input_kind_name(input->kind)) ||
           config_expect(reading, !kind->size || input->size == kind->size, "model.input.size",
                         NULL, "%zu with target: %s and loss: %s", kind->size, target,
                         kind->name) ||
           config_expect(reading, output->size == input->size, "model.output.size", NULL,
                         "model.input.size (%zu) with target: %s", input->size, target) ||
           config_expect(reading,
                         input->scale != SCALE_STANDARD || kind->parts[0].unit != UNIT_NONE,
                         "model.input.scale", "scaled targets leave the range of this loss",
                         "none with target: %s and loss: %s", target, kind->name);
}

static int check_targets(struct reading *reading) {
    const struct output *output = output_of(reading);
    const struct loss_kind *kind = loss_kind(output->loss);
    char text[CONFIG_TEXT_SIZE];
    if (output->relative == RELATIVE_TRUE && !has_levels(kind))
        return config_fail(reading, "model.output.relative",
                           "not supported with loss: %s, whose targets have no differences; use %s",
                           kind->name, config_losses(has_levels, text));
    return config_expect(reading, output->scale != SCALE_STANDARD || has_levels(kind),
                         "model.output.scale", "scaled targets leave the range of this loss",
                         "none with loss: %s", kind->name);
}

/* ---- scale: forecast ---- */

static int check_without(struct reading *reading) {
    const struct output *output = output_of(reading);
    if (output->solved)
        return config_fail(reading, "model.output.readout", "rls requires scale: forecast");
    if (reading->draft.config.distribution.enabled)
        return config_fail(reading, "distribution.enabled",
                           "requires model.input.scale: forecast; set that, or remove this key");
    return config_expect(reading, output->relative <= RELATIVE_TRUE, "model.output.relative", NULL,
                         "false or true, or with scale: forecast none, last or ar12");
}

static bool squares(const struct loss_kind *kind) {
    return kind->squares;
}

static int check_forecast_output(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct output *output = output_of(reading);
    char text[CONFIG_TEXT_SIZE];
    if (config_expect(reading, squares(loss_kind(output->loss)), "model.output.loss", NULL,
                      "%s with scale: forecast", config_losses(squares, text)) ||
        config_expect(reading, output->target == TARGET_NEXT, "model.output.target", NULL,
                      "next with scale: forecast") ||
        config_expect(reading, output->relative != RELATIVE_TRUE, "model.output.relative", NULL,
                      "none, last or ar12 with scale: forecast"))
        return -1;
    return config_is_network(reading) && output->relative == RELATIVE_AR12 &&
                   !(config->experts >> EXPERT_ar12 & 1)
               ? config_fail(reading, "model.output.relative",
                             "ar12 is not in experts; add it there, or use last or none")
               : 0;
}

/* Experts of scale: forecast and preset: symbols have one key. */
static int check_set(struct reading *reading, unsigned allowed, const char *with) {
    unsigned *experts = &reading->draft.config.experts, others = *experts & ~allowed;
    unsigned other = others ? (unsigned)__builtin_ctz(others) : 0;
    if (others && config_given(reading, "experts"))
        return config_fail(reading, "experts", "%s is not supported with %s",
                           other < EXPERTS ? expert_name(other) : symbols_names[other - EXPERTS],
                           with);
    *experts &= allowed;
    return 0;
}

/* The expert `known` requires known columns. */
static int check_experts(struct reading *reading) {
    const struct input *input = input_of(reading);
    unsigned *experts = &reading->draft.config.experts, known = 1U << EXPERT_known;
    if (check_set(reading, known * 2 - 1, "scale: forecast") != 0)
        return -1;
    if (input->column_count && input->columns[input->column_count - 1].known)
        return 0;
    if (config_given(reading, "experts") && *experts & known)
        return config_fail(reading, "experts",
                           "known requires a column with known in model.input.columns");
    *experts &= ~known;
    return 0;
}

static const struct levels default_levels = {7, {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99}};

static int check_forecast(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    enum { STREAMS = 1024, FORECAST_STREAMS = 128 };
    bool forecast = architecture->input.scale == SCALE_FORECAST;
    if (!has_preset(reading, PRESET_SYMBOLS) && check_experts(reading) != 0)
        return -1;
    reading->draft.config.anomaly.by_preset =
        !has_preset(reading, PRESET_NONE) && !config_given(reading, "anomaly.enabled");
    if (!config_given(reading, "learning.max_streams"))
        reading->draft.config.learning.max_streams = forecast ? FORECAST_STREAMS : STREAMS;
    if (!forecast && has_preset(reading, PRESET_FORECAST))
        return config_fail(reading, "model.input.scale", "expected forecast with preset: forecast");
    reading->draft.config.anomaly.thresholds = config_given(reading, "anomaly.threshold") ||
                                               config_given(reading, "anomaly.surprise_threshold");
    if (check_one(reading, "anomaly.rate", "anomaly.threshold") ||
        check_one(reading, "anomaly.rate", "anomaly.surprise_threshold"))
        return -1;
    if (!config_given(reading, "distribution.levels"))
        reading->draft.config.distribution.levels = default_levels;
    if (!forecast)
        return check_without(reading);
    if (check_forecast_output(reading) != 0)
        return -1;
    if (config_given(reading, "model.output.skip") && !architecture->output.skip)
        return config_fail(reading, "model.output.skip",
                           "expected true with scale: forecast, whose output always has the "
                           "skip path, got false; remove this key");
    architecture->output.skip = true;
    if (architecture->output.relative == RELATIVE_FALSE)
        architecture->output.relative = RELATIVE_NONE;
    add_preset_members(reading);
    return 0;
}

/* ---- preset: symbols ---- */

static int check_symbols(struct reading *reading) {
    struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    if (!has_preset(reading, PRESET_SYMBOLS))
        return 0;
    if (input->kind != INPUT_SYMBOL || input->column_count > 1)
        return config_fail(reading, "preset", "symbols requires one symbol as input");
    if (config_expect(reading, output->target == TARGET_NEXT, "model.output.target", NULL,
                      "next with preset: symbols") ||
        config_expect(reading, output->ahead.count <= 1 && output_ahead(output, 0) == 1,
                      "model.output.ahead", NULL, "1 with preset: symbols") ||
        config_expect(reading, !input->vocabulary.lru, "model.input.vocabulary.forget",
                      "the counts of a forgotten word would be its successor's; raise capacity "
                      "instead",
                      "none with preset: symbols"))
        return -1;
    if (input->hash)
        return config_fail(reading, "model.input.hash",
                           "not supported with preset: symbols: different words would share "
                           "counts; use model.input.vocabulary.capacity");
    if (config_expect(reading, input->size >= 2 && input->size <= SYMBOLS_MAX, "model.input.size",
                      NULL, "2 to %d symbols with preset: symbols", SYMBOLS_MAX) ||
        config_expect(reading, !(config->symbols.memory & (config->symbols.memory - 1)), "memory",
                      NULL, "a power of two") ||
        config_expect(reading, config->statistics_top <= SYMBOLS_TOP_MAX, "statistics.top", NULL,
                      "at most %d with preset: symbols", SYMBOLS_TOP_MAX) ||
        config_expect(reading, !config->symbols.own || config->fleet.lease <= 0, "tables",
                      "a table is too large to move with its stream", "shared with fleet.lease"))
        return -1;
    bool bytes = input->size == 256 && !input->vocabulary.capacity;
    if (!config_given(reading, "alphabet"))
        config->symbols.others = !bytes;
    if (!config->symbols.others && !bytes)
        return config_fail(reading, "alphabet", "bytes requires model.input.size: 256");
    if (config->member_count > SYMBOLS_NETWORKS_MAX)
        return config_fail(reading, "members", "expected at most %d with preset: symbols, got %zu",
                           SYMBOLS_NETWORKS_MAX, config->member_count);
    return check_set(reading,
                     (unsigned)symbols_experts(!config->symbols.others, input->size) << EXPERTS,
                     !config->symbols.others ? "alphabet: bytes"
                     : input->size > 16      ? "alphabet: symbols"
                                             : "at most 16 symbols");
}

/* ---- Size ---- */

int config_check_size(struct reading *reading) {
    static const size_t most = INT32_MAX;
    struct model model;
    model_build(&model, &reading->draft.config.architecture);
    if (model.parameters > most)
        return config_fail(reading, "model", "expected at most %zu parameters, got %zu", most,
                           model.parameters);
    if (model.features > most || model.target_size > most)
        return config_fail(reading, "model", "expected at most %zu numbers in a message, got %zu",
                           most, model.features > most ? model.features : model.target_size);
    return 0;
}

/* ---- All checks ---- */

int config_check(struct reading *reading) {
    static int (*const checks[])(struct reading *) = {
        check_keys,
        config_check_messages,
        check_columns,
        check_time,
        check_output_size,
        check_words,
        check_next,
        check_targets,
        check_symbols,
        check_forecast,
        config_check_layers,
        config_check_size,
        config_check_learning,
    };
    if (config_begin_outputs(reading) != 0)
        return -1;
    for (size_t n = 0; n < sizeof checks / sizeof *checks; n++)
        if (checks[n](reading) != 0)
            return -1;
    return reading->origin.member ? 0 : config_check_daemon(reading);
}
