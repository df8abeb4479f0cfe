/* Messages as lines for people: `loss` as a row of a table whose header comes again and again,
   `event` and notes as lines with their time, `state`, `prediction` and `status` as they fit. */
#ifndef RUNNEL_WATCH_TABLE_H
#define RUNNEL_WATCH_TABLE_H

#include <stdbool.h>

#include "tools/shared/watch_link.h"
#include "watch_lines.h"

enum {
    TABLE_COLUMNS_MAX = 48,
    TABLE_STATE_SIZE = 32,
    TABLE_SELF_SIZE = 600,
};

/* Fill with zeros, then with table_choose if the user has chosen. */
struct table {
    bool chosen;                    /* the columns are the user's */
    int columns[TABLE_COLUMNS_MAX]; /* of the row printed last */
    int count;
    unsigned long header;         /* lines when the header was printed; 0 = never */
    unsigned long truth_header;   /* likewise that of predictions */
    char *names;                  /* of targets, as the newest `status` has them; NULL = none */
    char state[TABLE_STATE_SIZE]; /* of the daemon, as printed last; "" = none was */
    char self[TABLE_SELF_SIZE];   /* its name, device, parameters and model, likewise */
};

/* Take the columns from a list of names with commas between them, or "all". Returns NULL, or the
   name that is no column's. */
const char *table_choose(struct table *table, const char *list);

/* The names that table_choose takes, with ", " between them; from static memory. */
const char *table_names(void);

/* Print one message. Returns whether it was worth a line: a `status` is only when it is the first
   one, or the daemon's state, name, device, parameters or model have changed. */
bool table_print(struct table *table, struct lines *lines, const struct message *message);

/* The daemon is another one: its first `status` is printed again. */
void table_restart(struct table *table);

/* What a `status` says of how targets are called. */
void table_names_take(struct table *table, const json_t *status);
void table_close(struct table *table);

/* Print a sentence with the time of day. */
void table_note(struct lines *lines, const char *sentence);

#endif
