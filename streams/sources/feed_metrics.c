#include "feed_metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS_MAX = 64 };

struct series {
    const char *name;
    struct label labels[LABELS_MAX];
    size_t count;
};

static const char BLANKS[] = " \t";

static char *skip_blanks(char *text) {
    return text + strspn(text, BLANKS);
}

/* Returns the end of the name at the beginning of the text, or `text` without a name. */
static char *name_end(char *text) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
    size_t size = 0;
    if (strspn(text, LETTERS) > 0)
        while (text[size] && (strchr(LETTERS, text[size]) || strchr("0123456789", text[size])))
            size++;
    return text + size;
}

/* Decodes the quoted text in place and terminates it; returns the text after it, or NULL if it is
   invalid. */
static char *unquote(char *text, char **value) {
    if (*text != '"')
        return NULL;
    char *to = *value = ++text;
    for (; *text && *text != '"'; text++) {
        bool escaped = *text == '\\' && text[1];
        text += escaped;
        *to++ = escaped && *text == 'n' ? '\n' : *text;
    }
    if (!*text)
        return NULL;
    *to = '\0';
    return text + 1;
}

/* Parses one of a="b",...}; returns the text after it and its comma, or NULL if it is invalid. */
static char *read_label(char *text, struct label *label) {
    char *end = name_end(text), *rest = skip_blanks(end);
    if (end == text || *rest != '=')
        return NULL;
    label->name = text;
    text = unquote(skip_blanks(rest + 1), &label->value);
    *end = '\0';
    if (!text)
        return NULL;
    text = skip_blanks(text);
    return *text == ',' ? skip_blanks(text + 1) : *text == '}' ? text : NULL;
}

/* Parses name{a="b",c="d"}; returns the text after it, or NULL. */
static char *read_series(char *text, struct series *series) {
    char *end = name_end(text), *rest = skip_blanks(end);
    if (end == text)
        return NULL;
    series->name = text;
    series->count = 0;
    if (*rest != '{') {
        bool over = *end == '\0';
        *end = '\0';
        return over ? end : end + 1;
    }
    *end = '\0';
    for (rest = skip_blanks(rest + 1); rest && *rest != '}';) {
        if (series->count == LABELS_MAX)
            return NULL;
        rest = read_label(rest, &series->labels[series->count++]);
    }
    return rest ? rest + 1 : NULL;
}

int selector_open(struct selector *selector, const char *text, const char **why) {
    struct series series;
    *selector = (struct selector){.text = text, .copy = strdup(text)};
    *why = NULL;
    if (!selector->copy)
        return -1;
    char *rest = read_series(skip_blanks(selector->copy), &series);
    if (!rest || *skip_blanks(rest)) {
        selector_close(selector);
        *why = "expected a name with optional labels, such as http_requests_total{code=\"500\"}";
        return -1;
    }
    selector->name = series.name;
    selector->count = series.count;
    selector->labels = malloc((series.count + 1) * sizeof *selector->labels);
    if (!selector->labels) {
        selector_close(selector);
        return -1;
    }
    memcpy(selector->labels, series.labels, series.count * sizeof *selector->labels);
    return 0;
}

void selector_close(struct selector *selector) {
    free(selector->copy);
    free(selector->labels);
    *selector = (struct selector){0};
}

static bool chooses(const struct selector *selector, const struct series *series) {
    if (strcmp(selector->name, series->name) != 0)
        return false;
    for (size_t i = 0; i < selector->count; i++) {
        bool has = false;
        for (size_t k = 0; k < series->count && !has; k++)
            has = strcmp(selector->labels[i].name, series->labels[k].name) == 0 &&
                  strcmp(selector->labels[i].value, series->labels[k].value) == 0;
        if (!has)
            return false;
    }
    return true;
}

/* Parses name{labels} value [time]. */
static void add_line(char *line, const struct selector *const *selectors, double *sums,
                     size_t count) {
    struct series series;
    char *rest = read_series(skip_blanks(line), &series);
    if (!rest)
        return;
    rest = skip_blanks(rest);
    char *end;
    double value = strtod(rest, &end);
    if (end == rest || (*end && !strchr(BLANKS, *end)))
        return;
    for (size_t i = 0; i < count; i++)
        if (chooses(selectors[i], &series))
            sums[i] = isnan(sums[i]) ? value : sums[i] + value;
}

void metrics_sum(char *text, const struct selector *const *selectors, double *sums, size_t count) {
    char *rest;
    for (size_t i = 0; i < count; i++)
        sums[i] = NAN;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        add_line(line, selectors, sums, count);
}
