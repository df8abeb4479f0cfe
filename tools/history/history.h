/* Recordings: the published messages of daemons in one SQLite file. One process writes it while
   others read (WAL), in C through this header or with SQL; docs/reference/recordings.md describes
   the tables.

   A *run* is the learning of one daemon process from its start or from a `reset` on. Its `loss`
   messages are numbered 0, 1, ... and so are its `state` messages. Level 0 has a row for each of
   them. A row of level k summarizes 10^k messages: minimum, maximum and mean of each column, and
   the number of messages without a finite value (JSON's null). Each level keeps only its newest
   rows, so a file stays small while the past stays visible at lower resolution.

   A handle belongs to one thread at a time. Functions that return int return 0, or -1 with a
   sentence in history_error() that names the file. */
#ifndef RUNNEL_HISTORY_H
#define RUNNEL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "common/wire.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_state.h"

enum {
    HISTORY_BINS = FIELD_BINS,     /* bins of a layer's histogram over [-1, 1] */
    HISTORY_FACTOR = 10,           /* rows of one level in a row of the next */
    HISTORY_LAYERS = STATE_LAYERS, /* maximum number of layers of all networks of a daemon */
    HISTORY_KIND_SIZE = 16,        /* size of a layer's kind as text */
    HISTORY_STREAM_SIZE = 256,     /* size of a stream's key */
    HISTORY_PARTS = 256,           /* maximum columns, or experts and members, of a message */
    HISTORY_NAME_SIZE = 64,        /* size of an expert's or member's name */

    /* Every number of `loss`, and every measured number of a layer. */
    HISTORY_LOSS_COLUMNS = 0
#define ROW_OF_LOSS(name, member, group, key, path, type, ...) +FIELD_IS_##type
#include "common/fields.def"
    ,
    HISTORY_LAYER_COLUMNS = 0
#define MEASURED_ROW(name, member, group, key, path, type, ...) +FIELD_IS_##type
#include "common/fields.def"
};

/* The numbers that are kept of a message, one a column. */
extern const struct field *const history_loss_columns[HISTORY_LOSS_COLUMNS];
extern const struct field *const history_layer_columns[HISTORY_LAYER_COLUMNS];

/* The index of the column with this name among `count`; -1 if unknown. */
int history_column(const struct field *const *columns, int count, const char *name);

struct history;

/* Retention of a file; 0 = HISTORY_KEEP rows and HISTORY_BYTES. */
struct history_options {
    /* rows of each level of each run and layer (a tenth for each column and expert), events of each
       run, and predictions of all runs */
    uint64_t keep;
    /* maximum size: beyond it levels keep fewer rows, then the oldest runs are deleted */
    uint64_t bytes;
};
#define HISTORY_KEEP 100000
#define HISTORY_BYTES ((uint64_t)1 << 30)

/* Opens for writing and creates the file if necessary, or for reading with NULL as options. Returns
   EX_OK, or prints an error and returns an exit status. */
int history_open(struct history **history, const char *path, const struct history_options *options);

/* Commits first. */
void history_close(struct history **history);

/* The last error: one sentence. */
const char *history_error(const struct history *history);

/* ---- Writing ---- */

/* Adds a message of any topic from the daemon at `endpoint`; the next commit writes it. Skips
   messages that do not follow docs/reference/protocol.md, and those of a run that is already
   received at another endpoint. Lost messages between two `loss` messages become an event of kind
   "gap". */
int history_take(struct history *history, const char *endpoint, const struct message *message);

/* Adds an event of the writer itself about the daemon at `endpoint`, at the current time of its
   newest run. Does nothing without a run. */
int history_note(struct history *history, const char *endpoint, const char *kind, const char *text);

/* Makes all messages visible to readers and deletes old rows. Call it about once a second: it costs
   a few page writes. */
int history_commit(struct history *history);

/* The current run of the messages from `endpoint`; 0 = none yet. */
int64_t history_current(const struct history *history, const char *endpoint);

/* ---- Reading ---- */

/* Whether another program has written since the last call. */
int history_changed(struct history *history, bool *changed);

/* Unknown values are "" or NaN. The list owns the strings. */
struct history_run {
    int64_t id;           /* in this file, ascending */
    const char *run;      /* 16 digits, as the daemon reports */
    int part;             /* from 0; incremented by each `reset` in the daemon's run */
    const char *endpoint; /* endpoint where it was received */
    const char *name, *digest, *compatible, *model, *device, *version, *resumed;
    const char *tags; /* a JSON object */
    double seed, parameters, every;
    double first_time, newest_time; /* Unix times of its messages */
    double first_examples, newest_examples, first_steps, newest_steps;
};

/* The columns of a run, in order: texts and numbers of struct history_run. */
struct history_run_column {
    const char *name;
    bool text;
    bool json;     /* the text is a JSON value */
    bool separate; /* returned by history_configuration, not in the list of runs */
    size_t offset;
    const struct field *status; /* source; NULL = not from `status` */
};
enum { HISTORY_RUN_COLUMNS = 20 };
extern const struct history_run_column history_run_columns[HISTORY_RUN_COLUMNS];

struct history_runs {
    struct history_run *runs; /* (count), oldest first */
    size_t count;
    char *text; /* memory of the strings */
};
int history_runs(struct history *history, struct history_runs *runs);
void history_runs_clear(struct history_runs *runs);

/* The daemon's configuration at the end of the run, a JSON object that the caller frees; NULL if
   unknown. */
int history_configuration(struct history *history, int64_t run, char **json);

int history_has_run(struct history *history, int64_t run, bool *known);

/* The layers of a run that have statistics in the file, of all members, in order. */
struct history_layer {
    char member[HISTORY_NAME_SIZE]; /* "" = the network has no name */
    char kind[HISTORY_KIND_SIZE];   /* dense, rnn, gru, lstm */
    int size;                       /* units */
};
int history_layers(struct history *history, int64_t run,
                   struct history_layer layers[HISTORY_LAYERS], int *count);

enum history_axis { HISTORY_EXAMPLES, HISTORY_STEPS, HISTORY_TIME, HISTORY_AXES };
extern const struct field *const history_axes[HISTORY_AXES];

/* A range with both ends included, which may be infinite. */
struct history_range {
    enum history_axis axis;
    double from, to;
    size_t points; /* > 0: maximum number; returns at least half of it if available */
};

/* A point summarizes consecutive messages; its position is that of the last one. */
struct history_point {
    double position[HISTORY_AXES]; /* examples, steps, time */
    uint64_t messages;
};
struct history_value {
    double minimum, maximum, mean; /* over the messages that have a value; NaN = none has */
    uint64_t missing;              /* messages without a value or with one that is not finite */
};
struct history_series {
    size_t points, columns;
    struct history_point *at;     /* (points) */
    struct history_value *values; /* (points, columns) */
    float *histograms;            /* (points, HISTORY_BINS) mean counts of a layer; else NULL */
};

/* All columns of the run's `loss` messages, or of a layer's statistics. An unknown run or layer has
   no points. */
int history_loss(struct history *history, int64_t run, const struct history_range *range,
                 struct history_series *series);
int history_state(struct history *history, int64_t run, int layer,
                  const struct history_range *range, struct history_series *series);
void history_series_clear(struct history_series *series);

/* The values of a run's newest `loss` message for each column, or each expert and member, in order;
   the caller frees the list. Older files and runs without them have none. */
struct history_part {
    char name[HISTORY_NAME_SIZE]; /* name of an expert; "" for a column */
    double numbers[(int)COLUMN_FIELDS > (int)EXPERT_FIELDS ? COLUMN_FIELDS : EXPERT_FIELDS];
};
int history_parts(struct history *history, int64_t run, bool experts, struct history_part **list,
                  size_t *count);

struct history_event {
    int64_t id; /* ascending */
    double position[HISTORY_AXES];
    const char *kind, *text;
    const char *incident; /* the event as JSON, if it is of this kind; else "" */
};
struct history_events {
    struct history_event *events; /* (count), oldest first */
    size_t count;
    char *text; /* memory of the strings */
};

/* The newest `range->points` events of the run within the range, of one kind or (NULL) of all. */
int history_events(struct history *history, int64_t run, const char *kind,
                   const struct history_range *range, struct history_events *events);
void history_events_clear(struct history_events *events);

/* The columns of streams that have predictions with their truths; the caller frees the list. Older
   files have none. */
struct history_predicted {
    char stream[HISTORY_STREAM_SIZE];
    int column, ahead; /* column from 0, ahead from 1 */
    uint64_t rows;
};
int history_predicted(struct history *history, int64_t run, struct history_predicted **list,
                      size_t *count);

/* The newest `most` rows of one column, oldest first. If `around` is finite, half of them are
   before that example and half start at it. The caller frees the rows. */
enum { HISTORY_QUANTILES_SIZE = 1024 };
struct history_prediction {
    double position[HISTORY_AXES]; /* of the message that contained the truth */
    double data_time;              /* of the truth; NaN = none */
    double target, prediction;
    double low, high;                       /* NaN = no interval */
    double baseline;                        /* NaN = none */
    double score;                           /* anomaly score; NaN = unknown */
    char quantiles[HISTORY_QUANTILES_SIZE]; /* by level as JSON, {"q0.05":1.5}; "" = none */
};
int history_predictions(struct history *history, int64_t run, const struct history_predicted *of,
                        double around, size_t most, struct history_prediction **rows,
                        size_t *count);

/* The anomalies of a run: a row for each column of each event `anomaly`, the most abnormal column
   first. Returns the newest `most` rows, oldest first, of one stream or (NULL) of all; the caller
   frees them. Older files have none. */
struct history_anomaly {
    int64_t event; /* id of history_event */
    char stream[HISTORY_STREAM_SIZE], reason[HISTORY_KIND_SIZE];
    char note[WIRE_NOTE_MAX + 1];  /* note of the example, in the event's first row; "" = none */
    int column;                    /* from 0; -1 = no single column */
    double position[HISTORY_AXES]; /* of the example */
    double data_time;              /* NaN = none */
    double score, threshold;       /* of the event */
    double column_score, forecast, truth; /* of the column; NaN = none */
};
int history_anomalies(struct history *history, int64_t run, const char *stream, size_t most,
                      struct history_anomaly **rows, size_t *count);

#endif
