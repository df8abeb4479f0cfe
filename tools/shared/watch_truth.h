/* Predictions beside their truths, out of a message of the topic `prediction`: one row for each
   column of each target that it brought. Messages are not trusted: what is not as docs/reference/protocol.md
   has it makes no row, or a NaN in it. */
#ifndef RUNNEL_WATCH_TRUTH_H
#define RUNNEL_WATCH_TRUTH_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* Words of a row. */
enum { TRUTH_CAME, TRUTH_SAID, TRUTH_BASELINE, TRUTH_WORDS };

struct truth_row {
    const char *stream;
    size_t column;        /* from 0 */
    size_t columns;       /* of the target; 0: it is a class */
    double ahead;         /* how many steps before its truth it was said; 1 where nothing says it */
    bool horizons;        /* whether the message says that: there are several */
    double example, step; /* that said it */
    double said_time;     /* its data time; NaN = none was given */
    size_t steps;         /* of one example that the message tells of together; 1 with horizons */
    double place;     /* of the truth among the stream's: the number of its example, with a fraction
                         where that has several steps; NaN = unknown */
    double data_time; /* of the truth; NaN = none was given */
    double target;    /* a class: its number */
    double prediction;              /* of classes: the most probable one */
    double low, high;               /* of the interval; NaN = there was none */
    double baseline;                /* what the baseline had said; NaN = there is none */
    const char *words[TRUTH_WORDS]; /* of classes that are words, whose numbers are NaN: "" = the
                                       unknown, NULL = nothing. Of others NULL */
    double probability;             /* of such a prediction; NaN = unknown */
    double score;          /* how abnormal what came was, the stream's; NaN = nothing says it */
    const json_t *experts; /* what each had said, lists by name; NULL without */
};

/* Whether it lay outside of its interval. */
static inline bool truth_missed(const struct truth_row *row) {
    return row->target < row->low || row->target > row->high;
}

/* Call `take` with each row in order, columns within targets. Columns whose truth was not observed
   have no row. */
typedef void truth_take(void *context, const struct truth_row *row);
void truth_rows(const json_t *body, truth_take *take, void *context);

/* The same with a row for every column: `target` is NaN where it was not observed. Returns how many
   targets have none, since what was said of them is no list of numbers: strokes. */
size_t truth_rows_all(const json_t *body, truth_take *take, void *context);

/* The same of classes that are words, which the others leave out: a row a target. */
void truth_words(const json_t *body, truth_take *take, void *context);

/* What a message says of a value that has not come, a row for each column: `target`, `baseline`,
   `place` and `data_time` are unknown. None of a class, of several steps or of several horizons,
   none where no intervals are published, and none where the message has the value itself. */
void truth_next(const json_t *body, truth_take *take, void *context);

/* The same of a class that is a word: the most probable one. */
void truth_next_word(const json_t *body, truth_take *take, void *context);

/* A number of what experts had said of a row's column; NaN where there is none. */
double truth_expert(const struct truth_row *row, const char *name);

#endif
