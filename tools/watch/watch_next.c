#include "build-config.h"

#include "watch_next.h"

#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "common/json_member.h"
#include "watch_truths.h"

static void drop(struct next *next, size_t which) {
    json_decref(next->open[which]);
    next->count--;
    memmove(next->open + which, next->open + which + 1, (next->count - which) * sizeof *next->open);
}

void next_close(struct next *next) {
    while (next->count > 0)
        drop(next, next->count - 1);
}

/* Where the stream's is, else how many there are. */
static size_t find(const struct next *next, const char *stream) {
    size_t which = 0;
    while (which < next->count && strcmp(member_string(next->open[which], "stream"), stream) != 0)
        which++;
    return which;
}

void next_take(struct next *next, json_t *body) {
    const char *stream = member_string(body, "stream");
    if (!stream || !json_object_get(body, "prediction"))
        return;
    size_t which = find(next, stream);
    if (which < next->count)
        drop(next, which);
    else if (next->count == NEXT_STREAMS)
        drop(next, 0);
    next->open[next->count++] = json_incref(body);
    next->came = clock_seconds();
}

void next_print(struct next *next, struct table *table, struct lines *lines) {
    if (next_due(next) > 0)
        return;
    for (size_t i = 0; i < next->count; i++)
        truths_next(table, lines, next->open[i]);
    next_close(next);
}

double next_due(const struct next *next) {
    return next->count > 0 ? fmax(next->came + NEXT_QUIET - clock_seconds(), 0) : INFINITY;
}
