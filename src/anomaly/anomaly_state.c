/* For checkpoints: what is kept of a stream. */
#include <float.h>
#include <math.h>

#include "anomaly_internal.h"

/* Contexts of a column, in that place. */
static size_t memory_size(const struct anomaly *anomaly, uint32_t slot) {
    return slot < anomaly->options.slots ? anomaly->own_memory : anomaly->options.memory;
}

struct anomaly_state anomaly_state(struct anomaly *anomaly, uint32_t slot) {
    return (struct anomaly_state){
        .numbers = anomaly->numbers[slot],
        .alarms = anomaly->numbers[slot] + anomaly->numbers_size,
        .held = anomaly->numbers[slot] + anomaly->numbers_size + anomaly->alarms_size,
        .contexts = floats_of(anomaly, slot, 0),
        .numbers_size = anomaly->numbers_size,
        .alarms_size = anomaly->alarms_size,
        .held_size = anomaly->held_size,
        .holds = anomaly->held_size && stream_of(anomaly, slot)->apart == HELD,
        .contexts_size = memories_of(anomaly) *
                         (slot < anomaly->options.slots ? anomaly->floats : anomaly->shared_floats),
        .memories = memories_of(anomaly),
    };
}

struct anomaly_contexts anomaly_contexts(struct anomaly *anomaly, uint32_t slot, size_t k) {
    size_t columns = anomaly->options.columns;
    const struct novelty *novelty =
        k < columns ? &column_of(anomaly, slot, k)->novelty : held_of(anomaly, slot, k - columns);
    return (struct anomaly_contexts){
        .floats = floats_of(anomaly, slot, k),
        .count = novelty_contexts(novelty, memory_size(anomaly, slot)),
    };
}

static bool column_valid(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    const struct column *column = column_of(anomaly, slot, k);
    return tail_valid(&column->wrong) && fabs(column->last) <= (double)FLT_MAX &&
           habit_valid(&column->repeated) && habit_valid(&column->missing) &&
           novelty_valid(&column->novelty, floats_of(anomaly, slot, k), memory_size(anomaly, slot));
}

static bool held_valid(const struct anomaly *anomaly, uint32_t slot, size_t k) {
    return anomaly->held_size && held_of(anomaly, slot, k)->count > 0 &&
           novelty_valid(held_of(anomaly, slot, k), held_floats_of(anomaly, slot, k),
                         memory_size(anomaly, slot));
}

bool anomaly_valid(struct anomaly *anomaly, uint32_t slot) {
    const struct stream *stream = stream_of(anomaly, slot);
    bool valid = silence_valid(heard_of(anomaly, slot));
    if (!valid || stream->begun == 0)
        return valid;
    valid = stream->begun == 1 && habit_is_count(stream->steps) && alarm_valid(&stream->novelty) &&
            alarm_valid(&stream->surprise) && tail_valid(&stream->wrong) &&
            tail_valid(&stream->joint) &&
            (stream->apart == TOGETHER || stream->apart == APART || stream->apart == HELD) &&
            kept_valid(kept_of(anomaly, slot), anomaly->options.columns);
    for (size_t k = 0; valid && k < anomaly->options.columns; k++)
        valid = column_valid(anomaly, slot, k) &&
                (stream->apart != HELD || held_valid(anomaly, slot, k));
    return valid && (!anomaly->options.symbols || recent_valid(recent_of(anomaly, slot)));
}

bool anomaly_written(struct anomaly *anomaly, uint32_t slot) {
    if (silence_valid(heard_of(anomaly, slot)))
        silence_go_on(&anomaly->silence, heard_of(anomaly, slot));
    return anomaly_valid(anomaly, slot);
}

void anomaly_expect(struct anomaly *anomaly, uint32_t slot) {
    anomaly->expecting = anomaly->silence;
    silence_heard(&anomaly->silence, heard_of(anomaly, slot), anomaly->options.slots, 0, true);
    anomaly_begin(anomaly, slot);
}

void anomaly_settle(struct anomaly *anomaly, uint32_t slot, bool arrived) {
    uint32_t shared = shared_slot(anomaly, slot);
    anomaly->silence = anomaly->expecting;
    if (!arrived)
        return;
    silence_moved(&anomaly->silence, heard_of(anomaly, slot));
    for (size_t k = 0; shared != ANOMALY_ALONE && k < anomaly->options.columns; k++)
        novelty_join(&column_of(anomaly, slot, k)->novelty,
                     &column_of(anomaly, shared, k)->novelty);
}
