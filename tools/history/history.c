/* Recording: messages become rows, and old rows are deleted. */
#include "history_store.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_anomaly.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_truth.h"

enum {
    COMMITS_BETWEEN_TRIMS = 60,
    KEEP_MIN = 1000,   /* minimum rows of a level, whatever the size of the file */
    COLUMNS_MOST = 64, /* columns of an anomaly; further ones are left out */
};

/* The run to which the messages of an endpoint belong. */
struct history_feed {
    char *endpoint;
    int64_t run;    /* 0 = none yet */
    char *run_text; /* the daemon's own name of the run, owned */
    int part;
    double position[HISTORY_AXES];        /* of the newest message with numbers */
    double first[HISTORY_AXES];           /* of the first message in this file */
    double newest_position[HISTORY_AXES]; /* of the newest message of any kind */
    int64_t next[KINDS];                  /* number of the next message */
    int layers;                           /* number of layers already described */
    int experts;                          /* number of experts already named */
    struct runnel_gap gap;
    double gap_reported; /* see gap_report */
    struct history_feed *following;
};

/* ---- Statements that run rarely: prepared each time ---- */

static void bind_number(sqlite3_stmt *statement, int at, const json_t *body, const char *key) {
    double value;
    if (member_number(body, key, &value))
        sqlite3_bind_double(statement, at, value);
}

/* Cleaned and truncated text; NULL stays NULL. */
static void bind_text(sqlite3_stmt *statement, int at, const char *text, size_t size) {
    char clean[HISTORY_TEXT_SIZE];
    if (text)
        sqlite3_bind_text(statement, at, text_copy(clean, size, text), -1, SQLITE_TRANSIENT);
}

/* A JSON value as text without control characters; NULL if it is too long. */
static void bind_json(sqlite3_stmt *statement, int at, const json_t *value) {
    enum { DIGITS = 15 };
    char *text = json_is_object(value)
                     ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS))
                     : NULL;
    size_t size = text ? strlen(text) + 1 : 0;
    char *clean = size && size <= HISTORY_JSON_SIZE ? malloc(size) : NULL;
    if (clean)
        sqlite3_bind_text(statement, at, text_copy(clean, size, text), -1, SQLITE_TRANSIENT);
    free(clean);
    free(text);
}

static int begin(struct history *h) {
    if (h->writing)
        return 0;
    if (history_run_sql(h, "BEGIN IMMEDIATE"))
        return -1;
    h->writing = true;
    return 0;
}

/* ---- The run of a message ---- */

static struct history_feed *find_feed(const struct history *h, const char *endpoint) {
    struct history_feed *feed = h->feeds;
    while (feed && strcmp(feed->endpoint, endpoint) != 0)
        feed = feed->following;
    return feed;
}

int64_t history_current(const struct history *h, const char *endpoint) {
    const struct history_feed *feed = find_feed(h, endpoint);
    return feed ? feed->run : 0;
}

static struct history_feed *get_feed(struct history *h, const char *endpoint) {
    struct history_feed *feed = find_feed(h, endpoint);
    if (feed || !(feed = calloc(1, sizeof *feed)))
        return feed;
    feed->gap = (struct runnel_gap){NAN, NAN};
    feed->gap_reported = -INFINITY;
    feed->endpoint = strdup(endpoint);
    if (!feed->endpoint) {
        free(feed);
        return NULL;
    }
    feed->following = h->feeds;
    h->feeds = feed;
    return feed;
}

/* Updates the feed's row in the table of runs. */
static int note_newest(struct history *h, const struct history_feed *feed) {
    if (!feed->next[KIND_LOSS] && !feed->next[KIND_STATE])
        return 0;
    sqlite3_stmt *update = history_prepare(
        h, "UPDATE runs SET newest_examples = ?1, newest_steps = ?2, newest_time = ?3,"
           " first_examples = coalesce(first_examples, ?4),"
           " first_steps = coalesce(first_steps, ?5), first_time = coalesce(first_time, ?6)"
           " WHERE id = ?7");
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        sqlite3_bind_double(update, 1 + axis, feed->position[axis]);
        sqlite3_bind_double(update, 1 + HISTORY_AXES + axis, feed->first[axis]);
    }
    sqlite3_bind_int64(update, 7, feed->run);
    return history_done_once(h, update);
}

static int start_part(struct history *h, struct history_feed *feed, int part) {
    sqlite3_stmt *insert =
        history_prepare(h, "INSERT INTO runs (run, part, endpoint) VALUES (?, ?, ?)");
    sqlite3_bind_text(insert, 1, feed->run_text, -1, SQLITE_STATIC);
    sqlite3_bind_int(insert, 2, part);
    sqlite3_bind_text(insert, 3, feed->endpoint, -1, SQLITE_STATIC);
    if (history_done_once(h, insert))
        return -1;
    feed->run = sqlite3_last_insert_rowid(h->file);
    feed->part = part;
    feed->layers = feed->experts = 0;
    memset(feed->next, 0, sizeof feed->next);
    memset(feed->position, 0, sizeof feed->position);
    return 0;
}

/* Continues the numbering of a run that the file contains already. */
static int continue_counting(struct history *h, struct history_feed *feed) {
    memset(feed->position, 0, sizeof feed->position);
    for (int kind = 0; kind < KINDS; kind++) {
        struct history_place place = {.kind = (enum history_kind)kind, .run = feed->run};
        double position[HISTORY_AXES];
        int64_t last;
        if (history_row_last(h, &place, &last, position))
            return -1;
        feed->next[kind] = last + 1;
        if (kind == KIND_LOSS && last >= 0)
            feed->gap.newest = position[HISTORY_EXAMPLES];
        if (last >= 0 && position[0] > feed->position[0])
            memcpy(feed->position, position, sizeof position);
    }
    return 0;
}

static int change_run(struct history *h, struct history_feed *feed, const char *run) {
    if (note_newest(h, feed))
        return -1;
    char *text = strdup(run);
    if (!text)
        return history_memory(h);
    free(feed->run_text);
    feed->run_text = text;
    sqlite3_stmt *select =
        history_prepare(h, "SELECT id, part, every FROM runs WHERE run = ? ORDER BY part DESC"
                           " LIMIT 1");
    sqlite3_bind_text(select, 1, text, -1, SQLITE_STATIC);
    bool row;
    int status = history_step(h, select, &row);
    feed->run = row ? sqlite3_column_int64(select, 0) : 0;
    feed->part = row ? sqlite3_column_int(select, 1) : 0;
    if (row)
        feed->gap.every = history_column_number(select, 2);
    feed->layers = feed->experts = 0;
    feed->gap_reported = -INFINITY;
    memset(feed->next, 0, sizeof feed->next);
    sqlite3_finalize(select);
    if (status)
        return -1;
    return feed->run ? continue_counting(h, feed) : start_part(h, feed, 0);
}

/* ---- Columns and experts of a `loss` message ---- */

static int read_part(struct history *h, enum history_kind kind, int64_t run, int part,
                     const struct history_row *message, const json_t *object) {
    struct history_row row = {.number = message->number, .at = message->at};
    history_row_fill(&row, &history_tables[kind], object);
    return history_row_insert(h, (struct history_place){kind, run, part, 0}, &row);
}

static int name_expert(struct history *h, int64_t run, int expert, const char *name) {
    char clean[HISTORY_NAME_SIZE];
    sqlite3_stmt *replace =
        history_prepare_run(h, "INSERT OR REPLACE INTO experts VALUES (?, ?, ?)", run);
    sqlite3_bind_int(replace, 2, expert);
    sqlite3_bind_text(replace, 3, text_copy(clean, sizeof clean, name), -1, SQLITE_TRANSIENT);
    return history_done_once(h, replace);
}

/* Adds the rows of columns or experts, with number and position of the `loss` row. `named` is the
   number of experts already named. */
static int add_parts(struct history *h, int64_t run, const struct history_row *row,
                     const json_t *body, int *named) {
    const json_t *columns = field_member(&fields_of_loss[FIELD_columns], body);
    json_t *experts = (json_t *)field_member(&fields_of_loss[FIELD_experts], body), *object;
    const char *name;
    int part = 0;
    for (; part < HISTORY_PARTS && part < (int)json_array_size(columns); part++)
        if (read_part(h, KIND_COLUMNS, run, part, row, json_array_get(columns, (size_t)part)))
            return -1;
    part = 0;
    json_object_foreach(experts, name, object) {
        if (part == HISTORY_PARTS)
            break;
        if (part >= *named && name_expert(h, run, part, name))
            return -1;
        if (read_part(h, KIND_EXPERTS, run, part++, row, object))
            return -1;
    }
    *named = part > *named ? part : *named;
    return 0;
}

/* ---- Anomalies ---- */

/* SQLite stores NaN as NULL. */
static int insert_anomaly(struct history *h, sqlite3_stmt *statement,
                          const double position[HISTORY_AXES], const struct anomaly *a,
                          const struct anomaly_column *column) {
    const double numbers[] = {a->data_time,  a->score,         a->threshold,
                              column->score, column->forecast, column->truth};
    if (column->column >= 0 && column->column <= INT_MAX)
        sqlite3_bind_int64(statement, ANOMALY_KEYS - 1, (sqlite3_int64)column->column);
    else
        sqlite3_bind_null(statement, ANOMALY_KEYS - 1);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(statement, ANOMALY_KEYS + axis, position[axis]);
    if (!isnan(a->example))
        sqlite3_bind_double(statement, ANOMALY_KEYS + HISTORY_EXAMPLES, a->example);
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        sqlite3_bind_double(statement, ANOMALY_KEYS + HISTORY_AXES + n, numbers[n]);
    return history_done(h, statement);
}

/* Adds the rows of an anomaly event, which the table `events` contains already. Ignores other
   kinds. */
static int add_anomalies(struct history *h, int64_t run, int64_t event,
                         const double position[HISTORY_AXES], const json_t *body) {
    struct anomaly anomaly;
    char stream[HISTORY_STREAM_SIZE], reason[HISTORY_KIND_SIZE], note[WIRE_NOTE_MAX + 1];
    if (!anomaly_of(body, &anomaly))
        return 0;
    sqlite3_stmt *statement =
        history_prepare(h, "INSERT INTO anomalies (" ANOMALY_COLUMNS
                           ", note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    if (!statement)
        return -1;
    sqlite3_bind_int64(statement, 1, event);
    sqlite3_bind_int64(statement, 2, run);
    sqlite3_bind_text(statement, 3, text_copy(stream, sizeof stream, anomaly.stream), -1,
                      SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, text_copy(reason, sizeof reason, anomaly.reason), -1,
                      SQLITE_STATIC);
    if (*text_copy(note, sizeof note, anomaly.note))
        sqlite3_bind_text(statement, ANOMALY_NOTE, note, -1, SQLITE_STATIC);
    size_t columns = json_array_size(anomaly.columns);
    int status = 0;
    for (size_t i = 0; !status && (i == 0 || (i < columns && i < COLUMNS_MOST)); i++) {
        const struct anomaly_column column = anomaly_column(&anomaly, i);
        status = insert_anomaly(h, statement, position, &anomaly, &column);
        sqlite3_bind_null(statement, ANOMALY_NOTE);
    }
    sqlite3_finalize(statement);
    return status;
}

/* ---- Predictions and truths ---- */

struct inserting {
    struct history *history;
    int64_t run;
    const double *position; /* (HISTORY_AXES,) */
    int status;
};

/* The quantiles by level as JSON, {"q0.05":1.5}, which the caller frees; NULL = none. */
static char *quantiles_text(const struct truth_row *row) {
    enum { DIGITS = 9 };
    json_t *quantiles = json_array_size(row->quantiles) ? json_object() : NULL;
    for (size_t n = 0; n < json_array_size(row->quantiles); n++) {
        char name[TRUTH_LEVEL_SIZE];
        json_object_set_new(quantiles, truth_level(row->levels, n, name),
                            json_real(truth_quantile(row, n)));
    }
    char *text = json_dumps(quantiles, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(quantiles);
    return text;
}

static void insert_prediction(void *context, const struct truth_row *row) {
    struct inserting *inserting = context;
    struct history *h = inserting->history;
    const double numbers[] = {row->data_time, row->target,   row->prediction, row->low,
                              row->high,      row->baseline, row->score};
    char stream[HISTORY_STREAM_SIZE];
    sqlite3_stmt *statement = h->add_prediction;
    if (inserting->status)
        return;
    text_copy(stream, sizeof stream, row->stream);
    sqlite3_bind_int64(statement, 1, inserting->run);
    sqlite3_bind_text(statement, 2, stream, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)row->column);
    sqlite3_bind_double(statement, 4, row->ahead);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(statement, PREDICTION_KEYS + axis, inserting->position[axis]);
    /* SQLite stores NaN as NULL */
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        sqlite3_bind_double(statement, PREDICTION_KEYS + HISTORY_AXES + n, numbers[n]);
    for (int n = 0; n < TRUTH_SCORES; n++)
        sqlite3_bind_double(statement, PREDICTION_QUANTILES - TRUTH_SCORES + n, row->scores[n]);
    sqlite3_bind_text(statement, PREDICTION_QUANTILES, quantiles_text(row), -1, free);
    inserting->status = history_done(h, statement);
}

static int add_predictions(struct history *h, int64_t run, const double position[HISTORY_AXES],
                           const json_t *body) {
    struct inserting inserting = {h, run, position, 0};
    if (!h->add_prediction)
        h->add_prediction = history_prepare(
            h, "INSERT INTO predictions (run, stream, column, ahead, " PREDICTION_NUMBERS
               ", score, " PREDICTION_SCORES ", quantiles)"
               " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    if (!h->add_prediction)
        return -1;
    truth_rows(body, insert_prediction, &inserting);
    return inserting.status;
}

/* ---- Messages ---- */

static int add_status(struct history *h, struct history_feed *feed, const json_t *body) {
    double every, examples;
    if (member_number(body, "every", &every) && member_number(body, "examples", &examples))
        runnel_gap_status(&feed->gap, every, examples);
    sqlite3_str *sql = sqlite3_str_new(h->file);
    const char *before = "UPDATE runs SET";
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++)
        if (history_run_columns[i].status) {
            sqlite3_str_appendf(sql, "%s %s = ?%d", before, history_run_columns[i].name, 1 + i);
            before = ",";
        }
    sqlite3_str_appendf(sql, " WHERE id = %lld", (long long)feed->run);
    sqlite3_stmt *update = history_prepare_made(h, sql);
    for (int i = 0; update && i < HISTORY_RUN_COLUMNS; i++) {
        const struct history_run_column *column = &history_run_columns[i];
        if (column->status && column->json)
            bind_json(update, 1 + i, field_member(column->status, body));
        else if (column->status && column->text)
            bind_text(update, 1 + i, json_string_value(field_member(column->status, body)),
                      HISTORY_TEXT_SIZE);
        else if (column->status)
            sqlite3_bind_double(update, 1 + i, field_number(column->status, body));
    }
    return history_done_once(h, update);
}

/* `incident`: an event of this kind, kept as a whole; else NULL. */
static int add_event(struct history *h, int64_t run, const double position[HISTORY_AXES],
                     const char *kind, const char *text, const json_t *incident) {
    sqlite3_stmt *insert =
        history_prepare_run(h,
                            "INSERT INTO events (run, examples, steps, time, kind, text, incident)"
                            " VALUES (?, ?, ?, ?, ?, ?, ?)",
                            run);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(insert, 2 + axis, position[axis]);
    bind_text(insert, 5, kind ? kind : "", HISTORY_TEXT_SIZE);
    bind_text(insert, 6, text ? text : "", HISTORY_TEXT_SIZE);
    bind_json(insert, 7, incident);
    return history_done_once(h, insert);
}

static int handle_event(struct history *h, int64_t run, const double position[HISTORY_AXES],
                        const json_t *body) {
    const char *kind = member_string(body, "kind");
    return add_event(h, run, position, kind, member_string(body, "text"),
                     kind && strcmp(kind, "incident") == 0 ? body : NULL) ||
                   add_anomalies(h, run, sqlite3_last_insert_rowid(h->file), position, body)
               ? -1
               : 0;
}

static int add_loss(struct history *h, struct history_feed *feed, struct history_row *row,
                    const json_t *body) {
    char text[GAP_TEXT];
    double unheard[2];
    if (runnel_gap_loss(&feed->gap, row->at.position[HISTORY_EXAMPLES], unheard) &&
        gap_report(&feed->gap_reported, unheard, text) &&
        add_event(h, feed->run, row->at.position, "gap", text, NULL))
        return -1;
    history_row_fill(row, &history_tables[KIND_LOSS], body);
    return history_row_insert(h, (struct history_place){.kind = KIND_LOSS, .run = feed->run},
                              row) ||
                   add_parts(h, feed->run, row, body, &feed->experts)
               ? -1
               : 0;
}

static int describe_layer(struct history *h, const struct history_feed *feed, int layer,
                          const json_t *object) {
    sqlite3_stmt *replace = history_prepare_run(
        h, "INSERT OR REPLACE INTO layers (run, layer, kind, size, member) VALUES (?, ?, ?, ?, ?)",
        feed->run);
    sqlite3_bind_int(replace, 2, layer);
    bind_text(replace, 3, member_string(object, "kind"), HISTORY_KIND_SIZE);
    bind_number(replace, 4, object, "size");
    bind_text(replace, 5, state_member(object), HISTORY_NAME_SIZE);
    return history_done_once(h, replace);
}

static int add_state(struct history *h, struct history_feed *feed, struct history_row *row,
                     const json_t *body) {
    json_t *layers = state_layers(body);
    int count = (int)json_array_size(layers), status = 0;
    for (int layer = 0; !status && layer < count; layer++) {
        const json_t *object = json_array_get(layers, (size_t)layer);
        history_row_fill(row, &history_tables[KIND_STATE], object);
        if ((layer >= feed->layers && describe_layer(h, feed, layer, object)) ||
            history_row_insert(h, (struct history_place){KIND_STATE, feed->run, layer, 0}, row))
            status = -1;
    }
    json_decref(layers);
    if (!status && count > feed->layers)
        feed->layers = count;
    return status;
}

static bool has_position(const json_t *body, double position[HISTORY_AXES]) {
    bool known = true;
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        position[axis] = field_number(history_axes[axis], body);
        known &= !isnan(position[axis]);
    }
    return known;
}

/* The description from `status` also applies to the next part of the run. */
static int copy_description(struct history *h, int64_t from, int64_t to) {
    sqlite3_str *sql = sqlite3_str_new(h->file);
    const char *before = "UPDATE runs SET";
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++)
        if (history_run_columns[i].status) {
            const char *name = history_run_columns[i].name;
            sqlite3_str_appendf(sql, "%s %s = last.%s", before, name, name);
            before = ",";
        }
    sqlite3_str_appendf(sql, " FROM runs AS last WHERE last.id = %lld AND runs.id = %lld",
                        (long long)from, (long long)to);
    return history_done_once(h, history_prepare_made(h, sql));
}

/* After a reset a run has fewer examples than before. */
static int check_part(struct history *h, struct history_feed *feed,
                      const double position[HISTORY_AXES]) {
    int64_t before = feed->run;
    if (position[HISTORY_EXAMPLES] >= feed->position[HISTORY_EXAMPLES])
        return 0;
    return note_newest(h, feed) || start_part(h, feed, feed->part + 1) ||
                   copy_description(h, before, feed->run)
               ? -1
               : 0;
}

static int add_numbers(struct history *h, struct history_feed *feed, const struct message *message,
                       const double position[HISTORY_AXES]) {
    enum history_kind kind = message->topic == TOPIC_LOSS ? KIND_LOSS : KIND_STATE;
    if (check_part(h, feed, position))
        return -1;
    memcpy(feed->position, position, sizeof feed->position);
    if (!feed->next[KIND_LOSS] && !feed->next[KIND_STATE])
        memcpy(feed->first, position, sizeof feed->first);
    struct history_row row = {.number = feed->next[kind]++, .at = {.messages = 1}};
    memcpy(row.at.position, position, sizeof row.at.position);
    return kind == KIND_LOSS ? add_loss(h, feed, &row, message->body)
                             : add_state(h, feed, &row, message->body);
}

/* Two endpoints of one daemon would deliver every message twice. */
static bool is_received_elsewhere(const struct history *h, const struct history_feed *feed,
                                  const char *run) {
    for (const struct history_feed *other = h->feeds; other; other = other->following)
        if (other != feed && other->run_text && strcmp(other->run_text, run) == 0)
            return true;
    return false;
}

int history_take(struct history *h, const char *endpoint, const struct message *message) {
    double position[HISTORY_AXES];
    char run[HISTORY_RUN_SIZE];
    const char *run_text = member_string(message->body, "run");
    if (message->problem || !run_text || !has_position(message->body, position))
        return 0;
    text_copy(run, sizeof run, run_text);
    struct history_feed *feed = get_feed(h, endpoint);
    if (!feed)
        return history_memory(h);
    if (is_received_elsewhere(h, feed, run))
        return 0;
    if (begin(h))
        return -1;
    if ((!feed->run_text || strcmp(feed->run_text, run) != 0) && change_run(h, feed, run))
        return -1;
    memcpy(feed->newest_position, position, sizeof feed->newest_position);
    if (message->topic == TOPIC_STATUS)
        return add_status(h, feed, message->body);
    if (message->topic == TOPIC_EVENT)
        return handle_event(h, feed->run, position, message->body);
    if (message->topic == TOPIC_PREDICTION)
        return check_part(h, feed, position)
                   ? -1
                   : add_predictions(h, feed->run, position, message->body);
    return add_numbers(h, feed, message, position);
}

int history_note(struct history *h, const char *endpoint, const char *kind, const char *text) {
    const struct history_feed *feed = find_feed(h, endpoint);
    if (!feed || !feed->run)
        return 0;
    double position[HISTORY_AXES];
    memcpy(position, feed->newest_position, sizeof position);
    position[HISTORY_TIME] = clock_unix();
    return begin(h) ? -1 : add_event(h, feed->run, position, kind, text, NULL);
}

/* ---- Retention ---- */

/* Deletes the anomalies of a run whose events were deleted. */
static int trim_anomalies(struct history *h, int64_t run) {
    static const char sql[] = "DELETE FROM anomalies WHERE run = ?1 AND event <"
                              " (SELECT min(id) FROM events WHERE run = ?1)";
    return history_done_once(h, history_prepare_run(h, sql, run));
}

/* Keeps the newest `keep` rows of all runs together. */
static int trim_predictions(struct history *h) {
    char sql[96];
    sqlite3_snprintf(sizeof sql, sql,
                     "DELETE FROM predictions WHERE id <= (SELECT max(id) FROM predictions) - %lld",
                     (long long)h->keep);
    return history_run_sql(h, sql);
}

static int used_bytes(struct history *h, uint64_t *bytes) {
    sqlite3_stmt *select = history_prepare(
        h, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count,"
           " pragma_freelist_count, pragma_page_size");
    if (!select)
        return -1;
    int status = sqlite3_step(select) == SQLITE_ROW ? 0 : history_fail(h);
    *bytes = status ? 0 : (uint64_t)sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    return status;
}

static int trim_place(struct history *h, const struct history_place *place) {
    double position[HISTORY_AXES];
    int64_t last;
    if (history_row_last(h, place, &last, position))
        return -1;
    uint64_t keep = h->keep / history_tables[place->kind].share;
    /* Keeps the rows that are not part of a row of the next level yet. */
    int64_t below = last + 1 - (int64_t)(keep ? keep : 1);
    below -= below % HISTORY_FACTOR;
    return below > 0 ? history_row_trim(h, place, below) : 0;
}

static int trim_events(struct history *h, int64_t run) {
    sqlite3_stmt *trim = history_prepare_run(
        h,
        "DELETE FROM events WHERE run = ?1 AND id <= (SELECT id FROM events WHERE run = ?1"
        " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        run);
    sqlite3_bind_int64(trim, 2, (sqlite3_int64)h->keep);
    return history_done_once(h, trim);
}

/* Trims the levels of a kind or of one of its parts; *there: whether it has rows. */
static int trim_levels(struct history *h, struct history_place place, bool *there) {
    double position[HISTORY_AXES];
    int64_t last;
    if (history_row_last(h, &place, &last, position))
        return -1;
    *there = last >= 0;
    for (; *there && place.level < HISTORY_LEVELS; place.level++)
        if (trim_place(h, &place))
            return -1;
    return 0;
}

static int trim_run(struct history *h, int64_t run) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct history_place place = {.kind = (enum history_kind)kind, .run = run};
        bool there;
        do {
            if (trim_levels(h, place, &there))
                return -1;
            place.part++;
        } while (there && history_tables[kind].part);
    }
    return trim_events(h, run) || trim_anomalies(h, run) ? -1 : 0;
}

static int trim_all(struct history *h) {
    struct history_runs runs;
    if (history_runs(h, &runs))
        return -1;
    int status = 0;
    for (size_t i = 0; !status && i < runs.count; i++)
        status = trim_run(h, runs.runs[i].id);
    history_runs_clear(&runs);
    return status ? -1 : trim_predictions(h);
}

static bool is_fed(const struct history *h, int64_t run) {
    const struct history_feed *feed = h->feeds;
    while (feed && feed->run != run)
        feed = feed->following;
    return feed != NULL;
}

static int delete_run(struct history *h, const char *table, const char *levels, const char *key,
                      int64_t run) {
    char sql[96];
    sqlite3_snprintf(sizeof sql, sql, "DELETE FROM %s%s WHERE %s = %lld", table, levels, key,
                     (long long)run);
    return history_run_sql(h, sql);
}

static int remove_run(struct history *h, int64_t run) {
    static const char *const others[] = {"layers", "experts", "events", "anomalies", "predictions"};
    for (int kind = 0; kind < KINDS; kind++)
        if (delete_run(h, history_tables[kind].name, "", "run", run) ||
            delete_run(h, history_tables[kind].name, "_levels", "run", run))
            return -1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (delete_run(h, others[i], "", "run", run))
            return -1;
    return delete_run(h, "runs", "", "id", run);
}

/* Deletes the oldest run that is not being written; *removed: whether there was one. */
static int remove_oldest(struct history *h, bool *removed) {
    struct history_runs runs;
    if (history_runs(h, &runs))
        return -1;
    int status = 0;
    *removed = false;
    for (size_t i = 0; !*removed && i < runs.count; i++)
        if (!is_fed(h, runs.runs[i].id)) {
            *removed = true;
            status = remove_run(h, runs.runs[i].id);
        }
    history_runs_clear(&runs);
    return status;
}

static int fit(struct history *h) {
    uint64_t bytes;
    bool removed = true;
    if (used_bytes(h, &bytes))
        return -1;
    while (bytes > h->options.bytes && (h->keep > KEEP_MIN || removed)) {
        if (h->keep > KEEP_MIN) {
            h->keep = h->keep / 2 > KEEP_MIN ? h->keep / 2 : KEEP_MIN;
            if (trim_all(h))
                return -1;
        } else if (remove_oldest(h, &removed)) {
            return -1;
        }
        if (used_bytes(h, &bytes))
            return -1;
    }
    return 0;
}

static int retain(struct history *h) {
    if (h->commits <= 1)
        return trim_all(h) ? -1 : fit(h);
    for (const struct history_feed *feed = h->feeds; feed; feed = feed->following)
        if (feed->run && trim_run(h, feed->run))
            return -1;
    return trim_predictions(h) ? -1 : fit(h);
}

/* ---- Commit ---- */

int history_commit(struct history *h) {
    if (!h->writing)
        return 0;
    for (const struct history_feed *feed = h->feeds; feed; feed = feed->following)
        if (note_newest(h, feed))
            return -1;
    if (h->commits++ % COMMITS_BETWEEN_TRIMS == 0 && retain(h))
        return -1;
    if (history_run_sql(h, "COMMIT"))
        return -1;
    h->writing = false;
    return 0;
}

/* ---- Opening ---- */

int history_open(struct history **history, const char *path,
                 const struct history_options *options) {
    struct history *h = calloc(1, sizeof *h);
    if (!h || !(h->path = strdup(path))) {
        free(h);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    if (options) {
        h->options.keep = options->keep ? options->keep : HISTORY_KEEP;
        h->options.bytes = options->bytes ? options->bytes : HISTORY_BYTES;
        h->keep = h->options.keep;
    }
    if (history_store_open(h, options != NULL)) {
        int status = complain(EX_IOERR, "%s", h->error);
        history_close(&h);
        return status;
    }
    *history = h;
    return EX_OK;
}

void history_close(struct history **history) {
    struct history *h = *history;
    if (!h)
        return;
    if (h->writing)
        history_commit(h);
    history_store_close(h);
    while (h->feeds) {
        struct history_feed *feed = h->feeds;
        h->feeds = feed->following;
        free(feed->endpoint);
        free(feed->run_text);
        free(feed);
    }
    free(h->path);
    free(h);
    *history = NULL;
}
