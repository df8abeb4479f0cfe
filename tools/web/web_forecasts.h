/* What a daemon has predicted of late beside what came then: of each stream, and of each horizon
   where there are several, the newest steps that were scored. It is filled from messages of the
   topic `prediction`, with what was said of the value that comes next, and bounded: a stream has at
   most FORECAST_STEPS of them, fewer where it has many columns, and when there is no more room the
   stream that has been silent longest makes room, if it has been for FORECAST_SILENCE seconds; else
   the new one is left out. */
#ifndef RUNNEL_WEB_FORECASTS_H
#define RUNNEL_WEB_FORECASTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum {
    FORECAST_STEPS = 1000,
    FORECAST_BYTES = 8 << 20, /* of one daemon */
    FORECAST_COLUMNS = 1024,  /* of a stream; further ones are left out */
};
#define FORECAST_SILENCE 60.0

/* What there is of each column at each step, in original units; NaN = there is none. */
enum forecast_value {
    FORECAST_TARGET,
    FORECAST_PREDICTION,
    FORECAST_LOW, /* the ends of the interval */
    FORECAST_HIGH,
    FORECAST_BASELINE,
    FORECAST_VALUES,
};

/* Steps of one stream and horizon, by their position. */
struct forecast_series {
    struct forecast_series *following;
    char *stream; /* owned */
    size_t ahead; /* 0 = there is one horizon only */
    size_t columns, room, count;
    double *rows;   /* (room + 1, FORECAST_PLACES + columns x FORECAST_VALUES); the last: `open` */
    bool open;      /* whether something is said of a value that has not come */
    double touched; /* when the last step came, clock_seconds() */
};

/* What a row has before its values; NaN = unknown. */
enum forecast_place {
    FORECAST_POSITION, /* number of the example that brought the target */
    FORECAST_TIME,     /* its data time */
    FORECAST_SAID,     /* number of the example that said it */
    FORECAST_SAID_TIME,
    FORECAST_SCORE, /* how abnormal what came was */
    FORECAST_PLACES,
};

struct forecasts {
    struct forecast_series *series;
    size_t bytes;
    double examples;   /* learned by the daemon at the newest message */
    uint64_t left_out; /* steps of streams for which there was no room */
    bool wordless;     /* something was scored that is no list of numbers: classes, strokes */
    json_t *said;      /* the newest message that says classes by name; NULL: there is none */
};

/* Take a message. What is not as docs/protocol.md has it is skipped. */
void forecasts_take(struct forecasts *forecasts, const json_t *message);
void forecasts_clear(struct forecasts *forecasts);

/* NULL when there is none. */
const struct forecast_series *forecasts_find(const struct forecasts *forecasts, const char *stream,
                                             size_t ahead);

/* The row of the step i, from the oldest on: its places; then a value of a column. */
const double *forecast_row(const struct forecast_series *series, size_t i);
double forecast_value(const struct forecast_series *series, size_t i, size_t column,
                      enum forecast_value value);

/* What was said last, of a value that has not come: NULL, or a row whose position and data time are
   those at which it is expected: as far after what said it as usual. Its values are at `room`. */
const double *forecast_next(const struct forecast_series *series);

#endif
