/* Metrics in Prometheus format: x has the values of chosen series, or their rates. Without an
 * answer of the server, the source yields no step; a missing series is NaN. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "feed_http.h"
#include "feed_metrics.h"
#include "streams/feed.h"

#define RATE_DEFAULT (1.0 / 15) /* Prometheus's default */

enum { COLUMNS_MAX = 1024 };

struct column {
    bool rate;
    double value, time; /* the newest value and its time (CLOCK_MONOTONIC); NAN = none */
    bool missing_reported;
};

struct prometheus {
    struct source source;
    struct http_options server;

    struct column columns[COLUMNS_MAX]; /* (count,) */
    struct selector *selectors;
    const struct selector *chosen[COLUMNS_MAX]; /* the selectors of the columns */
    double sums[COLUMNS_MAX];
    float x[COLUMNS_MAX];
    size_t count;

    struct http *http;
};

static void set_defaults(struct source *source) {
    struct prometheus *prometheus = (struct prometheus *)source;
    prometheus->server.timeout = HTTP_TIMEOUT;
}

static int add_column(void *values, const struct option_row *row, const char *text,
                      struct error *error) {
    struct prometheus *p = values;
    const char *why;
    if (p->count == COLUMNS_MAX)
        return error_set(error, EX_USAGE, "--%s: more than %d series", row->name, COLUMNS_MAX);
    struct selector *grown = realloc(p->selectors, (p->count + 1) * sizeof *grown);
    if (!grown)
        return error_no_memory(error);
    p->selectors = grown;
    if (selector_open(&p->selectors[p->count], text, &why) < 0)
        return why ? error_set(error, EX_USAGE, "--%s: %s, got '%s'", row->name, why, text)
                   : error_no_memory(error);
    p->columns[p->count++] =
        (struct column){.rate = strcmp(row->name, "rate-of") == 0, .value = NAN};
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"series", 0, "SERIES",
     "a number of x: the value of node_load1 or http_requests_total{code=\"500\"}; the sum if "
     "several series match; may be repeated",
     OPTION_TAKE(add_column)},
    {"rate-of", 0, "SERIES", "a number of x: the increase of a counter per second; may be repeated",
     OPTION_TAKE(add_column)},
    HTTP_OPTIONS(struct prometheus),
    OPTIONS_END,
};

static int open_prometheus(struct source *source, char **operands, struct error *error) {
    struct prometheus *p = (struct prometheus *)source;
    if (p->count == 0)
        return error_set(error, EX_USAGE, "no series for x: set --series or --rate-of");
    for (size_t k = 0; k < p->count; k++)
        p->chosen[k] = &p->selectors[k];
    source->x = (struct shape){VALUE_REAL, p->count};
    return http_open(&p->http, operands[0], "/metrics", &p->server, error);
}

/* ---- Numbers ---- */

/* Returns the increase of a counter per second; a counter that restarts begins at 0. */
static double rate(const struct column *column, double value, double time) {
    double grown = value < column->value ? value : value - column->value;
    return time > column->time ? grown / (time - column->time) : NAN;
}

static float as_float(double value) {
    float narrow = (float)value;
    return isfinite(narrow) ? narrow : NAN;
}

static void read_numbers(struct prometheus *p, char *answer, double time) {
    metrics_sum(answer, p->chosen, p->sums, p->count);
    for (size_t k = 0; k < p->count; k++) {
        struct column *column = &p->columns[k];
        double value = p->sums[k];
        if (isnan(value) && !column->missing_reported)
            feed_print("%s: no number found for %s; it is missing (NaN)", http_name(p->http),
                       p->selectors[k].text);
        column->missing_reported = isnan(value);
        p->x[k] = as_float(column->rate ? rate(column, value, time) : value);
        if (!isnan(value)) {
            column->value = value;
            column->time = time;
        }
    }
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct prometheus *p = (struct prometheus *)source;
    char *answer;
    size_t size;
    if (http_ask(p->http, &answer, &size, error) < 0)
        return -1;
    http_accept(p->http);
    read_numbers(p, answer, clock_seconds());
    step->x = p->x;
    step->time = clock_unix();
    return 1;
}

static const char *column(const struct source *source, bool y, size_t k) {
    (void)y;
    return ((const struct prometheus *)source)->selectors[k].text;
}

static void close_prometheus(struct source *source) {
    struct prometheus *p = (struct prometheus *)source;
    for (size_t k = 0; k < p->count; k++)
        selector_close(&p->selectors[k]);
    http_close(&p->http);
    free(p->selectors);
}

const struct source_type source_prometheus = {
    .command = {"prometheus", "URL", "metrics of a server in Prometheus format", .rows = OPTIONS},
    .notes = "Sends a request every 15 seconds, or as set by --every. A URL without a path gets "
             "/metrics. The numbers of x are in the order of --series and --rate-of; a missing "
             "series is NaN.",
    .rate = RATE_DEFAULT,
    .live = true,
    .endless = true,
    .size = sizeof(struct prometheus),
    .set_defaults = set_defaults,
    .open = open_prometheus,
    .next = next,
    .column = column,
    .close = close_prometheus,
};
