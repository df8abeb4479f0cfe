/* Metrics that a server offers to Prometheus: chosen series, or their rates, are the numbers of x.
   A server that does not answer gives no steps; a series that is missing is NaN. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "feed_http.h"
#include "feed_metrics.h"
#include "streams/feed.h"

#define RATE_DEFAULT (1.0 / 15) /* Prometheus's own */

enum { COLUMNS_MAX = 1024 };

struct column {
    bool rate;
    double value, time; /* the newest one and when it came: CLOCK_MONOTONIC; NAN = none yet */
    bool missing_said;
};

struct prometheus {
    struct source source;
    struct http_options server;

    struct column columns[COLUMNS_MAX]; /* (count,), and their */
    struct selector *selectors;
    const struct selector *chosen[COLUMNS_MAX]; /* the same */
    double sums[COLUMNS_MAX];
    float x[COLUMNS_MAX];
    size_t count;

    struct http *http;
};

static struct source *create(void) {
    struct prometheus *prometheus = calloc(1, sizeof *prometheus);
    if (!prometheus)
        return NULL;
    prometheus->server.timeout = HTTP_TIMEOUT;
    return &prometheus->source;
}

static int take_column(void *values, const struct option_row *row, const char *text,
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
        return why ? error_set(error, EX_USAGE, "--%s: found '%s', %s", row->name, text, why)
                   : error_no_memory(error);
    p->columns[p->count++] =
        (struct column){.rate = strcmp(row->name, "rate-of") == 0, .value = NAN};
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"series", 0, "SERIES",
     "a number of x: the value of node_load1 or http_requests_total{code=\"500\"}; the sum where "
     "several have that name and these labels; may be repeated",
     OPTION_TAKE(take_column)},
    {"rate-of", 0, "SERIES", "likewise how much a counter grows per second",
     OPTION_TAKE(take_column)},
    HTTP_OPTIONS(struct prometheus),
    OPTIONS_END,
};

static int open_prometheus(struct source *source, char **operands, struct error *error) {
    struct prometheus *p = (struct prometheus *)source;
    if (p->count == 0)
        return error_set(error, EX_USAGE, "name the series that are x: --series or --rate-of");
    for (size_t k = 0; k < p->count; k++)
        p->chosen[k] = &p->selectors[k];
    source->x = (struct shape){VALUE_REAL, p->count};
    return http_open(&p->http, operands[0], "/metrics", &p->server, error);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

/* How much a counter has grown per second; one that has begun anew has grown from 0. */
static double rate(const struct column *column, double value, double time) {
    double grown = value < column->value ? value : value - column->value;
    return time > column->time ? grown / (time - column->time) : NAN;
}

static float as_float(double value) {
    float narrow = (float)value;
    return isfinite(narrow) ? narrow : NAN;
}

static void take_numbers(struct prometheus *p, char *answer, double time) {
    metrics_sum(answer, p->chosen, p->sums, p->count);
    for (size_t k = 0; k < p->count; k++) {
        struct column *column = &p->columns[k];
        double value = p->sums[k];
        if (isnan(value) && !column->missing_said)
            feed_say("%s: there is no number of %s; it is missing (NaN)", http_name(p->http),
                     p->selectors[k].text);
        column->missing_said = isnan(value);
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
    take_numbers(p, answer, clock_seconds());
    step->x = p->x;
    step->time = clock_unix();
    return 1;
}

static const char *column(const struct source *source, bool y, size_t k) {
    (void)y;
    return ((const struct prometheus *)source)->selectors[k].text;
}

static void close_prometheus(struct source **source) {
    struct prometheus *p = (struct prometheus *)*source;
    for (size_t k = 0; k < p->count; k++)
        selector_close(&p->selectors[k]);
    http_close(&p->http);
    free(p->selectors);
    free(p);
    *source = NULL;
}

const struct source_type source_prometheus = {
    .command = {"prometheus", "URL", "metrics that a server offers to Prometheus", .rows = OPTIONS},
    .notes = "Asks every 15 seconds, or as --every says. A URL without a path gets /metrics. The "
             "numbers of x are in the order of --series and --rate-of; what is missing is NaN.",
    .rate = RATE_DEFAULT,
    .live = true,
    .endless = true,
    .create = create,
    .open = open_prometheus,
    .next = next,
    .column = column,
    .close = close_prometheus,
};
