#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "complain.h"
#include "options_internal.h"
#include "text.h"

enum {
    FIRST_CODE = 256, /* getopt's code of a row is this and its number */
    COLUMNS_LEAST = 80,
    COLUMNS_MOST = 100,
    LINE_SIZE = 2048,
};

void options_collect(struct options_rows *rows, const struct command_line *line) {
    rows->count = 0;
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        for (const struct option_row *row = line->groups[g].rows; row->name; row++) {
            assert(rows->count < OPTIONS_MAX);
            rows->places[rows->count++] = (struct options_place){row, line->groups[g].values};
        }
}

const char *options_names(char text[OPTIONS_NAMES_SIZE], const struct command_line *line) {
    size_t used = 0, count = 0;
    while (line->commands[count])
        count++;
    for (size_t i = 0; i < count && used < OPTIONS_NAMES_SIZE; i++)
        used += (size_t)snprintf(text + used, OPTIONS_NAMES_SIZE - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? " or "
                                                  : ", ",
                                 line->commands[i]->name);
    return text;
}

/* ---- Complaints ---- */

int options_complain(const struct command_line *line, const char *format, ...) {
    char text[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_clean(text);
    fflush(stdout);
    fprintf(stderr, "%s: %s\nTry '%s%s%s --help'.\n", line->name, text, line->name,
            line->command ? " " : "", line->command ? line->command->name : "");
    return EX_USAGE;
}

/* What getopt_long does not take. */
static int complain_of_option(const struct command_line *line, const struct options_rows *rows,
                              const char *given, int code) {
    const struct option_row *row = NULL;
    size_t begun = 0, size = strcspn(given, "=");
    for (size_t i = 0; i < rows->count; i++) {
        if (optopt == rows->places[i].row->letter || optopt == FIRST_CODE + (int)i)
            row = rows->places[i].row;
        begun += size > 2 && !strncmp(given + 2, rows->places[i].row->name, size - 2);
    }
    if (code == ':' && row && row->argument)
        return options_complain(line, "--%s needs a value: --%s=%s", row->name, row->name,
                                row->argument);
    if (given[0] == '-' && given[1] == '-' && optopt && row)
        return options_complain(line, "--%s takes no value", row->name);
    if (optopt > 0 && optopt < FIRST_CODE)
        return options_complain(line, "there is no option -%c%s", optopt,
                                optopt >= '0' && optopt <= '9' ? "; a number below 0 goes after --"
                                                               : "");
    if (begun > 1)
        return options_complain(line, "%.*s is the beginning of several options", (int)size, given);
    return options_complain(line, "there is no option %.*s", (int)size, given);
}

/* ---- Values ---- */

static int wrong(const struct option_row *row, const char *text, struct error *error,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
static int wrong(const struct option_row *row, const char *text, struct error *error,
                 const char *format, ...) {
    char expected[LINE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    return error_set(error, EX_USAGE, "--%s: found '%s', expected %s", row->name, text, expected);
}

static int take_count(uint64_t *value, const struct option_row *row, const char *text,
                      struct error *error) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool whole = text[0] >= '0' && text[0] <= '9' && !*end && !errno;
    if (whole && number >= row->count_least && number <= row->count_most) {
        *value = number;
        return 0;
    }
    if (row->count_most >= INT64_MAX)
        return wrong(row, text, error, "a whole number from %" PRIu64, row->count_least);
    return wrong(row, text, error, "a whole number in %" PRIu64 "..%" PRIu64, row->count_least,
                 row->count_most);
}

static int take_real(double *value, const struct option_row *row, const char *text,
                     struct error *error) {
    char *end;
    double number = strtod(text, &end);
    bool low = row->type == OPTION_IS_POSITIVE ? number <= 0 : number < row->least;
    if (end != text && !*end && !low && number <= row->most) {
        *value = number;
        return 0;
    }
    if (row->type == OPTION_IS_SECONDS)
        return wrong(row, text, error, "seconds in 0..%.0f", row->most);
    if (row->type == OPTION_IS_POSITIVE)
        return wrong(row, text, error, "a number greater than 0, at most %g", row->most);
    return wrong(row, text, error, "a number in %g..%g", row->least, row->most);
}

/* Which of the words between blanks `text` is. */
static int take_choice(void *value, const struct option_row *row, const char *text,
                       struct error *error) {
    char expected[LINE_SIZE / 4] = "";
    int number = 0;
    for (const char *word = row->words; *word; number++) {
        size_t size = strcspn(word, " "), used = strlen(expected);
        if (strlen(text) == size && !strncmp(word, text, size)) {
            memcpy(value, &number, sizeof number);
            return 0;
        }
        const char *next = word + size + (word[size] == ' ');
        snprintf(expected + used, sizeof expected - used, "%s%.*s",
                 !used   ? ""
                 : *next ? ", "
                         : " or ",
                 (int)size, word);
        word = next;
    }
    return wrong(row, text, error, "%s", expected);
}

static int take_listed(struct option_list *list, const struct option_row *row, const char *text,
                       struct error *error) {
    for (size_t i = 0; row->unique && i < list->count; i++)
        if (strcmp(list->values[i], text) == 0)
            return error_set(error, EX_USAGE, "--%s=%s is given twice", row->name, text);
    if (list->count >= row->count_most || list->count >= OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "--%s=%s: it can be given %" PRIu64 " times at most",
                         row->name, text, row->count_most);
    list->values[list->count++] = text;
    return 0;
}

static int take_value(const struct options_place *place, const char *text, struct error *error) {
    const struct option_row *row = place->row;
    char *to = (char *)place->values + row->to;
    if (row->given)
        *(bool *)((char *)place->values + row->given) = true;
    switch (row->type) {
    case OPTION_IS_FLAG:
    case OPTION_IS_CLEAR:
        *(bool *)to = row->type == OPTION_IS_FLAG;
        return 0;
    case OPTION_IS_TEXT:
        *(const char **)to = text;
        return 0;
    case OPTION_IS_CHOICE:
        return take_choice(to, row, text, error);
    case OPTION_IS_COUNT:
        return take_count((uint64_t *)to, row, text, error);
    case OPTION_IS_LIST:
        return take_listed((struct option_list *)to, row, text, error);
    case OPTION_IS_TAKEN:
        return row->take(place->values, row, text, error);
    default:
        return take_real((double *)to, row, text, error);
    }
}

int option_set(const struct option_row *rows, void *values, const char *name, const char *text,
               struct error *error) {
    while (strcmp(rows->name, name) != 0)
        rows++;
    const struct options_place place = {rows, values};
    return take_value(&place, text, error);
}

/* ---- The command line ---- */

static int print_help(const struct command_line *line) {
    struct winsize size = {0};
    int width = COLUMNS_LEAST;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > COLUMNS_LEAST)
        width = size.ws_col < COLUMNS_MOST ? size.ws_col : COLUMNS_MOST;
    options_help(line, stdout, width);
    return complain_output();
}

static int take(const struct command_line *line, const struct options_place *place,
                const char *text) {
    struct error error = {0};
    if (place->row->type == OPTION_IS_HELP)
        return print_help(line);
    if (place->row->type == OPTION_IS_VERSION) {
        printf("%s %s\n", line->name, PACKAGE_VERSION);
        return complain_output();
    }
    if (take_value(place, text, &error))
        return options_complain(line, "%s", error.text);
    return OPTIONS_GO_ON;
}

/* What the table is to getopt_long. `letters` begins with how options and operands may mix. */
static void make_tables(const struct options_rows *rows, struct option *names, char *letters) {
    letters += strlen(letters);
    for (size_t i = 0; i < rows->count; i++) {
        const struct option_row *row = rows->places[i].row;
        int argument = row->argument ? required_argument : no_argument;
        names[i] = (struct option){row->name, argument, NULL, FIRST_CODE + (int)i};
        if (row->letter)
            *letters++ = row->letter;
        if (row->letter && row->argument)
            *letters++ = ':';
    }
    *letters = '\0';
}

static size_t place_of(const struct options_rows *rows, int code) {
    size_t i = 0;
    if (code >= FIRST_CODE)
        return (size_t)(code - FIRST_CODE);
    while (rows->places[i].row->letter != code)
        i++;
    return i;
}

/* --completion=SHELL alone, which is not in --help: it is for the build. */
static int complete(const struct command_line *line, const char *shell) {
    if (options_completion(line, shell, stdout))
        return complain_output();
    return options_complain(line, "--completion: found '%s', expected bash or zsh", shell);
}

/* Where the password or key in an argument begins, or NULL: in SCHEME://USER:PASSWORD@HOST, or
   after the name of a broker's setting. */
static char *find_secret(char *argument, size_t *size) {
    static const char *const names[] = {
        "password=", "client.secret=", "sasl.jaas.config=", ".pem="};
    char *host = strrchr(argument, '@'), *url = strstr(argument, "://");
    char *secret = url && host ? strchr(url + strlen("://"), ':') : NULL;
    for (size_t n = 0; !secret && n < sizeof names / sizeof *names; n++) {
        host = NULL;
        secret = strcasestr(argument, names[n]);
        secret = secret ? strchr(secret, '=') : NULL;
    }
    if (!secret || (host && secret > host))
        return NULL;
    *size = (size_t)((host ? host : secret + strlen(secret)) - secret - 1);
    return secret + 1;
}

/* Everybody on the machine may read the arguments of a process while it runs. */
static void hide_secrets(int argc, char **argv) {
    for (int n = 1; n < argc; n++) {
        size_t size;
        char *secret = find_secret(argv[n], &size), *copy = secret ? strdup(argv[n]) : NULL;
        if (!copy)
            continue;
        memset(secret, '*', size);
        argv[n] = copy; /* for as long as the program runs */
    }
}

int options_parse(const struct command_line *line, int argc, char **argv, char ***operands) {
    static const char completion[] = "--completion=";
    struct options_rows rows;
    struct option names[OPTIONS_MAX + 1] = {0};
    char letters[2 * OPTIONS_MAX + sizeof "+:"];
    bool given[OPTIONS_MAX] = {0};
    program_invocation_short_name = (char *)line->name;
    if (argc == 2 && !strncmp(argv[1], completion, strlen(completion)))
        return complete(line, argv[1] + strlen(completion));
    hide_secrets(argc, argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that may grow no more is an error, as a full disk is */
    strcpy(letters, line->options_first ? "+:" : ":");
    options_collect(&rows, line);
    make_tables(&rows, names, letters);
    optind = 0; /* glibc starts again */
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, letters, names, NULL)) != -1;) {
        if (code == ':' || code == '?')
            return complain_of_option(line, &rows, argv[optind - 1], code);
        size_t i = place_of(&rows, code);
        int status = take(line, &rows.places[i], optarg);
        if (status != OPTIONS_GO_ON)
            return status;
        given[i] = true;
    }
    *operands = argv + optind;
    int status = line->commands ? OPTIONS_GO_ON : options_operands(line, *operands);
    for (size_t i = 0; status == OPTIONS_GO_ON && i < rows.count; i++) {
        const struct option_row *row = rows.places[i].row;
        if (row->required && !given[i])
            return options_complain(line, "--%s=%s is missing", row->name, row->argument);
    }
    return status;
}

const struct command_row *options_command(const struct command_line *line, const char *name) {
    char names[OPTIONS_NAMES_SIZE];
    for (size_t i = 0; name && line->commands[i]; i++)
        if (!strcmp(line->commands[i]->name, name))
            return line->commands[i];
    options_names(names, line);
    if (name)
        options_complain(line, "unexpected argument '%s'; expected %s", name, names);
    else
        options_complain(line, "%s is missing: %s", line->operands, names);
    return NULL;
}

int options_operands(const struct command_line *line, char **operands) {
    const char *expected = line->command ? line->command->operands : line->operands;
    for (const char *word = expected; *word; word += strspn(word, " ")) {
        size_t size = strcspn(word, " ");
        if (strstr(word, "..."))
            return *operands || *word == '[' ? OPTIONS_GO_ON
                                             : options_complain(line, "%s is missing", word);
        if (*operands)
            operands++;
        else if (*word != '[')
            return options_complain(line, "%.*s is missing", (int)size, word);
        word += size;
    }
    return *operands ? options_complain(line, "unexpected argument '%s'", *operands)
                     : OPTIONS_GO_ON;
}
