/* What cells, norms, losses, optimizers and learning rules (kernels/kinds.def) and experts
   (forecast/experts.def) say of themselves, put into the table of keys; and rules between an
   optimizer's own keys. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_internal.h"
#include "forecast/forecast.h"
#include "model/rule.h"

enum { MEANINGS_SIZE = 1024 };

/* Texts of a row, with a | between their parts: no part has one of its own. */
static struct {
    char words[CONFIG_TEXT_SIZE], meanings[MEANINGS_SIZE], is[CONFIG_TEXT_SIZE];
    char what[CONFIG_TEXT_SIZE], left_out[CONFIG_TEXT_SIZE], more[CONFIG_SUMMARY_SIZE];
} texts[CONFIG_KEYS_MAX];

static const char *append(char *text, size_t size, const char *part) {
    size_t used = strlen(text);
    assert(!strchr(part, '|') && used + 1 + strlen(part) < size);
    snprintf(text + used, size - used, "%s%s", used ? "|" : "", part);
    return text;
}

static struct config_key *row_of(struct config_key *rows, const char *section, const char *name) {
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", name);
    for (size_t k = 0; k < config_key_count; k++)
        if (!strcmp(rows[k].path, path))
            return &rows[k];
    assert(!"a kind names a key that has no row");
    return NULL;
}

static void add_name(struct config_key *row, const char *name) {
    size_t n = (size_t)(row - config_keys);
    row->words = append(texts[n].words, sizeof texts[n].words, name);
}

/* One more word for the row. Meanings and words are paired by their order: all have one, or none.
 */
static void add_word(struct config_key *row, const char *word, const char *meaning) {
    size_t n = (size_t)(row - config_keys);
    assert(!row->words || !meaning == !row->meanings);
    add_name(row, word);
    if (meaning)
        row->meanings = append(texts[n].meanings, sizeof texts[n].meanings, meaning);
}

/* The row's key counts with that kind, too. */
static void add_condition(struct config_key *row, const char *kind) {
    size_t n = (size_t)(row - config_keys);
    row->is = append(texts[n].is, sizeof texts[n].is, kind);
}

static void describe(struct config_key *row, const struct kind_key *key) {
    row->type = key->boolean ? VALUE_BOOLEAN : VALUE_REAL;
    row->minimum = key->minimum;
    row->maximum = key->maximum;
    row->flags |= key->below ? KEY_BELOW : 0;
    row->fallback = key->fallback;
    row->what = key->what;
    row->more = key->more;
    row->example = key->example;
}

static bool is_described(const struct config_key *row, const struct kind_key *key) {
    return row->what && !strcmp(row->what, key->what) && !strcmp(row->fallback, key->fallback) &&
           row->minimum == key->minimum && row->maximum == key->maximum;
}

/* Another kind means something else by the key: the row allows what either does, and the rules
   between keys hold each to its own. */
static void widen(struct config_key *row, const struct kind_key *key, const char *kind) {
    size_t n = (size_t)(row - config_keys);
    row->minimum = key->minimum < row->minimum ? key->minimum : row->minimum;
    if (key->maximum > row->maximum) {
        row->maximum = key->maximum;
        row->flags &= ~(unsigned)KEY_BELOW;
        row->flags |= key->below ? KEY_BELOW : 0;
    }
    snprintf(texts[n].what, sizeof texts[n].what, "%s; with `%s` %s", row->what, kind, key->what);
    snprintf(texts[n].left_out, sizeof texts[n].left_out, "%s; %s with `%s`", row->fallback,
             key->fallback, kind);
    snprintf(texts[n].more, sizeof texts[n].more, "%s%s%s", row->more ? row->more : "",
             row->more && key->more ? " " : "", key->more ? key->more : "");
    row->what = texts[n].what;
    row->left_out = texts[n].left_out;
    row->more = *texts[n].more ? texts[n].more : NULL;
}

static void describe_layer_kind(struct config_key *rows, const char *key,
                                const struct layer_kind *kind) {
    static const char section[] = "model.layers.*";
    add_word(row_of(rows, section, key), kind->name, kind->what);
    for (size_t k = 0; k < LAYER_KEYS_MAX && kind->keys[k]; k++)
        add_condition(row_of(rows, section, kind->keys[k]), kind->name);
}

static void describe_layers(struct config_key *rows) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        describe_layer_kind(rows, "cell", &cell_kind(cell)->kind);
    for (enum norm norm = 0; norm < NORMS; norm++)
        describe_layer_kind(rows, "norm", &norm_kind(norm)->kind);
    for (enum activation a = 0; a < ACTIVATIONS; a++)
        describe_layer_kind(rows, "activation", &activation_kind(a)->kind);
}

static void describe_losses(struct config_key *rows) {
    for (enum loss loss = 0; loss < LOSSES; loss++) {
        const struct loss_kind *kind = loss_kind(loss);
        add_word(row_of(rows, "model.output", "loss"), kind->name, kind->what);
        if (loss_has_components(kind))
            add_condition(row_of(rows, "model.output", "components"), kind->name);
    }
}

static void describe_optimizers(struct config_key *rows) {
    for (enum optimizer_id id = 0; id < OPTIMIZERS; id++) {
        const struct optimizer_kind *kind = optimizer_kind(id);
        add_word(row_of(rows, "learning.optimizer", "kind"), kind->name, kind->what);
        for (const struct kind_key *key = kind->keys; key->name; key++) {
            struct config_key *row = row_of(rows, "learning.optimizer", key->name);
            if (!row->what)
                describe(row, key);
            else if (!is_described(row, key))
                widen(row, key, kind->name);
            add_condition(row, kind->name);
        }
    }
}

static void describe_rules(struct config_key *row) {
    for (enum rule rule = 0; rule < RULES; rule++)
        add_word(row, rule_kind(rule)->name, rule_kind(rule)->what);
}

static void describe_experts(struct config_key *row) {
#define EXPERT(name, what, ...) add_word(row, #name, what);
#include "forecast/experts.def"
}

/* The rows have their meanings. */
static void name_choices(struct config_key *rows) {
    struct config_key *kinds = row_of(rows, "model.input", "kind");
    struct config_key *scales = row_of(rows, "model.input", "scale");
    struct config_key *targets = row_of(rows, "model.output", "target");
    for (enum input_kind kind = 0; input_kind_name(kind); kind++)
        add_name(kinds, input_kind_name(kind));
    for (enum input_scale scale = 0; input_scale_name(scale); scale++)
        add_name(scales, input_scale_name(scale));
    for (enum target target = 0; target_name(target); target++)
        add_name(targets, target_name(target));
}

void config_describe_kinds(struct config_key *rows) {
    name_choices(rows);
    describe_experts(row_of(rows, "", "experts"));
    describe_layers(rows);
    describe_losses(rows);
    describe_optimizers(rows);
    describe_rules(row_of(rows, "learning", "rule"));
}

const char *config_losses(bool (*fits)(const struct loss_kind *kind), const char *last,
                          char text[CONFIG_TEXT_SIZE]) {
    size_t left = 0, used = 0;
    for (enum loss loss = 0; loss < LOSSES; loss++)
        left += fits(loss_kind(loss));
    for (enum loss loss = 0; loss < LOSSES; loss++) {
        if (!fits(loss_kind(loss)))
            continue;
        used += snprintf(text + used, CONFIG_TEXT_SIZE - used, "%s%s",
                         used == 0   ? ""
                         : left == 1 ? last
                                     : ", ",
                         loss_kind(loss)->name);
        assert(used < CONFIG_TEXT_SIZE);
        left--;
    }
    return text;
}

/* ---- Rules of an optimizer ---- */

/* A key of the optimizer that makes no sense without another. */
static int check_needs(struct reading *reading, const struct optimizer *optimizer) {
    for (const struct kind_key *key = optimizer_kind(optimizer->kind)->keys; key->name; key++) {
        char path[CONFIG_KEY_SIZE];
        if (!key->needs || !optimizer_value(optimizer, key) ||
            optimizer_value(optimizer, optimizer_key(optimizer->kind, key->needs)) > 0)
            continue;
        snprintf(path, sizeof path, "learning.optimizer.%s", key->name);
        return config_fail(reading, path,
                           "found true; it is allowed only with learning.optimizer.%s above 0",
                           key->needs);
    }
    return 0;
}

/* What the optimizer says of a key that others mean something else by: its default and bounds. */
static int check_own(struct reading *reading, struct optimizer *optimizer) {
    const struct optimizer_kind *kind = optimizer_kind(optimizer->kind);
    for (const struct kind_key *key = kind->keys; key->name; key++) {
        char path[CONFIG_KEY_SIZE];
        double *value = (double *)(void *)((char *)optimizer + key->offset);
        snprintf(path, sizeof path, "learning.optimizer.%s", key->name);
        if (key->boolean)
            continue;
        if (!config_place(reading, path)->given)
            *value = strtod(key->fallback, NULL);
        if (*value < key->minimum || *value > key->maximum ||
            (key->below && *value == key->maximum))
            return config_fail(reading, path,
                               "found %.10g; allowed with kind: %s is a number from %.10g to "
                               "%s%.10g",
                               *value, kind->name, key->minimum, key->below ? "below " : "",
                               key->maximum);
    }
    return 0;
}

bool config_rate_fits(const struct optimizer *optimizer, double rate, char why[CONFIG_WHY_SIZE]) {
    const struct optimizer_kind *kind = optimizer_kind(optimizer->kind);
    if (kind->rateless && rate != RATE_AUTO)
        snprintf(why, CONFIG_WHY_SIZE,
                 "found %.10g, but kind: %s has no learning rate; allowed with it is auto", rate,
                 kind->name);
    else if (!kind->rateless && rate == RATE_AUTO)
        snprintf(why, CONFIG_WHY_SIZE, "found auto; allowed with kind: %s is a number", kind->name);
    return kind->rateless == (rate == RATE_AUTO);
}

static int check_rate(struct reading *reading, struct optimizer *optimizer) {
    static const char path[] = "learning.optimizer.rate";
    char why[CONFIG_WHY_SIZE];
    if (optimizer_kind(optimizer->kind)->rateless && !config_place(reading, path)->given)
        optimizer->rate = RATE_AUTO;
    return config_rate_fits(optimizer, optimizer->rate, why)
               ? 0
               : config_fail(reading, path, "%s", why);
}

int config_check_optimizer(struct reading *reading) {
    struct optimizer *optimizer = &reading->draft.config.learning.optimizer;
    return check_needs(reading, optimizer) || check_own(reading, optimizer) ||
                   check_rate(reading, optimizer)
               ? -1
               : 0;
}

/* ---- Rules of a learning rule ---- */

static const char *const rule_path = "learning.rule";

/* "dense, rnn or gru" */
static const char *cells_of(enum rule rule, char text[CONFIG_TEXT_SIZE]) {
    char words[CONFIG_TEXT_SIZE] = "";
    for (enum cell cell = 0; cell < CELLS; cell++)
        if (rule_takes(rule, cell))
            append(words, sizeof words, cell_kind(cell)->kind.name);
    config_words_list(words, text, CONFIG_TEXT_SIZE);
    return text;
}

static int check_cells(const struct reading *reading, enum rule rule) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    char text[CONFIG_TEXT_SIZE];
    for (size_t n = 0; n < architecture->layer_count; n++) {
        enum cell cell = architecture->layers[n].cell;
        if (!rule_takes(rule, cell))
            return config_fail(reading, rule_path,
                               "found %s with a layer whose cell is %s (model.layers.%zu); allowed "
                               "with it are layers of %s",
                               rule_kind(rule)->name, cell_kind(cell)->kind.name, n,
                               cells_of(rule, text));
    }
    return 0;
}

static size_t bytes_kept(const struct architecture *architecture, enum rule rule) {
    struct model model;
    model_build(&model, architecture);
    return rule_record_size(&model, rule) * sizeof(float);
}

/* The most units that every layer that carries a state may have; 0: not even one. */
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
        "found %s, which would keep %zu MiB of each stream; allowed are at most %zu: "
        "with recurrent layers of %zu units it fits",
        rule_kind(rule)->name, bytes >> 20, RULE_BYTES_MOST >> 20, units);
}

int config_check_rule(struct reading *reading) {
    struct config *config = &reading->draft.config;
    enum rule rule = config->learning.rule;
    if (rule_kind(rule)->keeps == KEEPS_NOTHING)
        return 0;
    config->learning.window = config->learning.stride;
    if (!config_is_network(reading))
        return 0;
    if (!strncmp(config->device, "cuda", strlen("cuda")))
        return config_fail(reading, rule_path,
                           "found %s with device: %s; no GPU computes it: allowed is device: cpu, "
                           "or auto, which is the processor then",
                           rule_kind(rule)->name, config->device);
    return check_cells(reading, rule) || check_kept(reading, rule) ? -1 : 0;
}
