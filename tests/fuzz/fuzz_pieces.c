/* What comes in pieces, after a byte that says how. 'c': commands of a control socket, a line of
   JSON for each, with parts of a blob. 's': pieces of snapshots of a fleet, which are made here:
   eight bytes say which, of how large a one, and whether its bytes are as many as they should be.
   'm': such messages as they come, each after its size. 'r': rows of states, in two publications.
   'w': where rows are, as a text. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/fleet_rows.h"
#include "common/error.h"
#include "daemon/pieces.h"
#include "fuzz.h"

enum { MOST = 600, PADDING = 2 };

/* ---- Commands ---- */

/* The parts that have been taken since the first, as the next one has to continue them. */
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
    for (size_t n = 0; n < pieces->size; n++) /* all of them are there */
        sum += pieces->bytes[n];
    REQUIRE(sum <= UINT8_MAX * (uint64_t)pieces->size, "no bytes");
    *before = (struct parts){pieces->part, pieces->parts, pieces->size};
    return result;
}

static bool play_commands(struct fuzz_input input) {
    struct pieces pieces = {.bytes = NULL};
    struct parts before = {0};
    bool any = false;
    while (input.size > 0) {
        const uint8_t *end = memchr(input.bytes, '\n', input.size);
        size_t size = end ? (size_t)(end - input.bytes) : input.size;
        json_t *command = json_loadb((const char *)input.bytes, size, 0, NULL);
        if (command)
            any |= play_command(&pieces, &before, command) > 0;
        json_decref(command);
        size += end != NULL;
        input.bytes += size;
        input.size -= size;
    }
    pieces_free(&pieces);
    return any;
}

/* ---- Snapshots ---- */

static unsigned char pattern(uint64_t position, size_t at) {
    return (unsigned char)(position * 31 + at * 7 + (at >> 8));
}

static bool add(struct fleet_pieces *pieces, const void *message, size_t size, size_t *all) {
    int result = fleet_pieces_add(pieces, message, size);
    REQUIRE(result >= 0, "no memory");
    *all += size;
    REQUIRE(!result || pieces->size <= *all, "a snapshot with more than has come");
    return result > 0;
}

/* What is put together is what was cut, whatever came in between. */
static bool play_made(struct fuzz_input input) {
    enum { TURNS = 12, POSITIONS = 8, UNIT = 4096, HALVES = 0x1FF };
    struct fleet_pieces pieces = {.bytes = NULL};
    unsigned char *message = malloc(FLEET_PIECE_HEAD + 2 * FLEET_PIECE_BYTES);
    bool any = false;
    size_t all = 0;
    REQUIRE(message, "no memory");
    for (size_t n = 0; n < TURNS && input.size > 0; n++) {
        const uint64_t position = fuzz_byte(&input) % POSITIONS;
        const size_t number = fuzz_byte(&input) % POSITIONS;
        const size_t size = (size_t)(fuzz_pair(&input) & HALVES) * UNIT + fuzz_byte(&input);
        const int more = (int)fuzz_byte(&input) - 1; /* bytes; 0 like 1: none */
        fuzz_pair(&input);
        const size_t rest =
            number * FLEET_PIECE_BYTES < size ? size - number * FLEET_PIECE_BYTES : 0;
        size_t count = (rest < FLEET_PIECE_BYTES ? rest : FLEET_PIECE_BYTES);
        int head = snprintf((char *)message, FLEET_PIECE_HEAD,
                            "runnel fleet snapshot %" PRIu64 " %zu %zu\n", position, number, size);
        count += more > 0 ? (size_t)more : 0;
        for (size_t k = 0; k < count; k++)
            message[(size_t)head + k] = pattern(position, number * FLEET_PIECE_BYTES + k);
        struct fuzz_input made = {message, (size_t)head + count};
        size_t made_size = made.size;
        void *block = fuzz_block(&made, &made_size);
        if (add(&pieces, block, made_size, &all)) {
            any = true;
            for (size_t k = 0; k < pieces.size; k++)
                REQUIRE(pieces.bytes[k] == pattern(position, k), "byte %zu is another's", k);
        }
        free(block);
    }
    fleet_pieces_free(&pieces);
    free(message);
    return any;
}

static bool play_messages(struct fuzz_input input) {
    struct fleet_pieces pieces = {.bytes = NULL};
    bool any = false;
    size_t all = 0;
    while (input.size > 0) {
        size_t size = fuzz_pair(&input);
        void *block = fuzz_block(&input, &size);
        any |= add(&pieces, block, size, &all);
        free(block);
    }
    fleet_pieces_free(&pieces);
    return any;
}

/* ---- Rows ---- */

struct visited {
    const uint8_t *begin, *end;
    uint64_t rows;
};

static int visit(void *context, const struct fleet_row *row, struct error *error) {
    struct visited *visited = context;
    const uint8_t *key = row->key, *state = row->state;
    (void)error;
    REQUIRE(row->state_size > 0 && key >= visited->begin && state == key + row->key_size &&
                row->state_size <= (size_t)(visited->end - state),
            "a row that is not there");
    visited->rows++;
    return 0;
}

static bool play_rows(struct fuzz_input input) {
    struct fleet_rows rows = {.seen = NULL};
    struct visited visited = {0};
    void *blocks[2];
    bool good = true;
    for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++) {
        struct error error = {0};
        uint64_t written = fuzz_byte(&input);
        size_t size = n == 0 ? fuzz_pair(&input) : input.size;
        blocks[n] = fuzz_block(&input, &size);
        visited.begin = blocks[n];
        visited.end = visited.begin ? visited.begin + size : NULL;
        bool whole = false;
        REQUIRE(!fleet_rows_visit(&rows, blocks[n], size, written, visit, &visited, &whole, &error),
                "%s", error.text);
        good &= whole;
    }
    REQUIRE(rows.visited == visited.rows && rows.count >= rows.visited, "%" PRIu64 " rows",
            rows.visited);
    for (size_t n = 0; n < rows.room; n++) /* each key once, though other bytes have it */
        for (size_t m = 0; m < n && rows.room <= 1024 && rows.seen[n].key; m++)
            REQUIRE(!rows.seen[m].key || rows.seen[m].key_size != rows.seen[n].key_size ||
                        memcmp(rows.seen[m].key, rows.seen[n].key, rows.seen[n].key_size) != 0,
                    "a key twice");
    fleet_rows_free(&rows);
    free(blocks[0]);
    free(blocks[1]);
    return good && visited.rows > 0;
}

static bool play_where(struct fuzz_input input) {
    struct fleet_span span, again;
    char text[FLEET_WHERE_SIZE] = "", printed[FLEET_WHERE_SIZE];
    size_t size = input.size < sizeof text - 1 ? input.size : sizeof text - 1;
    if (size)
        memcpy(text, input.bytes, size);
    if (!fleet_span_scan(text, &span))
        return false;
    REQUIRE(span.first >= 0 && span.last >= span.first, "from %" PRId64 " to %" PRId64, span.first,
            span.last);
    fleet_span_print(&span, printed);
    REQUIRE(fleet_span_scan(printed, &again) && again.first == span.first &&
                again.last == span.last && again.tag == span.tag,
            "\"%s\" is read as \"%s\"", text, printed);
    return true;
}

bool fuzz_pieces(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    switch (fuzz_byte(&input)) {
    case 'c':
        return play_commands(input);
    case 's':
        return play_made(input);
    case 'r':
        return play_rows(input);
    case 'w':
        return play_where(input);
    default:
        return play_messages(input);
    }
}
