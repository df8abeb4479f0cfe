/* Statistics as tables of comma-separated values (RFC 4180). The first line names the columns. */
#ifndef RUNNEL_RECORD_CSV_H
#define RUNNEL_RECORD_CSV_H

#include "tools/shared/watch_link.h"

struct csv;

/* A row for each ... */
enum csv_kind {
    CSV_LOSS,        /* `loss` message */
    CSV_COLUMNS,     /* number of the targets, of each of them */
    CSV_EXPERTS,     /* expert and member, of each of them */
    CSV_LAYERS,      /* layer of each `state` message */
    CSV_PREDICTIONS, /* column of each truth */
    CSV_SETTINGS, /* key of the configuration, at first, and where its value is another than before
                   */
    CSV_KINDS,
};

/* The option of runnel-record that asks for it: "--csv". */
extern const char *const csv_options[CSV_KINDS];

/* Append to the file ("-" = standard output), whose first line must be ours. EX_OK, or complains
   and returns an exit status. */
int csv_open(struct csv **csv, const char *path, enum csv_kind kind);
int csv_close(struct csv **csv);

/* Take a message of any topic that came from the daemon called `name` ("" = not known yet). */
void csv_take(struct csv *csv, const char *name, const struct message *message);

/* Make everything visible to readers: EX_OK, or complains. */
int csv_flush(struct csv *csv);

#endif
