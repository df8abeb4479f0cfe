/* Writes the documents with all keys of the configuration from the table of keys:
       documents yaml <conf/reference.yaml.in >conf/reference.yaml
       documents mdoc <docs/man/runnel.yaml.5.in >docs/man/runnel.yaml.5

   It copies a template, and replaces a line "BEFORE@PATH" by the key of that path, or by all keys
   below it. Each key must occur once. `make documents` runs this program; it is not installed. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "config/config_keys.h"

enum { LINE_SIZE = 512 };

/* Writes a key in one of the two formats; `before` is the text before the '@'. */
typedef void write_key(const char *before, const struct config_key *key);

/* --- YAML: a comment, and below it "key: value" --- */

static void yaml_meanings(const struct config_key *key, const char *indent) {
    char first[2 * LINE_SIZE], next[2 * LINE_SIZE], text[CONFIG_SUMMARY_SIZE];
    size_t length, size;
    snprintf(next, sizeof next, "%s#     ", indent);
    for (size_t n = 0; n < config_words_count(key->words); n++) {
        const char *word = config_word(key->words, n, &length);
        const char *meaning = config_word(key->meanings, n, &size);
        snprintf(first, sizeof first, "%s#   %.*s: ", indent, (int)length, word);
        snprintf(text, sizeof text, "%.*s", (int)size, meaning);
        config_wrap(stdout, first, next, text);
    }
}

/* "    - @KEY" begins an element of a list; after "    #: @KEY" the value is commented out. */
static void write_yaml(const char *before, const struct config_key *key) {
    static const char aside[] = "#: ";
    char text[CONFIG_SUMMARY_SIZE], indent[LINE_SIZE], first[2 * LINE_SIZE], next[2 * LINE_SIZE];
    const char *is_aside = strstr(before, aside);
    int column = is_aside ? (int)(is_aside - before) : (int)strlen(before);
    bool quoted = key->type == &value_bind || key->type == &value_connect;
    snprintf(indent, sizeof indent, "%*s", column, "");
    snprintf(first, sizeof first, "%.*s# ", column, before);
    snprintf(next, sizeof next, "%s# ", indent);
    config_key_summary(key, text);
    config_wrap(stdout, first, next, text);
    if (key->meanings)
        yaml_meanings(key, indent);
    if (key->more)
        config_wrap(stdout, next, next, key->more);
    const char *dot = strrchr(key->path, '.'), *quote = quoted ? "\"" : "";
    printf("%s%s%s: %s%s%s\n", indent, is_aside ? aside : "", dot ? dot + 1 : key->path, quote,
           key->example, quote);
}

/* --- mdoc: an item of a list
 * ---------------------------------------------------------------------- */

static bool is_key(const char *text, size_t length) {
    for (size_t k = 0; k < config_key_count; k++) {
        const char *path = config_keys[k].path, *end = path + strlen(path);
        bool fits = (size_t)(end - path) >= length && !memcmp(end - length, text, length);
        if (fits && (end - length == path || end[-(ptrdiff_t)length - 1] == '.'))
            return true;
    }
    return false;
}

/* The macro for a quoted text: a value and its key, a command, a variable, a file, a key, or a
   value. */
static void mdoc_quoted(const char *text, size_t length) {
    const char *space = memchr(text, ' ', length), *end = text + length;
    if (space && space[-1] == ':')
        printf(".Ic %.*s : Cm %.*s", (int)(space - 1 - text), text, (int)(end - space - 1),
               space + 1);
    else
        printf(".%s %.*s",
               space                       ? "Ql"
               : *text == '$'              ? "Ev"
               : memchr(text, '/', length) ? "Pa"
               : is_key(text, length)      ? "Ic"
                                           : "Cm",
               (int)length, text);
}

/* Write text with one line for each sentence and each quoted text. */
static void mdoc_text(const char *text) {
    bool begins = true; /* a line of the document begins */
    while (*text) {
        const char *quote = *text == '`' ? strchr(text + 1, '`') : NULL;
        size_t length = config_token(text);
        bool last = !text[length], ends = last || text[length - 1] == '.';
        if (quote) {
            if (!begins)
                putchar('\n');
            mdoc_quoted(text + 1, (size_t)(quote - text - 1));
            for (const char *mark = quote + 1; mark < text + length; mark++)
                printf(" %c", *mark);
            ends = true;
        } else {
            bool minus = *text == '-' && isdigit((unsigned char)text[1]);
            printf("%s%s%.*s", begins ? "" : " ",
                   minus                                       ? "\\"
                   : begins && (*text == '.' || *text == '\'') ? "\\&"
                                                               : "",
                   (int)length, text);
        }
        if (ends)
            putchar('\n');
        begins = ends;
        text += length + !last;
    }
}

static void mdoc_meanings(const struct config_key *key) {
    char text[CONFIG_SUMMARY_SIZE];
    size_t length, size;
    puts(".Bl -tag -width bernoulli -compact");
    for (size_t n = 0; n < config_words_count(key->words); n++) {
        const char *word = config_word(key->words, n, &length);
        const char *meaning = config_word(key->meanings, n, &size);
        printf(".It Cm %.*s\n", (int)length, word);
        snprintf(text, sizeof text, "%.*s", (int)size, meaning);
        mdoc_text(text);
    }
    puts(".El");
}

static void write_mdoc(const char *before, const struct config_key *key) {
    char text[CONFIG_SUMMARY_SIZE];
    (void)before;
    config_key_title(key, text);
    printf(".It Ic %s\n", text);
    config_key_summary(key, text);
    mdoc_text(text);
    if (key->meanings)
        mdoc_meanings(key);
    if (key->more)
        mdoc_text(key->more);
}

/* --- templates
 * ------------------------------------------------------------------------------------ */

/* Write the keys at and below the path; returns their number. */
static size_t write_below(write_key *write, const char *before, const char *path, size_t *written) {
    size_t found = 0, length = strlen(path);
    for (size_t k = 0; k < config_key_count; k++) {
        const char *key = config_keys[k].path;
        if (strncmp(key, path, length) || (key[length] && key[length] != '.'))
            continue;
        write(before, &config_keys[k]);
        written[k]++;
        found++;
    }
    return found;
}

static int copy(write_key *write) {
    static size_t written[CONFIG_KEYS_MAX];
    char line[LINE_SIZE];
    while (fgets(line, sizeof line, stdin)) {
        char *at = strchr(line, '@');
        if (!at) {
            fputs(line, stdout);
            continue;
        }
        *at++ = 0;
        at[strcspn(at, "\n")] = 0;
        if (write_below(write, line, at, written) == 0) {
            fprintf(stderr, "documents: unknown key @%s in the template\n", at);
            return EX_DATAERR;
        }
    }
    for (size_t k = 0; k < config_key_count; k++)
        if (written[k] != 1) {
            fprintf(stderr, "documents: @%s occurs %zu times in the template; expected once\n",
                    config_keys[k].path, written[k]);
            return EX_DATAERR;
        }
    return fflush(stdout) || ferror(stdin) ? EX_IOERR : EX_OK;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "yaml"))
        return copy(write_yaml);
    if (argc == 2 && !strcmp(argv[1], "mdoc"))
        return copy(write_mdoc);
    fputs("usage: documents yaml|mdoc <TEMPLATE >DOCUMENT\n", stderr);
    return EX_USAGE;
}
