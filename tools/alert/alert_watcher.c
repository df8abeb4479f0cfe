#include "alert_watcher.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/quantile.h"
#include "common/text.h"
#include "tools/shared/watch_anomaly.h"

/* ---- Book ---- */

#define FAR_AWAY 3600.0

const char *const alert_names[ALERT_KINDS] = {
    "silence", "restart", "non-finite", "rising",      "page-hinkley",
    "adwin",   "dead",    "saturated",  "queue",       "rejected",
    "journal", "disk",    "gap",        "input_scale", "worse_than_baseline",
    "anomaly", "idle",    "dormant",    "stale",
};

const char *const alert_states[ALERT_STATES] = {"began", "still", "over", "passed"};

enum alert_kind alert_find(const char *name, size_t size) {
    int kind = 0;
    while (kind < ALERT_KINDS &&
           (strlen(alert_names[kind]) != size || memcmp(alert_names[kind], name, size) != 0))
        kind++;
    return (enum alert_kind)kind;
}

void book_open(struct book *book, const bool watched[ALERT_KINDS], double interval, double again,
               void (*report)(void *context, struct alert *alert), void *context) {
    memset(book, 0, sizeof *book);
    book->data_time = NAN;
    book->interval = interval;
    book->again = again;
    book->report = report;
    book->context = context;
    book->count = ALERT_KINDS;
    for (int kind = 0; kind < ALERT_KINDS; kind++) {
        book->watched[kind] = watched[kind];
        book->conditions[kind].last_report = (struct moment){-INFINITY, NAN};
    }
}

/* The data time of others does not apply to a stream. */
static double data_time(const struct book *book, const struct condition *c) {
    return c < book->conditions + ALERT_KINDS ? book->data_time : c->data_time;
}

/* Seconds on the clock that has advanced further. */
static double elapsed(const struct book *book, const struct condition *c, struct moment since,
                      double now) {
    return fmax(now - since.now, data_time(book, c) - since.data);
}

static void report(struct book *book, struct condition *c, enum alert_state state, double now) {
    c->alert.state = state;
    c->alert.now = now;
    c->alert.data_time = data_time(book, c);
    book->report(book->context, &c->alert);
}

static bool is_held_back(const struct condition *c) {
    return c->alert.times > 0;
}

static void report_beginning(struct book *book, struct condition *c, double now) {
    c->reported = c->holds;
    c->last_report = (struct moment){now, data_time(book, c)};
    c->reminded = now;
    report(book, c, c->holds ? ALERT_BEGAN : ALERT_PASSED, now);
    c->alert.times = 0;
}

static bool may_report(const struct book *book, const struct condition *c, double now) {
    return elapsed(book, c, c->last_report, now) >= book->interval;
}

static void begin(struct book *book, struct condition *c, const struct alert *alert, double calm) {
    c->calm = calm;
    c->renewed = (struct moment){alert->now, data_time(book, c)};
    if (c->holds || !book->watched[alert->kind])
        return;
    uint64_t times = c->alert.times + 1;
    c->holds = true;
    c->alert = *alert;
    c->alert.times = times;
    if (book->stream)
        text_copy(c->alert.stream, sizeof c->alert.stream, book->stream);
    c->alert.data_since = data_time(book, c);
    if (may_report(book, c, alert->now))
        report_beginning(book, c, alert->now);
}

static void book_begin(struct book *book, enum alert_kind kind, double now, double value,
                       double limit, const char *format, ...) {
    struct alert alert = {.kind = kind, .value = value, .limit = limit, .now = now, .since = now};
    TEXT_FORMAT(alert.text, sizeof alert.text, format);
    begin(book, &book->conditions[kind], &alert, INFINITY);
}

/* An event: the condition ends when the event has not recurred for `calm` seconds. With 0 it is an
   instant without an end. */
static void book_happened(struct book *book, enum alert_kind kind, double now, double calm,
                          double value, const char *format, ...) {
    struct alert alert = {.kind = kind, .value = value, .limit = NAN, .now = now, .since = now};
    TEXT_FORMAT(alert.text, sizeof alert.text, format);
    begin(book, &book->conditions[kind], &alert, calm);
    if (calm <= 0)
        book->conditions[kind].holds = book->conditions[kind].reported = false;
}

/* The open incident with this number; with NAN that of this stream, alone or in a group, or (NULL)
   the first; NULL if it does not exist. */
static struct condition *find_incident(struct book *book, double number, const char *stream) {
    struct condition *c = book->conditions + ALERT_KINDS, *end = book->conditions + book->count;
    for (; c < end; c++)
        if (c->holds &&
            (isnan(number) ? !stream || strncmp(c->alert.stream, stream, c->alert.prefix) == 0
                           : c->alert.incident == number))
            return c;
    return NULL;
}

/* Drops the stream that was reported the longest ago, one without an incident if there is one. */
static struct condition *find_stream(struct book *book, const char *stream, double now) {
    struct condition *c = book->conditions + ALERT_KINDS, *end = book->conditions + book->count;
    struct condition *oldest = c;
    for (; c < end; c++) {
        if (strcmp(c->alert.stream, stream) == 0)
            return c;
        if (c->holds != oldest->holds ? oldest->holds
                                      : c->last_report.now < oldest->last_report.now)
            oldest = c;
    }
    if (book->count < sizeof book->conditions / sizeof *book->conditions)
        oldest = &book->conditions[book->count++];
    else if (is_held_back(oldest))
        report_beginning(book, oldest, now);
    *oldest = (struct condition){.last_report = {-INFINITY, NAN}};
    return oldest;
}

/* A problem of a stream, which has its own minimum time between reports: an incident, or an instant
   without an end. All must have the same kind. Reads kind, texts, incident, value, limit, `now` and
   `data_time` of the event. */
static void book_event(struct book *book, const struct alert *event) {
    struct alert alert = *event;
    alert.since = alert.now;
    if (!book->watched[alert.kind])
        return;
    struct condition *c = find_stream(book, alert.stream, alert.now);
    bool instant = isnan(alert.incident);
    if (instant && c->holds)
        c = &book->conditions[alert.kind];
    c->holds = c->holds && c->alert.incident == alert.incident; /* the end of another was lost */
    c->data_time = alert.data_time;
    begin(book, c, &alert, INFINITY);
    if (instant)
        c->holds = c->reported = false;
}

static void end_condition(struct book *book, struct condition *c, double now, const char *text) {
    bool reported = c->reported;
    c->holds = c->reported = false;
    if (!reported)
        return;
    text_copy(c->alert.text, sizeof c->alert.text, text);
    report(book, c, ALERT_OVER, now);
}

/* Ends a condition with a text of its own. Does nothing if the condition does not hold. */
static void book_over(struct book *book, enum alert_kind kind, double now, const char *format,
                      ...) {
    char text[ALERT_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    if (book->conditions[kind].holds)
        end_condition(book, &book->conditions[kind], now, text);
}

void book_tick(struct book *book, double now) {
    book->ticked = now;
    for (struct condition *c = book->conditions; c < book->conditions + book->count; c++) {
        char calm[FORMAT_SIZE], text[ALERT_TEXT_SIZE];
        const struct moment since = {c->alert.since, c->alert.data_since};
        if (c->holds && elapsed(book, c, c->renewed, now) >= c->calm) {
            snprintf(text, sizeof text, "not repeated; over after %s",
                     format_duration(calm, elapsed(book, c, since, now)));
            end_condition(book, c, now, text);
        }
        if (is_held_back(c) && may_report(book, c, now))
            report_beginning(book, c, now);
        if (c->holds && c->reported && book->again > 0 && now - c->reminded >= book->again) {
            c->reminded = now;
            report(book, c, ALERT_STILL, now);
        }
    }
}

void book_end(struct book *book) {
    for (struct condition *c = book->conditions; c < book->conditions + book->count; c++)
        if (is_held_back(c))
            report_beginning(book, c, book->ticked);
}

double book_next(const struct book *book, double now) {
    double next = FAR_AWAY;
    for (size_t i = 0; i < book->count; i++) {
        const struct condition *c = &book->conditions[i];
        if (is_held_back(c))
            next = fmin(next, c->last_report.now + book->interval - now);
        if (!c->holds)
            continue;
        next = fmin(next, c->renewed.now + c->calm - now);
        if (c->reported && book->again > 0)
            next = fmin(next, c->reminded + book->again - now);
    }
    return fmax(next, 0);
}

/* ---- Drift ---- */

#define RISEN_LEAST 0.1 /* smallest rise reported, of a loss or in nats */
#define SHARE 0.01      /* of the initial loss */
#define LOSS_MOST 1e100 /* keeps sums of squares finite */

static void restart(struct drift *d) {
    page_hinkley_open(&d->page_hinkley, d->limits.page_hinkley_delta,
                      d->limits.page_hinkley_lambda);
    adwin_open(&d->adwin, d->limits.adwin_delta);
}

void drift_open(struct drift *d, const struct drift_limits *limits) {
    *d = (struct drift){.limits = *limits};
    restart(d);
}

/* The loss is a log density. If that was not known before, forgets all values so far. */
static void drift_is_density(struct drift *d) {
    if (d->density)
        return;
    struct drift_limits limits = d->limits;
    drift_open(d, &limits);
    d->density = true;
}

static double loss_of(const struct drift *d, double value) {
    return d->density ? value : exp(value);
}

static struct change in_losses(const struct drift *d, struct change change) {
    if (change.kind != CHANGE_NONE) {
        change.before = loss_of(d, change.before);
        change.after = loss_of(d, change.after);
    }
    return change;
}

static void add_to_trend(struct drift *d, double value) {
    d->block += value;
    if (++d->block_count < DRIFT_BLOCK)
        return;
    trend_add(&d->trend, d->block / DRIFT_BLOCK);
    d->block = 0;
    d->block_count = 0;
}

static double median(const double values[DRIFT_MEDIAN]) {
    double sorted[DRIFT_MEDIAN];
    memcpy(sorted, values, sizeof sorted);
    quantile_sort(sorted, DRIFT_MEDIAN);
    return quantile(sorted, DRIFT_MEDIAN, 0.5);
}

/* A higher floor makes earlier values incomparable, so the detectors start again. A detected rise
   must end first. */
static void add_beginning(struct drift *d, double loss) {
    d->recent[d->count++ % DRIFT_MEDIAN] = loss;
    if (d->count % DRIFT_FORGOTTEN == 0)
        d->beginning /= 2;
    if (d->count < DRIFT_MEDIAN || d->count > DRIFT_BEGINNING)
        return;
    double usual = median(d->recent);
    if (usual > d->beginning && d->page_hinkley.away == 0 && d->adwin.since == 0) {
        d->beginning = usual;
        restart(d);
    }
}

static double logarithm(struct drift *d, double loss) {
    if (!d->limits.fixed)
        add_beginning(d, loss);
    return log(fmax(loss, fmax(d->limits.floor, SHARE * d->beginning)));
}

/* Adds the mean loss of a message, which must be finite. A negative mean marks the loss as a log
   density. The changes contain losses in their own unit. */
static void drift_add(struct drift *d, double mean, struct change *page_hinkley,
                      struct change *adwin) {
    if (mean < 0)
        drift_is_density(d);
    mean = fmax(-LOSS_MOST, fmin(LOSS_MOST, mean));
    double value = d->density ? mean : logarithm(d, mean);
    add_to_trend(d, value);
    *page_hinkley = in_losses(d, page_hinkley_add(&d->page_hinkley, value));
    *adwin = in_losses(d, adwin_add(&d->adwin, value));
}

static struct rising drift_rising(const struct drift *d) {
    struct rising rising = {0};
    if (d->trend.count < TREND_VALUES)
        return rising;
    double error, slope = trend_slope(&d->trend, &error), mean = 0;
    for (size_t i = 0; i < d->trend.count; i++)
        mean += d->trend.values[i] / (double)d->trend.count;
    double risen = slope * (double)(d->trend.count - 1);
    rising.known = true;
    rising.rises = slope > DRIFT_RISING * error && risen >= RISEN_LEAST;
    rising.ended = slope <= 0;
    rising.from = loss_of(d, mean - risen / 2);
    rising.to = loss_of(d, mean + risen / 2);
    return rising;
}

/* ---- Layers ---- */

#define NEWEST_WEIGHT 0.1 /* weight in the moving average */
#define OVER_SHARE 0.8    /* of the limit */
#define BOUND 1.0001      /* of tanh, with room for rounding */

enum { KIND_SIZE = 96 /* of a layer's kind and member in words */ };

/* Cells with gates have two shares; the greater one counts. */
static double share_saturated(const struct layer *layer, const json_t *body) {
    double hidden = layer->unbounded ? NAN : layer_number(body, LAYER_hidden_saturated);
    return fmax(fmax(hidden, layer_number(body, LAYER_cell_saturated)), 0);
}

static void add_shares(struct layer *layer, const json_t *body) {
    double minimum = layer_number(body, LAYER_hidden_minimum);
    double maximum = layer_number(body, LAYER_hidden_maximum);
    layer->unbounded |= minimum < -BOUND || maximum > BOUND;
    const double shares[LAYERS_SHARES] = {share_saturated(layer, body),
                                          fmax(layer_number(body, LAYER_units_dormant), 0)};
    layer->messages += layer->messages < LAYERS_SHARE_LEAST;
    double weight = fmax(NEWEST_WEIGHT, 1.0 / layer->messages);
    for (int n = 0; n < LAYERS_SHARES; n++)
        layer->shares[n] += weight * (shares[n] - layer->shares[n]);
}

/* The number of consecutive messages, up to LAYERS_DEAD_LEAST. */
static int counted(int messages, bool again) {
    return !again ? 0 : messages < LAYERS_DEAD_LEAST ? messages + 1 : messages;
}

static void add_life(struct layer *layer, const json_t *body) {
    double size = layer_number(body, LAYER_size), mean = layer_number(body, LAYER_hidden_mean);
    double std = layer_number(body, LAYER_hidden_std), norm = layer_number(body, LAYER_hidden_norm);
    bool same = mean == layer->mean && std == layer->std && norm == layer->norm;
    layer->alike = counted(layer->alike, size > 1 && std < LAYERS_ALIKE);
    layer->same = counted(layer->same, layer->messages > 1 && same);
    layer->mean = mean;
    layer->std = std;
    layer->norm = norm;
}

/* For example "gru" or "gru of level". */
static const char *kind_of(const json_t *body, char kind[KIND_SIZE]) {
    const char *text = member_string(body, "kind"), *member = state_member(body);
    char clean[KIND_SIZE / 4], name[KIND_SIZE / 2] = "";
    text_copy(clean, sizeof clean, text ? text : "unknown");
    if (member)
        text_copy(name, sizeof name, member);
    snprintf(kind, KIND_SIZE, "%s%s%s", clean, *name ? " of " : "", name);
    return kind;
}

static void report_share(const struct layers *layers, const json_t *list, int n, double limit,
                         struct book *book, double now) {
    static const enum alert_kind kinds[LAYERS_SHARES] = {ALERT_SATURATED, ALERT_DORMANT};
    size_t count = json_array_size(list), worst = 0;
    for (size_t i = 1; i < count && i < LAYERS_MAX; i++)
        if (layers->layers[i].shares[n] > layers->layers[worst].shares[n])
            worst = i;
    const struct layer *layer = &layers->layers[worst];
    double share = layer->shares[n];
    char kind[KIND_SIZE];
    if (layer->messages >= LAYERS_SHARE_LEAST && share >= limit)
        book_begin(book, kinds[n], now, share, limit,
                   "%.0f%% of the units of layer %zu (%s) are %s", 100 * share, worst,
                   kind_of(json_array_get(list, worst), kind), alert_names[kinds[n]]);
    else if (share < OVER_SHARE * limit)
        book_over(book, kinds[n], now, "no layer has more than %.0f%% %s units", 100 * share,
                  alert_names[kinds[n]]);
}

static void report_life(const struct layers *layers, const json_t *list, struct book *book,
                        double now) {
    bool dead = false;
    for (size_t i = 0; i < json_array_size(list) && i < LAYERS_MAX; i++) {
        const struct layer *layer = &layers->layers[i];
        char kind[KIND_SIZE];
        kind_of(json_array_get(list, i), kind);
        dead |= layer->alike > 0 || layer->same > 0;
        if (layer->alike >= LAYERS_DEAD_LEAST)
            book_begin(
                book, ALERT_DEAD, now, layer->std, LAYERS_ALIKE,
                "all units of layer %zu (%s) have the same value: the standard deviation is %.2g",
                i, kind, layer->std);
        else if (layer->same >= LAYERS_DEAD_LEAST)
            book_begin(book, ALERT_DEAD, now, layer->same, LAYERS_DEAD_LEAST,
                       "no unit of layer %zu (%s) has changed for %d messages", i, kind,
                       layer->same);
    }
    if (!dead)
        book_over(book, ALERT_DEAD, now, "the units of every layer change again");
}

/* Updates the book from a message. A layer is saturated or dormant when the moving average of that
   share reaches its limit, until it falls below 4/5 of that. It is dead when for LAYERS_DEAD_LEAST
   messages all its units are alike or none changes. */
static void layers_add(struct layers *layers, const json_t *body,
                       const double limits[LAYERS_SHARES], struct book *book, double now) {
    json_t *list = state_layers(body);
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < LAYERS_MAX; i++) {
        add_shares(&layers->layers[i], json_array_get(list, i));
        add_life(&layers->layers[i], json_array_get(list, i));
    }
    if (count > 0) {
        for (int n = 0; n < LAYERS_SHARES; n++)
            report_share(layers, list, n, limits[n], book, now);
        report_life(layers, list, book, now);
    }
    json_decref(list);
}

#define HALF 0.5          /* of a limit: the condition ends below it */
#define DISK_OVER 1.1     /* of the limit: the condition ends above it */
#define QUEUED_WEIGHT 0.1 /* of the newest number in the moving average */
#define QUEUED_HELD 10.0  /* minimum seconds over the limit */
#define EVERY_MOST 20.0   /* examples a message: more delay the detection of a drift */

enum { REASONS_SIZE = 160, COLUMNS_MOST = 3 };

static void forget(struct watcher *w) {
    drift_open(&w->drift, &w->limits->drift);
    memset(&w->layers, 0, sizeof w->layers);
    w->examples = w->learned = w->skipped = w->rejected = w->missing = w->queued = NAN;
    w->queued_since = INFINITY;
    w->loss_known = w->gradient_known = w->ending = false;
}

void watcher_open(struct watcher *w, const char *endpoint, const struct limits *limits) {
    w->limits = limits;
    text_copy(w->endpoint, sizeof w->endpoint, endpoint);
    strcpy(w->name, "");
    strcpy(w->run, "");
    w->every_reported = false;
    forget(w);
}

/* The end of a run ends all conditions of that run. */
static void end_all(struct watcher *w, double now, const char *why) {
    for (int kind = 0; kind < ALERT_KINDS; kind++)
        if (kind != ALERT_SILENCE && kind != ALERT_DISK)
            book_over(&w->book, (enum alert_kind)kind, now, "%s", why);
}

/* A new run is a restart; fewer examples in the same run are a reset. Events do not count: that of
   a checkpoint has the number of examples in the checkpoint. */
static void handle_run(struct watcher *w, const struct message *message, double now) {
    const char *text = member_string(message->body, "run");
    char run[ALERT_RUN_SIZE];
    double examples = w->examples;
    if (!text)
        return;
    text_copy(run, sizeof run, text);
    bool another = *w->run && strcmp(run, w->run) != 0;
    member_number(message->body, "examples", &examples);
    if (message->topic == TOPIC_EVENT && !another)
        examples = fmax(examples, w->examples);
    if (another || examples < w->examples) {
        bool ended = w->ending;
        end_all(w, now, another ? "the daemon was restarted" : "learning was reset");
        forget(w);
        w->book.data_time = NAN;
        w->examples = examples;
        if (another)
            book_happened(&w->book, ALERT_RESTART, now, 0, NAN, "the daemon was restarted%s",
                          ended ? "" : "; it had ended unexpectedly");
    }
    strcpy(w->run, run);
    w->examples = examples;
}

static void report_change(struct watcher *w, enum alert_kind kind, const char *test,
                          struct change change, double now) {
    char before[FORMAT_SIZE], after[FORMAT_SIZE];
    format_number(before, change.before);
    format_number(after, change.after);
    if (change.kind == CHANGE_ROSE)
        book_begin(&w->book, kind, now, change.after, change.before,
                   "the loss has risen from %s to %s (%s)", before, after, test);
    else if (change.kind == CHANGE_BACK)
        book_over(&w->book, kind, now, "the loss is back at %s; it was %s before the rise", after,
                  before);
    else if (change.kind == CHANGE_STAYED)
        book_over(&w->book, kind, now, "the loss has stayed at %s; it was %s before the rise",
                  after, before);
}

static void handle_loss(struct watcher *w, const json_t *body, double now) {
    double mean;
    if (!member_number(body, "mean", &mean))
        return;
    struct change page_hinkley, adwin;
    drift_add(&w->drift, mean, &page_hinkley, &adwin);
    report_change(w, ALERT_PAGE_HINKLEY, "Page-Hinkley", page_hinkley, now);
    report_change(w, ALERT_ADWIN, "ADWIN", adwin, now);
    struct rising rising = drift_rising(&w->drift);
    char from[FORMAT_SIZE], to[FORMAT_SIZE];
    if (rising.rises)
        book_begin(&w->book, ALERT_RISING, now, rising.to, rising.from,
                   "the loss continues to rise: from %s to %s over %d messages",
                   format_number(from, rising.from), format_number(to, rising.to),
                   TREND_VALUES * DRIFT_BLOCK);
    else if (rising.known && rising.ended)
        book_over(&w->book, ALERT_RISING, now, "the loss no longer rises: it is %s",
                  format_number(to, rising.to));
}

/* The recent skill is null until enough examples are scored. */
static void check_skill(struct watcher *w, const json_t *body, double now) {
    double skill = loss_number(body, FIELD_skill_recent);
    char number[FORMAT_SIZE];
    if (isnan(skill))
        return;
    format_skill(number, skill);
    if (skill < 0)
        book_begin(&w->book, ALERT_WORSE_THAN_BASELINE, now, skill, 0,
                   "the baseline is better than the forecast: skill %s over the last tenth of the "
                   "examples",
                   number);
    else
        book_over(&w->book, ALERT_WORSE_THAN_BASELINE, now,
                  "the forecast is no longer worse than the baseline: skill %s", number);
}

static void check_finite(struct watcher *w, const json_t *body, double now) {
    double loss, gradient, skipped;
    bool has_loss = member_number(body, "loss", &loss);
    bool has_gradient = member_number(body, "gradient_norm", &gradient);
    if (member_number(body, "skipped", &skipped)) {
        if (skipped > w->skipped)
            book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, skipped - w->skipped,
                          "%.0f update%s skipped: the loss or gradient was not finite",
                          skipped - w->skipped, skipped - w->skipped == 1 ? " was" : "s were");
        w->skipped = skipped;
    }
    if ((w->loss_known && !has_loss) || (w->gradient_known && !has_gradient))
        book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, NAN, "the %s is not finite",
                      has_loss ? "gradient" : "loss");
    w->loss_known |= has_loss;
    w->gradient_known |= has_gradient;
}

static const char *reasons(const json_t *body, char text[REASONS_SIZE]) {
    json_t *by = json_object_get(body, "rejected_by"), *count;
    const char *reason;
    char clean[FORMAT_SIZE];
    size_t used = 0;
    *text = '\0';
    json_object_foreach(by, reason, count) {
        int length = snprintf(text + used, REASONS_SIZE - used, "%s%s %.0f", used ? ", " : ": ",
                              text_copy(clean, sizeof clean, reason), json_number_value(count));
        used += (size_t)length;
        if (used >= REASONS_SIZE)
            break;
    }
    return text;
}

static void check_rejected(struct watcher *w, const json_t *body, double now) {
    double rejected;
    char by[REASONS_SIZE];
    if (!member_number(body, "rejected", &rejected))
        return;
    if (rejected > w->rejected)
        book_happened(&w->book, ALERT_REJECTED, now, w->limits->calm, rejected - w->rejected,
                      "%.0f message%s rejected; in this run %.0f%s", rejected - w->rejected,
                      rejected - w->rejected == 1 ? " was" : "s were", rejected, reasons(body, by));
    w->rejected = rejected;
}

static void check_queue(struct watcher *w, const json_t *body, double now) {
    double queued;
    if (!member_number(body, "queued", &queued))
        return;
    w->queued = isnan(w->queued) ? queued : w->queued + QUEUED_WEIGHT * (queued - w->queued);
    double limit = w->limits->queue;
    if (w->queued < limit)
        w->queued_since = INFINITY;
    else if (isinf(w->queued_since))
        w->queued_since = now;
    if (now - w->queued_since >= QUEUED_HELD)
        book_begin(&w->book, ALERT_QUEUE, now, w->queued, limit,
                   "%.0f examples queued: they arrive faster than the daemon learns", w->queued);
    else if (w->queued < HALF * limit)
        book_over(&w->book, ALERT_QUEUE, now, "the daemon keeps up again: %.0f examples queued",
                  w->queued);
}

static void check_journal(struct watcher *w, const json_t *journal, double now) {
    double waiting, bytes, missing;
    char text[FORMAT_SIZE];
    if (member_number(journal, "waiting", &waiting)) {
        if (waiting > w->limits->waiting)
            book_begin(&w->book, ALERT_JOURNAL, now, waiting, w->limits->waiting,
                       "the journal's disk is slow: the oldest example has waited for %s",
                       format_duration(text, waiting));
        else if (waiting < HALF * w->limits->waiting)
            book_over(&w->book, ALERT_JOURNAL, now, "the journal is on disk again");
    }
    if (member_number(journal, "free_bytes", &bytes)) {
        format_bytes(text, bytes);
        if (bytes < w->limits->disk)
            book_begin(&w->book, ALERT_DISK, now, bytes, w->limits->disk, "%s free for the journal",
                       text);
        else if (bytes > DISK_OVER * w->limits->disk)
            book_over(&w->book, ALERT_DISK, now, "%s free for the journal", text);
    }
    if (member_number(journal, "missing", &missing)) {
        if (missing > w->missing)
            book_happened(&w->book, ALERT_GAP, now, w->limits->calm, missing - w->missing,
                          "%.0f numbered examples are missing; in this run %.0f",
                          missing - w->missing, missing);
        w->missing = missing;
    }
}

static void handle_status(struct watcher *w, const json_t *body, double now) {
    const char *name = member_string(body, "name"), *state = member_string(body, "state");
    const char *model = member_string(body, "model");
    if (name)
        text_copy(w->name, sizeof w->name, name);
    w->ending = state && strcmp(state, "draining") == 0;
    if (model && (strstr(model, "> gaussian ") || strstr(model, "> mixture ")))
        drift_is_density(&w->drift);
    check_journal(w, json_object_get(body, "journal"), now);
}

/* When a feeder dies, the daemon still reports its state as learning. */
static void check_idle(struct watcher *w, double now) {
    char quiet[FORMAT_SIZE];
    double limit = w->limits->idle;
    if (isnan(w->learned) || w->examples > w->learned) {
        w->learned = w->examples;
        w->learned_at = now;
        book_over(&w->book, ALERT_IDLE, now, "examples arrive again");
    } else if (limit > 0 && now - w->learned_at >= limit) {
        book_begin(&w->book, ALERT_IDLE, now, now - w->learned_at, limit,
                   "no example was learned for %s", format_duration(quiet, now - w->learned_at));
    }
}

static double number(const json_t *object, const char *key) {
    double value = NAN;
    member_number(object, key, &value);
    return value;
}

/* An incident reports the alarms of its stream, except that the stream is silent. */
static void handle_anomaly(struct watcher *w, const json_t *body, const struct anomaly *anomaly,
                           const char *text, double now) {
    struct alert event = {.kind = ALERT_ANOMALY,
                          .value = anomaly->score,
                          .limit = anomaly->threshold,
                          .now = now,
                          .data_time = anomaly->data_time,
                          .incident = NAN};
    bool alone = strcmp(anomaly->reason, "silent") == 0 && !json_array_size(anomaly->columns);
    text_copy(event.text, sizeof event.text, text);
    text_copy(event.stream, sizeof event.stream, anomaly->stream);
    text_copy(event.note, sizeof event.note, anomaly->note);
    if (!json_is_true(json_object_get(body, "silenced")) &&
        (alone || !find_incident(&w->book, NAN, event.stream)))
        book_event(&w->book, &event);
}

/* The event's text with shares of columns, peak and duration. */
static void explain(char text[ALERT_TEXT_SIZE], const char *event, const json_t *body) {
    const json_t *begin = json_object_get(body, "begin"), *end = json_object_get(body, "end");
    const json_t *columns = json_object_get(body, "columns");
    double peak = number(json_object_get(body, "peak"), "score");
    double seconds = number(end, "data_time") - number(begin, "data_time");
    char all[2 * ALERT_TEXT_SIZE], part[FORMAT_SIZE];
    snprintf(all, sizeof all, "%s", event);
    for (size_t i = 0; i < json_array_size(columns) && i < COLUMNS_MOST; i++) {
        const json_t *column = json_array_get(columns, i);
        const char *name = member_string(column, "name");
        snprintf(part, sizeof part, "x[%.0f]", number(column, "column"));
        text_append(all, sizeof all, "%s %.64s %.2g", i ? "," : ";", name ? name : part,
                    number(column, "share"));
    }
    if (!isnan(peak))
        text_append(all, sizeof all, "; peak %.3g", peak);
    if (!isnan(seconds))
        text_append(all, sizeof all, "; it lasted %s", format_duration(part, seconds));
    else if (json_is_object(end))
        text_append(all, sizeof all, "; it lasted %.0f examples",
                    number(end, "example") - number(begin, "example"));
    text_copy(text, ALERT_TEXT_SIZE, all);
}

static void handle_incident(struct watcher *w, const json_t *body, const char *text, double now) {
    const char *stream = member_string(body, "stream"), *group = member_string(body, "group");
    struct alert event = {.kind = ALERT_ANOMALY,
                          .value = number(json_object_get(body, "peak"), "score"),
                          .limit = NAN,
                          .now = now,
                          .data_time = number(json_object_get(body, "begin"), "data_time"),
                          .incident = number(body, "incident"),
                          .prefix = group ? strlen(group) : SIZE_MAX};
    const json_t *end = json_object_get(body, "end");
    struct condition *c = find_incident(&w->book, event.incident, "");
    if (isnan(event.incident))
        return;
    explain(event.text, text, body);
    text_copy(event.stream, sizeof event.stream, stream ? stream : "");
    if (json_is_object(end) && c) {
        c->alert.value = event.value;
        c->data_time = number(end, "data_time");
        end_condition(&w->book, c, now, event.text);
    } else if (!json_is_object(end) && !json_is_true(json_object_get(body, "silenced"))) {
        book_event(&w->book, &event);
    }
}

/* The daemon publishes no end of incidents that it has unlearned: of a stream, or (NULL) of all. */
static void end_incidents(struct book *book, const char *stream, const char *text, double now) {
    struct condition *c;
    while ((c = find_incident(book, NAN, stream)))
        end_condition(book, c, now, text);
}

static void handle_kind(struct watcher *w, const json_t *body, double now) {
    const char *kind = member_string(body, "kind"), *text = member_string(body, "text");
    char clean[ALERT_TEXT_SIZE];
    struct anomaly anomaly;
    if (!kind)
        return;
    text_copy(clean, sizeof clean, text ? text : kind);
    if (strcmp(kind, "stopping") == 0)
        w->ending = true;
    else if (strcmp(kind, "rejected") == 0)
        book_happened(&w->book, ALERT_REJECTED, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "skipped_update") == 0)
        book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "gap") == 0)
        book_happened(&w->book, ALERT_GAP, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "stale") == 0)
        book_happened(&w->book, ALERT_STALE, now, 0, NAN, "%s", clean);
    else if (strcmp(kind, "input_scale") == 0)
        book_happened(&w->book, ALERT_INPUT_SCALE, now, w->limits->calm, number(body, "count"),
                      "%s", clean);
    else if (anomaly_of(body, &anomaly))
        handle_anomaly(w, body, &anomaly, clean, now);
    else if (strcmp(kind, "incident") == 0)
        handle_incident(w, body, clean, now);
    else if (strcmp(kind, "abnormal") == 0)
        end_incidents(&w->book, member_string(body, "stream"), clean, now);
    else if (strcmp(kind, "reset") == 0 && !json_object_get(body, "member"))
        end_incidents(&w->book, NULL, clean, now);
    else if (strcmp(kind, "disk") == 0)
        book_begin(&w->book, ALERT_DISK, now, NAN, w->limits->disk, "%s", clean);
}

static void handle_event(struct watcher *w, const json_t *body, double now) {
    w->book.stream = member_string(body, "stream");
    handle_kind(w, body, now);
    w->book.stream = NULL;
}

void watcher_message(struct watcher *w, const struct message *message, double now) {
    const json_t *body = message->body;
    handle_run(w, message, now);
    member_number(body, "data_time", &w->book.data_time);
    book_tick(&w->book, now); /* ends conditions before this message can renew them */
    book_over(&w->book, ALERT_SILENCE, now, "messages arrive again");
    check_idle(w, now);
    /* Replayed messages were checked before the crash. */
    bool again = json_is_true(json_object_get(body, "replaying"));
    if (again && (message->topic == TOPIC_LOSS || message->topic == TOPIC_STATE))
        return;
    if (message->topic == TOPIC_LOSS) {
        check_finite(w, body, now);
        handle_loss(w, body, now);
        check_skill(w, body, now);
        check_queue(w, body, now);
        check_rejected(w, body, now);
        if (loss_number(body, FIELD_anomaly_open) == 0) /* an end may be lost */
            end_incidents(&w->book, NULL, "no incident is open that is not silenced", now);
    } else if (message->topic == TOPIC_STATE) {
        layers_add(&w->layers, body, w->limits->shares, &w->book, now);
    } else if (message->topic == TOPIC_STATUS) {
        handle_status(w, body, now);
        check_rejected(w, body, now);
    } else if (message->topic == TOPIC_EVENT) {
        handle_event(w, body, now);
    }
}

void watcher_quiet(struct watcher *w, double seconds, bool connected, double now) {
    char quiet[FORMAT_SIZE];
    if (w->limits->silence <= 0 || seconds < w->limits->silence)
        return;
    format_duration(quiet, seconds);
    if (w->ending)
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "no message for %s: the daemon was shut down", quiet);
    else if (*w->run)
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "no message for %s: the daemon %s", quiet,
                   connected ? "does not send" : "or its connection is down");
    else
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "no message for %s: no daemon has answered at this address", quiet);
}

double watcher_slow_statistics(struct watcher *w, const struct message *message) {
    double every;
    if (w->every_reported || message->topic != TOPIC_STATUS ||
        !member_number(message->body, "every", &every) || every <= EVERY_MOST)
        return 0;
    w->every_reported = true;
    return every;
}
