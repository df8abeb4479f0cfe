#include "build-config.h"

#include "web_backlog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Out of the ring; it is the caller's. */
static char *take_oldest(struct backlog *b) {
    char *text = b->texts[b->first];
    b->bytes -= b->sizes[b->first];
    b->first = (b->first + 1) % BACKLOG_MESSAGES;
    b->count--;
    return text;
}

void backlog_add(struct backlog *b, char *text) {
    size_t size = strlen(text);
    while (b->count == BACKLOG_MESSAGES || (b->count && b->bytes + size > BACKLOG_BYTES)) {
        free(take_oldest(b));
        b->passed++;
    }
    size_t last = (b->first + b->count++) % BACKLOG_MESSAGES;
    b->texts[last] = text;
    b->sizes[last] = size;
    b->bytes += size;
}

json_t *backlog_next(struct backlog *b, double now) {
    json_t *body = NULL;
    b->spent = fmax(0, b->spent - (now - b->since) * BACKLOG_RATE);
    b->since = now;
    while (!body && b->count && b->spent < BACKLOG_BURST) {
        b->spent += (double)b->sizes[b->first];
        char *text = take_oldest(b);
        body = json_loads(text, 0, NULL);
        free(text);
    }
    return body;
}

void backlog_clear(struct backlog *b) {
    while (b->count)
        free(take_oldest(b));
    *b = (struct backlog){0};
}
