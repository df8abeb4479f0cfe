/* Descriptions of keys: for --explain, and for the documents. */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "config_internal.h"

/* A text that grows, cut where it is full. */
struct paragraph {
    char *text;
    size_t used, size;
};

static void add(struct paragraph *paragraph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct paragraph *paragraph, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = paragraph->size - paragraph->used;
    int length = vsnprintf(paragraph->text + paragraph->used, left, format, arguments);
    va_end(arguments);
    if (length > 0)
        paragraph->used += (size_t)length < left ? (size_t)length : left - 1;
}

/* "`cell: lstm`", "`kind: adam` or `adamw`". */
static void add_condition(struct paragraph *paragraph, const struct config_key *key) {
    const char *name = strrchr(key->when, '.') + 1;
    size_t count = config_words_count(key->is), length;
    for (size_t n = 0; n < count; n++) {
        const char *word = config_word(key->is, n, &length);
        if (n == 0)
            add(paragraph, "`%s: %.*s`", name, (int)length, word);
        else
            add(paragraph, "%s`%.*s`", n + 1 < count ? ", " : " or ", (int)length, word);
    }
}

void config_key_summary(const struct config_key *key, char text[CONFIG_SUMMARY_SIZE]) {
    struct paragraph paragraph = {text, 0, CONFIG_SUMMARY_SIZE};
    char expected[CONFIG_TEXT_SIZE];
    config_value_expected(key, expected, sizeof expected);
    add(&paragraph, "%c%s: %s.", toupper((unsigned char)*key->what), key->what + 1, expected);
    if (key->when) {
        add(&paragraph, " Only with ");
        add_condition(&paragraph, key);
        add(&paragraph, ".");
    }
    if (key->flags & KEY_REQUIRED)
        add(&paragraph, " Required.");
    else
        add(&paragraph, " Default: %s.",
            key->left_out   ? key->left_out
            : key->fallback ? key->fallback
                            : "none");
    if (key->flags & KEY_IN_FLIGHT)
        add(&paragraph, " In flight.");
    else if (key->flags & KEY_RELOAD)
        add(&paragraph, " On reload.");
}

static const char *type_name(enum value_type type) {
    static const char *const names[] = {
        [VALUE_WORD] = "word",
        [VALUE_CHOICE] = "word",
        [VALUE_BOOLEAN] = "truth value",
        [VALUE_SIZE] = "whole number",
        [VALUE_COUNT] = "whole number",
        [VALUE_REAL] = "number",
        [VALUE_FLOAT] = "number",
        [VALUE_RATE] = "number or word",
        [VALUE_THREADS] = "whole number or word",
        [VALUE_PIN] = "truth value, text or list of CPUs",
        [VALUE_TRUTH] = "truth value or word",
        [VALUE_AHEAD] = "whole number or list of them",
        [VALUE_SET] = "list of words",
        [VALUE_MEMBERS] = "list of mappings",
        [VALUE_COLUMNS] = "list of mappings",
        [VALUE_COLUMN_NAMES] = "list of words",
        [VALUE_PREFIXES] = "list of texts",
        [VALUE_TAGS] = "mapping of texts",
        [VALUE_KEEP] = "word or size",
        [VALUE_LABEL] = "text",
        [VALUE_ZONE] = "time zone",
        [VALUE_NAME] = "text",
        [VALUE_DEVICE] = "word",
        [VALUE_TEXT] = "text",
        [VALUE_PATH] = "path",
        [VALUE_BIND] = "endpoint",
        [VALUE_CONNECT] = "endpoint",
    };
    return names[type];
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

void config_key_title(const struct config_key *key, char path[CONFIG_KEY_SIZE]) {
    snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
    char *star = strchr(path, '*');
    if (star)
        *star = 'N';
}

/* A fact, or a word's meaning, on lines of its own. */
static void explain_fact(FILE *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void explain_fact(FILE *out, const char *name, const char *format, ...) {
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
    struct paragraph condition = {text, 0, sizeof text};
    config_key_title(key, path);
    fprintf(out, "%s: %s\n\n", path, key->what);
    explain_fact(out, "type", "%s%s%s", type_name(key->type), key->unit ? ", in " : "",
                 key->unit ? key->unit : "");
    config_value_expected(key, text, sizeof text);
    explain_fact(out, "allowed", "%s", text);
    if (key->meanings)
        explain_meanings(out, key);
    explain_fact(out, "default", "%s",
                 key->flags & KEY_REQUIRED ? "none: it is required"
                 : key->left_out           ? key->left_out
                 : key->fallback           ? key->fallback
                                           : "none");
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

static int explain_unknown(const char *path, struct error *error) {
    char meant[CONFIG_KEY_SIZE];
    bool near = config_path_suggest(path, meant);
    return error_set(error, EX_USAGE,
                     "--explain: unknown key \"%s\"%s%s%s; --explain without a key lists all", path,
                     near ? " (did you mean \"" : "", near ? meant : "", near ? "\"?)" : "");
}

int config_explain(FILE *out, const char *path, struct error *error) {
    char numbered[CONFIG_KEY_SIZE], name[CONFIG_KEY_SIZE];
    const struct config_key *key = NULL;
    size_t layer = 0;
    bool any_layer;
    number_layers(path, numbered);
    if (config_path_kind(numbered, &key, &layer) == PATH_UNKNOWN)
        return explain_unknown(path, error);
    if (key) {
        explain_key(out, key, layer);
        return 0;
    }
    for (size_t k = 0; k < config_key_count; k++) {
        if (!config_key_below(&config_keys[k], numbered, &layer, &any_layer))
            continue;
        config_key_title(&config_keys[k], name);
        fprintf(out, "%-32s  %s\n", name, config_keys[k].what);
    }
    return 0;
}

void config_names(char names[CONFIG_NAMES_SIZE]) {
    char name[CONFIG_KEY_SIZE];
    size_t used = 0;
    for (size_t k = 0; k < config_key_count; k++) {
        config_key_title(&config_keys[k], name);
        assert(used + strlen(name) + sizeof " " <= CONFIG_NAMES_SIZE);
        used += (size_t)snprintf(names + used, CONFIG_NAMES_SIZE - used, "%s ", name);
    }
}
