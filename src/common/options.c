#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "complain.h"
#include "text.h"

/* All rows of a command line in order, with the structs that they fill. */
struct options_rows {
    size_t count;
    struct options_place {
        const struct option_row *row;
        void *values;
    } places[OPTIONS_MAX];
};

enum {
    FIRST_CODE = 256, /* getopt's code of a row is this plus its number */
    COLUMNS_LEAST = 80,
    COLUMNS_MOST = 100,
    LINE_SIZE = 2048,
};

static void options_collect(struct options_rows *rows, const struct command_line *line) {
    rows->count = 0;
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        for (const struct option_row *row = line->groups[g].rows; row->name; row++) {
            assert(rows->count < OPTIONS_MAX);
            rows->places[rows->count++] = (struct options_place){row, line->groups[g].values};
        }
}

const char *options_names(char text[OPTIONS_NAMES_SIZE], const struct command_line *line) {
    const struct command_row *const *commands = line->commands;
    *text = 0;
    for (size_t i = 0; commands[i]; i++)
        text_append(text, OPTIONS_NAMES_SIZE, "%s%s",
                    i == 0            ? ""
                    : commands[i + 1] ? ", "
                                      : " or ",
                    commands[i]->name);
    return text;
}

/* ---- Complaints ---- */

int options_complain(const struct command_line *line, const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    text_clean(text);
    fflush(stdout);
    fprintf(stderr, "%s: %s\nTry '%s%s%s --help'.\n", line->name, text, line->name,
            line->command ? " " : "", line->command ? line->command->name : "");
    return EX_USAGE;
}

/* Report an error of getopt_long. */
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
        return options_complain(line, "--%s requires a value: --%s=%s", row->name, row->name,
                                row->argument);
    if (given[0] == '-' && given[1] == '-' && optopt && row)
        return options_complain(line, "--%s does not take a value", row->name);
    if (optopt > 0 && optopt < FIRST_CODE)
        return options_complain(line, "unknown option -%c%s", optopt,
                                optopt >= '0' && optopt <= '9' ? "; write -- before negative "
                                                                 "numbers"
                                                               : "");
    if (begun > 1)
        return options_complain(line, "ambiguous option %.*s", (int)size, given);
    return options_complain(line, "unknown option %.*s", (int)size, given);
}

/* ---- Values ---- */

static int __attribute__((format(printf, 4, 5)))
wrong(const struct option_row *row, const char *text, struct error *error, const char *format,
      ...) {
    char expected[LINE_SIZE / 2];
    TEXT_FORMAT(expected, sizeof expected, format);
    return error_set(error, EX_USAGE, "--%s: expected %s, got '%s'", row->name, expected, text);
}

static int parse_count(uint64_t *value, const struct option_row *row, const char *text,
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
    return wrong(row, text, error, "a whole number from %" PRIu64 " to %" PRIu64, row->count_least,
                 row->count_most);
}

static int parse_real(double *value, const struct option_row *row, const char *text,
                      struct error *error) {
    char *end;
    double number = strtod(text, &end);
    bool low = row->type == OPTION_IS_POSITIVE ? number <= 0 : number < row->least;
    if (end != text && !*end && !low && number <= row->most) {
        *value = number;
        return 0;
    }
    if (row->type == OPTION_IS_SECONDS)
        return wrong(row, text, error, "seconds from 0 to %.0f", row->most);
    if (row->type == OPTION_IS_POSITIVE)
        return wrong(row, text, error, "a number above 0 and at most %g", row->most);
    return wrong(row, text, error, "a number from %g to %g", row->least, row->most);
}

/* The number of the word, among words separated by blanks, that equals `text`. */
static int parse_choice(void *value, const struct option_row *row, const char *text,
                        struct error *error) {
    char expected[LINE_SIZE / 4] = "";
    int number = 0;
    for (const char *word = row->words; *word; number++) {
        size_t size = strcspn(word, " ");
        if (strlen(text) == size && !strncmp(word, text, size)) {
            memcpy(value, &number, sizeof number);
            return 0;
        }
        const char *next = word + size + (word[size] == ' ');
        text_append(expected, sizeof expected, "%s%.*s",
                    !*expected ? ""
                    : *next    ? ", "
                               : " or ",
                    (int)size, word);
        word = next;
    }
    return wrong(row, text, error, "%s", expected);
}

static int append_value(struct option_list *list, const struct option_row *row, const char *text,
                        struct error *error) {
    for (size_t i = 0; row->unique && i < list->count; i++)
        if (strcmp(list->values[i], text) == 0)
            return error_set(error, EX_USAGE, "--%s=%s: duplicate value", row->name, text);
    if (list->count >= row->count_most || list->count >= OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "--%s=%s: may be given at most %" PRIu64 " times",
                         row->name, text, row->count_most);
    list->values[list->count++] = text;
    return 0;
}

static int parse_value(const struct options_place *place, const char *text, struct error *error) {
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
        return parse_choice(to, row, text, error);
    case OPTION_IS_COUNT:
        return parse_count((uint64_t *)to, row, text, error);
    case OPTION_IS_LIST:
        return append_value((struct option_list *)to, row, text, error);
    case OPTION_IS_TAKEN:
        return row->take(place->values, row, text, error);
    default:
        return parse_real((double *)to, row, text, error);
    }
}

int option_set(const struct option_row *rows, void *values, const char *name, const char *text,
               struct error *error) {
    while (strcmp(rows->name, name) != 0)
        rows++;
    const struct options_place place = {rows, values};
    return parse_value(&place, text, error);
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
    if (parse_value(place, text, &error))
        return options_complain(line, "%s", error.text);
    return OPTIONS_GO_ON;
}

/* The table for getopt_long. The beginning of `letters` controls whether options and operands
   may mix. */
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

/* --completion=SHELL alone, for the build; --help does not list it. */
static int complete(const struct command_line *line, const char *shell) {
    if (options_completion(line, shell, stdout))
        return complain_output();
    return options_complain(line, "--completion: expected bash, zsh or fish, got '%s'", shell);
}

/* The beginning of the password or key in an argument, or NULL: in SCHEME://USER:PASSWORD@HOST
   or SCHEME://TOKEN@HOST, or after a broker setting. */
static char *find_secret(char *argument, size_t *size) {
    static const char *const names[] = {
        "password=", "client.secret=", "sasl.jaas.config=", ".pem="};
    char *url = strstr(argument, "://"), *user = url ? url + strlen("://") : NULL;
    char *host = user ? strrchr(user, '@') : NULL;
    if (host && host > user) {
        char *colon = memchr(user, ':', (size_t)(host - user));
        char *secret = colon ? colon + 1 : user;
        *size = (size_t)(host - secret);
        return secret;
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char *secret = strcasestr(argument, names[n]);
        if (secret) {
            secret = strchr(secret, '=') + 1;
            *size = strlen(secret);
            return secret;
        }
    }
    return NULL;
}

/* All users of the machine can read the arguments of a running process. */
static void hide_secrets(int argc, char **argv) {
    for (int n = 1; n < argc; n++) {
        size_t size;
        char *secret = find_secret(argv[n], &size), *copy = secret ? strdup(argv[n]) : NULL;
        if (!copy)
            continue;
        memset(secret, '*', size);
        argv[n] = copy; /* never freed */
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
    /* exceeding a file size limit becomes an error of write(2), as a full disk */
    signal(SIGXFSZ, SIG_IGN);
    strcpy(letters, line->options_first ? "+:" : ":");
    options_collect(&rows, line);
    make_tables(&rows, names, letters);
    optind = 0; /* makes glibc start again */
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
            return options_complain(line, "missing option --%s=%s", row->name, row->argument);
    }
    return status;
}

static int complain_of_operand(const struct command_line *line, const char *operand,
                               const char *expected) {
    char text[LINE_SIZE];
    size_t size;
    snprintf(text, sizeof text, "%s", operand);
    char *secret = find_secret(text, &size);
    if (secret)
        memset(secret, '*', size);
    return options_complain(line, "unexpected argument '%s'%s%s", text,
                            *expected ? "; expected " : "", expected);
}

const struct command_row *options_command(const struct command_line *line, const char *name) {
    char names[OPTIONS_NAMES_SIZE];
    for (size_t i = 0; name && line->commands[i]; i++)
        if (!strcmp(line->commands[i]->name, name))
            return line->commands[i];
    options_names(names, line);
    if (name)
        complain_of_operand(line, name, names);
    else
        options_complain(line, "missing %s; expected %s", line->operands, names);
    return NULL;
}

int options_operands(const struct command_line *line, char **operands) {
    const char *expected = line->command ? line->command->operands : line->operands;
    for (const char *word = expected; *word; word += strspn(word, " ")) {
        size_t size = strcspn(word, " ");
        if (strstr(word, "..."))
            return *operands || *word == '[' ? OPTIONS_GO_ON
                                             : options_complain(line, "missing %s", word);
        if (*operands)
            operands++;
        else if (*word != '[')
            return options_complain(line, "missing %.*s", (int)size, word);
        word += size;
    }
    return *operands ? complain_of_operand(line, *operands, "") : OPTIONS_GO_ON;
}

/* ---- --help ---- */

enum {
    NAMES_SIZE = 128,
    /* largest column of the help texts; longer names get a line of their own */
    HELP_COLUMN_MOST = 28,
    GAP = 2,
};

/* "  -c, --connect=ENDPOINT" */
static size_t option_names(char text[NAMES_SIZE], const struct option_row *row) {
    char letter[] = "    ";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    int size = snprintf(text, NAMES_SIZE, "  %.4s--%s%s%s", letter, row->name,
                        row->argument ? "=" : "", row->argument ? row->argument : "");
    return (size_t)size;
}

static size_t command_names(char text[NAMES_SIZE], const struct command_row *row) {
    return (size_t)snprintf(text, NAMES_SIZE, "  %s%s%s", row->name, *row->operands ? " " : "",
                            row->operands);
}

/* Print the words of a text in lines from `indent` to `width`; the first begins at `column`. */
static void print_wrapped(FILE *to, const char *text, size_t column, size_t indent, size_t width) {
    bool begun = false; /* this line has a word */
    while (*text) {
        bool table = !begun && *text == ' '; /* a line that begins with a blank is not wrapped */
        size_t size = strcspn(text, table ? "\n" : " \n");
        if (begun && column + 1 + size >= width) {
            fputc('\n', to);
            column = 0;
            begun = false;
        }
        if (size > 0) {
            int blanks = begun ? 1 : column < indent ? (int)(indent - column) : 0;
            fprintf(to, "%*s%.*s", blanks, "", (int)size, text);
            column += (size_t)blanks + size;
            begun = true;
        }
        text += size;
        if (*text == '\n') {
            fputc('\n', to);
            column = 0;
            begun = false;
        }
        text += *text != '\0';
    }
    fputc('\n', to);
}

/* Print the names, and from column `indent` on the help. */
static void print_row(FILE *to, const char *names, size_t size, const char *help, size_t indent,
                      int width) {
    fputs(names, to);
    if (size + GAP > indent) {
        fputc('\n', to);
        size = 0;
    }
    print_wrapped(to, help, size, indent, (size_t)width);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void print_commands(const struct command_line *line, FILE *to, int width) {
    char names[NAMES_SIZE];
    size_t longest = 0;
    for (size_t i = 0; line->commands[i]; i++)
        longest = larger(longest, command_names(names, line->commands[i]));
    fprintf(to, "\n%s:\n", line->commands_heading);
    for (size_t i = 0; line->commands[i]; i++) {
        size_t size = command_names(names, line->commands[i]);
        print_row(to, names, size, line->commands[i]->summary, longest + GAP, width);
    }
}

static size_t help_column(const struct command_line *line) {
    struct options_rows rows;
    char names[NAMES_SIZE];
    size_t longest = 0;
    options_collect(&rows, line);
    for (size_t i = 0; i < rows.count; i++) {
        size_t size = option_names(names, rows.places[i].row);
        if (size + GAP <= HELP_COLUMN_MOST)
            longest = larger(longest, size);
    }
    return longest + GAP;
}

static void print_usage(const struct command_line *line, FILE *to) {
    const char *operands = line->command ? line->command->operands : line->operands;
    struct options_rows rows;
    options_collect(&rows, line);
    const char *command = line->command ? line->command->name : line->command_first ? operands : "";
    fprintf(to, "Usage: %s%s%s [OPTION]...", line->name, *command ? " " : "", command);
    for (size_t i = 0; i < rows.count; i++)
        if (rows.places[i].row->required)
            fprintf(to, " --%s=%s", rows.places[i].row->name, rows.places[i].row->argument);
    if (command != operands && *operands)
        fprintf(to, " %s", operands);
    fputc('\n', to);
}

void options_help(const struct command_line *line, FILE *to, int width) {
    char names[NAMES_SIZE];
    size_t column = help_column(line);
    print_usage(line, to);
    print_wrapped(to, line->summary, 0, 0, (size_t)width);
    if (line->commands)
        print_commands(line, to, width);
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++) {
        if (!line->groups[g].rows->name)
            continue;
        fprintf(to, "\n%s%s", line->groups[g].heading ? line->groups[g].heading : "",
                line->groups[g].heading ? "\n" : "");
        for (const struct option_row *row = line->groups[g].rows; row->name; row++) {
            size_t size = option_names(names, row);
            print_row(to, names, size, row->help, column, width);
        }
    }
    if (line->ending) {
        fputc('\n', to);
        print_wrapped(to, line->ending, 0, 0, (size_t)width);
    }
}

/* ---- Completion for bash: no script needs a library of completion functions ---- */

/* bash splits words at '=', so that --option=VALUE arrives as three words. */
static const char bash_begin[] =
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command=\n"
    "    if [[ $word == = ]]; then\n"
    "        word=\n"
    "    elif [[ $before == = ]]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    COMPREPLY=()\n";

static void bash_offer(FILE *to, enum completion complete, const char *words) {
    switch (complete) {
    case COMPLETE_NOTHING:
        fputs(":", to);
        break;
    case COMPLETE_WORDS:
        fprintf(to, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")", words);
        break;
    case COMPLETE_PROGRAM:
        fputs("mapfile -t COMPREPLY < <(compgen -c -- \"$word\")", to);
        break;
    default:
        fputs("compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen ", to);
        fprintf(to, "%s -- \"$word\")", complete == COMPLETE_FILE ? "-f" : "-d");
    }
}

/* "-c | --connect" */
static void write_pattern(FILE *to, const struct option_row *row) {
    if (row->letter)
        fprintf(to, "-%c | ", row->letter);
    fprintf(to, "--%s", row->name);
}

/* What may follow each option that takes a value, as branches of a case. */
static void bash_values(FILE *to, const struct option_row *rows, const char *indent) {
    for (const struct option_row *row = rows; row->name; row++) {
        if (!row->argument)
            continue;
        fprintf(to, "%s", indent);
        write_pattern(to, row);
        fputs(") ", to);
        bash_offer(to, row->complete, row->words);
        fputs("; return ;;\n", to);
    }
}

static void bash_names(FILE *to, const struct option_row *rows) {
    for (const struct option_row *row = rows; row->name; row++) {
        if (row->letter)
            fprintf(to, "-%c ", row->letter);
        fprintf(to, "--%s ", row->name);
    }
}

/* Skip options and their values to find the command. */
static void bash_find_command(FILE *to, const struct options_rows *rows) {
    const char *bar = "";
    fputs("    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        ",
          to);
    for (size_t i = 0; i < rows->count; i++) {
        if (!rows->places[i].row->argument)
            continue;
        fputs(bar, to);
        write_pattern(to, rows->places[i].row);
        bar = " | ";
    }
    fputs(")\n"
          "            [[ ${COMP_WORDS[i + 1]} == = ]] && ((i++))\n"
          "            ((i++)) ;;\n"
          "        -*) ;;\n"
          "        *) command=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "    done\n",
          to);
}

static void bash_commands(const struct command_line *line, FILE *to) {
    fputs("    case $command in\n    '') mapfile -t COMPREPLY < <(compgen -W '", to);
    for (size_t i = 0; line->commands[i]; i++)
        fprintf(to, "%s ", line->commands[i]->name);
    fputs("' -- \"$word\") ;;\n", to);
    for (size_t i = 0; line->commands[i]; i++) {
        fprintf(to, "    %s) ", line->commands[i]->name);
        bash_offer(to, line->commands[i]->complete, line->commands[i]->words);
        fputs(" ;;\n", to);
    }
    fputs("    esac\n", to);
}

/* The options of each command, in addition to common options. */
static void bash_own(const struct command_line *line, FILE *to, bool values) {
    fputs("    case $command in\n", to);
    for (size_t i = 0; line->commands[i]; i++) {
        const struct option_row *rows = line->commands[i]->rows;
        if (!rows || !rows->name)
            continue;
        fprintf(to, "    %s)", line->commands[i]->name);
        if (values) {
            fputs("\n        case $before in\n", to);
            bash_values(to, rows, "        ");
            fputs("        esac ;;\n", to);
        } else {
            fputs(" options+='", to);
            bash_names(to, rows);
            fputs("' ;;\n", to);
        }
    }
    fputs("    esac\n", to);
}

static void write_function_name(FILE *to, const char *name) {
    for (fputc('_', to); *name; name++)
        fputc(*name == '-' ? '_' : *name, to);
}

static void write_bash(const struct command_line *line, FILE *to) {
    struct options_rows rows;
    options_collect(&rows, line);
    fprintf(to, "# bash completion for %s, written by '%s --completion=bash'\n", line->name,
            line->name);
    write_function_name(to, line->name);
    fprintf(to, "() {\n%s", bash_begin);
    if (line->commands)
        bash_find_command(to, &rows);
    fputs("    case $before in\n", to);
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        bash_values(to, line->groups[g].rows, "    ");
    fputs("    esac\n", to);
    if (line->commands)
        bash_own(line, to, true);
    fputs("    if [[ $word == -* ]]; then\n        local options='", to);
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        bash_names(to, line->groups[g].rows);
    fputs("'\n", to);
    if (line->commands)
        bash_own(line, to, false);
    fputs("        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
          "        return\n    fi\n",
          to);
    if (line->commands) {
        bash_commands(line, to);
    } else {
        fputs("    ", to);
        bash_offer(to, line->complete, line->words);
        fputc('\n', to);
    }
    fputs("}\ncomplete -F ", to);
    write_function_name(to, line->name);
    fprintf(to, " %s\n", line->name);
}

/* ---- zsh ---- */

/* Text inside of '...[text]' or '...:text:' of _arguments. */
static void zsh_text(FILE *to, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", to);
        else if (strchr("[]:\\", *text))
            fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
}

static void zsh_action(FILE *to, enum completion complete, const char *words) {
    static const char *const actions[] = {
        [COMPLETE_NOTHING] = " ",
        [COMPLETE_FILE] = "_files",
        [COMPLETE_DIRECTORY] = "_files -/",
        [COMPLETE_PROGRAM] = "_command_names -e",
        [COMPLETE_WORDS] = " ",
    };
    if (complete == COMPLETE_WORDS && words)
        fprintf(to, "(%s)", words);
    else
        fputs(actions[complete], to);
}

/* '(-c --connect)'{-c+,--connect=}'[help]:ENDPOINT:action' */
static void zsh_option(FILE *to, const struct option_row *row, const char *indent) {
    bool repeats = row->type == OPTION_IS_LIST || row->type == OPTION_IS_TAKEN;
    fprintf(to, " \\\n%s", indent);
    if (row->letter && repeats)
        fputs("'*'", to);
    else if (row->letter)
        fprintf(to, "'(-%c --%s)'", row->letter, row->name);
    if (row->letter)
        fprintf(to, "{-%c%s,--%s%s}'[", row->letter, row->argument ? "+" : "", row->name,
                row->argument ? "=" : "");
    else
        fprintf(to, "'%s--%s%s[", repeats ? "*" : "", row->name, row->argument ? "=" : "");
    zsh_text(to, row->help);
    fputc(']', to);
    if (row->argument) {
        fputc(':', to);
        zsh_text(to, row->argument);
        fputc(':', to);
        zsh_action(to, row->complete, row->words);
    }
    fputc('\'', to);
}

static void zsh_options(FILE *to, const struct command_line *line, const char *indent) {
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        for (const struct option_row *row = line->groups[g].rows; row->name; row++)
            zsh_option(to, row, indent);
}

/* Completes the command, and then the operands of this command. */
static void zsh_commands(const struct command_line *line, FILE *to) {
    fputs(" \\\n    '1:command:((", to);
    for (size_t i = 0; line->commands[i]; i++) {
        fprintf(to, "%s%s\\:\"", i ? " " : "", line->commands[i]->name);
        zsh_text(to, line->commands[i]->summary);
        fputc('"', to);
    }
    fputs("))' \\\n    '*::operand:->operand' && return\ncase $state in\noperand)\n"
          "    case $words[1] in\n",
          to);
    for (size_t i = 0; line->commands[i]; i++) {
        const struct command_row *command = line->commands[i];
        fprintf(to, "    %s) _arguments -s -S", command->name);
        zsh_options(to, line, "        ");
        for (const struct option_row *row = command->rows; row && row->name; row++)
            zsh_option(to, row, "        ");
        fputs(" \\\n        '*:operand:", to);
        zsh_action(to, command->complete, command->words);
        fputs("' ;;\n", to);
    }
    fputs("    esac ;;\nesac\n", to);
}

static void write_zsh(const struct command_line *line, FILE *to) {
    fprintf(to,
            "#compdef %s\n# zsh completion, written by '%s --completion=zsh'\n"
            "local curcontext=$curcontext state line\ntypeset -A opt_args\n_arguments -C -s -S",
            line->name, line->name);
    zsh_options(to, line, "    ");
    if (line->commands) {
        zsh_commands(line, to);
    } else if (line->complete == COMPLETE_PROGRAM) {
        fputs(" \\\n    '(-)1:command:_command_names -e' '*::argument:_normal'\n", to);
    } else if (*line->operands) {
        fputs(" \\\n    '*:operand:", to);
        zsh_action(to, line->complete, line->words);
        fputs("'\n", to);
    } else {
        fputc('\n', to);
    }
}

/* ---- fish ---- */

enum { FISH_SIZE = 128 };

/* Text inside of quotes, in which a backslash quotes. */
static void fish_text(FILE *to, const char *text) {
    for (fputc('\'', to); *text; text++) {
        if (strchr("'\\", *text))
            fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
    fputc('\'', to);
}

/* Offer in place of a value or an operand; files are not offered unless they are named. */
static void fish_action(FILE *to, enum completion complete, const char *words) {
    switch (complete) {
    case COMPLETE_FILE:
        fputs(" -F", to);
        break;
    case COMPLETE_DIRECTORY:
        fputs(" -a '(__fish_complete_directories)'", to);
        break;
    case COMPLETE_PROGRAM:
        fputs(" -a '(__fish_complete_subcommand)'", to);
        break;
    default:
        if (words) {
            fputs(" -a ", to);
            fish_text(to, words);
        }
    }
}

static void fish_options(FILE *to, const char *program, const struct option_row *rows,
                         const char *condition) {
    for (const struct option_row *row = rows; row && row->name; row++) {
        fprintf(to, "complete -c %s%s", program, condition);
        if (row->letter)
            fprintf(to, " -s %c", row->letter);
        fprintf(to, " -l %s", row->name);
        if (row->argument) {
            fputs(row->complete == COMPLETE_FILE ? " -r" : " -x", to);
            fish_action(to, row->complete, row->words);
        }
        fputs(" -d ", to);
        fish_text(to, row->help);
        fputc('\n', to);
    }
}

/* A function that prints the command typed so far: options and their values do not count. */
static void fish_find_command(FILE *to, const struct options_rows *rows, const char *function) {
    fprintf(to,
            "function %s\n    set -l typed (commandline -opc)[2..-1]\n"
            "    while set -q typed[1]\n        switch $typed[1]\n            case --",
            function);
    for (size_t i = 0; i < rows->count; i++) {
        const struct option_row *row = rows->places[i].row;
        if (row->argument && row->letter)
            fprintf(to, " -%c", row->letter);
        if (row->argument)
            fprintf(to, " --%s", row->name);
    }
    fputs("\n                set -e typed[1]\n            case '-*'\n            case '*'\n"
          "                echo $typed[1]\n                return\n        end\n"
          "        set -e typed[1]\n    end\nend\n",
          to);
}

static void fish_commands(const struct command_line *line, FILE *to, const char *function) {
    char condition[FISH_SIZE];
    for (size_t i = 0; line->commands[i]; i++) {
        const struct command_row *command = line->commands[i];
        fprintf(to, "complete -c %s -n 'test -z \"$(%s)\"' -a %s -d ", line->name, function,
                command->name);
        fish_text(to, command->summary);
        fputc('\n', to);
        snprintf(condition, sizeof condition, " -n 'test \"$(%s)\" = %s'", function, command->name);
        fish_options(to, line->name, command->rows, condition);
        if (command->complete != COMPLETE_NOTHING) {
            fprintf(to, "complete -c %s%s", line->name, condition);
            fish_action(to, command->complete, command->words);
            fputc('\n', to);
        }
    }
}

static void write_fish(const struct command_line *line, FILE *to) {
    char function[FISH_SIZE] = "__";
    struct options_rows rows;
    options_collect(&rows, line);
    fprintf(to, "# fish completion for %s, written by '%s --completion=fish'\n", line->name,
            line->name);
    for (size_t i = 0; line->name[i]; i++)
        snprintf(function + 2 + i, sizeof function - 2 - i, "%c",
                 line->name[i] == '-' ? '_' : line->name[i]);
    if (line->commands)
        fish_find_command(to, &rows, function);
    fprintf(to, "complete -c %s -f\n", line->name);
    for (size_t g = 0; g < OPTIONS_GROUPS && line->groups[g].rows; g++)
        fish_options(to, line->name, line->groups[g].rows, "");
    if (line->commands) {
        fish_commands(line, to, function);
    } else if (line->complete != COMPLETE_NOTHING) {
        fprintf(to, "complete -c %s", line->name);
        fish_action(to, line->complete, line->words);
        fputc('\n', to);
    }
}

bool options_completion(const struct command_line *line, const char *shell, FILE *to) {
    if (!strcmp(shell, "bash"))
        write_bash(line, to);
    else if (!strcmp(shell, "zsh"))
        write_zsh(line, to);
    else if (!strcmp(shell, "fish"))
        write_fish(line, to);
    else
        return false;
    return true;
}
