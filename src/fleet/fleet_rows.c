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

/* Digits, and what ends them, which are taken away. */
static bool take(const char **at, unsigned base, size_t digits_max, char last, uint64_t *number) {
    enum { TEN = 10 };
    size_t digits = 0;
    *number = 0;
    for (; digits < digits_max && isxdigit((unsigned char)**at); digits++, ++*at) {
        const char c = **at;
        const unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | ' ') - 'a') + TEN;
        if (digit >= base)
            return false;
        *number = *number * base + digit;
    }
    return digits > 0 && *(*at)++ == last;
}

bool fleet_span_scan(const char *where, struct fleet_span *span) {
    enum { TEN = 10, SIXTEEN = 16, DECIMALS = 19 };
    uint64_t first, last;
    if (!take(&where, TEN, DECIMALS, ' ', &first) || !take(&where, TEN, DECIMALS, ' ', &last) ||
        !take(&where, SIXTEEN, SIXTEEN, '\0', &span->tag) || last > INT64_MAX || first > last)
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
