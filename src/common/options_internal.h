/* What the parser, --help and the completion share. */
#ifndef RUNNEL_OPTIONS_INTERNAL_H
#define RUNNEL_OPTIONS_INTERNAL_H

#include "options.h"

/* All rows of a line, one after the other: how many, and the struct that each one fills. */
struct options_rows {
    size_t count;
    struct options_place {
        const struct option_row *row;
        void *values;
    } places[OPTIONS_MAX];
};
void options_collect(struct options_rows *rows, const struct command_line *line);

#endif
