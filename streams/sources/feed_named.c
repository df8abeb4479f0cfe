#include "feed_named.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "payload.h"

struct named {
    const struct columns *columns;
    const struct selection *x;
    size_t y;
    bool *words; /* (columns.count,) */
    struct payload *payload;
};

int named_open(struct named **result, struct source *source, const struct columns *columns,
               const struct selection *x, size_t y, const struct selection *words,
               struct error *error) {
    struct named *named = *result = calloc(1, sizeof *named);
    if (!named || !(named->words = calloc(columns->count + 1, sizeof *named->words)))
        return error_no_memory(error);
    named->columns = columns;
    named->x = x;
    named->y = y;
    for (size_t i = 0; i < words->count; i++)
        named->words[words->indices[i]] = true;
    return payload_open(&named->payload, source, error);
}

void named_close(struct named **named) {
    if (!*named)
        return;
    payload_close(&(*named)->payload);
    free((*named)->words);
    free(*named);
    *named = NULL;
}

json_t *named_value(const char *cell, bool is_word) {
    enum { WHOLE_DIGITS = 15 }; /* digits that JSON keeps exactly */
    char *end;
    double number = strtod(cell, &end);
    if (is_word || end == cell || *end || !isfinite(number))
        return json_string(cell);
    bool whole = number == floor(number) && strlen(cell) <= WHOLE_DIGITS;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

static json_t *value_of(const struct named *named, const char *cell, size_t column) {
    return cell_missing(named->columns, cell) ? NULL : named_value(cell, named->words[column]);
}

int named_step(struct named *named, const struct row *row, const char *key, double time,
               struct step *step, struct error *error) {
    char id[sizeof "line " + 3 * sizeof row->line];
    json_t *example = json_object(), *x = json_object();
    for (size_t i = 0; i < named->x->count; i++) {
        size_t k = named->x->indices[i];
        json_t *value = value_of(named, row->fields[k], k);
        if (value)
            json_object_set_new(x, named->columns->names[k], value);
    }
    json_object_set_new(example, "x", x);
    json_t *y = named->y == SIZE_MAX ? NULL : value_of(named, row->fields[named->y], named->y);
    if (y)
        json_object_set_new(example, "y", y);
    char *text = json_dumps(example, JSON_COMPACT);
    json_decref(example);
    if (!text)
        return error_no_memory(error);
    snprintf(id, sizeof id, "line %llu", (unsigned long long)row->line);
    const struct message message = {.id = id,
                                    .key = key,
                                    .key_size = strlen(key),
                                    .bytes = text,
                                    .size = strlen(text),
                                    .time = time};
    int status = payload_step(named->payload, &message, step, error);
    free(text);
    return status;
}
