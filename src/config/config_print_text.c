/* Values of the resolved configuration, in YAML or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/format.h"
#include "config_print.h"

/* ---- Texts ---- */

/* Bytes of the character of UTF-8 there, 0 for what is none; `*code` is its number. */
static size_t decode(const char *text, unsigned *code) {
    const unsigned char *byte = (const unsigned char *)text;
    static const unsigned first[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = *byte < 0x80       ? 1
                  : *byte >> 5 == 6  ? 2
                  : *byte >> 4 == 14 ? 3
                  : *byte >> 3 == 30 ? 4
                                     : 0;
    *code = size == 1 ? *byte : size ? *byte & (0x7FU >> size) : 0;
    for (size_t n = 1; n < size; n++) {
        if (byte[n] >> 6 != 2)
            return 0;
        *code = *code << 6 | (byte[n] & 0x3F);
    }
    bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
    return size && *code >= first[size] && *code <= 0x10FFFF && !surrogate ? size : 0;
}

/* What a reader of YAML refuses or folds. */
static bool is_escaped(unsigned code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

/* As in JSON, which YAML reads as well. */
static void print_quoted(FILE *out, const char *text) {
    unsigned code;
    fputc('"', out);
    for (size_t size; *text; text += size ? size : 1) {
        size = decode(text, &code);
        if (!size)
            fputc('?', out);
        else if (is_escaped(code))
            fprintf(out, "\\u%04x", code);
        else
            fprintf(out, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)size, text);
    }
    fputc('"', out);
}

/* Whether some reader of YAML would have the plain text for something else. */
static bool is_special(const char *text) {
    static const char *const words[] = {"null", "true", "false", "yes",  "no",  "on",
                                        "off",  "y",    "n",     ".nan", ".inf"};
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (!strcasecmp(text, words[n]))
            return true;
    return strspn(text, "0123456789.+-_:eExXoOabcdfABCDF") == strlen(text) &&
           strpbrk(text, "0123456789.");
}

static bool is_plain(const char *text) {
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-@:";
    size_t length = strlen(text);
    return length && strspn(text, safe) == length && !strchr("+-@:", *text) &&
           text[length - 1] != ':' && !is_special(text);
}

void config_print_text(struct config_printer *printer, const char *text) {
    if (!printer->json && is_plain(text))
        fputs(text, printer->out);
    else
        print_quoted(printer->out, text);
}

static void print_path(struct config_printer *printer, const char *path) {
    char whole[2 * CONFIG_PATH_SIZE];
    bool relative = *path != '/' && *printer->directory;
    snprintf(whole, sizeof whole, "%s%s%s", relative ? printer->directory : "", relative ? "/" : "",
             path);
    config_print_text(printer, whole);
}

/* ---- Numbers ---- */

/* Some readers of YAML want a point in every number with an exponent: 1.0e-05. */
static void print_number(FILE *out, const char *text) {
    size_t length = strcspn(text, "e");
    bool point = memchr(text, '.', length) != NULL;
    fprintf(out, "%.*s%s%s", (int)length, text, text[length] && !point ? ".0" : "", text + length);
}

/* In as few digits as give the same number again. */
static void print_float(FILE *out, float value) {
    enum { ALL = 9 };
    char text[FORMAT_SIZE];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while ((float)strtod(text, NULL) != value && ++digits <= ALL);
    print_number(out, text);
}

static void print_real(FILE *out, double value) {
    char text[FORMAT_SIZE];
    print_number(out, format_exact(text, value));
}

/* ---- Lists ---- */

static void print_set(struct config_printer *printer, const struct config_key *key, unsigned set) {
    const char *before = "";
    fputc('[', printer->out);
    for (size_t n = 0; n < config_words_count(key->words); n++) {
        char text[CONFIG_TEXT_SIZE];
        size_t length;
        const char *word = config_word(key->words, n, &length);
        if (!(set >> n & 1))
            continue;
        snprintf(text, sizeof text, "%.*s", (int)length, word);
        fputs(before, printer->out);
        config_print_text(printer, text);
        before = ", ";
    }
    fputc(']', printer->out);
}

static void print_prefixes(struct config_printer *printer, const struct share_config *share) {
    fputc('[', printer->out);
    for (size_t n = 0; n < share->count; n++) {
        fputs(n ? ", " : "", printer->out);
        print_quoted(printer->out, share->prefixes[n]);
    }
    fputc(']', printer->out);
}

static void print_names(struct config_printer *printer, const struct architecture *architecture) {
    const struct output *output = &architecture->output;
    fputc('[', printer->out);
    for (size_t n = 0; n < output->column_count; n++) {
        fputs(n ? ", " : "", printer->out);
        config_print_text(printer, output->target == TARGET_NEXT
                                       ? architecture->input.columns[output->columns[n]].name
                                       : architecture->target_names[n]);
    }
    fputc(']', printer->out);
}

/* What a column of this kind says: of ways to say the size of an alphabet the one that it has. */
static bool is_said(enum column_key k, const struct column *column, const struct input *input) {
    const struct config_key *key = &config_column_keys[k];
    bool words = column->vocabulary.capacity || column->hash;
    if (key->is && strcmp(key->is, column_kind_name(column->kind)) != 0)
        return false;
    switch (k) {
    case COLUMN_SCALE:
    case COLUMN_MASK:
        return input->scale != SCALE_FORECAST;
    case COLUMN_MEMORY:
    case COLUMN_LIMIT:
        return column->standard && input->scale != SCALE_FORECAST;
    case COLUMN_SIZE:
        return !words;
    case COLUMN_CAPACITY:
        return column->vocabulary.capacity != 0;
    case COLUMN_UNKNOWN:
        return column->vocabulary.capacity || column->vocabulary.reject;
    case COLUMN_FORGET:
        return column->vocabulary.capacity || column->vocabulary.lru;
    case COLUMN_HASH:
        return column->hash != 0;
    default:
        return true;
    }
}

/* Keys of a vocabulary stand in a mapping of their own, and follow each other. */
static void print_column(struct config_printer *printer, const struct column *column,
                         const struct input *input) {
    static const char vocabulary[] = "vocabulary.";
    const char *quote = printer->json ? "\"" : "", *before = "{";
    bool inside = false;
    for (unsigned k = 0; k < COLUMN_KEYS; k++) {
        const struct config_key *key = &config_column_keys[k];
        bool word = !strncmp(key->path, vocabulary, strlen(vocabulary));
        if (!is_said((enum column_key)k, column, input))
            continue;
        if (inside && !word)
            fputc('}', printer->out);
        fputs(before, printer->out);
        if (word && !inside)
            fprintf(printer->out, "%svocabulary%s: {", quote, quote);
        fprintf(printer->out, "%s%s%s: ", quote, key->path + (word ? strlen(vocabulary) : 0),
                quote);
        config_print_value(printer, key, 0, (const struct config *)(const void *)column);
        before = ", ";
        inside = word;
    }
    fputs(inside ? "}}" : "}", printer->out);
}

static void print_columns(struct config_printer *printer, const struct input *input) {
    fputc('[', printer->out);
    for (size_t n = 0; n < input->column_count; n++) {
        fputs(!n ? "" : printer->json ? ", " : ",\n      ", printer->out);
        print_column(printer, &input->columns[n], input);
    }
    fputc(']', printer->out);
}

static void print_tags(struct config_printer *printer, const struct tags_config *tags) {
    fputc('{', printer->out);
    for (size_t n = 0; n < tags->count; n++) {
        fputs(n ? ", " : "", printer->out);
        config_print_text(printer, tags->list[n].name);
        fputs(": ", printer->out);
        config_print_text(printer, tags->list[n].text);
    }
    fputc('}', printer->out);
}

/* ---- Values ---- */

void config_print_value(struct config_printer *printer, const struct config_key *key, size_t layer,
                        const struct config *config) {
    const struct draft *draft = (const struct draft *)(const void *)config;
    const void *where = config_value_home(key, layer, draft);
    char text[CONFIG_TEXT_SIZE];
    switch (key->type) {
    case VALUE_REAL:
        print_real(printer->out, *(const double *)where);
        break;
    case VALUE_RATE:
        if (*(const double *)where == RATE_AUTO)
            config_print_text(printer, CONFIG_RATE_WORD);
        else
            print_real(printer->out, *(const double *)where);
        break;
    case VALUE_FLOAT:
        print_float(printer->out, *(const float *)where);
        break;
    case VALUE_SET:
        print_set(printer, key, *(const unsigned *)where);
        break;
    case VALUE_PREFIXES:
        print_prefixes(printer, where);
        break;
    case VALUE_TAGS:
        print_tags(printer, where);
        break;
    case VALUE_COLUMNS:
        print_columns(printer, &config->architecture.input);
        break;
    case VALUE_COLUMN_NAMES:
        print_names(printer, &config->architecture);
        break;
    case VALUE_PATH:
        print_path(printer, where);
        break;
    case VALUE_NAME:
    case VALUE_LABEL:
    case VALUE_ZONE:
    case VALUE_DEVICE:
    case VALUE_TEXT:
    case VALUE_BIND:
    case VALUE_CONNECT:
        config_print_text(printer, where);
        break;
    case VALUE_WORD:
    case VALUE_CHOICE:
        config_value_print(key, layer, draft, text, sizeof text);
        config_print_text(printer, text);
        break;
    case VALUE_TRUTH: {
        unsigned truth = *(const unsigned *)where;
        config_value_print(key, layer, draft, text, sizeof text);
        if (truth < CONFIG_TRUTHS)
            fputs(text, printer->out);
        else
            config_print_text(printer, text);
        break;
    }
    case VALUE_THREADS: {
        size_t threads = *(const size_t *)where;
        config_value_print(key, layer, draft, text, sizeof text);
        if (threads)
            fputs(text, printer->out);
        else
            config_print_text(printer, text);
        break;
    }
    case VALUE_PIN: {
        const char *pin = where;
        if (*pin == 'f' || *pin == 't')
            fputs(pin, printer->out);
        else
            config_print_text(printer, pin);
        break;
    }
    case VALUE_KEEP: {
        uint64_t keep = *(const uint64_t *)where;
        config_value_print(key, layer, draft, text, sizeof text);
        if (keep == JOURNAL_KEEP_ALL || keep == JOURNAL_KEEP_CHECKPOINT)
            config_print_text(printer, text);
        else
            fputs(text, printer->out);
        break;
    }
    case VALUE_BOOLEAN:
    case VALUE_SIZE:
    case VALUE_COUNT:
    case VALUE_AHEAD:
        config_value_print(key, layer, draft, text, sizeof text);
        fputs(text, printer->out);
        break;
    case VALUE_MEMBERS: /* in lines of their own */
        break;
    }
}
