#include "left_out.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/wire.h"
#include "store/journal.h"

/* ---- One rollback ---- */

static bool is_key(const json_t *value) {
    return json_is_string(value) && json_string_length(value) <= WIRE_KEY_MAX;
}

static int choose_streams(struct rollback *rollback, const json_t *streams, struct error *error) {
    size_t i;
    json_t *stream;
    json_array_foreach(streams, i, stream) {
        if (!is_key(stream))
            return error_set(error, EX_USAGE,
                             "without: expected a list of stream keys, texts of at most %d bytes",
                             WIRE_KEY_MAX);
        json_array_append(rollback->streams, stream);
    }
    return 0;
}

static bool position_of(const json_t *value, uint64_t *position) {
    *position = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) > 0;
}

static bool choose_span(struct rollback_span *to, const json_t *span) {
    json_t *stream = json_array_get(span, 2);
    if (json_array_size(span) != 2 + (stream != NULL) || (stream && !is_key(stream)) ||
        !position_of(json_array_get(span, 0), &to->first) ||
        !position_of(json_array_get(span, 1), &to->last) || to->last < to->first)
        return false;
    to->stream = json_incref(stream);
    return true;
}

static int choose_spans(struct rollback *rollback, const json_t *spans, struct error *error) {
    size_t i;
    json_t *span;
    json_array_foreach(spans, i, span) {
        if (!choose_span(&rollback->spans[rollback->span_count++], span))
            return error_set(error, EX_USAGE,
                             "spans: expected a list of [first, last] or [first, last, stream], "
                             "two positions in the journal with first <= last");
    }
    return 0;
}

static bool choose_partition(struct rollback_partition *to, const json_t *partition) {
    const json_t *producer = json_array_get(partition, 0), *epoch = json_array_get(partition, 1);
    const json_t *sequence = json_array_get(partition, 2);
    to->producer = (uint64_t)json_integer_value(producer);
    to->epoch = (uint32_t)json_integer_value(epoch);
    to->sequence = (uint64_t)json_integer_value(sequence);
    to->name = json_incref(json_array_get(partition, 3));
    return json_array_size(partition) == 4 && json_is_integer(producer) && json_is_integer(epoch) &&
           json_is_integer(sequence) && json_is_string(to->name);
}

static int choose_partitions(struct rollback *rollback, const json_t *list, struct error *error) {
    size_t i, size = json_array_size(list);
    json_t *partition;
    if (size == 0)
        return 0;
    rollback->partitions = calloc(size, sizeof *rollback->partitions);
    if (!rollback->partitions)
        return error_no_memory(error);
    json_array_foreach(list, i, partition) {
        if (!choose_partition(&rollback->partitions[rollback->partition_count++], partition))
            return error_set(
                error, EX_USAGE,
                "beyond: expected a list of [producer, epoch, sequence, name] of partitions");
    }
    return 0;
}

int rollback_choose(struct rollback *rollback, const json_t *command, struct error *error) {
    const json_t *streams = json_object_get(command, "without");
    const json_t *spans = json_object_get(command, "spans");
    const json_t *beyond = json_object_get(command, "beyond");
    rollback->streams = json_array();
    if (!rollback->streams)
        return error_no_memory(error);
    if ((streams && !json_is_array(streams)) || (spans && !json_is_array(spans)) ||
        (beyond && !json_is_array(beyond)))
        return error_set(error, EX_USAGE, "without, spans and beyond must be lists");
    if (json_array_size(streams) + json_array_size(spans) > ROLLBACK_CHOICES)
        return error_set(error, EX_USAGE, "expected at most %d streams and spans in a rollback",
                         ROLLBACK_CHOICES);
    return choose_streams(rollback, streams, error) || choose_spans(rollback, spans, error) ||
                   choose_partitions(rollback, beyond, error)
               ? -1
               : 0;
}

void rollback_release(struct rollback *rollback) {
    json_decref(rollback->streams);
    rollback->streams = NULL;
    for (size_t i = 0; i < rollback->span_count; i++)
        json_decref(rollback->spans[i].stream);
    rollback->span_count = 0;
    for (size_t i = 0; i < rollback->partition_count; i++)
        json_decref(rollback->partitions[i].name);
    free(rollback->partitions);
    rollback->partitions = NULL;
    rollback->partition_count = 0;
}

/* Absent without partitions: other rollbacks keep the form of earlier versions. */
static void put_partitions(const struct rollback *rollback, json_t *command) {
    json_t *list = json_array();
    for (size_t i = 0; i < rollback->partition_count; i++) {
        const struct rollback_partition *of = &rollback->partitions[i];
        json_array_append_new(list,
                              json_pack("[I, I, I, O]", (json_int_t)of->producer,
                                        (json_int_t)of->epoch, (json_int_t)of->sequence, of->name));
    }
    if (rollback->partition_count)
        json_object_set(command, "beyond", list);
    json_decref(list);
}

json_t *rollback_command(const struct rollback *rollback) {
    json_t *spans = json_array();
    for (size_t i = 0; i < rollback->span_count; i++) {
        const struct rollback_span *of = &rollback->spans[i];
        json_t *span = json_pack("[I, I]", (json_int_t)of->first, (json_int_t)of->last);
        if (of->stream)
            json_array_append(span, of->stream);
        json_array_append_new(spans, span);
    }
    json_t *command = json_pack("{s:s, s:I, s:I, s:O, s:o}", "command", "rollback", "to",
                                (json_int_t)rollback->after, "first", (json_int_t)rollback->first,
                                "without", rollback->streams, "spans", spans);
    put_partitions(rollback, command);
    return command;
}

int rollback_read(struct rollback *rollback, const json_t *command, uint64_t position,
                  struct error *error) {
    const json_t *after = json_object_get(command, "to");
    *rollback =
        (struct rollback){.position = position, .after = (uint64_t)json_integer_value(after)};
    if (rollback_choose(rollback, command, NULL) == 0 && json_is_integer(after) &&
        position_of(json_object_get(command, "first"), &rollback->first) &&
        rollback->after < rollback->first && rollback->first < position)
        return 0;
    rollback_release(rollback);
    return error_set(error, EX_IOERR,
                     "the journal has an invalid rollback, or one of a newer version");
}

static bool is_of(const struct journal_entry *entry, const json_t *stream) {
    return !entry->command && entry->example.key_size == json_string_length(stream) &&
           !memcmp(entry->example.key, json_string_value(stream), entry->example.key_size);
}

static bool span_has(const struct rollback_span *span, const struct journal_entry *entry) {
    if (entry->position < span->first || entry->position > span->last)
        return false;
    return !span->stream || (is_of(entry, span->stream) && !entry->example.label);
}

static bool is_beyond(const struct journal_entry *entry, const struct rollback_partition *of) {
    const struct example *example = &entry->example;
    if (entry->command || !example->numbered || example->producer != of->producer)
        return false;
    if (of->sequence == ROLLBACK_ALL)
        return true;
    return example->epoch != of->epoch ? example->epoch > of->epoch
                                       : example->sequence > of->sequence;
}

bool rollback_chooses(const struct rollback *rollback) {
    return rollback->span_count || rollback->partition_count ||
           json_array_size(rollback->streams) > 0;
}

bool rollback_has(const struct rollback *rollback, const struct journal_entry *entry) {
    if (entry->position <= rollback->after || entry->position >= rollback->position)
        return false;
    if (!rollback_chooses(rollback))
        return true;
    for (size_t i = 0; i < rollback->partition_count; i++)
        if (is_beyond(entry, &rollback->partitions[i]))
            return true;
    for (size_t i = 0; i < rollback->span_count; i++)
        if (span_has(&rollback->spans[i], entry))
            return true;
    size_t i;
    json_t *stream;
    json_array_foreach(rollback->streams, i, stream) {
        if (is_of(entry, stream))
            return true;
    }
    return false;
}

/* ---- The list ---- */

int left_out_add(struct left_out *list, const struct rollback *rollback, struct error *error) {
    struct rollback **larger =
        realloc(list->rollbacks, (list->count + 1) * sizeof *list->rollbacks);
    if (larger)
        list->rollbacks = larger;
    struct rollback *copy = larger ? malloc(sizeof *copy) : NULL;
    if (!copy)
        return error_no_memory(error);
    *copy = *rollback;
    list->rollbacks[list->count++] = copy;
    return 0;
}

int left_out_note(struct left_out *list, const struct journal_entry *entry, struct error *error) {
    struct rollback rollback;
    json_t *command = json_loads(entry->command, 0, NULL);
    int result = rollback_read(&rollback, command, entry->position, error);
    if (result == 0 && left_out_add(list, &rollback, error)) {
        rollback_release(&rollback);
        result = -1;
    }
    json_decref(command);
    return result;
}

void left_out_free(struct left_out *list) {
    for (size_t i = 0; i < list->count; i++) {
        rollback_release(list->rollbacks[i]);
        free(list->rollbacks[i]);
    }
    free(list->rollbacks);
    *list = (struct left_out){0};
}

bool left_out_contains(const struct left_out *list, uint64_t position) {
    for (size_t i = 0; i < list->count; i++)
        if (list->rollbacks[i]->position == position)
            return true;
    return false;
}

bool left_out_has(const struct left_out *list, const struct journal_entry *entry) {
    for (size_t i = 0; i < list->count; i++)
        if (rollback_has(list->rollbacks[i], entry))
            return true;
    return false;
}

bool left_out_allows(const struct left_out *list, uint64_t position) {
    for (size_t i = 0; i < list->count; i++)
        if (position >= list->rollbacks[i]->first && position < list->rollbacks[i]->position)
            return false;
    return true;
}
