#include "fleet_command.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/json_text.h"

#define NUMBER_MAX ((uint64_t)INT64_MAX)
#define LEASE_MAX ((uint64_t)1000 * 1000 * 1000 * 1000) /* ms: 30 years */

/* ---- What each kind has ---- */

static const char *const words[FLEET_COMMAND_KINDS] = {
    [FLEET_COMMAND_JOIN] = "join",           [FLEET_COMMAND_RENEW] = "renew",
    [FLEET_COMMAND_LEAVE] = "leave",         [FLEET_COMMAND_TAKE] = "take",
    [FLEET_COMMAND_COMMIT] = "commit",       [FLEET_COMMAND_SETTLE] = "settle",
    [FLEET_COMMAND_ARRIVE] = "arrive",       [FLEET_COMMAND_PASS] = "pass",
    [FLEET_COMMAND_ROUND] = "round",         [FLEET_COMMAND_DRAIN] = "drain",
    [FLEET_COMMAND_REBALANCE] = "rebalance",
};

#define KIND(name) (1U << FLEET_COMMAND_##name)
#define MEMBERS (~(KIND(DRAIN) | KIND(REBALANCE)))

enum field_type { TEXT, TEXT_MAYBE, NUMBER, FLAG, WHERE, TAKES, COMMITS, SETTLED };

static const struct field {
    const char *key;
    unsigned kinds;
    enum field_type type;
    size_t offset; /* in struct fleet_command */
    uint64_t max;  /* of a number; of a text's bytes */
} fields[] = {
#define FIELD(key, kinds, type, max)                                                               \
    { #key, kinds, type, offsetof(struct fleet_command, key), max }
    FIELD(name, MEMBERS, TEXT, FLEET_NAME_SIZE - 1),
    FIELD(id, MEMBERS, TEXT, FLEET_ID_SIZE - 1),
    FIELD(run, MEMBERS, TEXT, FLEET_ID_SIZE - 1),
    FIELD(number, MEMBERS, NUMBER, NUMBER_MAX),
    FIELD(lease, KIND(JOIN) | KIND(RENEW) | KIND(ROUND), NUMBER, LEASE_MAX),
    FIELD(stream, KIND(JOIN), TEXT, FLEET_TEXT_MAX),
    FIELD(partitions, KIND(JOIN), NUMBER, FLEET_PARTITIONS_MAX),
    FIELD(digest, KIND(JOIN), TEXT, FLEET_TEXT_MAX),
    FIELD(every, KIND(JOIN), NUMBER, NUMBER_MAX),
    FIELD(info, KIND(JOIN) | KIND(RENEW), TEXT_MAYBE, FLEET_INFO_MAX),
    FIELD(takes, KIND(TAKE), TAKES, 0),
    FIELD(commits, KIND(COMMIT), COMMITS, 0),
    FIELD(release, KIND(COMMIT), FLAG, 0),
    FIELD(settled, KIND(SETTLE), SETTLED, 0),
    FIELD(serial, KIND(ARRIVE), NUMBER, NUMBER_MAX),
    FIELD(where, KIND(ARRIVE), WHERE, FLEET_WHERE_SIZE - 1),
    FIELD(round, KIND(PASS) | KIND(ROUND), NUMBER, NUMBER_MAX),
    FIELD(target, KIND(DRAIN), TEXT, FLEET_NAME_SIZE - 1),
};

enum { FIELDS = sizeof fields / sizeof *fields };

/* ---- To bytes ---- */

static void put_text(struct json_text *text, const char *key, const char *value) {
    json_text_string(text, key, value, strlen(value));
}

static void put_take(struct json_text *text, const struct fleet_take *take) {
    json_text_open_list(text, NULL);
    json_text_count(text, NULL, take->partition);
    json_text_count(text, NULL, take->claim);
    json_text_close_list(text);
}

static void put_commit(struct json_text *text, const struct fleet_learned *commit) {
    const uint64_t numbers[] = {commit->partition,       commit->claim,   commit->offset.epoch,
                                commit->offset.sequence, commit->learned, commit->streams,
                                commit->serial,          commit->rows,    commit->whole};
    json_text_open_list(text, NULL);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        json_text_count(text, NULL, numbers[n]);
    put_text(text, NULL, commit->where);
    json_text_close_list(text);
}

static void put_list(struct json_text *text, const struct field *field,
                     const struct fleet_command *command) {
    json_text_open_list(text, field->key);
    for (size_t n = 0; n < command->count; n++)
        if (field->type == TAKES)
            put_take(text, &command->takes[n]);
        else if (field->type == COMMITS)
            put_commit(text, &command->commits[n]);
        else
            json_text_count(text, NULL, command->settled[n]);
    json_text_close_list(text);
}

static void put(struct json_text *text, const struct field *field,
                const struct fleet_command *command) {
    const char *at = (const char *)command + field->offset;
    switch (field->type) {
    case TEXT:
    case TEXT_MAYBE:
        if (*(const char *const *)at)
            put_text(text, field->key, *(const char *const *)at);
        break;
    case NUMBER:
        json_text_count(text, field->key, *(const uint64_t *)at);
        break;
    case FLAG:
        json_text_flag(text, field->key, *(const bool *)at);
        break;
    case WHERE:
        put_text(text, field->key, at);
        break;
    case TAKES:
    case COMMITS:
    case SETTLED:
        put_list(text, field, command);
    }
}

char *fleet_command_encode(const struct fleet_command *command, size_t *size) {
    struct json_text text = {.bytes = NULL};
    json_text_begin(&text);
    json_text_count(&text, "v", FLEET_COMMAND_VERSION);
    put_text(&text, "do", words[command->kind]);
    for (size_t n = 0; n < FIELDS; n++)
        if (fields[n].kinds & 1U << command->kind)
            put(&text, &fields[n], command);
    bool whole = json_text_end(&text);
    *size = text.size;
    if (!whole)
        json_text_free(&text);
    return text.bytes;
}

/* ---- From bytes ---- */

static bool get_number(const json_t *value, uint64_t max, uint64_t *number) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return *number <= max;
}

/* A text that fits and prints, so that it may end at the end of a line. */
static bool get_text(const json_t *value, uint64_t max, const char **text) {
    enum { DELETE = 0x7F };
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size > max)
        return false;
    *text = json_string_value(value);
    for (size_t n = 0; n < size; n++)
        if ((unsigned char)(*text)[n] < ' ' || (*text)[n] == DELETE)
            return false;
    return true;
}

static bool get_where(const json_t *value, char where[FLEET_WHERE_SIZE]) {
    const char *text;
    if (!get_text(value, FLEET_WHERE_SIZE - 1, &text))
        return false;
    memcpy(where, text, json_string_length(value) + 1);
    return true;
}

static bool get_take(const json_t *item, struct fleet_take *take) {
    uint64_t partition;
    if (!get_number(json_array_get(item, 0), FLEET_PARTITIONS_MAX - 1, &partition) ||
        !get_number(json_array_get(item, 1), NUMBER_MAX, &take->claim))
        return false;
    take->partition = partition;
    return true;
}

static bool get_commit(const json_t *item, struct fleet_learned *commit) {
    enum { PARTITION, CLAIM, EPOCH, SEQUENCE, LEARNED, STREAMS, SERIAL, ROWS, WHOLE, NUMBERS };
    uint64_t number[NUMBERS];
    for (size_t n = 0; n < NUMBERS; n++)
        if (!get_number(json_array_get(item, n), NUMBER_MAX, &number[n]))
            return false;
    if (number[PARTITION] >= FLEET_PARTITIONS_MAX || number[EPOCH] > UINT32_MAX ||
        number[WHOLE] > 1)
        return false;
    *commit = (struct fleet_learned){.partition = number[PARTITION],
                                     .claim = number[CLAIM],
                                     .offset = {(uint32_t)number[EPOCH], number[SEQUENCE]},
                                     .learned = number[LEARNED],
                                     .streams = number[STREAMS],
                                     .serial = number[SERIAL],
                                     .rows = number[ROWS],
                                     .whole = number[WHOLE]};
    return get_where(json_array_get(item, NUMBERS), commit->where);
}

static bool get_item(const json_t *item, enum field_type type, size_t n,
                     struct fleet_command *command) {
    switch (type) {
    case TAKES:
        return get_take(item, &command->takes[n]);
    case COMMITS:
        return get_commit(item, &command->commits[n]);
    default:
        return get_number(item, NUMBER_MAX, &command->settled[n]);
    }
}

/* 0; 1: it is no such list; -1: out of memory. */
static int get_list(const json_t *list, enum field_type type, struct fleet_command *command) {
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > FLEET_ITEMS_MAX)
        return 1;
    if (type == TAKES)
        command->takes = calloc(count + 1, sizeof *command->takes);
    else if (type == COMMITS)
        command->commits = calloc(count + 1, sizeof *command->commits);
    else
        command->settled = calloc(count + 1, sizeof *command->settled);
    if (!command->takes && !command->commits && !command->settled)
        return -1;
    command->count = count;
    for (size_t n = 0; n < count; n++)
        if (!get_item(json_array_get(list, n), type, n, command))
            return 1;
    return 0;
}

static int get(const json_t *value, const struct field *field, struct fleet_command *command) {
    char *at = (char *)command + field->offset;
    switch (field->type) {
    case TEXT_MAYBE:
        return value && !get_text(value, field->max, (const char **)at);
    case TEXT:
        return !get_text(value, field->max, (const char **)at) || !**(const char **)at;
    case NUMBER:
        return !get_number(value, field->max, (uint64_t *)at);
    case FLAG:
        *(bool *)at = json_is_true(value);
        return !json_is_boolean(value);
    case WHERE:
        return !get_where(value, at);
    default:
        return get_list(value, field->type, command);
    }
}

static int no_command(struct error *error, const char *what) {
    error_set(error, EX_DATAERR, "it is no command of a fleet: %s", what);
    return 1;
}

static int get_kind(const json_t *root, struct fleet_command *command, struct error *error) {
    const char *word;
    uint64_t version;
    if (!get_number(json_object_get(root, "v"), NUMBER_MAX, &version) || version == 0 ||
        !get_text(json_object_get(root, "do"), FLEET_TEXT_MAX, &word))
        return no_command(error, "it has no version (v), or no verb (do)");
    if (version > FLEET_COMMAND_VERSION)
        return error_set(error, EX_UNAVAILABLE,
                         "a daemon of a later version of runnel is in the fleet: give all of its "
                         "daemons the same version");
    for (int kind = 0; kind < FLEET_COMMAND_KINDS; kind++)
        if (strcmp(words[kind], word) == 0) {
            command->kind = (enum fleet_command_kind)kind;
            return 0;
        }
    return no_command(error, "its verb (do) is not known");
}

static int get_all(const json_t *root, struct fleet_command *command, struct error *error) {
    int result = get_kind(root, command, error);
    for (size_t n = 0; result == 0 && n < FIELDS; n++) {
        if (!(fields[n].kinds & 1U << command->kind))
            continue;
        result = get(json_object_get(root, fields[n].key), &fields[n], command);
        if (result > 0)
            error_set(error, EX_DATAERR, "it is no command of a fleet: there is no good %s",
                      fields[n].key);
        else if (result < 0)
            error_no_memory(error);
    }
    return result;
}

int fleet_command_decode(const void *bytes, size_t size, struct fleet_command *command,
                         struct error *error) {
    json_error_t what;
    *command = (struct fleet_command){.kind = FLEET_COMMAND_KINDS};
    json_t *root = size ? json_loadb(bytes, size, 0, &what) : NULL;
    if (!root)
        return size && json_error_code(&what) == json_error_out_of_memory
                   ? error_no_memory(error)
                   : no_command(error, "it is no JSON");
    command->root = root;
    int result = get_all(root, command, error);
    if (result)
        fleet_command_free(command);
    return result;
}

void fleet_command_free(struct fleet_command *command) {
    free(command->takes);
    free(command->commits);
    free(command->settled);
    json_decref(command->root);
    *command = (struct fleet_command){.kind = FLEET_COMMAND_KINDS};
}
