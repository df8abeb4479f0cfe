#include "build-config.h"

#include "record_board.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/event_file.h"
#include "common/fields.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/history/history.h"

/* ---- Settings ----

   What TensorBoard's plugin hparams is told of a run: the settings of the daemon's configuration
   that decide what is computed, and its tags. */

enum { DIGITS = 15 };

/* Where a daemon is and what it may do decides nothing that is computed. */
static bool is_setting(const char *key) {
    static const char *const others[] = {"name",       "preset",  "device",  "tags",     "examples",
                                         "statistics", "control", "publish", "security", "state"};
    size_t length = strcspn(key, ".");
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (strlen(others[n]) == length && !memcmp(others[n], key, length))
            return false;
    return true;
}

static enum event_setting_type type_of(const json_t *value) {
    return json_is_number(value) ? EVENT_NUMBER : json_is_boolean(value) ? EVENT_FLAG : EVENT_TEXT;
}

/* To be freed. */
static char *text_of(const json_t *value) {
    return json_is_string(value)
               ? strdup(json_string_value(value))
               : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
}

/* One more; false: out of memory. */
static bool add(struct event_setting *setting, const char *section, const char *key,
                const json_t *value) {
    char *name = NULL;
    if (asprintf(&name, "%s%s", section, key) < 0)
        name = NULL;
    *setting = (struct event_setting){name, text_of(value), type_of(value)};
    return name && setting->text;
}

/* Write them as the beginning of a session, from a `status` message; one of a daemon that does not
   tell its configuration has none, and nothing is written. -1: out of memory. */
static int settings_write(struct event_file *file, double time, const json_t *status) {
    json_t *keys = (json_t *)field_member(&fields_of_status[STATUS_configuration], status);
    json_t *tags = (json_t *)field_member(&fields_of_status[STATUS_tags], status), *value;
    const char *key;
    size_t count = 0, room = json_object_size(keys) + json_object_size(tags);
    if (!json_object_size(keys))
        return 0;
    struct event_setting *settings = calloc(room, sizeof *settings);
    bool whole = settings != NULL;
    json_object_foreach(keys, key, value) {
        if (whole && is_setting(key))
            whole = add(&settings[count++], "", key, value);
    }
    json_object_foreach(tags, key, value) {
        if (whole)
            whole = add(&settings[count++], "tags.", key, value);
    }
    if (whole)
        event_session_start(file, time, NULL, settings, count);
    for (size_t n = 0; n < count; n++) {
        free((char *)settings[n].name);
        free((char *)settings[n].text);
    }
    free(settings);
    return whole ? 0 : -1;
}

enum { NAME_SIZE = 81, TAG_SIZE = 64 };
#define STEP_MAX 9007199254740992.0

/* Of one daemon: its run, and the file that it goes to. */
struct board_run {
    char run[NAME_SIZE]; /* its digits */
    double examples;     /* in the newest message */
    struct event_file *file;
    json_t *status; /* the newest, or NULL */
    bool described; /* the file has the settings of the run */
    /* Which numbers there have been: a null is written as NaN only where there was one before. */
    bool loss_seen[HISTORY_LOSS_COLUMNS];
    bool columns_seen[HISTORY_PARTS][COLUMN_FIELDS], experts_seen[HISTORY_PARTS][EXPERT_FIELDS];
    bool layers_seen[HISTORY_LAYERS][HISTORY_LAYER_COLUMNS];
};

struct board {
    char *directory;
    struct board_run *runs; /* (count), by number of the daemon */
    size_t count;
};

int board_open(struct board **board, const char *directory) {
    struct board *b = calloc(1, sizeof *b);
    if (!b || !(b->directory = strdup(directory))) {
        free(b);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    if (mkdir(directory, 0777) && errno != EEXIST) {
        complain(EX_CANTCREAT, "%s cannot be made: %s", directory, strerror(errno));
        board_close(&b);
        return EX_CANTCREAT;
    }
    *board = b;
    return EX_OK;
}

static int fail(const struct board *b) {
    return complain(EX_IOERR, "event files in %s cannot be written: %s", b->directory,
                    strerror(errno));
}

int board_close(struct board **board) {
    struct board *b = *board;
    int status = EX_OK;
    if (!b)
        return EX_OK;
    for (size_t i = 0; i < b->count; i++) {
        json_decref(b->runs[i].status);
        if (event_file_close(&b->runs[i].file))
            status = fail(b);
    }
    free(b->runs);
    free(b->directory);
    free(b);
    *board = NULL;
    return status;
}

int board_flush(struct board *b) {
    for (size_t i = 0; i < b->count; i++)
        if (b->runs[i].file && event_flush(b->runs[i].file))
            return fail(b);
    return EX_OK;
}

static struct board_run *find_run(struct board *b, size_t number) {
    if (number >= b->count) {
        struct board_run *bigger = realloc(b->runs, (number + 1) * sizeof *bigger);
        if (!bigger)
            return NULL;
        memset(bigger + b->count, 0, (number + 1 - b->count) * sizeof *bigger);
        b->runs = bigger;
        b->count = number + 1;
    }
    return &b->runs[number];
}

/* ---- Directories ---- */

/* DIRECTORY/NAME-RUN, and -2, -3, ... from each reset on. A run whose recording was interrupted
   is continued in the last of them; `another` begins the next. */
static int open_run(struct board *b, struct board_run *run, const char *name, bool another) {
    char plain[NAME_SIZE], digits[NAME_SIZE], path[PATH_MAX], next[PATH_MAX];
    text_file_name(plain, sizeof plain, *name ? name : "unnamed");
    text_file_name(digits, sizeof digits, run->run);
    if (event_file_close(&run->file))
        return fail(b);
    int size = snprintf(path, sizeof path, "%s/%s-%s", b->directory, plain, digits);
    bool fits = size < (int)sizeof path;
    struct stat there;
    for (int part = 1; fits; part++) {
        size = snprintf(next, sizeof next, "%s/%s-%s-%d", b->directory, plain, digits, part + 1);
        fits = size < (int)sizeof next;
        if (stat(next, &there)) {
            if (another && !stat(path, &there))
                memcpy(path, next, sizeof path);
            break;
        }
        memcpy(path, next, sizeof path);
    }
    if (!fits)
        return complain(EX_CANTCREAT, "the name of the directory %s is too long", b->directory);
    if (mkdir(path, 0777) && errno != EEXIST)
        return complain(EX_CANTCREAT, "%s cannot be made: %s", path, strerror(errno));
    run->described = false;
    memset(run->loss_seen, 0, sizeof run->loss_seen);
    memset(run->columns_seen, 0, sizeof run->columns_seen);
    memset(run->experts_seen, 0, sizeof run->experts_seen);
    memset(run->layers_seen, 0, sizeof run->layers_seen);
    return event_file_open(&run->file, path);
}

/* ---- Messages ---- */

/* latency_us.p50 is latency_us/p50; what has no group is of the loss, or of the run. */
static void tag_of(char tag[TAG_SIZE], const char *layer, const struct field *field) {
    const char *group = *layer || *field->group            ? field->group
                        : strcmp(field->unit, "nats") == 0 ? "loss"
                                                           : "run";
    snprintf(tag, TAG_SIZE, "%s%s%s%s%s", layer, *layer ? "/" : "", group, *group ? "/" : "",
             field->key);
}

static void put_number(struct board_run *run, const char *layer, const struct field *field,
                       bool *seen, const json_t *object) {
    char tag[TAG_SIZE];
    double value = field_number(field, object);
    *seen |= !isnan(value);
    if (!*seen)
        return;
    tag_of(tag, layer, field);
    event_scalar(run->file, tag, value);
}

static void put_numbers(struct board_run *run, const char *layer,
                        const struct field *const *columns, int count, bool *seen,
                        const json_t *object) {
    for (int i = 0; i < count; i++)
        put_number(run, layer, columns[i], &seen[i], object);
}

/* All fields of a table, which are numbers. */
static void put_fields(struct board_run *run, const char *part, enum field_table_of table,
                       bool *seen, const json_t *object) {
    for (int i = 0; i < field_tables[table].count; i++)
        put_number(run, part, &field_tables[table].fields[i], &seen[i], object);
}

/* column0/skill, and experts/NAME/weight. */
static void put_parts(struct board_run *run, const json_t *body) {
    const json_t *columns = field_member(&fields_of_loss[FIELD_columns], body);
    json_t *experts = (json_t *)field_member(&fields_of_loss[FIELD_experts], body), *expert;
    const char *name;
    char group[TAG_SIZE];
    size_t part = 0;
    for (; part < HISTORY_PARTS && part < json_array_size(columns); part++) {
        snprintf(group, sizeof group, "column%zu", part);
        put_fields(run, group, FIELDS_OF_COLUMN, run->columns_seen[part],
                   json_array_get(columns, part));
    }
    part = 0;
    json_object_foreach(experts, name, expert) {
        char clean[HISTORY_NAME_SIZE / 2];
        if (part == HISTORY_PARTS)
            break;
        snprintf(group, sizeof group, "experts/%s", text_copy(clean, sizeof clean, name));
        put_fields(run, group, FIELDS_OF_EXPERT, run->experts_seen[part++], expert);
    }
}

static void put_histogram(struct board_run *run, const char *group, const json_t *layer) {
    double counts[HISTORY_BINS], edges[HISTORY_BINS + 1];
    char tag[2 * TAG_SIZE];
    double mean = layer_number(layer, LAYER_hidden_mean),
           std = layer_number(layer, LAYER_hidden_std);
    if (!layer_bins(layer, counts))
        return;
    for (int i = 0; i < HISTORY_BINS; i++)
        edges[i] = -1 + 2.0 * i / HISTORY_BINS;
    /* The outer bins count what lies beyond as well. */
    edges[0] = fmin(-1, layer_number(layer, LAYER_hidden_minimum));
    edges[HISTORY_BINS] = fmax(1, layer_number(layer, LAYER_hidden_maximum));
    snprintf(tag, sizeof tag, "%s/hidden", group);
    event_histogram(run->file, tag, counts, edges, HISTORY_BINS, mean, std);
}

static void put_state(struct board_run *run, const json_t *body) {
    json_t *layers = state_layers(body), *layer;
    size_t i;
    json_array_foreach(layers, i, layer) {
        char group[TAG_SIZE], member[HISTORY_NAME_SIZE / 2] = "";
        if (state_member(layer))
            text_copy(member, sizeof member, state_member(layer));
        snprintf(group, sizeof group, "layer%zu%s%s", i, *member ? "." : "", member);
        put_numbers(run, group, history_layer_columns, HISTORY_LAYER_COLUMNS, run->layers_seen[i],
                    layer);
        put_histogram(run, group, layer);
    }
    json_decref(layers);
}

/* The settings of a run whose file is open, as the newest status says them: once. */
static int describe(struct board_run *run, double time) {
    const char *digits = run->status ? member_string(run->status, "run") : NULL;
    if (run->described || !run->file || !digits || strncmp(run->run, digits, NAME_SIZE - 1) != 0)
        return EX_OK;
    run->described = true;
    return settings_write(run->file, time, run->status) ? complain(EX_UNAVAILABLE, "out of memory")
                                                        : EX_OK;
}

static int take_status(struct board *b, size_t number, const json_t *body) {
    struct board_run *run = find_run(b, number);
    double time;
    if (!run)
        return complain(EX_UNAVAILABLE, "out of memory");
    json_decref(run->status);
    run->status = json_incref((json_t *)body);
    return member_number(body, "time", &time) ? describe(run, time) : EX_OK;
}

int board_take(struct board *b, size_t number, const char *name, const struct message *message) {
    double examples, time;
    const char *digits = member_string(message->body, "run");
    if (message->topic == TOPIC_STATUS)
        return take_status(b, number, message->body);
    if ((message->topic != TOPIC_LOSS && message->topic != TOPIC_STATE) || !digits ||
        !member_number(message->body, "examples", &examples) ||
        !member_number(message->body, "time", &time))
        return EX_OK;
    struct board_run *run = find_run(b, number);
    if (!run)
        return complain(EX_UNAVAILABLE, "out of memory");
    bool other = strncmp(run->run, digits, NAME_SIZE - 1) != 0;
    bool again = !other && examples < run->examples;
    if (other || again) {
        snprintf(run->run, sizeof run->run, "%s", digits);
        int status = open_run(b, run, name, again);
        if (status == EX_OK)
            status = describe(run, time);
        if (status != EX_OK)
            return status;
    }
    run->examples = examples;
    event_begin(run->file, time, (int64_t)fmin(fmax(examples, 0), STEP_MAX));
    if (message->topic == TOPIC_LOSS) {
        put_numbers(run, "", history_loss_columns, HISTORY_LOSS_COLUMNS, run->loss_seen,
                    message->body);
        put_parts(run, message->body);
    } else {
        put_state(run, message->body);
    }
    event_end(run->file);
    return EX_OK;
}
