#include "build-config.h"

#include "top_past.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_member.h"

enum { STATES_LEAST = 4, STATES_BYTES = 16 << 20 };

static void drop_states(struct past *p, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        free(p->states[i].text);
    memmove(p->states + first, p->states + first + count,
            (p->state_count - first - count) * sizeof *p->states);
    p->state_count -= count;
}

void past_close(struct past *p) {
    drop_states(p, 0, p->state_count);
    free(p->samples);
    p->samples = NULL;
    p->count = 0;
}

static struct sample merge_samples(const struct sample *a, const struct sample *b) {
    struct sample both = *b;
    both.weight = a->weight + b->weight;
    both.apart = a->apart || b->apart;
    for (size_t field = 0; field < FIELDS; field++)
        both.values[field] = field_fold(&fields_of_loss[field], a->values[field], a->weight,
                                        b->values[field], b->weight);
    return both;
}

/* Two of the older half become one. */
static void thin_samples(struct past *p) {
    size_t half = p->count / 4 * 2;
    for (size_t i = 0; i < half; i += 2)
        p->samples[i / 2] = merge_samples(&p->samples[i], &p->samples[i + 1]);
    memmove(p->samples + half / 2, p->samples + half, (p->count - half) * sizeof *p->samples);
    p->count -= half / 2;
}

static size_t state_bytes(const struct past *p) {
    size_t bytes = 0;
    for (size_t i = 0; i < p->state_count; i++)
        bytes += p->states[i].size;
    return bytes;
}

/* Of the older half every other one goes. */
static void thin_states(struct past *p) {
    size_t half = p->state_count / 4 * 2;
    for (size_t i = 0; i < half; i += 2) {
        free(p->states[i].text);
        p->states[i / 2] = p->states[i + 1];
    }
    memmove(p->states + half / 2, p->states + half, (p->state_count - half) * sizeof *p->states);
    p->state_count -= half / 2;
}

size_t past_after(const struct past *p, double examples) {
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->samples[middle].examples <= examples)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* States come after the `loss` of the same examples: that of just as many may stay. */
static void forget_from(struct past *p, double examples) {
    while (p->count > 0 && p->samples[p->count - 1].examples >= examples)
        p->count--;
    while (p->state_count > 0 && p->states[p->state_count - 1].examples > examples)
        drop_states(p, p->state_count - 1, 1);
}

void past_loss(struct past *p, const json_t *body, bool apart) {
    struct sample sample = {.weight = 1, .time = (double)time(NULL), .apart = apart};
    if (!member_number(body, "examples", &sample.examples))
        return;
    member_number(body, "time", &sample.time);
    sample.steps = field_number(&fields_of_each[EACH_steps], body);
    for (int field = 0; field < FIELDS; field++)
        sample.values[field] = field_number(&fields_of_loss[field], body);
    if (!p->samples)
        p->samples = malloc(PAST_SAMPLES * sizeof *p->samples);
    if (!p->samples)
        return;
    forget_from(p, sample.examples);
    if (p->count == PAST_SAMPLES)
        thin_samples(p);
    p->samples[p->count++] = sample;
}

void past_state(struct past *p, double examples, char *text) {
    while (p->state_count > 0 && p->states[p->state_count - 1].examples >= examples)
        drop_states(p, p->state_count - 1, 1);
    size_t size = strlen(text);
    while (p->state_count == PAST_STATES ||
           (p->state_count >= STATES_LEAST && state_bytes(p) + size > STATES_BYTES))
        thin_states(p);
    p->states[p->state_count++] = (struct past_state){examples, text, size};
}

const struct sample *past_at(const struct past *p, double examples) {
    size_t after = past_after(p, examples);
    return after > 0 ? &p->samples[after - 1] : NULL;
}

json_t *past_state_at(const struct past *p, double examples) {
    size_t i = p->state_count;
    while (i > 0 && p->states[i - 1].examples > examples)
        i--;
    return i > 0 ? json_loads(p->states[i - 1].text, 0, NULL) : NULL;
}
