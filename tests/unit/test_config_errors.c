/* Invalid configurations: every error word for word, each key alone, and damaged files. */
#include "config_testing.h"

#include <sysexits.h>

#include "config_errors.h"

/* Whether `sentence` is the whole text, or with "..." at its end the beginning of the text. */
static bool matches(const char *text, const char *sentence) {
    static const char more[] = "...";
    size_t length = strlen(sentence), tail = strlen(more);
    bool open = length > tail && !strcmp(sentence + length - tail, more);
    return open ? !strncmp(text, sentence, length - tail) : !strcmp(text, sentence);
}

/* Errors of the file begin with ':'. */
static void check_error(const char *text, const char *override, const char *sentence) {
    struct config config, before;
    memset(&config, 'x', sizeof config);
    memcpy(&before, &config, sizeof config);
    struct error error = {0};
    if (load(&config, text, strlen(text), override, &error) == 0)
        fail_msg("accepted: %s%s", text, override ? override : "");
    size_t skip = *sentence == ':' ? strlen(path) : 0;
    if (strncmp(error.text, path, skip) != 0 || !matches(error.text + skip, sentence))
        fail_msg("\n%s\ninstead of\n%s", error.text, sentence);
    assert_int_equal(error.status, strstr(sentence, "KEY=VALUE") ? EX_USAGE : EX_CONFIG);
    assert_memory_equal(&config, &before, sizeof config);
}

static void test_wrong_files(void **state) {
    for (size_t n = 0; n < COUNT(wrong_files); n++)
        check_error(wrong_files[n].text, NULL, wrong_files[n].sentence);
}

static void test_wrong_overrides(void **state) {
    for (size_t n = 0; n < COUNT(wrong_overrides); n++)
        check_error(BASE "learning: {optimizer: {kind: sgd}}\n", wrong_overrides[n].override,
                    wrong_overrides[n].sentence);
}

/* Each key alone rejects values of another type; the error contains its name and the expected
   values. */
static void check_refused(const struct config_key *key, const char *value) {
    char name[CONFIG_KEY_SIZE], override[CONFIG_TEXT_SIZE], expected[CONFIG_TEXT_SIZE];
    struct config config;
    struct error error = {0};
    config_key_path(key, 0, name);
    config_value_expected(key, expected, sizeof expected);
    snprintf(override, sizeof override, "%s=%s", name, value);
    if (load(&config, BASE, strlen(BASE), override, &error) == 0)
        fail_msg("accepted: %s", override);
    assert_int_equal(error.status, EX_CONFIG);
    snprintf(override, sizeof override, "--set %s", name);
    assert_non_null(strstr(error.text, override));
    assert_non_null(strstr(error.text, expected));
    assert_non_null(strstr(error.text, key->what));
}

static void test_every_key_refuses(void **state) {
    static const char *const no_word[] = {"[a]", "{a: 1}", "\"\"", "\"\\0\"", "\"a\\0b\""};
    static const char *const no_number[] = {"one",  "true", "\"1\"", ".nan", ".inf",  "0x1",
                                            "1__0", "1 1",  "--1",   "1e",   "1e400", "-1e9"};
    static const char *const no_whole[] = {"1.5", "1e3", "010"};
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        bool whole = key->type == &value_size || key->type == &value_count;
        bool number = whole || key->type == &value_real || key->type == &value_float;
        /* For other errors of names see test_config_columns.c and test_config_forecast.c. */
        bool named = key->type != &value_column_names && key->type != &value_prefixes &&
                     key->type != &value_tags;
        char text[CONFIG_TEXT_SIZE];
        for (size_t n = 0; n < COUNT(no_word) && named; n++)
            check_refused(key, no_word[n]);
        for (size_t n = 0; n < COUNT(no_number) && number; n++)
            check_refused(key, no_number[n]);
        for (size_t n = 0; n < COUNT(no_whole) && whole; n++)
            check_refused(key, no_whole[n]);
        if (key->words || key->type == &value_boolean)
            check_refused(key, "other");
        if (number) {
            snprintf(text, sizeof text, "%.17g", key->minimum - (whole ? 1 : 1e-30));
            if (strtod(text, NULL) < key->minimum)
                check_refused(key, text);
            snprintf(text, sizeof text, whole ? "%.0f" : "%.17g",
                     key->maximum * (1 + 1e-9) + (whole ? 1 : 0));
            check_refused(key, text);
            snprintf(text, sizeof text, "%.17g", key->maximum);
            if (key->flags & KEY_BELOW)
                check_refused(key, text);
        }
    }
}

static void test_tab_and_long_and_missing_files(void **state) {
    enum { TOO_LONG = (1 << 20) + 1 };
    struct config config;
    struct error error = {0};
    static const char tab[] = "name: \"\xc3\xa9\"\nmodel:\n\tinput: 1\n";
    assert_int_equal(load(&config, tab, strlen(tab), NULL, &error), -1);
    assert_non_null(strstr(error.text, ":3:1: not YAML: "));
    assert_non_null(strstr(error.text, "use spaces for indentation, not tabs"));

    char *text = malloc(TOO_LONG);
    assert_non_null(text);
    memset(text, '#', TOO_LONG);
    assert_int_equal(load(&config, text, TOO_LONG, NULL, &error), -1);
    assert_non_null(strstr(error.text, "not a configuration: larger than 1048576 bytes"));
    free(text);

    assert_int_equal(config_load(&config, "/nowhere/c.yaml", NULL, 0, &error), -1);
    assert_string_equal(error.text,
                        "/nowhere/c.yaml: cannot open the configuration file: file not found");
    assert_int_equal(error.status, EX_NOINPUT);
    assert_int_equal(config_load(&config, directory, NULL, 0, &error), -1);
    assert_non_null(strstr(error.text, "cannot read the configuration file: Is a directory"));
    assert_int_equal(config_load(&config, path, NULL, 0, NULL), -1);
}

/* Every damaged text is accepted, or rejected with one sentence. */
static void test_damaged_files(void **state) {
    enum { ROUNDS = 8000, CHANGES = 4, PIECE = 12 };
    static const char seeds[] =
        "name: a\nseed: 3\nmodel:\n  input: {kind: symbol, size: 9, embedding: 3}\n  layers:\n    "
        "- &l {cell: lstm, size: 4, gain: 1.0}\n    - *l\n    - cell: dense\n      size: 3\n  "
        "output: {loss: softmax, size: 9, target: next}\nlearning:\n  window: 4\n  optimizer: "
        "{kind: sgd, momentum: 1e-1, nesterov: on}\n  clip: 1\nexamples: {bind: "
        "\"ipc:///a\"}\nstate: {directory: ~/s}\n";
    static const char *const pieces[] = {"{",       "}",   "[",  "]",    ": ",   "- ",   "\n",
                                         "\n---\n", "&l ", "*l", "!t ",  "\"",   "'",    "|\n",
                                         "? ",      "%",   "\t", "\xff", "\x01", "<<: ", "~",
                                         "#",       ",",   "\\", ".",    "e9",   "-"};
    good(seeds, NULL);
    uint64_t random = 12345;
    char text[2 * sizeof seeds];
    size_t accepted = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t size = sizeof seeds - 1;
        memcpy(text, seeds, size);
        for (size_t c = 0; c <= round % CHANGES; c++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t at = (random >> 33) % size, kind = (random >> 20) % 4,
                   from = (random >> 40) % size;
            const char *piece = pieces[(random >> 45) % COUNT(pieces)];
            size_t length = kind == 3 ? PIECE : strlen(piece);
            if (kind == 0) {
                text[at] = (char)(random >> 56);
            } else if (kind == 1 && at + PIECE < size) {
                memmove(text + at, text + at + PIECE, size - at - PIECE);
                size -= PIECE;
            } else if (kind >= 2 && size + length < sizeof text && from + length < size) {
                char copy[PIECE];
                memcpy(copy, kind == 3 ? text + from : piece, length);
                memmove(text + at + length, text + at, size - at);
                memcpy(text + at, copy, length);
                size += length;
            }
        }
        struct config config;
        struct error error = {0};
        if (load(&config, text, size, NULL, &error) == 0) {
            accepted++;
        } else {
            assert_int_equal(error.status, EX_CONFIG);
            assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
            for (const char *c = error.text; *c; c++)
                assert_true((unsigned char)*c >= ' ');
        }
    }
    assert_in_range(accepted, 1, ROUNDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_wrong_overrides),
        cmocka_unit_test(test_every_key_refuses),
        cmocka_unit_test(test_tab_and_long_and_missing_files),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
