/* A table that is being read: source_csv.c, and feed_csv.c for its rows. */
#ifndef RUNNEL_FEED_CSV_H
#define RUNNEL_FEED_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/moment.h"
#include "feed_columns.h"
#include "feed_input.h"
#include "feed_labels.h"
#include "feed_named.h"
#include "feed_rows.h"
#include "streams/feed.h"
#include "streams/feed_streams.h"

/* No such column. */
#define NONE SIZE_MAX

enum { MOMENT_SIZE = 128 };

/* What the rows so far had in a column. */
struct cells {
    bool good;    /* a cell that is not missing */
    uint64_t bad; /* cells that became missing ones */
    char *first;  /* the cell of the first row, where it is a word */
};

struct csv {
    struct source source;
    const char *columns_list, *targets_list, *multiply_list; /* as given, or NULL */
    const char *symbol_name, *class_name, *sequence_name, *key_name, *time_list;
    const char *label_path;
    char delimiter;
    bool header, end;

    bool names; /* rows are sent as JSON, with names of columns: feed_named.c */
    const char *word_list, *missing; /* as given, or NULL */
    struct named *named;             /* NULL without */

    struct rows *rows;
    struct row row;
    bool row_waits; /* the first row was read when the columns were counted */
    struct columns columns;
    struct cells *cells; /* (columns.count,) */
    struct selection x, y;
    size_t sequence, key;  /* indices of columns */
    struct selection time; /* a column, or those of date and time of day */
    struct time_reader times;
    char moment[MOMENT_SIZE]; /* both of a row */
    uint64_t rows_timed;
    uint64_t repeated, back; /* rows with the time of the stream's row before, or an earlier one */
    bool reported;           /* how many rows and cells the notices are about */

    struct values values; /* of the newest row */
    struct streams streams;
    size_t draining; /* after the last row: the next stream to give its row */
    bool failed;     /* the last row was bad; `bad` says why */
    struct error bad;

    struct labels *labels; /* NULL without --label-file */
    struct step waiting;   /* the row after the labels that come before it */
    bool waits, over;      /* there is one; there are no more */
    uint64_t number;       /* of the row that waits */
};

/* What the file is called in messages. */
const char *csv_file(const struct csv *csv);

/* Read the first line, which is the header or shows how many columns there are. */
int csv_read_first(struct csv *csv, struct error *error);

/* Notice once that the time of the row is not after that of the stream's row before, and count.
   -1: out of memory. */
int csv_check_order(struct csv *csv, struct held_stream *stream, struct error *error);

/* The row's time as it stands, of one column or two. */
const char *csv_moment(struct csv *csv);

/* The next good row, in csv->row and csv->values: 1; 0 at the end. A bad one is an error, or with
   --skip-bad counted. */
int csv_read_row(struct csv *csv, struct error *error);

#endif
