/* Dead and saturated units, from the statistics of the hidden layers (topic `state`). */
#ifndef RUNNEL_ALERT_LAYERS_H
#define RUNNEL_ALERT_LAYERS_H

#include <stdbool.h>

#include <jansson.h>

#include "alert_book.h"
#include "tools/shared/watch_state.h"

enum {
    LAYERS_MAX = STATE_LAYERS,
    LAYERS_SATURATED_LEAST = 10, /* messages before saturation is judged */
    LAYERS_DEAD_LEAST = 20,      /* messages in a row without a change */
};

/* Standard deviation over a layer's units below which all have the same value. */
#define LAYERS_ALIKE 1e-3

struct layers {
    struct layer {
        bool unbounded;   /* h beyond 1 was seen: |h| > 0.99 is no saturation there */
        int messages;     /* up to LAYERS_SATURATED_LEAST */
        double saturated; /* moving average of the share */
        int alike, same;  /* messages in a row, up to LAYERS_DEAD_LEAST */
        double mean, std, norm;
    } layers[LAYERS_MAX];
};

/* Take a message and enter in the book: saturated when the moving average of a layer's share
   reaches `limit` (over below 4/5 of it), dead when all units of a layer are alike, or none of them
   changes, LAYERS_DEAD_LEAST messages long. */
void layers_take(struct layers *layers, const json_t *body, double limit, struct book *book,
                 double now);

#endif
