/* What config_print.c, the keys of the resolved configuration, and config_print_text.c, their
   values, share. */
#ifndef RUNNEL_CONFIG_PRINT_H
#define RUNNEL_CONFIG_PRINT_H

#include <stdio.h>

#include "config_internal.h"

struct config_printer {
    FILE *out;
    bool json;                        /* else YAML */
    const struct config *configured;  /* what the file says: differences get a comment; or NULL */
    char last[CONFIG_KEY_SIZE];       /* path of the key before, "" before the first */
    char directory[CONFIG_PATH_SIZE]; /* that relative paths begin in */
    struct config *own;               /* (2,) room for a member's, as it is and as configured */
};

/* The key's value. */
void config_print_value(struct config_printer *printer, const struct config_key *key, size_t layer,
                        const struct config *config);

/* In YAML plain where every reader of YAML has it for a text, else in double quotes. */
void config_print_text(struct config_printer *printer, const char *text);

/* A comment, where a value that may change in flight is another than configured. */
void config_print_difference(struct config_printer *printer, const struct config_key *key,
                             size_t layer, const struct config *config,
                             const struct config *configured);

#endif
