#include "redis_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    EPOCH_SHIFT = 32,        /* shift of the milliseconds for the epoch */
    STAMP_LEAST = 100000000, /* milliseconds * 1000: smaller IDs are not times */
};

struct redis_id redis_id_parse(const char *text) {
    char *end;
    const uint64_t first = strtoull(text, &end, 10);
    return (struct redis_id){first, *end == '-' ? strtoull(end + 1, NULL, 10) : 0};
}

const char *redis_id_print(char text[REDIS_ID_SIZE], struct redis_id id) {
    snprintf(text, REDIS_ID_SIZE, "%" PRIu64 "-%" PRIu64, id.first, id.second);
    return text;
}

int redis_id_compare(struct redis_id a, struct redis_id b) {
    return a.first != b.first ? (a.first > b.first) - (a.first < b.first)
                              : (a.second > b.second) - (a.second < b.second);
}

bool redis_id_number(struct redis_id id, struct message_number *number) {
    number->epoch = (uint32_t)(id.first >> EPOCH_SHIFT);
    number->sequence = (id.first & UINT32_MAX) << REDIS_SECOND_BITS | id.second;
    return id.second >> REDIS_SECOND_BITS == 0;
}

struct redis_id redis_id_of(uint32_t epoch, uint64_t sequence) {
    return (struct redis_id){(uint64_t)epoch << EPOCH_SHIFT | sequence >> REDIS_SECOND_BITS,
                             sequence & ((1u << REDIS_SECOND_BITS) - 1)};
}

double redis_id_time(struct redis_id id) {
    return id.first / 1000 >= STAMP_LEAST ? (double)id.first / 1000 : 0;
}

/* Converts a value to JSON: numbers, lists, objects and the flags of an example stay; all else is a
   text. */
static json_t *value_of(const char *name, const redisReply *value) {
    bool mark = strcmp(name, "end") == 0 || strcmp(name, "learn") == 0;
    json_t *json = json_loadb(value->str, (size_t)value->len, JSON_DECODE_ANY, NULL);
    if (json_is_number(json) || json_is_array(json) || json_is_object(json) ||
        (mark && json_is_boolean(json)))
        return json;
    json_decref(json);
    return json_stringn(value->str, (size_t)value->len);
}

/* Converts fields to a JSON object. Returns NULL if they are not UTF-8. */
static char *object_of(const redisReply *fields) {
    json_t *object = json_object();
    bool good = object;
    for (size_t n = 0; good && n + 1 < fields->elements; n += 2)
        good = json_object_set_new(object, fields->element[n]->str,
                                   value_of(fields->element[n]->str, fields->element[n + 1])) == 0;
    char *text = good ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

bool redis_payload(const redisReply *fields, const char *field, struct message *message,
                   char **object) {
    free(*object);
    *object = NULL;
    for (size_t n = 0; n + 1 < fields->elements; n += 2)
        if (field ? strcmp(fields->element[n]->str, field) == 0 : fields->elements == 2) {
            message->bytes = fields->element[n + 1]->str;
            message->size = (size_t)fields->element[n + 1]->len;
            return true;
        }
    *object = field ? NULL : object_of(fields);
    message->bytes = *object;
    message->size = *object ? strlen(*object) : 0;
    return *object;
}

bool redis_are_texts(const redisReply *list) {
    for (size_t n = 0; n < list->elements; n++)
        if (!list->element[n]->str)
            return false;
    return list->type == REDIS_REPLY_ARRAY;
}

const redisReply *redis_member(const redisReply *list, const char *name) {
    for (size_t n = 0; n + 1 < list->elements; n += 2)
        if (list->element[n]->str && strcasecmp(list->element[n]->str, name) == 0)
            return list->element[n + 1];
    return NULL;
}
