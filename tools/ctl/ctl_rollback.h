/* The command rollback, and what it shares with the other files. */
#ifndef RUNNEL_CTL_ROLLBACK_H
#define RUNNEL_CTL_ROLLBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/options.h"
#include "runnel.h"

struct options {
    const char *endpoint;
    struct key_options keys;
    double timeout;
    bool json, timeout_given;
    const char *to; /* rollback, abnormal */
    struct option_list without, spans;
    bool dry_run;
    const char *at;    /* normal, abnormal */
    const char *from;  /* abnormal */
    uint64_t span;     /* 0 = not given */
    const char *state; /* backup, restore */
};

extern const struct option_row rollback_rows[];

/* Whether a rollback is asked for, in part or whole. */
bool rollback_is_asked(const struct options *options);

/* As those of struct command. */
int rollback_check(const struct options *options, char **arguments);
json_t *rollback_build(const struct options *options, const char *name, char **arguments);
int rollback_print(const struct options *options, char **arguments,
                   const struct runnel_reply *reply);

#endif
