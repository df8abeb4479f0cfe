#include "fleet_rows.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"

/* ---- Where ---- */

void fleet_span_print(const struct fleet_span *span, char where[FLEET_WHERE_SIZE]) {
    snprintf(where, FLEET_WHERE_SIZE, "%" PRId64 " %" PRId64 " %016" PRIx64, span->first,
             span->last, span->tag);
}

enum { TEN = 10, SIXTEEN = 16, DECIMALS = 19 };

/* Digits, and what ends them, which are taken away; false: they are not there. */
static bool take(const unsigned char **at, const unsigned char *end, unsigned base,
                 size_t digits_max, char last, uint64_t *number) {
    size_t digits = 0;
    *number = 0;
    for (; *at < end && digits < digits_max && isxdigit(**at); digits++, ++*at) {
        const unsigned char c = **at;
        const unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | ' ') - 'a') + TEN;
        if (digit >= base)
            return false;
        *number = *number * base + digit;
    }
    return digits > 0 && *at < end && *(*at)++ == (unsigned char)last;
}

bool fleet_span_scan(const char *where, struct fleet_span *span) {
    const unsigned char *at = (const unsigned char *)where, *end = at + strlen(where) + 1;
    uint64_t first, last;
    if (!take(&at, end, TEN, DECIMALS, ' ', &first) || !take(&at, end, TEN, DECIMALS, ' ', &last) ||
        !take(&at, end, SIXTEEN, SIXTEEN, '\0', &span->tag) || last > INT64_MAX || first > last)
        return false;
    span->first = (int64_t)first;
    span->last = (int64_t)last;
    return true;
}

/* ---- A row ---- */

/* The next row; 0: there is none; -1: it is cut short. */
static int next_row(const unsigned char *bytes, size_t size, size_t *at, struct fleet_row *row) {
    uint32_t head[FLEET_ROW_HEAD];
    if (*at == size)
        return 0;
    if (size - *at < sizeof head)
        return -1;
    memcpy(head, bytes + *at, sizeof head);
    *at += sizeof head;
    if ((uint64_t)head[0] + head[1] > size - *at)
        return -1;
    *row = (struct fleet_row){bytes + *at, bytes + *at + head[0], head[0], head[1]};
    *at += (size_t)head[0] + head[1];
    return 1;
}

/* ---- Streams that have been seen ---- */

/* Where the key is, or belongs. */
static struct fleet_row *find(const struct fleet_rows *rows, const struct fleet_row *row) {
    size_t at = hash_bytes(HASH_BEGIN, row->key, row->key_size) & (rows->room - 1);
    while (rows->seen[at].key && (rows->seen[at].key_size != row->key_size ||
                                  memcmp(rows->seen[at].key, row->key, row->key_size) != 0))
        at = (at + 1) & (rows->room - 1);
    return &rows->seen[at];
}

static int grow(struct fleet_rows *rows, struct error *error) {
    enum { FIRST = 1024 };
    struct fleet_rows larger = *rows;
    larger.room = rows->room ? 2 * rows->room : FIRST;
    larger.seen = calloc(larger.room, sizeof *larger.seen);
    if (!larger.seen)
        return error_no_memory(error);
    for (size_t n = 0; n < rows->room; n++)
        if (rows->seen[n].key)
            *find(&larger, &rows->seen[n]) = rows->seen[n];
    free(rows->seen);
    *rows = larger;
    return 0;
}

/* Whether the stream is one that has not been seen. */
static int is_new(struct fleet_rows *rows, const struct fleet_row *row, bool *fresh,
                  struct error *error) {
    if (2 * (rows->count + 1) > rows->room && grow(rows, error))
        return -1;
    struct fleet_row *at = find(rows, row);
    *fresh = !at->key;
    rows->count += *fresh;
    *at = *row;
    return 0;
}

int fleet_rows_visit(struct fleet_rows *rows, const unsigned char *bytes, size_t size,
                     uint64_t written, fleet_visit *visit, void *context, bool *whole,
                     struct error *error) {
    struct fleet_row row;
    size_t at = 0;
    uint64_t count = 0;
    int more;
    bool fresh;
    while ((more = next_row(bytes, size, &at, &row)) > 0) {
        count++;
        if (is_new(rows, &row, &fresh, error))
            return -1;
        if (!fresh || row.state_size == 0)
            continue;
        rows->visited++;
        if (visit(context, &row, error))
            return -1;
    }
    *whole = more == 0 && count == written;
    return 0;
}

void fleet_rows_free(struct fleet_rows *rows) {
    free(rows->seen);
    *rows = (struct fleet_rows){.seen = NULL};
}

/* ---- Pieces of a snapshot ---- */

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

static bool read_piece(const unsigned char *message, size_t size, struct piece *piece) {
    const unsigned char *at = message + strlen(HEAD), *end = message + size;
    uint64_t number, all;
    if (!fleet_piece_is(message, size) || !take(&at, end, TEN, DECIMALS, ' ', &piece->position) ||
        !take(&at, end, TEN, DECIMALS, ' ', &number) ||
        !take(&at, end, TEN, DECIMALS, '\n', &all) || all > SIZE_MAXIMUM ||
        number >= fleet_piece_count(all))
        return false;
    piece->number = number;
    piece->size = all;
    piece->bytes = at;
    piece->count = (size_t)(end - at);
    return piece->count == bytes_of(all, number);
}

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

static struct fleet_gathered *find_gathered(const struct fleet_pieces *pieces,
                                            const struct piece *piece) {
    struct fleet_gathered *gathered = pieces->gathered;
    while (gathered && (gathered->position != piece->position || gathered->size != piece->size))
        gathered = gathered->next;
    return gathered;
}

static int add_piece(struct fleet_gathered *gathered, const struct piece *piece) {
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
    struct fleet_gathered *gathered = find_gathered(pieces, &piece);
    if ((!gathered && !(gathered = begin(pieces, &piece))) || add_piece(gathered, &piece))
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
