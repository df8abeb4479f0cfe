/* Completion for bash and zsh, from the table of options. Both scripts are self-contained: they
   need no library of completion functions. */
#include <string.h>

#include "options_internal.h"

/* ---- bash ---- */

/* bash splits words at '=', so that --option=VALUE comes as three. */
static const char bash_begin[] =
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command=\n"
    "    if [[ $word == = ]]; then\n"
    "        word=\n"
    "    elif [[ $before == = ]]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    COMPREPLY=()\n";

static void write_words(FILE *to, const char *words) {
    fprintf(to, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")", words);
}

static void bash_offer(FILE *to, enum completion complete, const char *words) {
    switch (complete) {
    case COMPLETE_NOTHING:
        fputs(":", to);
        break;
    case COMPLETE_WORDS:
        write_words(to, words);
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
    fputs("    case $command in\n    '') ", to);
    fputs("mapfile -t COMPREPLY < <(compgen -W '", to);
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

/* The options that each command has beside those of all. */
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

/* After the first operand, what its command takes. */
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

bool options_completion(const struct command_line *line, const char *shell, FILE *to) {
    if (!strcmp(shell, "bash"))
        write_bash(line, to);
    else if (!strcmp(shell, "zsh"))
        write_zsh(line, to);
    else
        return false;
    return true;
}
