/* Rules between the keys of learning: rule, optimizer and learning rate. */
#include "config_read.h"

#include <stdlib.h>

#include "model/rule.h"

static const char rule_path[] = "learning.rule", rate_path[] = "learning.optimizer.rate";

/* Check a key of the optimizer that requires another key. */
static int check_needs(struct reading *reading, const struct optimizer *optimizer) {
    for (const struct kind_key *key = optimizer_kind(optimizer->kind)->keys; key->name; key++) {
        if (key->needs && optimizer_value(optimizer, key) &&
            optimizer_value(optimizer, optimizer_key(optimizer->kind, key->needs)) <= 0)
            return config_fail(reading, CONFIG_PATH("learning.optimizer.%s", key->name),
                               "requires learning.optimizer.%s above 0", key->needs);
    }
    return 0;
}

/* Check the default and bounds of a key that several optimizers have. */
static int check_own(struct reading *reading, struct optimizer *optimizer) {
    const struct optimizer_kind *kind = optimizer_kind(optimizer->kind);
    for (const struct kind_key *key = kind->keys; key->name; key++) {
        const char *path = CONFIG_PATH("learning.optimizer.%s", key->name);
        double *value = (double *)(void *)((char *)optimizer + key->offset);
        if (key->boolean)
            continue;
        if (!config_given(reading, path))
            *value = strtod(reading->earlier && key->earlier ? key->earlier : key->fallback, NULL);
        if (*value < key->minimum || *value > key->maximum ||
            (key->below && *value == key->maximum))
            return config_fail(
                reading, path, "expected a number from %.10g to %s%.10g with kind: %s, got %.10g",
                key->minimum, key->below ? "below " : "", key->maximum, kind->name, *value);
    }
    return 0;
}

bool config_rate_fits(const struct optimizer *optimizer, double rate, char why[CONFIG_WHY_SIZE]) {
    const struct optimizer_kind *kind = optimizer_kind(optimizer->kind);
    if (kind->rateless && rate != RATE_AUTO)
        snprintf(why, CONFIG_WHY_SIZE, "expected auto, got %.10g: kind: %s has no learning rate",
                 rate, kind->name);
    else if (!kind->rateless && rate == RATE_AUTO)
        snprintf(why, CONFIG_WHY_SIZE, "expected a number with kind: %s, got auto", kind->name);
    return kind->rateless == (rate == RATE_AUTO);
}

static int check_cells(const struct reading *reading, enum rule rule) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    char words[CONFIG_TEXT_SIZE] = "", text[CONFIG_TEXT_SIZE];
    for (enum cell cell = 0; cell < CELLS; cell++)
        if (rule_takes(rule, cell, false))
            config_words_add(words, cell_kind(cell)->kind.name);
    config_words_list(words, text, sizeof text);
    for (size_t n = 0; n < architecture->layer_count; n++) {
        enum cell cell = architecture->layers[n].cell;
        bool diagonal = architecture->layers[n].diagonal;
        if (!rule_takes(rule, cell, diagonal))
            return config_fail(reading, rule_path,
                               "%s does not support the cell %s%s of model.layers.%zu; expected "
                               "layers of %s%s",
                               rule_kind(rule)->name, diagonal ? "diagonal " : "",
                               cell_kind(cell)->kind.name, n, text,
                               rule_takes(rule, cell, true) ? ", or recurrent: diagonal" : "");
        if (layer_delay(&architecture->layers[n]) || architecture->layers[n].residual)
            return config_fail(
                reading, rule_path,
                "%s does not support taps and residual of model.layers.%zu; use tbptt",
                rule_kind(rule)->name, n);
    }
    return 0;
}

static size_t bytes_kept(const struct architecture *architecture, enum rule rule) {
    struct model model;
    model_build(&model, architecture);
    return rule_record_size(&model, rule) * sizeof(float);
}

/* Largest number of units of layers with a state that fits; 0: none fits. */
static size_t units_that_fit(const struct architecture *architecture, enum rule rule) {
    size_t low = 0, high = LAYER_SIZE_MAX;
    while (low + 1 < high) {
        struct architecture smaller = *architecture;
        size_t units = (low + high) / 2;
        for (size_t n = 0; n < smaller.layer_count; n++)
            if (cell_kind(smaller.layers[n].cell)->states > 0)
                smaller.layers[n].size = units;
        if (bytes_kept(&smaller, rule) <= RULE_BYTES_MOST)
            low = units;
        else
            high = units;
    }
    return low;
}

static int check_kept(const struct reading *reading, enum rule rule) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    size_t bytes = bytes_kept(architecture, rule), units;
    if (bytes <= RULE_BYTES_MOST)
        return 0;
    units = units_that_fit(architecture, rule);
    return config_fail(
        reading, rule_path,
        "%s needs %zu MiB for each stream, the limit is %zu; use recurrent layers of at most "
        "%zu units",
        rule_kind(rule)->name, bytes >> 20, RULE_BYTES_MOST >> 20, units);
}

static int check_rule(struct reading *reading) {
    struct config *config = &reading->draft.config;
    enum rule rule = config->learning.rule;
    if (rule_kind(rule)->keeps == KEEPS_NOTHING)
        return 0;
    config->learning.window = config->learning.stride;
    if (!config_is_network(reading))
        return 0;
    if (!strncmp(config->device, "cuda", strlen("cuda")))
        return config_fail(reading, rule_path,
                           "%s is not supported with device: %s; use device: cpu or auto",
                           rule_kind(rule)->name, config->device);
    return check_cells(reading, rule) || check_kept(reading, rule) ? -1 : 0;
}

int config_check_learning(struct reading *reading) {
    struct config *config = &reading->draft.config;
    struct optimizer *optimizer = &config->learning.optimizer;
    char why[CONFIG_WHY_SIZE];
    if (!config_given(reading, "learning.stride") && config->preset != PRESET_FORECAST)
        config->learning.stride = config->learning.window;
    bool windowed = rule_kind(config->learning.rule)->keeps == KEEPS_NOTHING;
    if (windowed && config->learning.stride > config->learning.window)
        return config_fail(reading, "learning.stride",
                           "expected at most %zu (learning.window), got %zu",
                           config->learning.window, config->learning.stride);
    if (check_rule(reading) != 0 || check_needs(reading, optimizer) != 0 ||
        check_own(reading, optimizer) != 0)
        return -1;
    if (optimizer_kind(optimizer->kind)->rateless && !config_given(reading, rate_path))
        optimizer->rate = RATE_AUTO;
    return config_rate_fits(optimizer, optimizer->rate, why)
               ? 0
               : config_fail(reading, rate_path, "%s", why);
}
