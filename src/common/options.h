/* The command line of every program, as a table. One parser reads it, prints --help from it, and
   writes the completion of bash, zsh and fish.

   A row is one option: its names, the name of its value, a line of help, and by one of the
   macros below the type of the value and its destination: a field of the struct of the row's
   group. The compiler checks that field and type match.

       struct options { const char *endpoint; double timeout; bool json; };
       static const struct option_row rows[] = {
           {"connect", 'c', "ENDPOINT", "the daemon's socket",
            OPTION_TEXT(struct options, endpoint)},
           {"timeout", 't', "SECONDS", "maximum wait", OPTION_SECONDS(struct options, timeout)},
           {"json", 'j', NULL, "print JSON", OPTION_FLAG(struct options, json)},
           OPTIONS_END,
       };

   Letters have the same meaning in every program: -c --connect, -f --config, -h --help,
   -V --version, -j --json, -q --quiet, -v --verbose. Unambiguous prefixes of long names are
   accepted. */
#ifndef RUNNEL_OPTIONS_H
#define RUNNEL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"

enum {
    OPTIONS_GO_ON = -1,    /* instead of an exit status: the program continues */
    OPTIONS_MAX = 64,      /* rows of all groups of a command line */
    OPTIONS_GROUPS = 4,    /* groups */
    OPTION_LIST_MAX = 256, /* values of a repeatable option */
};
#define OPTION_SECONDS_MAX 1e6

enum option_type {
    OPTION_IS_END,
    OPTION_IS_FLAG,
    OPTION_IS_CLEAR,
    OPTION_IS_TEXT,
    OPTION_IS_CHOICE,
    OPTION_IS_COUNT,
    OPTION_IS_REAL,
    OPTION_IS_POSITIVE,
    OPTION_IS_SECONDS,
    OPTION_IS_LIST,
    OPTION_IS_TAKEN,
    OPTION_IS_HELP,
    OPTION_IS_VERSION,
};

/* What a shell completes for a value or an operand. */
enum completion {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_DIRECTORY,
    COMPLETE_PROGRAM, /* a command and its arguments */
    COMPLETE_WORDS,   /* the row's `words` */
};

struct option_list {
    const char *values[OPTION_LIST_MAX];
    size_t count;
};

struct option_row;

/* Parse a value that fits no type; `values` is the struct of the group. Returns 0, or -1 with
   `error` filled: EX_USAGE for invalid values. */
typedef int option_take(void *values, const struct option_row *row, const char *text,
                        struct error *error);

struct option_row {
    const char *name;     /* "connect" */
    char letter;          /* 'c', or 0 */
    const char *argument; /* "ENDPOINT"; NULL: no value */
    const char *help;     /* wrapped when printed; a newline ends a line */
    enum option_type type;
    size_t to; /* offset of the destination in `values` */
    /* Bounds for COUNT; for LIST, `count_most` is the maximum number of values. */
    uint64_t count_least, count_most;
    double least, most; /* REAL, POSITIVE */
    const char *words;  /* CHOICE, COMPLETE_WORDS: "push router" */
    enum completion complete;
    bool unique;   /* LIST: duplicate values are errors */
    bool required; /* the option must be given */
    size_t given;  /* offset of a bool that is set if the option was given; 0: none */
    option_take *take;
};

/* The offset of a field of type `target`. */
#define OPTION_OF(type, field, target)                                                             \
    (offsetof(type, field) + 0 * sizeof((target *)0 == &((type *)0)->field))

/* bool: true, or false with CLEAR */
#define OPTION_FLAG(s, field) .type = OPTION_IS_FLAG, .to = OPTION_OF(s, field, bool)
#define OPTION_CLEAR(s, field) .type = OPTION_IS_CLEAR, .to = OPTION_OF(s, field, bool)
/* const char *: points into argv */
#define OPTION_TEXT(s, field) .type = OPTION_IS_TEXT, .to = OPTION_OF(s, field, const char *)
#define OPTION_FILE(s, field) OPTION_TEXT(s, field), .complete = COMPLETE_FILE
#define OPTION_DIRECTORY(s, field) OPTION_TEXT(s, field), .complete = COMPLETE_DIRECTORY
/* int or an enum: the number of the word, from 0 */
#define OPTION_CHOICE(s, field, list)                                                              \
    .type = OPTION_IS_CHOICE,                                                                      \
    .to = offsetof(s, field) + 0 * sizeof(char[sizeof((s *)0)->field == sizeof(int) ? 1 : -1]),    \
    .words = list, .complete = COMPLETE_WORDS
/* uint64_t: a whole number from `low` to `high` */
#define OPTION_COUNT(s, field, low, high)                                                          \
    .type = OPTION_IS_COUNT, .to = OPTION_OF(s, field, uint64_t), .count_least = low,              \
    .count_most = high
/* double: a number from `low` to `high`; a number above 0 and at most `high`; seconds */
#define OPTION_REAL(s, field, low, high)                                                           \
    .type = OPTION_IS_REAL, .to = OPTION_OF(s, field, double), .least = low, .most = high
#define OPTION_POSITIVE(s, field, high)                                                            \
    .type = OPTION_IS_POSITIVE, .to = OPTION_OF(s, field, double), .most = high
#define OPTION_SECONDS(s, field)                                                                   \
    .type = OPTION_IS_SECONDS, .to = OPTION_OF(s, field, double), .most = OPTION_SECONDS_MAX
/* struct option_list: may be given at most `high` times */
#define OPTION_LIST(s, field, high)                                                                \
    .type = OPTION_IS_LIST, .to = OPTION_OF(s, field, struct option_list), .count_most = high
/* parsed by a function */
#define OPTION_TAKE(function) .type = OPTION_IS_TAKEN, .take = function
/* Add one of these to also set the bool `field`, which must not be the first of its struct. */
#define OPTION_GIVEN(s, field) .given = OPTION_OF(s, field, bool)

/* The last rows of the first table of a program, and of all other tables. */
#define OPTIONS_LAST                                                                               \
    {"help", 'h', NULL, "print this help", .type = OPTION_IS_HELP},                                \
        {"version", 'V', NULL, "print the version", .type = OPTION_IS_VERSION}, OPTIONS_END
#define OPTIONS_END                                                                                \
    { .name = NULL }

struct option_group {
    const char *heading; /* "Limits:", or NULL */
    const struct option_row *rows;
    void *values; /* the struct that the rows fill */
};

/* A command: the first operand. */
struct command_row {
    const char *name;     /* "set" */
    const char *operands; /* see struct command_line */
    const char *summary;  /* one line */
    enum completion complete;
    const char *words;             /* COMPLETE_WORDS */
    const struct option_row *rows; /* its own options, for completion; or NULL */
};

struct command_line {
    const char *name; /* name of the program */
    /* "NAME", "IMAGES [LABELS]", "[COMMAND [ARGUMENT]...]": the required and optional operands. */
    const char *operands;
    const char *summary; /* printed below the usage */
    const char *ending;  /* printed at the end, or NULL; with its newlines */
    const char *commands_heading;
    const struct command_row *const *commands; /* ended by NULL; or NULL */
    const struct command_row *command;         /* the current command, or NULL */
    struct option_group groups[OPTIONS_GROUPS];
    enum completion complete; /* completion of operands */
    const char *words;        /* COMPLETE_WORDS */
    bool options_first;       /* the first operand ends the options */
    bool command_first;       /* options follow the command */
};

/* Parse the command line. Returns OPTIONS_GO_ON with the operands at *operands, in valid number,
   ended by NULL. Else returns the exit status after --help or --version, or after a complaint on
   stderr (EX_USAGE). Programs with commands check their operands with the functions below. */
int options_parse(const struct command_line *line, int argc, char **argv, char ***operands);

/* Set the option of that name, which must exist and take a value. -1 (EX_USAGE). */
int option_set(const struct option_row *rows, void *values, const char *name, const char *text,
               struct error *error);

/* The command of that name (may be NULL); NULL after a complaint that lists all commands. */
const struct command_row *options_command(const struct command_line *line, const char *name);

/* The names of all commands, as in "status, set or reset". */
enum { OPTIONS_NAMES_SIZE = 256 };
const char *options_names(char text[OPTIONS_NAMES_SIZE], const struct command_line *line);

/* Check the number of operands of line->command, or of the line: OPTIONS_GO_ON, or EX_USAGE
   after a complaint. */
int options_operands(const struct command_line *line, char **operands);

/* Print "PROGRAM: SENTENCE", and a line about --help; returns EX_USAGE. */
int options_complain(const struct command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the text of --help, at most `width` columns wide. */
void options_help(const struct command_line *line, FILE *to, int width);

/* Write the completion for "bash", "zsh" or "fish"; false for any other shell. */
bool options_completion(const struct command_line *line, const char *shell, FILE *to);

#endif
