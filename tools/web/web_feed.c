#include "web_feed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/json_member.h"
#include "common/quantile.h"
#include "common/text.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_truth.h"

/* ---- Forecasts ---- */

enum {
    SERIES_BYTES = 256 << 10, /* maximum bytes of a stream, or FEWEST rows */
    FEWEST = 60,
    AHEAD_MAX = 1000000, /* limit, since messages are not trusted */
    USUAL = 31,          /* steps that determine the usual distance of a forecast */
};

/* The values of a column from its first one on. */
static size_t value_place(const struct forecast_series *series, size_t column) {
    return FORECAST_PLACES + column * (FORECAST_VALUES + series->level_count);
}

static size_t row_numbers(const struct forecast_series *series) {
    return value_place(series, series->columns);
}

static size_t series_bytes(const struct forecast_series *series) {
    return sizeof *series + strlen(series->stream) + 1 +
           (series->room + 1) * row_numbers(series) * sizeof *series->rows;
}

const double *forecast_row(const struct forecast_series *series, size_t i) {
    return series->rows + i * row_numbers(series);
}

/* The row of the forecast whose truth is not known. */
static double *open_row(const struct forecast_series *series) {
    return series->rows + series->room * row_numbers(series);
}

const double *forecast_values(const struct forecast_series *series, size_t i, size_t column) {
    return forecast_row(series, i) + value_place(series, column);
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

static void forecasts_clear(struct forecasts *forecasts) {
    while (forecasts->series)
        drop(forecasts, &forecasts->series);
    json_decref(forecasts->classes);
    *forecasts = (struct forecasts){0};
}

/* Drops the stream with the oldest step, if it is old enough. Returns whether it did. */
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

/* `like`: its horizon, columns and levels. */
static struct forecast_series *make_series(struct forecasts *forecasts, const char *stream,
                                           const struct forecast_series *like) {
    size_t row = row_numbers(like) * sizeof(double), room = SERIES_BYTES / row;
    struct forecast_series *series = calloc(1, sizeof *series);
    if (!series)
        return NULL;
    *series = *like;
    series->room = room < FEWEST ? FEWEST : room > FORECAST_STEPS ? FORECAST_STEPS : room;
    series->stream = strdup(stream);
    series->rows = malloc((series->room + 1) * row);
    series->following = forecasts->series;
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

static bool is_alike(const struct forecast_series *one, const struct forecast_series *other) {
    return one->columns == other->columns && one->level_count == other->level_count &&
           memcmp(one->levels, other->levels, sizeof one->levels) == 0;
}

/* The series for steps with these columns and levels; NULL without room. */
static struct forecast_series *open_series(struct forecasts *forecasts, const char *stream,
                                           const struct forecast_series *like) {
    double now = clock_seconds();
    struct forecast_series **at = &forecasts->series, *series;
    while (*at && ((*at)->ahead != like->ahead || strcmp((*at)->stream, stream) != 0))
        at = &(*at)->following;
    if (*at && !is_alike(*at, like))
        drop(forecasts, at); /* the daemon was restarted with another configuration */
    else if (*at) {
        (*at)->touched = now;
        return *at;
    }
    while (forecasts->bytes > FORECAST_BYTES - SERIES_BYTES)
        if (!make_room(forecasts, now))
            return NULL;
    series = make_series(forecasts, stream, like);
    if (series)
        series->touched = now;
    return series;
}

/* ---- Steps ---- */

/* The row at this position, new or existing. Labels may arrive in any order. */
static double *row_at(struct forecast_series *series, double position) {
    size_t numbers = row_numbers(series), row = numbers * sizeof *series->rows;
    size_t at = series->count;
    while (at > 0 && series->rows[(at - 1) * numbers] > position)
        at--;
    if (at > 0 && series->rows[(at - 1) * numbers] == position)
        return series->rows + (at - 1) * numbers;
    if (series->count == series->room) {
        if (at == 0)
            return NULL; /* older than all rows */
        memmove(series->rows, series->rows + numbers, (series->count - 1) * row);
        series->count--;
        at--;
    }
    memmove(series->rows + (at + 1) * numbers, series->rows + at * numbers,
            (series->count - at) * row);
    series->count++;
    return series->rows + at * numbers;
}

struct taking {
    struct forecasts *forecasts;
    struct forecast_series *series; /* of the current step */
    double *row;
};

/* Starts the row of a truth; NULL without a position or without room. */
static double *begin_step(struct taking *taking, const struct truth_row *truth) {
    size_t columns = truth->columns > FORECAST_COLUMNS ? FORECAST_COLUMNS : truth->columns;
    if (isnan(truth->place))
        return NULL;
    size_t ahead = truth->horizons ? (size_t)fmin(fmax(truth->ahead, 0), AHEAD_MAX) : 0;
    struct forecast_series like = {.ahead = ahead, .columns = columns};
    if (json_array_size(truth->levels) <= FORECAST_LEVELS)
        like.level_count = json_array_size(truth->levels);
    for (size_t n = 0; n < like.level_count; n++)
        like.levels[n] = json_number_value(json_array_get(truth->levels, n));
    struct forecast_series *series = open_series(taking->forecasts, truth->stream, &like);
    double *row = series ? row_at(series, truth->place) : NULL;
    taking->series = series;
    taking->forecasts->left_out += !series;
    if (!row)
        return NULL;
    row[FORECAST_POSITION] = truth->place;
    /* The steps of one example share a time, so that only their numbers order them. */
    row[FORECAST_TIME] = truth->steps > 1 ? NAN : truth->data_time;
    row[FORECAST_MADE] = truth->example;
    row[FORECAST_MADE_TIME] = truth->forecast_time;
    row[FORECAST_SCORE] = truth->score;
    if (series->open && truth->example >= open_row(series)[FORECAST_MADE])
        series->open = false; /* this is its truth */
    return row;
}

static void set_quantiles(const struct forecast_series *series, const struct truth_row *from,
                          double *values) {
    for (size_t n = 0; n < series->level_count; n++)
        values[FORECAST_VALUES + n] = truth_quantile(from, n);
}

static void add_row(void *context, const struct truth_row *truth) {
    struct taking *taking = context;
    taking->forecasts->wordless |= truth->columns == 0;
    if (truth->columns && truth->column == 0)
        taking->row = begin_step(taking, truth);
    if (!truth->columns || !taking->row || truth->column >= FORECAST_COLUMNS)
        return;
    double *values = taking->row + value_place(taking->series, truth->column);
    values[FORECAST_TARGET] = truth->target;
    values[FORECAST_PREDICTION] = truth->prediction;
    values[FORECAST_LOW] = truth->low;
    values[FORECAST_HIGH] = truth->high;
    values[FORECAST_BASELINE] = truth->baseline;
    set_quantiles(taking->series, truth, values);
}

/* ---- Next forecasts ---- */

/* The expected position or time of a truth: the usual distance is the median over the newest
   steps. */
static double expected(const struct forecast_series *series, enum forecast_place at,
                       enum forecast_place made) {
    double ahead[USUAL];
    size_t count = 0;
    for (size_t i = series->count; i-- > 0 && count < USUAL;) {
        const double *row = forecast_row(series, i);
        if (!isnan(row[at] - row[made]))
            ahead[count++] = row[at] - row[made];
    }
    quantile_sort(ahead, count);
    return count ? open_row(series)[made] + ahead[count / 2] : NAN;
}

const double *forecast_next(const struct forecast_series *series) {
    double *row = open_row(series);
    if (!series->open)
        return NULL;
    row[FORECAST_POSITION] = expected(series, FORECAST_POSITION, FORECAST_MADE);
    row[FORECAST_TIME] = expected(series, FORECAST_TIME, FORECAST_MADE_TIME);
    return row;
}

static void add_next(void *context, const struct truth_row *next) {
    struct forecast_series *series = context;
    double *row = open_row(series);
    if (next->column >= series->columns || isnan(next->example))
        return;
    for (size_t i = 0; !series->open && i < row_numbers(series); i++)
        row[i] = NAN;
    series->open = true;
    row[FORECAST_MADE] = next->example;
    row[FORECAST_MADE_TIME] = next->forecast_time;
    double *values = row + value_place(series, next->column);
    values[FORECAST_PREDICTION] = next->prediction;
    values[FORECAST_LOW] = next->low;
    values[FORECAST_HIGH] = next->high;
    set_quantiles(series, next, values);
}

/* Stores the next forecast of a stream with scored steps. */
static void open_next(struct forecasts *forecasts, const json_t *message) {
    struct forecast_series *series = find(forecasts, member_string(message, "stream"), 0);
    if (!series || !json_object_get(message, "prediction"))
        return;
    series->open = false;
    truth_next(message, add_next, series);
}

/* The daemon returned to a checkpoint or to its beginning, and will repeat the forecasts of later
   examples. */
static void go_back(struct forecasts *forecasts, double examples) {
    for (struct forecast_series *series = forecasts->series; series; series = series->following) {
        series->open = false;
        while (series->count && *forecast_row(series, series->count - 1) >= examples)
            series->count--;
    }
}

/* Takes a message. Ignores parts that do not follow docs/reference/protocol.md. */
static void forecasts_add(struct forecasts *forecasts, const json_t *message) {
    double examples = forecasts->examples;
    if (!member_string(message, "stream"))
        return;
    member_number(message, "examples", &examples);
    if (examples < forecasts->examples)
        go_back(forecasts, examples);
    forecasts->examples = examples;
    if (json_is_array(json_object_get(json_object_get(message, "prediction"), "words"))) {
        json_decref(forecasts->classes);
        forecasts->classes = json_incref((json_t *)message);
    }
    if (truth_rows_all(message, add_row, &(struct taking){.forecasts = forecasts}) > 0)
        forecasts->wordless = true;
    open_next(forecasts, message);
}

/* ---- Backlog ---- */

/* Removes and returns the oldest text; the caller frees it. */
static char *pop_oldest(struct backlog *b) {
    char *text = b->texts[b->first];
    b->bytes -= b->sizes[b->first];
    b->first = (b->first + 1) % BACKLOG_MESSAGES;
    b->count--;
    return text;
}

/* Takes the text. */
static void backlog_add(struct backlog *b, char *text) {
    size_t size = strlen(text);
    while (b->count == BACKLOG_MESSAGES || (b->count && b->bytes + size > BACKLOG_BYTES)) {
        free(pop_oldest(b));
        b->passed++;
    }
    size_t last = (b->first + b->count++) % BACKLOG_MESSAGES;
    b->texts[last] = text;
    b->sizes[last] = size;
    b->bytes += size;
}

/* A new reference to the oldest waiting message; NULL if none is due. */
static json_t *backlog_next(struct backlog *b, double now) {
    json_t *body = NULL;
    b->spent = fmax(0, b->spent - (now - b->since) * BACKLOG_RATE);
    b->since = now;
    while (!body && b->count && b->spent < BACKLOG_BURST) {
        b->spent += (double)b->sizes[b->first];
        char *text = pop_oldest(b);
        body = json_loads(text, 0, NULL);
        free(text);
    }
    return body;
}

static void backlog_clear(struct backlog *b) {
    while (b->count)
        free(pop_oldest(b));
    *b = (struct backlog){0};
}

#define SEND_EVERY 0.05  /* minimum seconds between two messages of a topic to the pages */
#define NOTE_EVERY 0.25  /* minimum seconds between two notes about predictions to the pages */
#define COMMIT_EVERY 1.0 /* seconds */
#define REST 0.02        /* seconds to gather predictions before they are parsed */
#define FOLLOW_EVERY 5.0 /* seconds between two checks of a recording */
#define LOOK_EVERY                                                                                 \
    1.0 /* seconds between two checks of an experiment, which reads only the file's modification   \
           time */

enum {
    AT_ONCE = 500,              /* messages of one daemon before the others are read */
    PREDICTIONS_AT_ONCE = 5000, /* unparsed predictions of one daemon before the others are read */
    NAME_SIZE = 128,
};

static const char *const presences[] = {
    [PRESENCE_EXPECTED] = "expected",
    [PRESENCE_SPEAKING] = "speaking",
    [PRESENCE_SILENT] = "silent",
    [PRESENCE_GONE] = "gone",
};

/* Publishes an object and frees it. */
static void publish(struct feeds *feeds, const char *name, json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text)
        live_publish(feeds->live, name, text);
    free(text);
    json_decref(object);
}

static size_t feed_number(const struct feed *feed) {
    return (size_t)(feed - feed->feeds->feed);
}

/* {"daemon", "run_id", "merged", "message"} */
static void publish_body(struct feed *feed, enum topic topic, json_t *body, uint64_t merged) {
    feed->sent[topic] = clock_seconds();
    if (live_clients(feed->feeds->live) == 0)
        return;
    publish(feed->feeds, topic_names[topic],
            json_pack("{s:i, s:I, s:I, s:O}", "daemon", (int)feed_number(feed), "run_id",
                      (json_int_t)history_current(feed->feeds->history, feed->endpoint), "merged",
                      (json_int_t)merged, "message", body));
}

const char *feed_name(const struct feed *feed) {
    const char *name = member_string(feed->newest[TOPIC_STATUS], "name");
    return name ? name : feed->endpoint;
}

json_t *feed_describe(const struct feed *feed, bool whole) {
    int64_t run = history_current(feed->feeds->history, feed->endpoint);
    json_t *object = json_pack(
        "{s:i, s:s, s:s, s:s, s:f, s:I, s:o}", "daemon", (int)feed_number(feed), "endpoint",
        feed->endpoint, "name", feed_name(feed), "presence", presences[feed->health.presence],
        "quiet", health_quiet(&feed->health), "missed", (json_int_t)feed->health.missed_total,
        "run_id", run ? json_integer(run) : json_null());
    json_object_set_new(object, "named", json_boolean(feed->named));
    json_object_set_new(object, "refused",
                        feed->refused ? json_string(link_refusal(feed->link)) : json_null());
    static const enum topic topics[] = {TOPIC_STATUS, TOPIC_LOSS, TOPIC_STATE};
    for (size_t i = 0; whole && i < sizeof topics / sizeof *topics; i++) {
        json_t *body = feed->newest[topics[i]];
        json_object_set(object, topic_names[topics[i]], body ? body : json_null());
    }
    return object;
}

static void note_history(struct feeds *feeds, int failed) {
    if (failed && !feeds->complained)
        complain(EX_OK, "%s; %s", history_error(feeds->history),
                 feeds->recording ? "newer content may be missing"
                                  : "new messages are shown, but not recorded");
    feeds->complained = failed != 0;
}

/* Counts the event by its kind as it is shown: truncated and without control characters. */
static void count_event(struct feed *feed, const char *text) {
    static const char rest[] = "other";
    struct feed_events *events = feed->events, *last = events + FEED_EVENT_KINDS - 1;
    char kind[FEED_KIND_SIZE];
    text_copy(kind, sizeof kind, *text ? text : rest);
    while (events < last && *events->kind && strcmp(events->kind, kind) != 0)
        events++;
    if (events == last || strcmp(kind, rest) == 0)
        events = last;
    strcpy(events->kind, events == last ? rest : kind);
    events->count++;
}

/* A remark about the health becomes an event for pages and history, and a line on stderr. */
static void note(void *context, const char *text) {
    struct feed *feed = context;
    char name[NAME_SIZE];
    complain(EX_OK, "%s: %s", text_copy(name, sizeof name, feed_name(feed)), text);
    note_history(feed->feeds, history_note(feed->feeds->history, feed->endpoint, "watch", text));
    const json_t *newest = feed->newest[TOPIC_LOSS];
    double examples = 0, steps = 0;
    member_number(newest, "examples", &examples);
    member_number(newest, "steps", &steps);
    json_t *body = json_pack("{s:s, s:s, s:f, s:f, s:f}", "kind", "watch", "text", text, "time",
                             clock_unix(), "examples", examples, "steps", steps);
    publish_body(feed, TOPIC_EVENT, body, 1);
    json_decref(body);
}

static void clear_newest(struct feed *feed) {
    for (int topic = 0; topic < TOPICS; topic++) {
        json_decref(feed->newest[topic]);
        json_decref(feed->held[topic]);
        feed->newest[topic] = feed->held[topic] = NULL;
    }
    feed->merged = 0;
}

/* Joins two `loss` messages: the newer one, with the minimum, maximum and mean of both; a new
   reference. */
static json_t *merge(const json_t *older, uint64_t count, json_t *newer) {
    json_t *merged = json_copy(newer);
    if (!merged)
        return json_incref(newer);
    for (int i = 0; i < FIELDS; i++) {
        const struct field *field = &fields_of_loss[i];
        if (field->fold == FOLD_NEWER || *field->group || strcmp(field->unit, "nats") != 0)
            continue;
        double value = field_fold(field, field_number(field, older), (double)count,
                                  field_number(field, newer), 1);
        if (!isnan(value))
            json_object_set_new(merged, field->key, json_real(value));
    }
    return merged;
}

static void hold(struct feed *feed, enum topic topic, json_t *body) {
    json_t *older = feed->held[topic];
    if (topic == TOPIC_LOSS && older)
        feed->held[topic] = merge(older, feed->merged, body);
    else
        feed->held[topic] = json_incref(body);
    feed->merged += topic == TOPIC_LOSS;
    json_decref(older);
}

static void send_held(struct feed *feed, enum topic topic) {
    json_t *body = feed->held[topic];
    feed->held[topic] = NULL;
    publish_body(feed, topic, body, topic == TOPIC_LOSS ? feed->merged : 1);
    if (topic == TOPIC_LOSS)
        feed->merged = 0;
    json_decref(body);
}

static bool is_due(const struct feed *feed, enum topic topic, double now) {
    return now - feed->sent[topic] >= SEND_EVERY;
}

/* Sends events and status at once, other topics only as often as a reader can follow. */
static void pass_on(struct feed *feed, enum topic topic, json_t *body) {
    if (topic == TOPIC_EVENT || topic == TOPIC_STATUS) {
        publish_body(feed, topic, body, 1);
        return;
    }
    hold(feed, topic, body);
    if (feed->held[topic] && is_due(feed, topic, clock_seconds()))
        send_held(feed, topic);
}

static void send_presence(struct feed *feed) {
    if (feed->shown == feed->health.presence)
        return;
    feed->shown = feed->health.presence;
    publish(feed->feeds, "daemon", feed_describe(feed, false));
}

/* Subscribes to predictions if the newest status reports them. */
static void follow_predictions(struct feed *feed) {
    static const bool topics[TOPICS] = {[TOPIC_PREDICTION] = true};
    const json_t *published = json_object_get(feed->newest[TOPIC_STATUS], "predictions");
    if (json_is_true(published) && !feed->predictions &&
        link_open(&feed->predictions, &feed->peer, topics) == EX_OK)
        link_unparsed(feed->predictions);
    else if (json_is_false(published))
        link_close(&feed->predictions);
}

static void handle_message(struct feed *feed, const struct message *message) {
    if (health_message(&feed->health, message))
        clear_newest(feed);
    send_presence(feed);
    if (message->problem)
        return;
    enum topic topic = message->topic;
    const char *kind = topic == TOPIC_EVENT ? member_string(message->body, "kind") : NULL;
    feed->received[topic]++;
    note_history(feed->feeds, history_take(feed->feeds->history, feed->endpoint, message));
    json_decref(feed->newest[topic]);
    feed->newest[topic] = json_incref(message->body);
    if (kind)
        count_event(feed, kind);
    if (topic == TOPIC_STATUS)
        follow_predictions(feed);
    pass_on(feed, topic, message->body);
}

static void handle_change(struct feed *feed, enum runnel_kind change) {
    health_changed(&feed->health, change);
    if ((change == RUNNEL_HINDERED || change == RUNNEL_REFUSED) && !feed->refused) {
        feed->refused = true;
        complain(EX_OK, "%s: %s", feed->endpoint, link_refusal(feed->link));
    }
}

/* Notifies the pages, which then request the predictions that they show. */
static void send_predictions(struct feed *feed, double now) {
    if (!feed->predicted || now - feed->noted < NOTE_EVERY)
        return;
    feed->predicted = false;
    feed->noted = now;
    if (live_clients(feed->feeds->live))
        publish(feed->feeds, "prediction", json_pack("{s:i}", "daemon", (int)feed_number(feed)));
}

/* Takes all waiting predictions as texts. */
static void gather_predictions(struct feed *feed, double now) {
    struct message message;
    enum runnel_kind kind = RUNNEL_MESSAGE;
    for (int i = 0; i < PREDICTIONS_AT_ONCE && kind != RUNNEL_NOTHING; i++) {
        kind = link_next(feed->predictions, &message);
        if (kind == RUNNEL_MESSAGE && !message.problem) {
            backlog_add(&feed->backlog, message.text);
            message.text = NULL;
            feed->rests = now + REST;
        }
        message_clear(&message);
    }
}

static void run_predictions(struct feed *feed, double now) {
    json_t *body;
    if (feed->predictions && now >= feed->rests)
        gather_predictions(feed, now);
    while ((body = backlog_next(&feed->backlog, now))) {
        forecasts_add(&feed->forecasts, body);
        feed->predicted = true;
        json_decref(body);
    }
    send_predictions(feed, now);
}

static void run_feed(struct feed *feed) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < AT_ONCE && (kind = link_next(feed->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE)
            handle_message(feed, &message);
        else
            handle_change(feed, kind);
        message_clear(&message);
    }
    health_tick(&feed->health, false);
    send_presence(feed);
    double now = clock_seconds();
    for (int topic = 0; topic < TOPICS; topic++)
        if (feed->held[topic] && is_due(feed, (enum topic)topic, now))
            send_held(feed, (enum topic)topic);
    run_predictions(feed, now);
}

static double every(const struct feeds *feeds) {
    return feeds->experiment ? LOOK_EVERY : feeds->recording ? FOLLOW_EVERY : COMMIT_EVERY;
}

/* Notifies the pages when a recording or an experiment has grown. */
static void follow_file(struct feeds *feeds) {
    double now = clock_seconds();
    bool changed = false;
    if (now - feeds->committed < every(feeds))
        return;
    feeds->committed = now;
    if (feeds->experiment) {
        experiment_follow(feeds->experiment, feeds->live);
        return;
    }
    note_history(feeds, history_changed(feeds->history, &changed));
    if (changed)
        live_publish(feeds->live, "lost", "{}");
}

void feeds_run(struct feeds *feeds) {
    if (feeds->recording || feeds->experiment) {
        follow_file(feeds);
        return;
    }
    for (size_t i = 0; i < feeds->count; i++)
        run_feed(&feeds->feed[i]);
    double now = clock_seconds();
    if (now - feeds->committed < COMMIT_EVERY)
        return;
    feeds->committed = now;
    note_history(feeds, history_commit(feeds->history));
}

double feeds_next(const struct feeds *feeds) {
    double now = clock_seconds(), next = feeds->committed + every(feeds) - now;
    for (size_t i = 0; i < feeds->count; i++) {
        const struct feed *feed = &feeds->feed[i];
        next = fmin(next, health_next(&feed->health));
        for (int topic = 0; topic < TOPICS; topic++)
            if (feed->held[topic])
                next = fmin(next, feed->sent[topic] + SEND_EVERY - now);
        if (feed->predicted)
            next = fmin(next, feed->noted + NOTE_EVERY - now);
        if (feed->rests > now)
            next = fmin(next, feed->rests - now);
        else if (feed->backlog.count)
            next = fmin(next, REST);
    }
    return fmax(next, 0);
}

size_t feeds_items(const struct feeds *feeds, struct pollfd items[FEEDS_MAX * FEED_ITEMS]) {
    size_t used = 0;
    double now = clock_seconds();
    for (size_t i = 0; i < feeds->count; i++) {
        const struct feed *feed = &feeds->feed[i];
        items[used++] = (struct pollfd){.fd = link_descriptor(feed->link), .events = POLLIN};
        if (feed->predictions && feed->rests <= now)
            items[used++] =
                (struct pollfd){.fd = link_descriptor(feed->predictions), .events = POLLIN};
    }
    return used;
}

int feeds_open(struct feeds *feeds, const char *const endpoints[], size_t count, bool named,
               const struct key_options *keys, struct history *history, struct live *live) {
    static const bool topics[TOPICS] = {
        [TOPIC_STATUS] = true, [TOPIC_LOSS] = true, [TOPIC_STATE] = true, [TOPIC_EVENT] = true};
    *feeds = (struct feeds){.history = history, .live = live, .committed = clock_seconds()};
    for (size_t i = 0; i < count; i++) {
        struct feed *feed = &feeds->feed[i];
        *feed = (struct feed){.endpoint = endpoints[i], .named = named, .feeds = feeds};
        feed->peer = tool_peer(endpoints[i], keys);
        int status = link_open(&feed->link, &feed->peer, topics);
        if (status != EX_OK)
            return status;
        health_open(&feed->health, endpoints[i], HEALTH_SILENCE, note, feed);
        feeds->count++;
    }
    return EX_OK;
}

void feeds_open_recording(struct feeds *feeds, const char *path, struct history *history,
                          struct live *live) {
    const char *slash = strrchr(path, '/');
    bool changed;
    *feeds = (struct feeds){.recording = slash ? slash + 1 : path,
                            .history = history,
                            .live = live,
                            .committed = clock_seconds()};
    note_history(feeds, history_changed(history, &changed));
}

int feeds_open_experiment(struct feeds *feeds, const char *path, struct experiment *experiment,
                          struct live *live) {
    *feeds = (struct feeds){.experiment = experiment, .live = live, .committed = clock_seconds()};
    return experiment_open(experiment, path);
}

void feeds_close(struct feeds *feeds) {
    for (size_t i = 0; i < feeds->count; i++) {
        link_close(&feeds->feed[i].link);
        link_close(&feeds->feed[i].predictions);
        backlog_clear(&feeds->feed[i].backlog);
        forecasts_clear(&feeds->feed[i].forecasts);
        clear_newest(&feeds->feed[i]);
    }
    feeds->count = 0;
}
