#include "build-config.h"

#include "alert_layers.h"

#include <math.h>
#include <stdio.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"

#define NEWEST_WEIGHT 0.1 /* in the moving average */
#define OVER_SHARE 0.8    /* of the limit */
#define BOUND 1.0001      /* of tanh, with room for rounding */

enum { KIND_SIZE = 96 /* of a layer's kind and member in words */ };

/* Of gates' cells there are two shares; the greater one counts. */
static double share_saturated(const struct layer *layer, const json_t *body) {
    double hidden = layer->unbounded ? NAN : layer_number(body, LAYER_hidden_saturated);
    return fmax(fmax(hidden, layer_number(body, LAYER_cell_saturated)), 0);
}

static void take_saturation(struct layer *layer, const json_t *body) {
    double minimum = layer_number(body, LAYER_hidden_minimum);
    double maximum = layer_number(body, LAYER_hidden_maximum);
    layer->unbounded |= minimum < -BOUND || maximum > BOUND;
    double share = share_saturated(layer, body);
    layer->messages += layer->messages < LAYERS_SATURATED_LEAST;
    double weight = fmax(NEWEST_WEIGHT, 1.0 / layer->messages);
    layer->saturated += weight * (share - layer->saturated);
}

/* One more message in a row, up to where it counts as many; or none. */
static int counted(int messages, bool again) {
    return !again ? 0 : messages < LAYERS_DEAD_LEAST ? messages + 1 : messages;
}

static void take_life(struct layer *layer, const json_t *body) {
    double size = layer_number(body, LAYER_size), mean = layer_number(body, LAYER_hidden_mean);
    double std = layer_number(body, LAYER_hidden_std), norm = layer_number(body, LAYER_hidden_norm);
    bool same = mean == layer->mean && std == layer->std && norm == layer->norm;
    layer->alike = counted(layer->alike, size > 1 && std < LAYERS_ALIKE);
    layer->same = counted(layer->same, layer->messages > 1 && same);
    layer->mean = mean;
    layer->std = std;
    layer->norm = norm;
}

/* "gru", or "gru of level". */
static const char *kind_of(const json_t *body, char kind[KIND_SIZE]) {
    const char *text = member_string(body, "kind"), *member = state_member(body);
    char clean[KIND_SIZE / 4], name[KIND_SIZE / 2] = "";
    text_copy(clean, sizeof clean, text ? text : "unknown");
    if (member)
        text_copy(name, sizeof name, member);
    snprintf(kind, KIND_SIZE, "%s%s%s", clean, *name ? " of " : "", name);
    return kind;
}

static void tell_saturation(const struct layers *layers, const json_t *list, double limit,
                            struct book *book, double now) {
    size_t count = json_array_size(list), worst = 0;
    for (size_t i = 1; i < count && i < LAYERS_MAX; i++)
        if (layers->layers[i].saturated > layers->layers[worst].saturated)
            worst = i;
    const struct layer *layer = &layers->layers[worst];
    char kind[KIND_SIZE];
    if (layer->messages >= LAYERS_SATURATED_LEAST && layer->saturated >= limit)
        book_begin(book, ALERT_SATURATED, now, layer->saturated, limit,
                   "%.0f%% of the units of layer %zu (%s) are saturated", 100 * layer->saturated,
                   worst, kind_of(json_array_get(list, worst), kind));
    else if (layer->saturated < OVER_SHARE * limit)
        book_over(book, ALERT_SATURATED, now, "no layer has more than %.0f%% saturated units",
                  100 * layer->saturated);
}

static void tell_life(const struct layers *layers, const json_t *list, struct book *book,
                      double now) {
    bool dead = false;
    for (size_t i = 0; i < json_array_size(list) && i < LAYERS_MAX; i++) {
        const struct layer *layer = &layers->layers[i];
        char kind[KIND_SIZE];
        kind_of(json_array_get(list, i), kind);
        dead |= layer->alike > 0 || layer->same > 0;
        if (layer->alike >= LAYERS_DEAD_LEAST)
            book_begin(book, ALERT_DEAD, now, layer->std, LAYERS_ALIKE,
                       "all units of layer %zu (%s) have the same value: their deviation is %.2g",
                       i, kind, layer->std);
        else if (layer->same >= LAYERS_DEAD_LEAST)
            book_begin(book, ALERT_DEAD, now, layer->same, LAYERS_DEAD_LEAST,
                       "no unit of layer %zu (%s) has changed for %d messages", i, kind,
                       layer->same);
    }
    if (!dead)
        book_over(book, ALERT_DEAD, now, "the units of every layer move again");
}

void layers_take(struct layers *layers, const json_t *body, double limit, struct book *book,
                 double now) {
    json_t *list = state_layers(body);
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < LAYERS_MAX; i++) {
        take_saturation(&layers->layers[i], json_array_get(list, i));
        take_life(&layers->layers[i], json_array_get(list, i));
    }
    if (count > 0) {
        tell_saturation(layers, list, limit, book, now);
        tell_life(layers, list, book, now);
    }
    json_decref(list);
}
