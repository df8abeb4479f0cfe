/* Statistics as a table of comma-separated values (RFC 4180): a row for each `loss` message, or for
   each layer of each `state` message. The first line names the columns. */
#ifndef RUNNEL_RECORD_CSV_H
#define RUNNEL_RECORD_CSV_H

#include "tools/shared/watch_link.h"

struct csv;

/* Append to the file ("-" = standard output), whose first line must be ours; rows of `topic`:
   TOPIC_LOSS or TOPIC_STATE. EX_OK, or complains and returns an exit status. */
int csv_open(struct csv **csv, const char *path, enum topic topic);
int csv_close(struct csv **csv);

/* Take a message of any topic that came from the daemon called `name` ("" = not known yet). */
void csv_take(struct csv *csv, const char *name, const struct message *message);

/* Make everything visible to readers: EX_OK, or complains. */
int csv_flush(struct csv *csv);

#endif
