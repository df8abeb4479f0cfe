/* Predictions with their truths from messages of the topic `prediction`: one row for each column of
   each target. Messages are not trusted: parts that do not follow docs/reference/protocol.md give
   no row, or a NaN in it. */
#ifndef RUNNEL_WATCH_TRUTH_H
#define RUNNEL_WATCH_TRUTH_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum { TRUTH_ACTUAL, TRUTH_FORECAST, TRUTH_BASELINE, TRUTH_WORDS };

/* Scores of a distribution; pit_below: just below the truth. */
enum { TRUTH_PIT_BELOW, TRUTH_PIT_AT, TRUTH_Z, TRUTH_CRPS, TRUTH_LOG_SCORE, TRUTH_SCORES };
extern const char *const truth_score_names[TRUTH_SCORES]; /* "pit_below" */

struct truth_row {
    const char *stream;
    size_t column;
    size_t columns; /* number of columns of the target; 0 for a class */
    double ahead; /* steps between the prediction and its truth; 1 if the message has no horizons */
    bool horizons;        /* whether the message has several horizons */
    double example, step; /* of the prediction */
    double forecast_time; /* data time of the prediction; NaN = none */
    size_t steps;         /* steps of one example in this message; 1 with horizons */
    /* number of the truth's example in its stream, with a fraction for examples of several steps;
       NaN = unknown */
    double place;
    double data_time;  /* of the truth; NaN = none */
    double target;     /* for classes: the number of the class */
    double prediction; /* for classes: the most probable one */
    double low, high;  /* of the interval; NaN = none */
    double baseline;   /* forecast of the baseline; NaN = none */
    /* only for classes that are words, whose numbers are NaN: "" = the unknown word, NULL = none */
    const char *words[TRUTH_WORDS];
    double probability;    /* of a predicted word; NaN = unknown */
    double chance;         /* of the word that came; NaN = unknown */
    double score;          /* anomaly score of the stream; NaN = unknown */
    const json_t *experts; /* forecasts of the experts, lists by name; NULL = none */
    /* Lists of the distribution's levels and quantiles; NULL = none. */
    const json_t *levels, *quantiles;
    double scores[TRUTH_SCORES]; /* NaN = none */
    bool distributed;            /* whether the message has scores */
};

/* Whether the truth lies outside its interval. */
static inline bool truth_missed(const struct truth_row *row) {
    return row->target < row->low || row->target > row->high;
}

/* Calls `take` with each row in order, columns within targets. Columns whose truth was not observed
   have no row. */
typedef void truth_take(void *context, const struct truth_row *row);
void truth_rows(const json_t *body, truth_take *take, void *context);

/* Calls `take` for every column: `target` is NaN if it was not observed. Returns the number of
   targets whose prediction is not a list of numbers (strokes). */
size_t truth_rows_all(const json_t *body, truth_take *take, void *context);

/* Calls `take` for classes that are words, which the other functions leave out: one row a
   target. */
void truth_words(const json_t *body, truth_take *take, void *context);

/* The forecast of a future value, a row for each column: `target`, `baseline`, `place` and
   `data_time` are unknown. Returns no rows for classes, several steps, several horizons, messages
   without intervals, and messages that contain the value. */
void truth_next(const json_t *body, truth_take *take, void *context);

/* The same for a class that is a word: the most probable one. */
void truth_next_word(const json_t *body, truth_take *take, void *context);

/* The column name of level n, "q0.05", and its quantile; NaN = none. */
enum { TRUTH_LEVEL_SIZE = 32 };
char *truth_level(const json_t *levels, size_t n, char name[TRUTH_LEVEL_SIZE]);
double truth_quantile(const struct truth_row *row, size_t n);

/* An expert's forecast for a row's column; NaN if unknown. */
double truth_expert(const struct truth_row *row, const char *name);

#endif
