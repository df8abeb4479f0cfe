#include "feed_streams.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { LIST_FIRST = 16 };

int values_open(struct values *values, size_t numbers, struct error *error) {
    values->numbers = calloc(numbers, sizeof *values->numbers);
    return values->numbers ? 0 : error_no_memory(error);
}

static int compare(const void *a, const void *b) {
    const struct held_stream *one = a, *other = b;
    return strcmp(one->stream.key, other->stream.key);
}

static struct held_stream *add(struct streams *streams, const struct stream *named,
                               struct error *error) {
    if (streams->count == streams->capacity) {
        size_t capacity = streams->capacity ? 2 * streams->capacity : LIST_FIRST;
        struct held_stream **grown = realloc(streams->list, capacity * sizeof *grown);
        if (!grown)
            return error_no_memory(error), NULL;
        streams->list = grown;
        streams->capacity = capacity;
    }
    struct held_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_no_memory(error), NULL;
    stream->stream = *named;
    streams->list[streams->count++] = stream;
    if (values_open(&stream->held, streams->numbers, error) < 0)
        return NULL;
    if (!tsearch(stream, &streams->tree, compare))
        return error_no_memory(error), NULL;
    return stream;
}

struct held_stream *streams_find(struct streams *streams, const char *key, struct error *error) {
    struct held_stream wanted = {0};
    const char *wrong = stream_name(&wanted.stream, key, strlen(key));
    if (wrong)
        return error_set(error, EX_DATAERR, "invalid stream name '%.60s': %s", key, wrong), NULL;
    struct held_stream **found = tfind(&wanted, &streams->tree, compare);
    return found ? *found : add(streams, &wanted.stream, error);
}

int streams_hold(struct held_stream *stream, struct values *values, const char *sequence,
                 struct error *error) {
    struct values newest = *values;
    *values = stream->held;
    stream->held = newest;
    stream->holds = true;
    if (stream->sequence && strcmp(stream->sequence, sequence) == 0)
        return 0;
    free(stream->sequence);
    stream->sequence = strdup(sequence);
    return stream->sequence ? 1 : error_no_memory(error);
}

static void keep(void *node) {
    (void)node; /* the list owns the streams; the tree's nodes point to them */
}

void streams_close(struct streams *streams) {
    tdestroy(streams->tree, keep);
    for (size_t i = 0; i < streams->count; i++) {
        free(streams->list[i]->held.numbers);
        free(streams->list[i]->sequence);
        free(streams->list[i]->later);
        free(streams->list[i]);
    }
    free(streams->list);
    *streams = (struct streams){0};
}
