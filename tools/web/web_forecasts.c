#include "build-config.h"

#include "web_forecasts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json_member.h"
#include "common/quantile.h"
#include "tools/shared/watch_truth.h"

enum {
    SERIES_BYTES = 256 << 10, /* of a stream, unless FEWEST rows take more */
    FEWEST = 60,
    AHEAD_MAX = 1000000, /* messages are not trusted */
    USUAL = 31,          /* steps that say how far ahead is usual */
};

static size_t row_numbers(size_t columns) {
    return FORECAST_PLACES + columns * FORECAST_VALUES;
}

static size_t series_bytes(const struct forecast_series *series) {
    return sizeof *series + strlen(series->stream) + 1 +
           (series->room + 1) * row_numbers(series->columns) * sizeof *series->rows;
}

const double *forecast_row(const struct forecast_series *series, size_t i) {
    return series->rows + i * row_numbers(series->columns);
}

/* Of what was said last. */
static double *open_row(const struct forecast_series *series) {
    return series->rows + series->room * row_numbers(series->columns);
}

double forecast_value(const struct forecast_series *series, size_t i, size_t column,
                      enum forecast_value value) {
    return forecast_row(series, i)[FORECAST_PLACES + column * FORECAST_VALUES + value];
}

static struct forecast_series *find(const struct forecasts *forecasts, const char *stream,
                                    size_t ahead) {
    struct forecast_series *series = forecasts->series;
    while (series && (series->ahead != ahead || strcmp(series->stream, stream) != 0))
        series = series->following;
    return series;
}

const struct forecast_series *forecasts_find(const struct forecasts *forecasts, const char *stream,
                                             size_t ahead) {
    return find(forecasts, stream, ahead);
}

/* ---- Room ---- */

static void drop(struct forecasts *forecasts, struct forecast_series **at) {
    struct forecast_series *series = *at;
    *at = series->following;
    forecasts->bytes -= series_bytes(series);
    free(series->stream);
    free(series->rows);
    free(series);
}

void forecasts_clear(struct forecasts *forecasts) {
    while (forecasts->series)
        drop(forecasts, &forecasts->series);
    json_decref(forecasts->said);
    *forecasts = (struct forecasts){0};
}

/* Whether a stream that is silent made room. */
static bool make_room(struct forecasts *forecasts, double now) {
    struct forecast_series **oldest = &forecasts->series;
    for (struct forecast_series **at = oldest; *at; at = &(*at)->following)
        if ((*at)->touched < (*oldest)->touched)
            oldest = at;
    if (!*oldest || now - (*oldest)->touched < FORECAST_SILENCE)
        return false;
    drop(forecasts, oldest);
    return true;
}

static struct forecast_series *make_series(struct forecasts *forecasts, const char *stream,
                                           size_t ahead, size_t columns) {
    size_t row = row_numbers(columns) * sizeof(double), room = SERIES_BYTES / row;
    struct forecast_series *series = calloc(1, sizeof *series);
    if (!series)
        return NULL;
    room = room < FEWEST ? FEWEST : room > FORECAST_STEPS ? FORECAST_STEPS : room;
    *series = (struct forecast_series){.stream = strdup(stream),
                                       .ahead = ahead,
                                       .columns = columns,
                                       .room = room,
                                       .rows = malloc((room + 1) * row),
                                       .following = forecasts->series};
    forecasts->series = series;
    if (series->stream && series->rows) {
        forecasts->bytes += series_bytes(series);
        return series;
    }
    forecasts->series = series->following;
    free(series->stream);
    free(series->rows);
    free(series);
    return NULL;
}

/* The series for steps of so many columns; NULL when there is no room. */
static struct forecast_series *open_series(struct forecasts *forecasts, const char *stream,
                                           size_t ahead, size_t columns) {
    double now = clock_seconds();
    struct forecast_series **at = &forecasts->series, *series;
    while (*at && ((*at)->ahead != ahead || strcmp((*at)->stream, stream) != 0))
        at = &(*at)->following;
    if (*at && (*at)->columns != columns)
        drop(forecasts, at); /* the daemon was started again with another configuration */
    else if (*at) {
        (*at)->touched = now;
        return *at;
    }
    while (forecasts->bytes > FORECAST_BYTES - SERIES_BYTES)
        if (!make_room(forecasts, now))
            return NULL;
    series = make_series(forecasts, stream, ahead, columns);
    if (series)
        series->touched = now;
    return series;
}

/* ---- Steps ---- */

/* A row at that position, from the oldest on: one that is there already, or a new one. Labels may
   come in any order. */
static double *row_at(struct forecast_series *series, double position) {
    size_t numbers = row_numbers(series->columns), row = numbers * sizeof *series->rows;
    size_t at = series->count;
    while (at > 0 && series->rows[(at - 1) * numbers] > position)
        at--;
    if (at > 0 && series->rows[(at - 1) * numbers] == position)
        return series->rows + (at - 1) * numbers;
    if (series->count == series->room) {
        if (at == 0)
            return NULL; /* older than all that is kept */
        memmove(series->rows, series->rows + numbers, (series->count - 1) * row);
        series->count--;
        at--;
    }
    memmove(series->rows + (at + 1) * numbers, series->rows + at * numbers,
            (series->count - at) * row);
    series->count++;
    return series->rows + at * numbers;
}

/* The row of a truth's step, begun; NULL: it is nowhere, or there is no room. */
static double *begin_step(struct forecasts *forecasts, const struct truth_row *truth) {
    size_t columns = truth->columns > FORECAST_COLUMNS ? FORECAST_COLUMNS : truth->columns;
    if (isnan(truth->place))
        return NULL;
    size_t ahead = truth->horizons ? (size_t)fmin(fmax(truth->ahead, 0), AHEAD_MAX) : 0;
    struct forecast_series *series = open_series(forecasts, truth->stream, ahead, columns);
    double *row = series ? row_at(series, truth->place) : NULL;
    forecasts->left_out += !series;
    if (!row)
        return NULL;
    row[FORECAST_POSITION] = truth->place;
    /* Steps of one example have one time: they lie in a row by their numbers alone. */
    row[FORECAST_TIME] = truth->steps > 1 ? NAN : truth->data_time;
    row[FORECAST_SAID] = truth->example;
    row[FORECAST_SAID_TIME] = truth->said_time;
    row[FORECAST_SCORE] = truth->score;
    if (series->open && truth->example >= open_row(series)[FORECAST_SAID])
        series->open = false; /* this is what came of it */
    return row;
}

struct taking {
    struct forecasts *forecasts;
    double *row; /* of the step whose columns come */
};

static void take_row(void *context, const struct truth_row *truth) {
    struct taking *taking = context;
    taking->forecasts->wordless |= truth->columns == 0;
    if (truth->columns && truth->column == 0)
        taking->row = begin_step(taking->forecasts, truth);
    if (!truth->columns || !taking->row || truth->column >= FORECAST_COLUMNS)
        return;
    double *values = taking->row + FORECAST_PLACES + truth->column * FORECAST_VALUES;
    values[FORECAST_TARGET] = truth->target;
    values[FORECAST_PREDICTION] = truth->prediction;
    values[FORECAST_LOW] = truth->low;
    values[FORECAST_HIGH] = truth->high;
    values[FORECAST_BASELINE] = truth->baseline;
}

/* ---- What comes next ---- */

/* Where something is expected: as far after what said it as the median of the newest steps. */
static double expected(const struct forecast_series *series, enum forecast_place at,
                       enum forecast_place said) {
    double ahead[USUAL];
    size_t count = 0;
    for (size_t i = series->count; i-- > 0 && count < USUAL;) {
        const double *row = forecast_row(series, i);
        if (!isnan(row[at] - row[said]))
            ahead[count++] = row[at] - row[said];
    }
    quantile_sort(ahead, count);
    return count ? open_row(series)[said] + ahead[count / 2] : NAN;
}

const double *forecast_next(const struct forecast_series *series) {
    double *row = open_row(series);
    if (!series->open)
        return NULL;
    row[FORECAST_POSITION] = expected(series, FORECAST_POSITION, FORECAST_SAID);
    row[FORECAST_TIME] = expected(series, FORECAST_TIME, FORECAST_SAID_TIME);
    return row;
}

static void take_next(void *context, const struct truth_row *next) {
    struct forecast_series *series = context;
    double *row = open_row(series);
    if (next->column >= series->columns || isnan(next->example))
        return;
    for (size_t i = 0; !series->open && i < row_numbers(series->columns); i++)
        row[i] = NAN;
    series->open = true;
    row[FORECAST_SAID] = next->example;
    row[FORECAST_SAID_TIME] = next->said_time;
    double *values = row + FORECAST_PLACES + next->column * FORECAST_VALUES;
    values[FORECAST_PREDICTION] = next->prediction;
    values[FORECAST_LOW] = next->low;
    values[FORECAST_HIGH] = next->high;
}

/* Of a stream of which something was scored. */
static void open_next(struct forecasts *forecasts, const json_t *message) {
    struct forecast_series *series = find(forecasts, member_string(message, "stream"), 0);
    if (!series || !json_object_get(message, "prediction"))
        return;
    series->open = false;
    truth_next(message, take_next, series);
}

/* The daemon went back, to a checkpoint or to its beginning: what it had said of later examples it
   will say again. */
static void go_back(struct forecasts *forecasts, double examples) {
    for (struct forecast_series *series = forecasts->series; series; series = series->following) {
        series->open = false;
        while (series->count && *forecast_row(series, series->count - 1) >= examples)
            series->count--;
    }
}

void forecasts_take(struct forecasts *forecasts, const json_t *message) {
    double examples = forecasts->examples;
    if (!member_string(message, "stream"))
        return;
    member_number(message, "examples", &examples);
    if (examples < forecasts->examples)
        go_back(forecasts, examples);
    forecasts->examples = examples;
    if (json_is_array(json_object_get(json_object_get(message, "prediction"), "words"))) {
        json_decref(forecasts->said);
        forecasts->said = json_incref((json_t *)message);
    }
    if (truth_rows_all(message, take_row, &(struct taking){forecasts, NULL}) > 0)
        forecasts->wordless = true;
    open_next(forecasts, message);
}
