/* Metrics that a server offers to Prometheus: chosen series, or their rates, are the numbers of x.
   A server that does not answer gives no steps; a series that is missing is NaN. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <curl/curl.h>

#include "common/clock.h"
#include "feed_metrics.h"
#include "streams/feed.h"
#include "streams/feed_retry.h"

#define RATE_DEFAULT (1.0 / 15) /* Prometheus's own */
#define TIMEOUT_DEFAULT 10.0    /* likewise, seconds */

enum {
    COLUMNS_MAX = 1024,
    ANSWER_MAX = 64 << 20, /* bytes */
    REDIRECTS_MAX = 5,
    TOKEN_SIZE = 4096,
    WHY_SIZE = 256,
    STATUS_GOOD = 200,
    STATUS_UNAUTHORIZED = 401,
    STATUS_FORBIDDEN = 403,
};

struct column {
    bool rate;
    double value, time; /* the newest one and when it came: CLOCK_MONOTONIC; NAN = none yet */
    bool missing_said;
};

struct prometheus {
    struct source source;
    double timeout;
    const char *token_file; /* or NULL */

    struct column columns[COLUMNS_MAX]; /* (count,), and their */
    struct selector *selectors;
    const struct selector *chosen[COLUMNS_MAX]; /* the same */
    double sums[COLUMNS_MAX];
    float x[COLUMNS_MAX];
    size_t count;

    CURL *curl;
    char *name; /* the URL without user and password */
    struct retry retry;
    char *answer; /* (capacity,) terminated */
    size_t size, capacity;
    char reason[CURL_ERROR_SIZE];
};

static struct source *create(void) {
    struct prometheus *prometheus = calloc(1, sizeof *prometheus);
    if (!prometheus)
        return NULL;
    prometheus->timeout = TIMEOUT_DEFAULT;
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
    {"token-file", 0, "FILE", "the file with the bearer token that the server wants",
     OPTION_FILE(struct prometheus, token_file)},
    {"timeout", 0, "SECONDS", "wait so long for an answer (default 10)",
     OPTION_POSITIVE(struct prometheus, timeout, OPTION_SECONDS_MAX)},
    OPTIONS_END,
};

/* --- the server --------------------------------------------------------------------------------
 */

static size_t take_bytes(char *bytes, size_t size, size_t count, void *context) {
    struct prometheus *p = context;
    size_t more = size * count, needed = p->size + more + 1;
    if (needed > ANSWER_MAX)
        return 0;
    if (needed > p->capacity) {
        char *grown = realloc(p->answer, 2 * needed);
        if (!grown)
            return 0;
        p->answer = grown;
        p->capacity = 2 * needed;
    }
    memcpy(p->answer + p->size, bytes, more);
    p->size += more;
    p->answer[p->size] = '\0';
    return more;
}

/* Not 0: give up. */
static int look_after(void *context, curl_off_t down, curl_off_t downloaded, curl_off_t up,
                      curl_off_t uploaded) {
    struct error ignored;
    (void)context, (void)down, (void)downloaded, (void)up, (void)uploaded;
    return feed_tick(&ignored) < 0;
}

static int set_token(struct prometheus *p, struct error *error) {
    char token[TOKEN_SIZE];
    FILE *file = fopen(p->token_file, "r");
    char *line = file ? fgets(token, sizeof token, file) : NULL;
    if (file)
        fclose(file);
    if (!line)
        return error_set(error, EX_NOINPUT, "--token-file %s: cannot be read, or is empty",
                         p->token_file);
    token[strcspn(token, "\r\n")] = '\0';
    curl_easy_setopt(p->curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    return curl_easy_setopt(p->curl, CURLOPT_XOAUTH2_BEARER, token) == CURLE_OK
               ? 0
               : error_no_memory(error);
}

/* The URL, with what it lacks, and its name. */
static int set_url(struct prometheus *p, const char *text, struct error *error) {
    char *path = NULL, *whole = NULL, *name = NULL;
    CURLU *url = curl_url();
    int status = -1;
    if (!url || curl_url_set(url, CURLUPART_URL, text, CURLU_GUESS_SCHEME) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_PATH, &path, 0) != CURLUE_OK) {
        error_set(error, EX_USAGE, "found '%s', expected a URL: http://127.0.0.1:9100/metrics",
                  text);
        goto end;
    }
    if (strcmp(path, "/") == 0)
        curl_url_set(url, CURLUPART_PATH, "/metrics", 0);
    curl_url_get(url, CURLUPART_URL, &whole, 0);
    curl_url_set(url, CURLUPART_USER, NULL, 0);
    curl_url_set(url, CURLUPART_PASSWORD, NULL, 0);
    curl_url_get(url, CURLUPART_URL, &name, 0);
    p->name = name ? strdup(name) : NULL;
    if (p->name && whole && curl_easy_setopt(p->curl, CURLOPT_URL, whole) == CURLE_OK)
        status = 0;
    else
        error_no_memory(error);
    p->retry.server = p->name;
end:
    curl_free(path);
    curl_free(whole);
    curl_free(name);
    curl_url_cleanup(url);
    return status;
}

static int open_prometheus(struct source *source, char **operands, struct error *error) {
    struct prometheus *p = (struct prometheus *)source;
    if (p->count == 0)
        return error_set(error, EX_USAGE, "name the series that are x: --series or --rate-of");
    p->curl = curl_easy_init();
    if (!p->curl || take_bytes("", 1, 0, p) != 0)
        return error_no_memory(error);
    for (size_t k = 0; k < p->count; k++)
        p->chosen[k] = &p->selectors[k];
    curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(p->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(p->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(p->curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_easy_setopt(p->curl, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    curl_easy_setopt(p->curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "runnel-feed/" PACKAGE_VERSION);
    curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
    signal(SIGPIPE, SIG_IGN); /* which then falls to us: TLS writes also where a server has gone */
    curl_easy_setopt(p->curl, CURLOPT_TIMEOUT_MS, (long)(p->timeout * 1e3) + 1);
    curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->reason);
    curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(p->curl, CURLOPT_XFERINFOFUNCTION, look_after);
    curl_easy_setopt(p->curl, CURLOPT_NOPROGRESS, 0L);
    source->x = (struct shape){VALUE_REAL, p->count};
    source->label = "prometheus";
    if (set_url(p, operands[0], error) < 0)
        return -1;
    return p->token_file ? set_token(p, error) : 0;
}

/* Ask once. 1: there is an answer. 0: there is none, and why. -1: there will be none. */
static int ask(struct prometheus *p, char why[WHY_SIZE], struct error *error) {
    long status = 0;
    p->size = 0;
    p->answer[0] = p->reason[0] = '\0';
    CURLcode result = curl_easy_perform(p->curl);
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    if (feed_tick(error) < 0)
        return -1;
    if (result == CURLE_OK && status == STATUS_GOOD)
        return 1;
    if (result == CURLE_OK && (status == STATUS_UNAUTHORIZED || status == STATUS_FORBIDDEN))
        return error_set(error, EX_NOPERM,
                         "%s: the server refuses user and password, or the token (it answered "
                         "%ld); give http://USER:PASSWORD@HOST, ~/.netrc or --token-file",
                         p->name, status);
    if (result == CURLE_OK)
        snprintf(why, WHY_SIZE, "the server answered %ld", status);
    else if (result == CURLE_WRITE_ERROR)
        snprintf(why, WHY_SIZE, "the answer is longer than %d MiB", ANSWER_MAX >> 20);
    else
        snprintf(why, WHY_SIZE, "%s", *p->reason ? p->reason : curl_easy_strerror(result));
    return 0;
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

static void take_numbers(struct prometheus *p, double time) {
    metrics_sum(p->answer, p->chosen, p->sums, p->count);
    for (size_t k = 0; k < p->count; k++) {
        struct column *column = &p->columns[k];
        double value = p->sums[k];
        if (isnan(value) && !column->missing_said)
            feed_say("%s: there is no number of %s; it is missing (NaN)", p->name,
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
    char why[WHY_SIZE];
    int status;
    while ((status = ask(p, why, error)) == 0)
        if (retry_wait(&p->retry, why, error) < 0)
            return -1;
    if (status < 0)
        return -1;
    retry_back(&p->retry);
    take_numbers(p, clock_seconds());
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
    curl_easy_cleanup(p->curl);
    free(p->selectors);
    free(p->name);
    free(p->answer);
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
