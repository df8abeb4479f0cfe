/* Descriptions of keys: for --explain, and for the documents. */
#include "config_keys.h"

#include <assert.h>
#include <ctype.h>
#include <sysexits.h>

#include "common/error.h"

static const char *default_of(const struct config_key *key) {
    return key->left_out ? key->left_out : key->fallback ? key->fallback : "none";
}

/* "`cell: lstm`", "`kind: adam` or `adamw`". */
static void add_condition(struct config_text *to, const struct config_key *key) {
    const char *name = strrchr(key->when, '.') + 1;
    size_t count = config_words_count(key->is), length;
    for (size_t n = 0; n < count; n++) {
        const char *word = config_word(key->is, n, &length);
        if (n == 0)
            config_add(to, "`%s: %.*s`", name, (int)length, word);
        else
            config_add(to, "%s`%.*s`", n + 1 < count ? ", " : " or ", (int)length, word);
    }
}

void config_key_summary(const struct config_key *key, char text[CONFIG_SUMMARY_SIZE]) {
    struct config_text to = {.text = text, .size = CONFIG_SUMMARY_SIZE};
    char expected[CONFIG_TEXT_SIZE];
    config_value_expected(key, expected, sizeof expected);
    config_add(&to, "%c%s: %s.", toupper((unsigned char)*key->what), key->what + 1, expected);
    if (key->when) {
        config_add(&to, " Only with ");
        add_condition(&to, key);
        config_add(&to, ".");
    }
    if (key->flags & KEY_REQUIRED)
        config_add(&to, " Required.");
    else
        config_add(&to, " Default: %s.", default_of(key));
    if (key->flags & KEY_IN_FLIGHT)
        config_add(&to, " In flight.");
    else if (key->flags & KEY_RELOAD)
        config_add(&to, " On reload.");
}

size_t config_token(const char *text) {
    const char *quote = *text == '`' ? strchr(text + 1, '`') : NULL;
    size_t length = quote ? (size_t)(quote + 1 - text) : 0;
    return length + strcspn(text + length, " ");
}

void config_wrap(FILE *out, const char *first, const char *next, const char *text) {
    size_t column = strlen(first);
    fputs(first, out);
    for (bool begins = true; *text; begins = false) {
        size_t length = config_token(text);
        if (!begins && column + 1 + length > CONFIG_LINE_MAX) {
            fprintf(out, "\n%s", next);
            column = strlen(next);
        } else if (!begins) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, length, out);
        column += length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

/* A fact, or a word's meaning, on lines of its own. */
static void __attribute__((format(printf, 3, 4)))
explain_fact(FILE *out, const char *name, const char *format, ...) {
    char first[CONFIG_KEY_SIZE], text[CONFIG_SUMMARY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(first, sizeof first, "  %-8s  ", name);
    config_wrap(out, first, "            ", text);
}

static void explain_meanings(FILE *out, const struct config_key *key) {
    size_t length, size;
    for (size_t n = 0; n < config_words_count(key->words); n++) {
        const char *word = config_word(key->words, n, &length);
        const char *meaning = config_word(key->meanings, n, &size);
        explain_fact(out, "", "%.*s: %.*s", (int)length, word, (int)size, meaning);
    }
}

static void explain_key(FILE *out, const struct config_key *key, size_t layer) {
    char path[CONFIG_KEY_SIZE], text[CONFIG_SUMMARY_SIZE];
    struct config_text condition = {.text = text, .size = sizeof text};
    config_key_title(key, path);
    fprintf(out, "%s: %s\n\n", path, key->what);
    explain_fact(out, "type", "%s%s%s", key->type->name, key->unit ? ", in " : "",
                 key->unit ? key->unit : "");
    config_value_expected(key, text, sizeof text);
    explain_fact(out, "allowed", "%s", text);
    if (key->meanings)
        explain_meanings(out, key);
    explain_fact(out, "default", "%s",
                 key->flags & KEY_REQUIRED ? "none: it is required" : default_of(key));
    if (key->when) {
        add_condition(&condition, key);
        explain_fact(out, "only", "with %s", text);
    }
    explain_fact(out, "changes", "%s",
                 key->flags & KEY_IN_FLIGHT ? "while the daemon runs (runnel-ctl set, SIGHUP)"
                 : key->flags & KEY_RELOAD  ? "when the daemon reads its file again (SIGHUP)"
                 : key->flags & KEY_FRESH   ? "where nothing was learned only"
                 : key->flags & KEY_WINDOW  ? "with a restart: windows of streams begin anew"
                 : key->flags & KEY_MOMENT
                     ? "with a restart: windows of streams and the optimizer's moments begin anew"
                 : key->flags & KEY_DIGEST
                     ? "where nothing was learned only: with another state.directory"
                     : "with a restart");
    config_key_path(key, layer, path);
    explain_fact(out, "example", "--set %s=%s", path, key->example);
    if (key->more) {
        fputc('\n', out);
        config_wrap(out, "", "", key->more);
    }
}

/* "model.layers.N.size" with 0 for N (or '*'), so that it is the path of a key. */
static void number_layers(const char *path, char numbered[CONFIG_KEY_SIZE]) {
    size_t used = 0;
    for (const char *c = path; *c && used + 1 < CONFIG_KEY_SIZE; c++) {
        bool whole = (c == path || c[-1] == '.') && (!c[1] || c[1] == '.');
        numbered[used++] = whole && (*c == 'N' || *c == '*') ? '0' : *c;
    }
    numbered[used] = 0;
}

int config_explain(FILE *out, const char *path, struct error *error) {
    char numbered[CONFIG_KEY_SIZE], name[CONFIG_KEY_SIZE], meant[CONFIG_MEANT_SIZE];
    const struct config_key *key = NULL;
    size_t layer = 0;
    number_layers(path, numbered);
    if (config_path_kind(numbered, &key, &layer) == PATH_UNKNOWN)
        return error_set(error, EX_USAGE,
                         "--explain: unknown key \"%s\"%s; --explain without a key lists all", path,
                         config_path_meant(path, meant));
    if (key) {
        explain_key(out, key, layer);
        return 0;
    }
    for (size_t k = 0; k < config_key_count; k++) {
        if (!config_key_below(&config_keys[k], numbered))
            continue;
        config_key_title(&config_keys[k], name);
        fprintf(out, "%-32s  %s\n", name, config_keys[k].what);
    }
    return 0;
}

void config_names(char names[CONFIG_NAMES_SIZE]) {
    struct config_text to = {.text = names, .size = CONFIG_NAMES_SIZE};
    char name[CONFIG_KEY_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        config_key_title(&config_keys[k], name);
        config_add(&to, "%s ", name);
    }
    assert(to.used + 1 < to.size);
}
