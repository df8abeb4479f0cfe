/* Recordings: what daemons have published, kept in one SQLite file. One process writes it, others
   read it meanwhile (WAL), in C through this header or with SQL: docs/reference/recordings.md has the tables.

   A *run* is what one process of a daemon learned from its start, or from a `reset`, on. Its `loss`
   messages are numbered 0, 1, ... and so are its `state` messages. Level 0 has a row for each of
   them; a row of level k summarizes 10^k messages and has minimum, maximum and mean of each column,
   and how many messages had no finite number there (JSON's null). Each level keeps its newest rows
   only, so that a file stays small and the past stays visible, more and more coarsely.

   A handle belongs to one thread at a time. Functions that return int return 0, or -1 and
   history_error() has a sentence that names the file. */
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
    HISTORY_BINS = FIELD_BINS,     /* of a layer's histogram, over [-1, 1] */
    HISTORY_FACTOR = 10,           /* rows of one level in a row of the next */
    HISTORY_LAYERS = STATE_LAYERS, /* of all networks of a daemon, at most */
    HISTORY_KIND_SIZE = 16,        /* of a layer's kind as text */
    HISTORY_STREAM_SIZE = 256,     /* of a stream's key */
    HISTORY_PARTS = 256,           /* columns, or experts and members, of a message at most */
    HISTORY_NAME_SIZE = 64,        /* of the name of an expert or member */

    /* What is kept: each field of `loss` that is a number, and what is measured of each layer. */
    HISTORY_LOSS_COLUMNS = 0
#define ROW_OF_LOSS(name, member, group, key, path, type, ...) +FIELD_IS_##type
#include "common/fields.def"
    ,
    HISTORY_LAYER_COLUMNS = 0
#define MEASURED_ROW(name, member, group, key, path, type, ...) +FIELD_IS_##type
#include "common/fields.def"
};

/* What is kept of a message: one number a column. */
extern const struct field *const history_loss_columns[HISTORY_LOSS_COLUMNS];
extern const struct field *const history_layer_columns[HISTORY_LAYER_COLUMNS];

/* The column of that name among `count`; -1 when there is none. */
int history_column(const struct field *const *columns, int count, const char *name);

struct history;

/* What a file keeps; zero is HISTORY_KEEP rows and HISTORY_BYTES. */
struct history_options {
    uint64_t keep;  /* rows of each level of each run and layer (a tenth of them of each column and
                       expert), events of each run, predictions of all */
    uint64_t bytes; /* of the file: beyond it levels keep fewer rows, then the oldest runs go */
};
#define HISTORY_KEEP 100000
#define HISTORY_BYTES ((uint64_t)1 << 30)

/* Open to write, making the file where there is none, or with NULL as options to read. EX_OK, or
   complains on stderr and returns an exit status. */
int history_open(struct history **history, const char *path, const struct history_options *options);

/* Commits first. */
void history_close(struct history **history);

/* What went wrong last: one sentence. */
const char *history_error(const struct history *history);

/* ---- Writing ---- */

/* Take a message of any topic that came from the daemon at `endpoint`. It is written with the next
   commit. Messages that are not as docs/reference/protocol.md has them are skipped, and so are those of a
   run that is received at another endpoint already. Examples without a message between two
   `loss` messages make an event of kind "gap". */
int history_take(struct history *history, const char *endpoint, const struct message *message);

/* A remark of the writer itself about the daemon at `endpoint`: an event of that kind
   in its newest run, now. Without a run nothing is written. */
int history_note(struct history *history, const char *endpoint, const char *kind, const char *text);

/* Make all that was taken visible to readers, and delete what is not kept. Call it once a second
   or so: it costs a few page writes. */
int history_commit(struct history *history);

/* The run that messages from `endpoint` go to now; 0 = none yet. */
int64_t history_current(const struct history *history, const char *endpoint);

/* ---- Reading ---- */

/* Whether another program has written since this was asked last. */
int history_changed(struct history *history, bool *changed);

/* What is not known yet is "" or NaN. Strings are owned by the list. */
struct history_run {
    int64_t id;           /* in this file, growing */
    const char *run;      /* 16 digits, as the daemon says */
    int part;             /* 0; grows with each `reset` within the daemon's run */
    const char *endpoint; /* where it was received */
    const char *name, *digest, *compatible, *model, *device, *version, *resumed;
    const char *tags; /* an object of JSON */
    double seed, parameters, every;
    double first_time, newest_time; /* of its messages, Unix time */
    double first_examples, newest_examples, first_steps, newest_steps;
};

/* What is said of a run, in order: a text or a number of struct history_run. */
struct history_run_column {
    const char *name;
    bool text;
    bool json;     /* a text that is a value of JSON */
    bool separate; /* not in the list of runs, but history_configuration */
    size_t offset;
    const struct field *status; /* where it comes from; NULL = not from `status` */
};
enum { HISTORY_RUN_COLUMNS = 20 };
extern const struct history_run_column history_run_columns[HISTORY_RUN_COLUMNS];

struct history_runs {
    struct history_run *runs; /* (count), oldest first */
    size_t count;
    char *text; /* of the strings */
};
int history_runs(struct history *history, struct history_runs *runs);
void history_runs_clear(struct history_runs *runs);

/* What the daemon's configuration was at the end of the run, an object of JSON, to be freed; NULL
   where that is not known. */
int history_configuration(struct history *history, int64_t run, char **json);

/* Whether the file has the run. */
int history_has_run(struct history *history, int64_t run, bool *known);

/* The layers of a run that have statistics in the file, in order, those of all members; returns in
 *count how many. */
struct history_layer {
    char member[HISTORY_NAME_SIZE]; /* "" = the network has no name */
    char kind[HISTORY_KIND_SIZE];   /* dense, rnn, gru, lstm */
    int size;                       /* units */
};
int history_layers(struct history *history, int64_t run,
                   struct history_layer layers[HISTORY_LAYERS], int *count);

enum history_axis { HISTORY_EXAMPLES, HISTORY_STEPS, HISTORY_TIME, HISTORY_AXES };
extern const struct field *const history_axes[HISTORY_AXES];

/* From and to, both included, may be infinite. */
struct history_range {
    enum history_axis axis;
    double from, to;
    size_t points; /* at most so many, and at least half as many where there are; > 0 */
};

/* One point summarizes one or more successive messages; its position is that of the last. */
struct history_point {
    double position[HISTORY_AXES]; /* examples, steps, time */
    uint64_t messages;
};
struct history_value {
    double minimum, maximum, mean; /* over the messages that have it; NaN = none has */
    uint64_t missing;              /* messages in which it was null: there is none, or not finite */
};
struct history_series {
    size_t points, columns;
    struct history_point *at;     /* (points) */
    struct history_value *values; /* (points, columns) */
    float *histograms;            /* (points, HISTORY_BINS) mean counts, of a layer; else NULL */
};

/* All columns of the run's `loss` messages, or of a layer's statistics. A run or layer that is not
   there has no points. */
int history_loss(struct history *history, int64_t run, const struct history_range *range,
                 struct history_series *series);
int history_state(struct history *history, int64_t run, int layer,
                  const struct history_range *range, struct history_series *series);
void history_series_clear(struct history_series *series);

/* What a run's newest `loss` message said of each column, or of each expert and member; in order,
   to be freed. A file that is older than those, and a run without them, has none. */
struct history_part {
    char name[HISTORY_NAME_SIZE]; /* of an expert; "" of a column */
    double numbers[(int)COLUMN_FIELDS > (int)EXPERT_FIELDS ? COLUMN_FIELDS : EXPERT_FIELDS];
};
int history_parts(struct history *history, int64_t run, bool experts, struct history_part **list,
                  size_t *count);

struct history_event {
    int64_t id; /* growing */
    double position[HISTORY_AXES];
    const char *kind, *text;
};
struct history_events {
    struct history_event *events; /* (count), oldest first */
    size_t count;
    char *text; /* of the strings */
};

/* The newest `range->points` events of the run within the range. */
int history_events(struct history *history, int64_t run, const struct history_range *range,
                   struct history_events *events);
void history_events_clear(struct history_events *events);

/* Of which columns of which streams there are predictions beside their truths; to be freed. A file
   that is older than those has none. */
struct history_predicted {
    char stream[HISTORY_STREAM_SIZE];
    int column, ahead; /* from 0; from 1 */
    uint64_t rows;
};
int history_predicted(struct history *history, int64_t run, struct history_predicted **list,
                      size_t *count);

/* The newest `most` of one of them, or (`around` is not INFINITY) half of that before this example
   and half from it on; oldest first; to be freed. */
struct history_prediction {
    double position[HISTORY_AXES]; /* of the message that brought the truth */
    double data_time;              /* of the truth; NaN = none was given */
    double target, prediction;
    double low, high; /* NaN = there was no interval */
    double baseline;  /* NaN = there is none */
    double score;     /* how abnormal it was; NaN = not known */
};
int history_predictions(struct history *history, int64_t run, const struct history_predicted *of,
                        double around, size_t most, struct history_prediction **rows,
                        size_t *count);

/* What was abnormal in a run: a row for each column of each event `anomaly`, the most abnormal
   column first. The newest `most` rows, oldest first, of a stream or (NULL) of all; to be freed. A
   file that is older than those has none. */
struct history_anomaly {
    int64_t event; /* of history_events */
    char stream[HISTORY_STREAM_SIZE], reason[HISTORY_KIND_SIZE];
    char note[WIRE_NOTE_MAX + 1];  /* of the example, with the event's first row; "" = none */
    int column;                    /* from 0; -1 = of none alone */
    double position[HISTORY_AXES]; /* of the example */
    double data_time;              /* NaN = none was given */
    double score, threshold;       /* of the event */
    double column_score, forecast, truth; /* of the column; NaN = there is none */
};
int history_anomalies(struct history *history, int64_t run, const char *stream, size_t most,
                      struct history_anomaly **rows, size_t *count);

#endif
