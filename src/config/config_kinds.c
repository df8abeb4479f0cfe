/* Descriptions of the kinds in the table of keys.

   Cells, norms, losses, optimizers and learning rules (kernels/kinds.def) and experts
   (forecast/experts.def) add their words to the rows. They also fill the rows of their own keys,
   except path, offset and flags. */
#include "config_keys.h"

#include <assert.h>

static const char *__attribute__((format(printf, 1, 2))) keep(const char *format, ...) {
    enum { ARENA_SIZE = 1 << 16 };
    static char arena[ARENA_SIZE];
    static size_t used;
    char *text = arena + used;
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text, sizeof arena - used, format, arguments) + 1;
    va_end(arguments);
    assert(used < sizeof arena);
    return text;
}

/* Append a part after a '|'. No part may contain a '|'. */
static void add(const char **list, const char *part) {
    assert(!strchr(part, '|'));
    *list = *list ? keep("%s|%s", *list, part) : part;
}

static struct config_key *rows;

static struct config_key *row_of(const char *section, const char *name) {
    size_t length = strlen(section);
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(rows[k].path, section) && !strcmp(rows[k].path + length + 1, name))
            return &rows[k];
    assert(!"a kind names a key without a row");
    return NULL;
}

static const char *earlier_defaults, *earlier_hint;

static void describe(struct config_key *row, const struct kind_key *key) {
    row->type = key->boolean ? &value_boolean : &value_real;
    row->minimum = key->minimum;
    row->maximum = key->maximum;
    row->flags |= key->below ? KEY_BELOW : 0;
    row->fallback = key->fallback;
    row->earlier = key->earlier;
    if (key->earlier) {
        earlier_defaults = keep("%s: %s", row->path, key->earlier);
        earlier_hint =
            keep("; it has the default of earlier versions: set %s here", earlier_defaults);
    }
    row->what = key->what;
    row->more = key->more;
    row->example = key->example;
}

/* Several kinds have this key with different meanings: the row allows the union of their values,
   and check_own() in config_check.c checks the bounds of each kind. */
static void widen(struct config_key *row, const struct kind_key *key, const char *kind) {
    if (!strcmp(row->what, key->what) && !strcmp(row->fallback, key->fallback) &&
        row->minimum == key->minimum && row->maximum == key->maximum)
        return;
    row->minimum = key->minimum < row->minimum ? key->minimum : row->minimum;
    if (key->maximum > row->maximum) {
        row->maximum = key->maximum;
        row->flags &= ~(unsigned)KEY_BELOW;
        row->flags |= key->below ? KEY_BELOW : 0;
    }
    row->what = keep("%s; with `%s` %s", row->what, kind, key->what);
    row->left_out = keep("%s; %s with `%s`", row->fallback, key->fallback, kind);
    if (row->more && key->more)
        row->more = keep("%s %s", row->more, key->more);
    else if (key->more)
        row->more = key->more;
}

/* Append a word to the words that a row allows, and its meaning. */
static void add_word(const char *section, const char *name, const char *word, const char *meaning) {
    struct config_key *row = row_of(section, name);
    add(&row->words, word);
    if (meaning)
        add(&row->meanings, meaning);
}

static void add_layer_kind(const char *key, const struct layer_kind *kind) {
    static const char layers[] = "model.layers.*";
    add_word(layers, key, kind->name, kind->what);
    for (size_t k = 0; k < LAYER_KEYS_MAX && kind->keys[k]; k++)
        add(&row_of(layers, kind->keys[k])->is, kind->name);
}

static void add_optimizer(const struct optimizer_kind *kind) {
    static const char section[] = "learning.optimizer";
    add_word(section, "kind", kind->name, kind->what);
    if (!kind->rateless)
        add(&row_of(section, "pull")->is, kind->name);
    for (const struct kind_key *key = kind->keys; key->name; key++) {
        struct config_key *row = row_of(section, key->name);
        if (row->what)
            widen(row, key, kind->name);
        else
            describe(row, key);
        add(&row->is, kind->name);
    }
}

void config_describe_kinds(struct config_key *table) {
    static const char input[] = "model.input", output[] = "model.output";
    static const char *const of_rankings[] = {
        "score",           "objective",        "negatives",        "candidates.kind",
        "candidates.size", "candidates.shape", "candidates.layers"};
    struct config_key *experts = rows = table;
    const char *name;
    while (strcmp(experts->path, "experts") != 0)
        experts++;
    for (unsigned n = 0; (name = input_kind_name(n)); n++)
        add_word(input, "kind", name, NULL), add_word(output, "candidates.kind", name, NULL);
    for (unsigned n = 0; (name = input_scale_name(n)); n++)
        add_word(input, "scale", name, NULL);
    for (unsigned n = 0; (name = target_name(n)); n++)
        add_word(output, "target", name, NULL);
    for (unsigned n = 0; n < POOLS; n++) {
        add_word("model.input.sequence", "pool", pool_kind(n)->name, pool_kind(n)->what);
        if (pool_kind(n)->attends)
            add(&row_of("model.input.sequence", "attention")->is, pool_kind(n)->name);
    }
    for (unsigned n = 0; n < CELLS; n++)
        add_layer_kind("cell", &cell_kind(n)->kind);
    for (unsigned n = 0; n < NORMS; n++)
        add_layer_kind("norm", &norm_kind(n)->kind);
    for (unsigned n = 0; n < ACTIVATIONS; n++)
        add_layer_kind("activation", &activation_kind(n)->kind);
    for (unsigned n = 0; n < LOSSES; n++) {
        const struct loss_kind *kind = loss_kind(n);
        add_word(output, "loss", kind->name, kind->what);
        if (loss_has_components(kind))
            add(&row_of(output, "components")->is, kind->name);
        for (size_t r = 0; kind->ranks && r < sizeof of_rankings / sizeof *of_rankings; r++)
            add(&row_of(output, of_rankings[r])->is, kind->name);
    }
    for (unsigned n = 0; n < OPTIMIZERS; n++)
        add_optimizer(optimizer_kind(n));
    for (unsigned n = 0; n < RULES; n++)
        add_word("learning", "rule", rule_kind(n)->name, rule_kind(n)->what);
#define EXPERT(name, what, ...) add(&experts->words, #name), add(&experts->meanings, what);
#include "forecast/experts.def"
#define EXPERT(name, what) add(&experts->words, #name), add(&experts->meanings, what);
#include "symbols/experts.def"
}

const char *config_earlier(void) {
    return earlier_defaults;
}

const char *config_hint(const struct config *config, const char *theirs) {
    const char *earlier = config->earlier.compatible;
    bool ours = strcmp(earlier, config->compatible) != 0;
    return ours && !strncmp(theirs, earlier, strlen(earlier)) ? earlier_hint : "";
}
