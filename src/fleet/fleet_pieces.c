#include "fleet_pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "runnel fleet snapshot "

enum {
    AT_ONCE = 4,           /* snapshots; of more the oldest are left out */
    SIZE_MAXIMUM = 1 << 30 /* bytes of one */
};

/* A snapshot of which some pieces are there. */
struct fleet_gathered {
    struct fleet_gathered *next;
    uint64_t position;
    size_t size, missing;
    unsigned char **piece; /* (fleet_piece_count(size),) NULL: it is missing */
};

struct piece {
    uint64_t position;
    size_t number, size; /* size: of the snapshot */
    const unsigned char *bytes;
    size_t count; /* bytes here */
};

/* ---- A piece ---- */

size_t fleet_piece_count(size_t size) {
    return size > FLEET_PIECE_BYTES ? (size - 1) / FLEET_PIECE_BYTES + 1 : 1;
}

static size_t bytes_of(size_t size, size_t piece) {
    size_t rest = size - piece * FLEET_PIECE_BYTES;
    return rest < FLEET_PIECE_BYTES ? rest : FLEET_PIECE_BYTES;
}

bool fleet_piece_is(const void *message, size_t size) {
    return size >= strlen(HEAD) && memcmp(message, HEAD, strlen(HEAD)) == 0;
}

size_t fleet_piece_write(unsigned char *message, const void *snapshot, size_t size,
                         uint64_t position, size_t piece) {
    int head = snprintf((char *)message, FLEET_PIECE_HEAD, HEAD "%" PRIu64 " %zu %zu\n", position,
                        piece, size);
    size_t count = bytes_of(size, piece);
    if (count)
        memcpy(message + head, (const unsigned char *)snapshot + piece * FLEET_PIECE_BYTES, count);
    return (size_t)head + count;
}

/* The number at the front and what ends it, which are taken away; false: there is none. */
static bool take_number(const unsigned char **at, const unsigned char *end, char last,
                        uint64_t *number) {
    enum { TEN = 10, DIGITS_MAX = 19 };
    size_t digits = 0;
    for (*number = 0; *at < end && **at >= '0' && **at <= '9' && digits < DIGITS_MAX; digits++)
        *number = *number * TEN + (uint64_t)(*(*at)++ - '0');
    return digits > 0 && *at < end && *(*at)++ == last;
}

static bool read_piece(const unsigned char *message, size_t size, struct piece *piece) {
    const unsigned char *at = message + strlen(HEAD), *end = message + size;
    uint64_t number, all;
    if (!fleet_piece_is(message, size) || !take_number(&at, end, ' ', &piece->position) ||
        !take_number(&at, end, ' ', &number) || !take_number(&at, end, '\n', &all) ||
        all > SIZE_MAXIMUM || number >= fleet_piece_count(all))
        return false;
    piece->number = number;
    piece->size = all;
    piece->bytes = at;
    piece->count = (size_t)(end - at);
    return piece->count == bytes_of(all, number);
}

/* ---- All of them ---- */

static void free_gathered(struct fleet_gathered *gathered) {
    for (size_t n = 0; gathered->piece && n < fleet_piece_count(gathered->size); n++)
        free(gathered->piece[n]);
    free(gathered->piece);
    free(gathered);
}

static struct fleet_gathered *begin(struct fleet_pieces *pieces, const struct piece *piece) {
    struct fleet_gathered *gathered = calloc(1, sizeof *gathered), **last = &pieces->gathered;
    if (!gathered)
        return NULL;
    gathered->position = piece->position;
    gathered->size = piece->size;
    gathered->missing = fleet_piece_count(piece->size);
    gathered->piece = calloc(gathered->missing, sizeof *gathered->piece);
    if (!gathered->piece) {
        free(gathered);
        return NULL;
    }
    gathered->next = pieces->gathered;
    pieces->gathered = gathered;
    for (size_t n = 0; *last && n < AT_ONCE; n++)
        last = &(*last)->next;
    if (*last) {
        free_gathered(*last);
        *last = NULL;
    }
    return gathered;
}

static struct fleet_gathered *find(const struct fleet_pieces *pieces, const struct piece *piece) {
    struct fleet_gathered *gathered = pieces->gathered;
    while (gathered && (gathered->position != piece->position || gathered->size != piece->size))
        gathered = gathered->next;
    return gathered;
}

static int add(struct fleet_gathered *gathered, const struct piece *piece) {
    unsigned char *copy;
    if (gathered->piece[piece->number])
        return 0;
    if (!(copy = malloc(piece->count + 1)))
        return -1;
    if (piece->count)
        memcpy(copy, piece->bytes, piece->count);
    gathered->piece[piece->number] = copy;
    gathered->missing--;
    return 0;
}

static int put_together(struct fleet_pieces *pieces, struct fleet_gathered *gathered) {
    unsigned char *bytes = malloc(gathered->size + 1);
    struct fleet_gathered **link = &pieces->gathered;
    if (!bytes)
        return -1;
    for (size_t n = 0; n < fleet_piece_count(gathered->size); n++)
        memcpy(bytes + n * FLEET_PIECE_BYTES, gathered->piece[n], bytes_of(gathered->size, n));
    pieces->bytes = bytes;
    pieces->size = gathered->size;
    while (*link != gathered)
        link = &(*link)->next;
    *link = gathered->next;
    free_gathered(gathered);
    return 1;
}

int fleet_pieces_add(struct fleet_pieces *pieces, const void *message, size_t size) {
    struct piece piece;
    free(pieces->bytes);
    pieces->bytes = NULL;
    pieces->size = 0;
    if (!read_piece(message, size, &piece))
        return 0;
    struct fleet_gathered *gathered = find(pieces, &piece);
    if ((!gathered && !(gathered = begin(pieces, &piece))) || add(gathered, &piece))
        return -1;
    return gathered->missing ? 0 : put_together(pieces, gathered);
}

void fleet_pieces_free(struct fleet_pieces *pieces) {
    while (pieces->gathered) {
        struct fleet_gathered *next = pieces->gathered->next;
        free_gathered(pieces->gathered);
        pieces->gathered = next;
    }
    free(pieces->bytes);
    *pieces = (struct fleet_pieces){.bytes = NULL};
}
