/* What cells, norms, losses and optimizers (kernels/kinds.def) and experts (forecast/experts.def)
   say of themselves, put into the table of keys. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config_internal.h"
#include "forecast/forecast.h"

enum { MEANINGS_SIZE = 1024 };

/* Texts of a row, with a | between their parts: no part has one of its own. */
static struct {
    char words[CONFIG_TEXT_SIZE], meanings[MEANINGS_SIZE], is[CONFIG_TEXT_SIZE];
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

/* One more word for the row. Meanings and words are paired by their order: all have one, or none.
 */
static void add_word(struct config_key *row, const char *word, const char *meaning) {
    size_t n = (size_t)(row - config_keys);
    assert(!row->words || !meaning == !row->meanings);
    row->words = append(texts[n].words, sizeof texts[n].words, word);
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
            describe(row, key);
            add_condition(row, kind->name);
        }
    }
}

static void describe_experts(struct config_key *row) {
#define EXPERT(name, what) add_word(row, #name, what);
#include "forecast/experts.def"
}

void config_describe_kinds(struct config_key *rows) {
    describe_experts(row_of(rows, "", "experts"));
    describe_layers(rows);
    describe_losses(rows);
    describe_optimizers(rows);
}
