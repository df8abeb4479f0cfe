/* A stream that comes from elsewhere with what was kept of it there, and parameters that do. */
#include <assert.h>
#include <string.h>

#include "learner_internal.h"

/* All that is kept of a stream begins, as with its first step. */
static void begin(struct learner *learner, uint32_t slot) {
    learner_begin_slot(learner, slot);
    if (learner->truth) {
        truth_begin(learner->truth, slot);
        learner->begins[slot] = false;
    }
    if (learner->forecaster) {
        forecast_begin(learner, slot);
        mixture_begin(learner->mixture, slot);
    }
    watch_expect(learner, slot);
}

static void forget_slot(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++)
        plan_append(&learner->members[m], OPERATION_FORGET, slot);
}

bool learner_displaces(const struct learner *learner, const char *key, size_t key_size,
                       const char **displaced, size_t *displaced_size) {
    const struct streams *streams = learner->streams;
    uint32_t slot = streams_find(streams, key, key_size);
    if (slot == STREAMS_NONE && streams_count(streams) < streams_capacity(streams))
        return false;
    slot = slot == STREAMS_NONE ? streams_oldest(streams) : slot;
    *displaced = streams_key(streams, slot, displaced_size);
    return true;
}

int learner_place(struct learner *learner, const char *key, size_t key_size,
                  struct learner_place *place, struct error *error) {
    struct streams *streams = learner->streams;
    *place = (struct learner_place){.slot = streams_find(streams, key, key_size)};
    place->known = place->slot != STREAMS_NONE;
    place->evicts = !place->known && streams_count(streams) == streams_capacity(streams);
    if (place->evicts) {
        uint32_t oldest = streams_oldest(streams);
        const char *gone = streams_key(streams, oldest, &place->evicted_size);
        memcpy(place->evicted, gone, place->evicted_size);
        streams_remove(streams, oldest);
    }
    if (!place->known)
        place->slot = streams_add(streams, key, key_size);
    forget_slot(learner, place->slot);
    begin(learner, place->slot);
    return learner_play(learner, error);
}

void learner_settle(struct learner *learner, const struct learner_place *place) {
    const struct learner_observer *observer = &learner->observer;
    streams_touch(learner->streams, place->slot);
    learner_mark(learner, place->slot);
    watch_settle(learner, place->slot, true);
    if (!place->known) {
        size_t size;
        const char *key = streams_key(learner->streams, place->slot, &size);
        changes_came(learner->changes, key, size);
    }
    if (!place->evicts)
        return;
    changes_gone(learner->changes, place->evicted, place->evicted_size,
                 learner->counters.position + 1);
    learner->counters.forgotten++;
    if (observer->forgotten)
        observer->forgotten(observer->context, place->evicted, place->evicted_size);
}

int learner_withdraw(struct learner *learner, const struct learner_place *place, uint32_t *slot,
                     struct error *error) {
    struct streams *streams = learner->streams;
    watch_settle(learner, place->slot, false);
    *slot = place->known ? place->slot : STREAMS_NONE;
    if (!place->known)
        streams_remove(streams, place->slot);
    if (place->evicts) {
        *slot = streams_add(streams, place->evicted, place->evicted_size);
        assert(*slot == place->slot);
        streams_age(streams, *slot);
    }
    forget_slot(learner, place->slot);
    if (*slot != STREAMS_NONE)
        begin(learner, *slot);
    return learner_play(learner, error);
}

void learner_restored(struct learner *learner, uint32_t slot) {
    watch_settle(learner, slot, false);
}

int learner_write_parameters(struct learner *learner, size_t member, const float *values,
                             struct error *error) {
    const struct model *model = learner->members[member].model;
    if (learner_flush(learner, error))
        return -1;
    for (size_t n = 0; n < model->tensor_count; n++)
        if (learner_write(learner, member, ENGINE_PARAMETERS, n, values + model->tensors[n].offset,
                          error))
            return -1;
    return 0;
}
