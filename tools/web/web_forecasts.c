#include "build-config.h"

#include "web_forecasts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json_member.h"

enum {
    PLACE = 2,                /* numbers of a row before its values: position, data time */
    SERIES_BYTES = 256 << 10, /* of a stream, unless FEWEST rows take more */
    FEWEST = 60,
};

static size_t row_numbers(size_t columns) {
    return PLACE + columns * FORECAST_VALUES;
}

static size_t series_bytes(const struct forecast_series *series) {
    return sizeof *series + strlen(series->stream) + 1 +
           series->room * row_numbers(series->columns) * sizeof *series->rows;
}

const double *forecast_row(const struct forecast_series *series, size_t i) {
    return series->rows + i * row_numbers(series->columns);
}

double forecast_value(const struct forecast_series *series, size_t i, size_t column,
                      enum forecast_value value) {
    return forecast_row(series, i)[PLACE + column * FORECAST_VALUES + value];
}

const struct forecast_series *forecasts_find(const struct forecasts *forecasts, const char *stream,
                                             size_t ahead) {
    const struct forecast_series *series = forecasts->series;
    while (series && (series->ahead != ahead || strcmp(series->stream, stream) != 0))
        series = series->following;
    return series;
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
                                       .rows = malloc(room * row),
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

/* The number at i of a list, or of the member `mean` of an object. */
static double number_in(const json_t *list, size_t i) {
    const json_t *number =
        json_array_get(json_is_object(list) ? json_object_get(list, "mean") : list, i);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

static void take_step(struct forecasts *forecasts, const char *stream, const json_t *scored,
                      double position, double time) {
    const json_t *target = json_object_get(scored, "target");
    const json_t *prediction = json_object_get(scored, "prediction");
    const json_t *interval = json_object_get(scored, "interval");
    const json_t *baseline = json_object_get(scored, "baseline");
    size_t columns = json_array_size(target);
    double ahead = 0;
    if (columns == 0 || !(json_is_array(prediction) || json_object_get(prediction, "mean"))) {
        forecasts->wordless = true;
        return;
    }
    if (columns > FORECAST_COLUMNS)
        columns = FORECAST_COLUMNS;
    member_number(scored, "ahead", &ahead);
    struct forecast_series *series =
        open_series(forecasts, stream, ahead > 0 ? (size_t)ahead : 0, columns);
    double *row = series ? row_at(series, position) : NULL;
    forecasts->left_out += !series;
    if (!row)
        return;
    *row++ = position;
    *row++ = time;
    for (size_t column = 0; column < columns; column++, row += FORECAST_VALUES) {
        const json_t *ends = json_array_get(interval, column);
        row[FORECAST_TARGET] = number_in(target, column);
        row[FORECAST_PREDICTION] = number_in(prediction, column);
        row[FORECAST_LOW] = number_in(ends, 0);
        row[FORECAST_HIGH] = number_in(ends, 1);
        row[FORECAST_BASELINE] = number_in(baseline, column);
    }
}

/* The daemon went back, to a checkpoint or to its beginning: what it had said of later examples it
   will say again. */
static void go_back(struct forecasts *forecasts, double examples) {
    for (struct forecast_series *series = forecasts->series; series; series = series->following)
        while (series->count && *forecast_row(series, series->count - 1) >= examples)
            series->count--;
}

void forecasts_take(struct forecasts *forecasts, const json_t *message) {
    const char *stream = member_string(message, "stream");
    const json_t *scored = json_object_get(message, "scored");
    /* A label tells of an earlier example; all others bring the targets of predictions before them.
     */
    const json_t *own = json_object_get(message, "prediction");
    size_t steps = json_is_array(scored) ? json_array_size(scored) : 1;
    double examples = forecasts->examples;
    if (!stream)
        return;
    member_number(message, "examples", &examples);
    if (examples < forecasts->examples)
        go_back(forecasts, examples);
    forecasts->examples = examples;
    for (size_t i = 0; i < steps; i++) {
        const json_t *one = json_is_array(scored) ? json_array_get(scored, i) : scored;
        const json_t *placed = own ? message : one;
        double position, time = NAN, step = 0;
        if (!json_is_object(one) || !member_number(placed, "example", &position))
            continue;
        /* Steps of one example have one time: they lie in a row by their numbers alone. */
        bool several = steps > 1 && !json_object_get(one, "ahead");
        if (!several)
            member_number(placed, "data_time", &time);
        else
            step = (double)i / (double)steps;
        take_step(forecasts, stream, one, position + step, time);
    }
}
