/* What a daemon has published of its learning, from the first message that came: a sample for
   each `loss` message, and the `state` messages beside them. Memory is bounded: when it is full,
   the older half gets coarser, two samples becoming one that keeps minimum and maximum; so all of a
   long run stays in sight, its newest part in full. */
#ifndef RUNNEL_TOP_PAST_H
#define RUNNEL_TOP_PAST_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/fields.h"

struct sample {
    double examples, steps, time; /* of the message; of several merged ones, those of the newest */
    double weight;                /* messages in it */
    bool apart;                   /* before it there were examples without a message */
    double values[FIELDS];        /* of `loss`; NAN where the message had none */
};

enum { PAST_SAMPLES = 4096, PAST_STATES = 512 };

/* Plain data, zero to begin with. */
struct past {
    struct sample *samples; /* (count,), by rising examples; owned */
    size_t count;
    struct past_state {
        double examples;
        char *text; /* JSON; owned */
        size_t size;
    } states[PAST_STATES];
    size_t state_count;
};

void past_close(struct past *past);

/* Take in a `loss` message; `apart` goes with the sample. What was learned at or after its examples
   is forgotten: either all of it was reset, or a restarted daemon learns it again. */
void past_loss(struct past *past, const json_t *body, bool apart);

/* Take in a `state` message as text from malloc, which becomes the past's. */
void past_state(struct past *past, double examples, char *text);

/* The newest sample, and the newest state, of at most so many examples; NULL when there is none. */
const struct sample *past_at(const struct past *past, double examples);
json_t *past_state_at(const struct past *past, double examples); /* the caller's */

/* The index of the first sample of more examples. */
size_t past_after(const struct past *past, double examples);

#endif
