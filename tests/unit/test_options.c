/* The parser of command lines: all types of values, errors, and --help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/options.h"

enum { WORDS = 24, TEXT_SIZE = 4096 };

struct values {
    bool loud, quiet, counted;
    const char *text, *file;
    int choice;
    uint64_t count;
    double real, positive, seconds;
    struct option_list list;
    char taken[16];
};

static int take(void *values, const struct option_row *row, const char *text, struct error *error) {
    struct values *v = values;
    if (strlen(text) >= sizeof v->taken)
        return error_set(error, EX_USAGE, "--%s is too long", row->name);
    strcpy(v->taken, text);
    return 0;
}

static const struct option_row rows[] = {
    {"loud", 'l', NULL, "be loud", OPTION_FLAG(struct values, loud)},
    {"not-quiet", 0, NULL, "do not be quiet", OPTION_CLEAR(struct values, quiet)},
    {"text", 't', "TEXT", "a text\nand another line of it", OPTION_TEXT(struct values, text)},
    {"file", 'f', "FILE", "a file", OPTION_FILE(struct values, file), .required = true},
    {"choice", 0, "WHICH", "one of them", OPTION_CHOICE(struct values, choice, "one two three")},
    {"count", 'n', "N", "a count", OPTION_COUNT(struct values, count, 1, 10),
     OPTION_GIVEN(struct values, counted)},
    {"real", 0, "X", "a number", OPTION_REAL(struct values, real, -1, 1)},
    {"positive", 0, "X", "a number", OPTION_POSITIVE(struct values, positive, 5)},
    {"seconds", 's', "SECONDS", "a time", OPTION_SECONDS(struct values, seconds)},
    {"list", 0, "TEXT", "may be repeated, and its help is so long that it takes more than a line",
     OPTION_LIST(struct values, list, 2), .unique = true},
    {"taken", 0, "TEXT", "by a function", OPTION_TAKE(take)},
    OPTIONS_LAST,
};

static struct values values;
static char **operands;
static struct command_line line = {
    .name = "program",
    .operands = "FIRST [SECOND]",
    .summary = "Does something.",
    .groups = {{NULL, rows, &values}},
};

/* Parse the words of "a b c", and store the output to `descriptor` in `printed`; returns the
   status. */
static char printed[TEXT_SIZE];
static int parse_writing(int descriptor, const char *words) {
    static char copy[TEXT_SIZE];
    char *argv[WORDS + 2] = {(char *)"program"}, *rest = copy, *word;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", words);
    while ((word = strsep(&rest, " ")))
        if (*word)
            argv[argc++] = word;
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(descriptor);
    fflush(NULL);
    dup2(fileno(file), descriptor);
    values = (struct values){.quiet = true};
    int status = options_parse(&line, argc, argv, &operands);
    fflush(NULL);
    dup2(saved, descriptor);
    close(saved);
    rewind(file);
    printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
    fclose(file);
    return status;
}

static void assert_taken(const char *words) {
    int status = parse_writing(STDERR_FILENO, words);
    assert_string_equal(printed, "");
    assert_int_equal(status, OPTIONS_GO_ON);
}

static void assert_refused(const char *words, const char *sentence) {
    char expected[TEXT_SIZE];
    int status = parse_writing(STDERR_FILENO, words);
    snprintf(expected, sizeof expected, "program: %s\nTry 'program --help'.\n", sentence);
    assert_string_equal(printed, expected);
    assert_int_equal(status, EX_USAGE);
}

static void test_values(void **state) {
    assert_taken("-f x a");
    assert_false(values.loud || values.counted);
    assert_true(values.quiet);
    assert_taken("a -lf x --not-quiet --text=b --choice three -n3 --real -0.5 --positive 5 -s 0.25 "
                 "b");
    assert_true(values.loud && values.counted && !values.quiet);
    assert_string_equal(values.text, "b");
    assert_string_equal(values.file, "x");
    assert_int_equal(values.choice, 2);
    assert_int_equal(values.count, 3);
    assert_true(values.real == -0.5 && values.positive == 5 && values.seconds == 0.25);
    assert_string_equal(operands[0], "a");
    assert_string_equal(operands[1], "b");
    assert_null(operands[2]);
    assert_taken("--file x --list a --list=b --taken hello -- -a");
    assert_int_equal(values.list.count, 2);
    assert_string_equal(values.list.values[1], "b");
    assert_string_equal(values.taken, "hello");
    assert_string_equal(operands[0], "-a");
    assert_taken("--fi x --cho one a"); /* abbreviated */
}

static void test_complaints(void **state) {
    assert_refused("a", "missing option --file=FILE");
    assert_refused("-f x", "missing FIRST");
    assert_refused("-f x a b c", "unexpected argument 'c'");
    assert_refused("--bogus=3", "unknown option --bogus");
    assert_refused("-q", "unknown option -q");
    assert_refused("-1", "unknown option -1; write -- before negative numbers");
    assert_refused("-lq", "unknown option -q");
    assert_refused("--text", "--text requires a value: --text=TEXT");
    assert_refused("-t", "--text requires a value: --text=TEXT");
    assert_refused("--loud=yes", "--loud does not take a value");
    assert_refused("--l", "ambiguous option --l");
    assert_refused("--choice four", "--choice: expected one, two or three, got 'four'");
    assert_refused("-n 0", "--count: expected a whole number from 1 to 10, got '0'");
    assert_refused("-n -1", "--count: expected a whole number from 1 to 10, got '-1'");
    assert_refused("-n 3x", "--count: expected a whole number from 1 to 10, got '3x'");
    assert_refused("-n 99999999999999999999",
                   "--count: expected a whole number from 1 to 10, got '99999999999999999999'");
    assert_refused("--real 1.5", "--real: expected a number from -1 to 1, got '1.5'");
    assert_refused("--real nan", "--real: expected a number from -1 to 1, got 'nan'");
    assert_refused("--positive 0", "--positive: expected a number above 0 and at most 5, got '0'");
    assert_refused("-s -1", "--seconds: expected seconds from 0 to 1000000, got '-1'");
    assert_refused("-s soon", "--seconds: expected seconds from 0 to 1000000, got 'soon'");
    assert_refused("--list a --list a", "--list=a: duplicate value");
    assert_refused("--list a --list b --list c", "--list=c: may be given at most 2 times");
    assert_refused("--taken 0123456789abcdef", "--taken is too long");
    assert_refused("--bo\033gus", "unknown option --bo?gus");
}

static void test_help(void **state) {
    assert_int_equal(parse_writing(STDOUT_FILENO, "--help"), EX_OK);
    assert_string_equal(
        printed, "Usage: program [OPTION]... --file=FILE FIRST [SECOND]\n"
                 "Does something.\n"
                 "\n"
                 "  -l, --loud             be loud\n"
                 "      --not-quiet        do not be quiet\n"
                 "  -t, --text=TEXT        a text\n"
                 "                         and another line of it\n"
                 "  -f, --file=FILE        a file\n"
                 "      --choice=WHICH     one of them\n"
                 "  -n, --count=N          a count\n"
                 "      --real=X           a number\n"
                 "      --positive=X       a number\n"
                 "  -s, --seconds=SECONDS  a time\n"
                 "      --list=TEXT        may be repeated, and its help is so long that it takes\n"
                 "                         more than a line\n"
                 "      --taken=TEXT       by a function\n"
                 "  -h, --help             print this help\n"
                 "  -V, --version          print the version\n");
    assert_int_equal(parse_writing(STDOUT_FILENO, "--version --bogus"), EX_OK);
    assert_string_equal(printed, "program " PACKAGE_VERSION "\n");
}

static void test_commands(void **state) {
    static const struct command_row get = {"get", "[KEY]", .summary = "read"},
                                    set = {"set", "KEY VALUE", .summary = "write"};
    static const struct command_row *const commands[] = {&get, &set, NULL};
    struct command_line own = line;
    char *two[] = {(char *)"a", (char *)"b", NULL};
    own.commands = commands;
    assert_ptr_equal(options_command(&own, "set"), &set);
    own.command = &set;
    assert_int_equal(options_operands(&own, two), OPTIONS_GO_ON);
    char names[OPTIONS_NAMES_SIZE];
    assert_string_equal(options_names(names, &own), "get or set");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
