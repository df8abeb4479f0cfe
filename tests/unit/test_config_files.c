/* The shipped configurations load, and reference.yaml and the manual say what the table of keys
 * does.
 */
#include "config_testing.h"

#include <ctype.h>
#include <glob.h>

enum { FILE_MAX = 1 << 16 };

/* A file of the source tree; the caller frees it. */
static char *source_file(const char *name) {
    char whole[CONFIG_PATH_SIZE], *text = calloc(1, FILE_MAX);
    const char *root = getenv("srcdir");
    snprintf(whole, sizeof whole, "%s/%s", root ? root : ".", name);
    FILE *file = fopen(whole, "r");
    if (!file || !text)
        fail_msg("cannot read %s", whole);
    assert_in_range(fread(text, 1, FILE_MAX - 1, file), 1, FILE_MAX - 2);
    fclose(file);
    return text;
}

static void test_shipped_configurations(void **state) {
    (void)state;
    char pattern[CONFIG_PATH_SIZE];
    const char *root = getenv("srcdir");
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/conf/*.yaml", root ? root : ".");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t n = 0; n < found.gl_pathc; n++) {
        struct config c;
        struct error error = {0};
        if (config_load(&c, found.gl_pathv[n], NULL, 0, &error) != 0)
            fail_msg("%s", error.text);
        const char *file = strrchr(found.gl_pathv[n], '/') + 1;
        assert_int_equal(strncmp(file, c.name, strlen(c.name)), 0); /* host.yaml is called host */
    }
    assert_in_range(found.gl_pathc, 7, 100);
    globfree(&found);
}

/* The comment above the line that gives `key` in the block-style text, or that would ("#: KEY:"),
   its lines joined by spaces; false when there is none. */
static bool comment_above(const char *text, const char *key, char *comment, size_t size) {
    char parents[8][CONFIG_KEY_SIZE];
    size_t indents[8], depth = 0;
    *comment = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *word = line + strspn(line, " ");
        size_t indent = word - line, length = strcspn(line, "\n");
        if (*word == '-' && word[1] == ' ') { /* a layer's first line */
            indent += 2;
            word += 2;
        }
        if (!strncmp(word, "#: ", 3))
            word += 3;
        if (*word == '#' && strlen(comment) + length + 1 < size) {
            strncat(strcat(comment, " "), word + 1 + (word[1] == ' '),
                    line + length - word - 1 - (word[1] == ' '));
            continue;
        }
        size_t name = strcspn(word, ":\n");
        if (word[name] == ':' && isalpha((unsigned char)*word)) {
            while (depth > 0 && indents[depth - 1] >= indent)
                depth--;
            const char *list = depth > 0 && !strcmp(parents[depth - 1], "model.layers") ? "*." : "";
            snprintf(parents[depth], CONFIG_KEY_SIZE, "%s%s%s%.*s", depth ? parents[depth - 1] : "",
                     depth ? "." : "", list, (int)name, word);
            indents[depth] = indent;
            if (!strcmp(parents[depth], key) && *comment)
                return true;
            depth++;
        }
        *comment = 0;
    }
    return false;
}

/* reference.yaml says of every key what is allowed and what it is by default. */
static void test_reference_has_every_key(void **state) {
    (void)state;
    char *text = source_file("conf/reference.yaml"), comment[4096], needed[CONFIG_TEXT_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (!comment_above(text, key->path, comment, sizeof comment))
            fail_msg("conf/reference.yaml lacks %s", key->path);
        config_value_expected(key, needed, sizeof needed);
        if (!strstr(comment, needed))
            fail_msg("conf/reference.yaml, %s: \"%s\" is not in%s", key->path, needed, comment);
        snprintf(needed, sizeof needed, "Default: %s", key->fallback ? key->fallback : "");
        if (key->fallback && !strstr(comment, needed))
            fail_msg("conf/reference.yaml, %s: \"%s\" is not in%s", key->path, needed, comment);
        if (key->flags & KEY_REQUIRED && !strstr(comment, "equired"))
            fail_msg("conf/reference.yaml, %s is required, is not in%s", key->path, comment);
        assert_int_equal(strstr(comment, "In flight.") != NULL, (key->flags & KEY_IN_FLIGHT) != 0);
    }
    free(text);
}

static void test_manual_has_every_key(void **state) {
    (void)state;
    char *text = source_file("docs/man/runnel.yaml.5"), needed[CONFIG_TEXT_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const char *star = strchr(config_keys[k].path, '*');
        snprintf(needed, sizeof needed, ".It Ic %.*s%s%s\n",
                 star ? (int)(star - config_keys[k].path) : CONFIG_KEY_SIZE, config_keys[k].path,
                 star ? "N" : "", star ? star + 1 : "");
        if (!strstr(text, needed))
            fail_msg("docs/man/runnel.yaml.5 lacks %s", needed);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_configurations),
        cmocka_unit_test(test_reference_has_every_key),
        cmocka_unit_test(test_manual_has_every_key),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
