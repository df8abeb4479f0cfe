#include "pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/array.h"
#include "common/base64.h"
#include "common/error.h"

static bool number_of(const json_t *command, const char *name, uint64_t *number) {
    const json_t *value = json_object_get(command, name);
    *number = value ? (uint64_t)json_integer_value(value) : 1;
    return !value || (json_is_integer(value) && json_integer_value(value) > 0);
}

/* Begins with part 1, or continues. */
static int find_place(struct pieces *pieces, const json_t *command, struct error *error) {
    uint64_t part, parts;
    if (!json_is_string(json_object_get(command, "blob")) || !number_of(command, "part", &part) ||
        !number_of(command, "parts", &parts) || part > parts)
        return error_set(error, EX_USAGE,
                         "invalid blob: expected base64, whole or in parts: {\"part\": 1, "
                         "\"parts\": 3, \"blob\": \"Uk5T..\"}");
    if (part > 1 && (part != pieces->part + 1 || parts != pieces->parts))
        return error_set(error, EX_USAGE,
                         "part %" PRIu64 " of %" PRIu64
                         " does not follow the last part received, %" PRIu64 " of %" PRIu64
                         "; start again with part 1",
                         part, parts, pieces->part, pieces->parts);
    if (part == 1)
        pieces->size = 0;
    pieces->part = part;
    pieces->parts = parts;
    return 0;
}

static int make_room(struct pieces *pieces, size_t size, size_t most, struct error *error) {
    if (size > most || pieces->size > most - size)
        return error_set(error, EX_USAGE,
                         "blob exceeds %zu bytes: it belongs to another configuration, or is "
                         "another kind of file",
                         most);
    /* + 1: not zero for an empty blob */
    return array_reserve(&pieces->bytes, &pieces->capacity, pieces->size + size + 1, 1)
               ? 0
               : error_no_memory(error);
}

int pieces_take(struct pieces *pieces, const json_t *command, size_t most, struct error *error) {
    const json_t *blob = json_object_get(command, "blob");
    size_t size = json_string_length(blob), received;
    if (find_place(pieces, command, error))
        return -1;
    /* + 2: without the padding */
    bool fits = make_room(pieces, size / 4 * 3, most + 2, error) == 0;
    if (fits &&
        !base64_read(json_string_value(blob), size, pieces->bytes + pieces->size, &received))
        fits = error_set(error, EX_USAGE, "invalid blob: not base64") == 0;
    if (!fits) {
        pieces_free(pieces);
        return -1;
    }
    pieces->size += received;
    return pieces->part == pieces->parts;
}

void pieces_free(struct pieces *pieces) {
    free(pieces->bytes);
    *pieces = (struct pieces){0};
}
