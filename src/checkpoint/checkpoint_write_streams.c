/* Writing a checkpoint's streams: one row of one part. */
#include <string.h>

#include "checkpoint_writing.h"
#include "learner/streams.h"
#include "learner/truth.h"

int writing_put(struct writing *writing, const void *bytes, size_t size, struct error *error) {
    return writing->writer ? safetensors_put(writing->writer, bytes, size, error)
                           : safetensors_to_memory(writing->memory, bytes, size, error);
}

static int put_key(struct writing *writing, uint32_t slot, struct error *error) {
    unsigned char row[CHECKPOINT_KEY] = {0};
    size_t size;
    const char *key = streams_key(learner_streams_table(writing->learner), slot, &size);
    row[0] = (unsigned char)size;
    memcpy(row + 1, key, size);
    return writing_put(writing, row, sizeof row, error);
}

static int put_window(struct writing *writing, size_t member, uint32_t slot, struct error *error) {
    struct learner_window w = learner_window(writing->learner, member, slot);
    const int64_t row[CHECKPOINT_WINDOW] = {w.next, w.length, w.closed, w.terms, w.open};
    return writing_put(writing, row, sizeof row, error);
}

static int put_record(struct writing *writing, size_t member, uint32_t slot, struct error *error) {
    size_t size = learner_record_size(writing->learner, member) * sizeof(float);
    if (learner_read(writing->learner, member, ENGINE_SLOT, slot, writing->buffer, error))
        return -1;
    return writing_put(writing, writing->buffer, size, error);
}

static int put_open(struct writing *writing, uint32_t slot, struct error *error) {
    for (size_t place = 0; place < learner_places(writing->learner); place++) {
        const struct learner_open *open = learner_open_step(writing->learner, slot, place);
        const int64_t row[CHECKPOINT_OPEN] = {(int64_t)open->producer,
                                              (int64_t)open->sequence,
                                              open->epoch,
                                              open->steps,
                                              open->known,
                                              open->terms};
        if (writing_put(writing, row, sizeof row, error))
            return -1;
    }
    return 0;
}

static int put_open_times(struct writing *writing, uint32_t slot, struct error *error) {
    for (size_t place = 0; place < learner_places(writing->learner); place++) {
        double time = learner_open_step(writing->learner, slot, place)->time;
        if (writing_put(writing, &time, sizeof time, error))
            return -1;
    }
    return 0;
}

static int put_open_classes(struct writing *writing, uint32_t slot, struct error *error) {
    for (size_t place = 0; place < learner_places(writing->learner); place++) {
        uint64_t classes = learner_open_step(writing->learner, slot, place)->classes;
        if (writing_put(writing, &classes, sizeof classes, error))
            return -1;
    }
    return 0;
}

static int put_truth(struct writing *writing, enum checkpoint_part part, uint32_t slot,
                     struct error *error) {
    const struct truth_state s = truth_state(learner_truth(writing->learner), slot);
    if (part == PART_SAID)
        return writing_put(writing, s.said, s.said_size * sizeof(double), error);
    if (part == PART_LEVELS)
        return writing_put(writing, s.levels, s.levels_size * sizeof(double), error);
    return writing_put(writing, s.errors, s.errors_size * sizeof(float), error);
}

int writing_watch(struct writing *writing, enum checkpoint_part part, uint32_t slot,
                  struct error *error) {
    const struct anomaly_state s = learner_anomaly(writing->learner, slot);
    if (part == PART_WATCH)
        return writing_put(writing, s.numbers, s.numbers_size * sizeof(double), error);
    if (part == PART_ALARMS)
        return writing_put(writing, s.alarms, s.alarms_size * sizeof(double), error);
    if (part == PART_HOLDS)
        return s.holds ? writing_put(writing, s.held, s.held_size * sizeof(double), error) : 0;
    for (size_t m = 0; m < s.memories; m++) {
        const struct anomaly_contexts c = learner_contexts(writing->learner, slot, m);
        if (writing_put(writing, c.floats, c.count * ANOMALY_CONTEXT * sizeof(float), error))
            return -1;
    }
    return 0;
}

int writing_row(struct writing *writing, const struct checkpoint_entry *of, uint32_t slot,
                struct error *error) {
    size_t size = learner_model(writing->learner)->architecture.input.size;
    size_t target = learner_model(writing->learner)->target_size;
    size_t places = learner_places(writing->learner);
    const struct learner_forecast forecast = learner_forecast(writing->learner, slot);
    switch (of->part) {
    case PART_KEYS:
        return put_key(writing, slot, error);
    case PART_WINDOWS:
        return put_window(writing, of->member, slot, error);
    case PART_HELD:
        return writing_put(writing, learner_held(writing->learner, slot), size * sizeof(float),
                           error);
    case PART_TIMES:
        return writing_put(writing, learner_times(writing->learner, slot),
                           LEARNER_TIMES * sizeof(double), error);
    case PART_SCALES:
        return writing_put(writing, learner_scale(writing->learner, slot, 0),
                           places * 2 * target * sizeof(double), error);
    case PART_BASES:
        return writing_put(writing, learner_base(writing->learner, slot, 0),
                           places * target * sizeof(float), error);
    case PART_LASTS:
        return writing_put(writing, learner_last(writing->learner, slot), target * sizeof(float),
                           error);
    case PART_OPEN:
        return put_open(writing, slot, error);
    case PART_OPEN_TIMES:
        return put_open_times(writing, slot, error);
    case PART_OPEN_CLASSES:
        return put_open_classes(writing, slot, error);
    case PART_EXPERTS:
        return writing_put(writing, forecast.experts, forecast.experts_size * sizeof(double),
                           error);
    case PART_MIXTURE:
        return writing_put(writing, forecast.mixture, forecast.mixture_size * sizeof(double),
                           error);
    case PART_BASELINE:
        return writing_put(writing, learner_baseline(writing->learner, slot),
                           learner_baseline_size(writing->learner) * sizeof(double), error);
    case PART_SAID:
    case PART_LEVELS:
    case PART_ERRORS:
        return put_truth(writing, of->part, slot, error);
    case PART_WATCH:
    case PART_HOLDS:
    case PART_CONTEXTS:
    case PART_ALARMS:
        return writing_watch(writing, of->part, slot, error);
    default:
        return put_record(writing, of->member, slot, error);
    }
}
