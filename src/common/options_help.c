/* --help, from the table of options. */
#include <string.h>

#include "options_internal.h"

enum {
    NAMES_SIZE = 128,
    HELP_COLUMN_MOST = 28, /* where help begins, at most; longer names have a line of their own */
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

/* The text's words in lines that begin at `indent` and end before `width`; the first one begins at
   `column`. */
static void print_wrapped(FILE *to, const char *text, size_t column, size_t indent, size_t width) {
    bool begun = false; /* there is a word in this line */
    while (*text) {
        size_t size = strcspn(text, " \n");
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

/* Names, and what they mean from column `indent` on. */
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

static size_t column_of(size_t longest) {
    return longest + GAP;
}

static void print_commands(const struct command_line *line, FILE *to, int width) {
    char names[NAMES_SIZE];
    size_t longest = 0;
    for (size_t i = 0; line->commands[i]; i++)
        longest = larger(longest, command_names(names, line->commands[i]));
    fprintf(to, "\n%s:\n", line->commands_heading);
    for (size_t i = 0; line->commands[i]; i++) {
        size_t size = command_names(names, line->commands[i]);
        print_row(to, names, size, line->commands[i]->summary, column_of(longest), width);
    }
}

static size_t help_column(const struct command_line *line) {
    struct options_rows rows;
    char names[NAMES_SIZE];
    size_t longest = 0;
    options_collect(&rows, line);
    for (size_t i = 0; i < rows.count; i++) {
        size_t size = option_names(names, rows.places[i].row);
        if (column_of(size) <= HELP_COLUMN_MOST)
            longest = larger(longest, size);
    }
    return column_of(longest);
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
