/* Commands of a control socket whose blob comes in parts: a line of JSON for each. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "daemon/pieces.h"
#include "fuzz.h"

enum { MOST = 600, PADDING = 2 };

/* The parts since the first one, which the next one must continue. */
struct parts {
    uint64_t part, parts;
    size_t size;
};

static int play_command(struct pieces *pieces, struct parts *before, const json_t *command) {
    struct error error = {0};
    int result = pieces_take(pieces, command, MOST, &error);
    if (result < 0) {
        fuzz_require_sentence(error.text);
        REQUIRE(error.status == EX_USAGE, "the status %d of \"%s\"", error.status, error.text);
    } else {
        REQUIRE(pieces->part == 1 ||
                    (pieces->part == before->part + 1 && pieces->parts == before->parts &&
                     before->size <= pieces->size),
                "part %" PRIu64 " after part %" PRIu64, pieces->part, before->part);
        REQUIRE((result == 1) == (pieces->part == pieces->parts), "part %" PRIu64 " is %d",
                pieces->part, result);
    }
    REQUIRE(pieces->size <= pieces->capacity && pieces->size <= MOST + PADDING, "%zu bytes",
            pieces->size);
    uint64_t sum = 0;
    for (size_t n = 0; n < pieces->size; n++) /* all of them have arrived */
        sum += pieces->bytes[n];
    REQUIRE(sum <= UINT8_MAX * (uint64_t)pieces->size, "no bytes");
    *before = (struct parts){pieces->part, pieces->parts, pieces->size};
    return result;
}

bool fuzz_pieces(const uint8_t *bytes, size_t size) {
    const uint8_t *all = bytes + size;
    struct pieces pieces = {.bytes = NULL};
    struct parts before = {0};
    bool any = false;
    while (bytes < all) {
        const uint8_t *end = memchr(bytes, '\n', (size_t)(all - bytes));
        if (!end)
            end = all;
        json_t *command = json_loadb((const char *)bytes, (size_t)(end - bytes), 0, NULL);
        if (command)
            any |= play_command(&pieces, &before, command) > 0;
        json_decref(command);
        bytes = end + (end < all);
    }
    pieces_free(&pieces);
    return any;
}
