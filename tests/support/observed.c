#include "observed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

uint64_t observed_hash(const void *bytes, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t n = 0; n < size; n++)
        hash = (hash ^ ((const unsigned char *)bytes)[n]) * 0x100000001B3u;
    return hash;
}

static struct observation *append(struct observations *o, const char *key, size_t key_size) {
    assert_true(o->count < o->capacity);
    struct observation *observation = &o->list[o->count++];
    memset(observation, 0, sizeof *observation);
    memcpy(observation->key, key, key_size);
    return observation;
}

static void learned(void *context, const struct learned *l) {
    struct observations *o = context;
    struct observation *observation = append(o, l->key, l->key_size);
    /* Plans follow one another: a new one begins after all examples of the previous one. */
    assert_true(l->examples <= l->played);
    if (o->played && l->examples > 1 && l->played != o->played)
        assert_int_equal(l->examples, o->played + 1);
    o->played = l->played;
    observation->examples = l->examples;
    observation->steps = l->steps;
    observation->received = l->received;
    observation->scored = l->scored;
    observation->loss = l->scored ? l->loss : -1; /* NaN compares with nothing */
    observation->squared_error = l->squared_error;
    observation->observed = l->observed;
    observation->correct = l->correct;
    observation->updates = l->updates;
    observation->skipped = l->skipped;
    observation->gradient_norm = l->gradient_norm;
    observation->update_ratio = l->update_ratio;
    observation->output_steps = l->output_steps;
    observation->streams = l->streams;
    observation->truths = l->truth != NULL;
    if (l->mean)
        observation->scale = observed_hash(l->mean, o->inputs * sizeof *l->mean) ^
                             observed_hash(l->deviation, o->inputs * sizeof *l->deviation) << 1;
    if (l->outputs)
        observation->outputs =
            observed_hash(l->outputs, l->output_steps * o->outputs * sizeof *l->outputs);
    if (l->measured)
        observation->measured = observed_hash(l->measured[0], o->layers * sizeof **l->measured);
}

static void forgotten(void *context, const char *key, size_t key_size) {
    append(context, key, key_size)->forgotten = true;
}

static bool measure(void *context, uint64_t example) {
    const struct observations *o = context;
    return o->measure_every && example % o->measure_every == 0;
}

struct learner_observer observations_observer(struct observations *observations) {
    return (struct learner_observer){
        .context = observations, .learned = learned, .forgotten = forgotten, .measure = measure};
}

#define ASSERT_SAME(field)                                                                         \
    if (memcmp(&x->field, &y->field, sizeof x->field))                                             \
    fail_msg("observation %zu (example %llu): " #field " differs", n,                              \
             (unsigned long long)x->examples)

void assert_same_observations(const struct observations *a, const struct observations *b) {
    for (size_t n = 0; n < a->count && n < b->count; n++) {
        const struct observation *x = &a->list[n], *y = &b->list[n];
        ASSERT_SAME(forgotten);
        ASSERT_SAME(truths);
        ASSERT_SAME(key);
        ASSERT_SAME(examples);
        ASSERT_SAME(steps);
        ASSERT_SAME(received);
        ASSERT_SAME(scored);
        ASSERT_SAME(loss);
        ASSERT_SAME(squared_error);
        ASSERT_SAME(observed);
        ASSERT_SAME(correct);
        ASSERT_SAME(updates);
        ASSERT_SAME(skipped);
        ASSERT_SAME(gradient_norm);
        ASSERT_SAME(update_ratio);
        ASSERT_SAME(scale);
        ASSERT_SAME(outputs);
        ASSERT_SAME(output_steps);
        ASSERT_SAME(measured);
        ASSERT_SAME(streams);
        assert_memory_equal(x, y, sizeof *x);
    }
    assert_int_equal(a->count, b->count);
}
