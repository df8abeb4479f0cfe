/* The shipped configurations are valid, and reference.yaml and the manual agree with the table
   of keys. */
#include "config_testing.h"

#include <ctype.h>
#include <glob.h>
#include <sysexits.h>

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

/* Digests in checkpoints of version 0.1.0. A new key must not change them if it is missing, or
   if its value keeps the old behaviour. The files in tests/unit/conf have another form today. */
static const struct {
    const char *path, *digest;
} digests[] = {
    {"conf/digits.yaml", "f691feb32d383a27"},
    {"conf/reference.yaml", "9d7d2b5c0d1e8c38"},
    {"conf/strokes.yaml", "5221376b911f0b6c"},
    {"conf/text.yaml", "962e424c1dc39203"},
    {"tests/unit/conf/host.yaml", "363c352310e4bd68"},
    {"tests/unit/conf/temperature.yaml", "cad47aa62f204b9e"},
    {"tests/unit/conf/transformer.yaml", "580a2475acaf5564"},
};

static void load_file(struct config *c, const char *file, const char *const *sets, size_t count) {
    struct error error = {0};
    if (config_load(c, file, sets, count, &error) != 0)
        fail_msg("%s", error.text);
}

static void in_tree(char file[CONFIG_PATH_SIZE], const char *name) {
    const char *root = getenv("srcdir");
    snprintf(file, CONFIG_PATH_SIZE, "%s/%s", root ? root : ".", name);
}

static void test_shipped_configurations(void **state) {
    char pattern[CONFIG_PATH_SIZE];
    struct config c;
    glob_t found;
    in_tree(pattern, "conf/*.yaml");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t n = 0; n < found.gl_pathc; n++) {
        load_file(&c, found.gl_pathv[n], NULL, 0);
        const char *file = strrchr(found.gl_pathv[n], '/') + 1;
        /* the name in host.yaml is host */
        assert_int_equal(strncmp(file, c.name, strlen(c.name)), 0);
    }
    assert_in_range(found.gl_pathc, 7, 100);
    globfree(&found);
}

static void test_digests_of_before(void **state) {
    static const char *const before[] = {"learning.optimizer.beta1=", "model.input.memory=0",
                                         "model.input.limit=0"};
    for (size_t n = 0; n < COUNT(digests); n++) {
        char file[CONFIG_PATH_SIZE];
        struct config c;
        in_tree(file, digests[n].path);
        load_file(&c, file, before, 1);
        size_t sets = c.architecture.input.limit > 0 ? COUNT(before) : 1;
        load_file(&c, file, before, sets);
        assert_string_equal(c.earlier.compatible, digests[n].digest);
        assert_int_equal(config_load_earlier(&c, file, before, sets, NULL), 0);
        assert_string_equal(c.compatible, digests[n].digest);
        assert_true(c.earlier.used);
    }
}

/* The comment above the line of `key` in the block-style text, also if it is commented out ("#:
   KEY:"), with its lines joined by spaces; false if the key is missing. */
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

/* reference.yaml contains the expected values and the default of every key. */
static void test_reference_has_every_key(void **state) {
    char *text = source_file("conf/reference.yaml"), comment[4096], needed[CONFIG_TEXT_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (!comment_above(text, key->path, comment, sizeof comment))
            fail_msg("conf/reference.yaml lacks %s", key->path);
        config_value_expected(key, needed, sizeof needed);
        if (!strstr(comment, needed))
            fail_msg("conf/reference.yaml, %s: \"%s\" is not in%s", key->path, needed, comment);
        snprintf(needed, sizeof needed, "Default: %s",
                 key->left_out   ? key->left_out
                 : key->fallback ? key->fallback
                                 : "");
        if (key->fallback && !strstr(comment, needed))
            fail_msg("conf/reference.yaml, %s: \"%s\" is not in%s", key->path, needed, comment);
        if (key->flags & KEY_REQUIRED && !strstr(comment, "equired"))
            fail_msg("conf/reference.yaml, %s is required, is not in%s", key->path, comment);
        assert_int_equal(strstr(comment, "Can change while the daemon runs.") != NULL,
                         (key->flags & KEY_IN_FLIGHT) != 0);
    }
    free(text);
}

static void test_manual_has_every_key(void **state) {
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

/* The output of config_explain for the path; the caller frees it. */
static char *explained(const char *key) {
    char *text = NULL;
    size_t size = 0;
    struct error error = {0};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    if (config_explain(out, key, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Whether the text contains it, ignoring line breaks. */
static void check_explained(const char *text, const char *needed) {
    static const char broken[] = "\n            ";
    char joined[FILE_MAX];
    size_t used = 0;
    for (const char *c = text; *c && used + 1 < sizeof joined; c++) {
        bool breaks = !strncmp(c, broken, strlen(broken));
        joined[used++] = breaks ? ' ' : *c;
        c += breaks ? strlen(broken) - 1 : 0;
    }
    joined[used] = 0;
    if (!strstr(joined, needed))
        fail_msg("\"%s\" is not in\n%s", needed, text);
}

static void test_every_key_is_explained(void **state) {
    char name[CONFIG_KEY_SIZE], expected[CONFIG_TEXT_SIZE], example[CONFIG_TEXT_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        config_key_path(key, 0, name);
        config_value_expected(key, expected, sizeof expected);
        snprintf(example, sizeof example, "--set %s=%s", name, key->example);
        char *text = explained(name);
        check_explained(text, key->what);
        check_explained(text, expected);
        check_explained(text, example);
        check_explained(text, key->fallback ? key->fallback : "default");
        free(text);
    }
}

/* Examples and defaults in the table are valid; texts fit, and quotes are balanced. */
static void test_table_is_sound(void **state) {
    static struct draft draft;
    char summary[CONFIG_SUMMARY_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        bool list = key->type == &value_set || key->type == &value_members ||
                    key->type == &value_columns || key->type == &value_column_names ||
                    key->type == &value_ahead || key->type == &value_levels ||
                    key->type == &value_radius || key->type == &value_shape ||
                    key->type == &value_layers || key->type == &value_outputs ||
                    key->type == &value_tags; /* see test_config_forecast */
        if (!list && config_value_store(key, 0, key->example, false, &draft) != 0)
            fail_msg("%s: the example %s is not allowed", key->path, key->example);
        if (key->fallback && config_value_store(key, 0, key->fallback, false, &draft) != 0)
            fail_msg("%s: the default %s is not allowed", key->path, key->fallback);
        if (key->meanings && config_words_count(key->meanings) != config_words_count(key->words))
            fail_msg("%s: words without a meaning", key->path);
        config_key_summary(key, summary);
        assert_in_range(strlen(summary), 1, sizeof summary - 2);
        const char *const texts[] = {summary, key->more, key->meanings};
        for (size_t n = 0; n < COUNT(texts); n++) {
            size_t quotes = 0;
            for (const char *c = texts[n]; c && *c; c++)
                quotes += *c == '`';
            assert_int_equal(quotes % 2, 0);
        }
    }
}

static void test_sections_are_explained(void **state) {
    char *all = explained(""), *layers = explained("model.layers"), *one = explained("name");
    size_t lines = 0;
    for (const char *c = all; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, config_key_count);
    assert_ptr_equal(strstr(layers, "model.layers.N.cell "), layers);
    assert_null(strstr(layers, "learning"));
    assert_ptr_equal(strstr(one, "name: name of this daemon\n"), one);
    static const char *const spellings[] = {"model.layers.N.size", "model.layers.*.size",
                                            "model.layers.0.size"};
    for (size_t n = 0; n < COUNT(spellings); n++) {
        char *text = explained(spellings[n]);
        assert_ptr_equal(strstr(text, "model.layers.N.size: units of the layer\n"), text);
        free(text);
    }
    free(one);
    free(layers);
    free(all);
}

static void test_unknown_is_not_explained(void **state) {
    static const struct {
        const char *path, *sentence;
    } unknown[] = {
        {"learning.rate", "--explain: unknown key \"learning.rate\" (did you mean "
                          "\"learning.optimizer.rate\"?); --explain without a key lists all keys"},
        {"learning.windw", "--explain: unknown key \"learning.windw\" (did you mean "
                           "\"learning.window\"?); --explain without a key lists all keys"},
        {"nothing.like.it",
         "--explain: unknown key \"nothing.like.it\"; --explain without a key lists all keys"},
        {"learning.",
         "--explain: unknown key \"learning.\"; --explain without a key lists all keys"},
    };
    for (size_t n = 0; n < COUNT(unknown); n++) {
        struct error error = {0};
        assert_int_equal(config_explain(stdout, unknown[n].path, &error), -1);
        assert_int_equal(error.status, EX_USAGE);
        assert_string_equal(error.text, unknown[n].sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_configurations),
        cmocka_unit_test(test_digests_of_before),
        cmocka_unit_test(test_reference_has_every_key),
        cmocka_unit_test(test_manual_has_every_key),
        cmocka_unit_test(test_every_key_is_explained),
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test(test_sections_are_explained),
        cmocka_unit_test(test_unknown_is_not_explained),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
