/* Reading a checkpoint's streams: a row of each part for each, checked before anything uses it. */
#include <math.h>
#include <string.h>

#include "checkpoint_reading.h"
#include "common/wire.h"
#include "learner/streams.h"
#include "learner/truth.h"

static bool symbol_fits(const float *bits, size_t size, bool sign) {
    uint32_t id;
    memcpy(&id, bits, sizeof id);
    return (sign ? id & ~SYMBOL_MINUS : id) < size;
}

/* Of the engine's x (features,). A symbol of columns, or a hashed one, may count as minus its row.
 */
static bool input_fits(const struct model *model, const float *x) {
    const struct input *input = &model->architecture.input;
    for (size_t n = 0; n < model->part_count; n++) {
        const struct input_part *part = &model->parts[n];
        if (part->size && !symbol_fits(x + part->from, part->size, true))
            return false;
    }
    return input->kind != INPUT_SYMBOL || symbol_fits(x, input->size, input->hash > 0);
}

/* Whether an engine can resume from a record whose states are finite: symbols of the alphabet,
   classes of the output, and as many targets among the closed steps as the window says. */
static bool record_valid(const struct reading *reading, size_t member, const float *record,
                         const struct learner_window *window) {
    const struct model *model = learner_member_model(reading->learner, member);
    const struct output *output = &model->architecture.output;
    bool classes = loss_kind(output->loss)->class_id;
    size_t width = model->features, ring = learner_ring(reading->learner, member);
    size_t solved = model->solved ? model->solved - 1 : 0, size = model->target_size;
    size_t places = model->open == 1 ? 1 : ring, terms = 0;
    size_t stride = model->state_size + width + model->horizons * (size + 1);
    const float *positions = record + model->state_size + places * (model->outputs + solved);
    for (size_t p = 0; p < ring; p++) {
        const float *x = positions + p * stride + model->state_size;
        const float *y = x + width, *kept = y + model->horizons * size;
        size_t age = (window->next + ring - p) % ring; /* steps before the next one */
        bool closed = age > window->open && age <= window->open + window->closed;
        if (!input_fits(model, x))
            return false;
        for (size_t h = 0; h < model->horizons; h++) {
            if ((kept[h] != 0 && kept[h] != 1) ||
                (kept[h] == 1 && classes && !symbol_fits(y + h * size, output->size, false)))
                return false;
            terms += closed && kept[h] == 1;
        }
    }
    return terms == window->terms;
}

static int read_window(const struct reading *reading, size_t member, size_t row,
                       struct learner_window *window, struct error *error) {
    int64_t w[CHECKPOINT_WINDOW];
    if (reading_member_row(reading, PART_WINDOWS, member, row, w, sizeof w, error))
        return -1;
    for (size_t n = 0; n < CHECKPOINT_WINDOW; n++)
        if (w[n] < 0 || w[n] > INT32_MAX)
            return reading_damaged(reading, "a stream's window cannot be", error);
    *window = (struct learner_window){(uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2],
                                      (uint32_t)w[3], (uint32_t)w[4]};
    if (!learner_window_valid(reading->learner, member, window))
        return reading_damaged(reading, "a stream's window cannot be", error);
    return 0;
}

/* Targets of the step at a place that its record says are to be learned from. */
static size_t count_marks(const struct reading *reading, size_t place) {
    const struct model *model = reading->model;
    size_t solved = model->solved ? model->solved - 1 : 0, count = 0;
    size_t fixed = model->state_size + learner_places(reading->learner) * (model->outputs + solved);
    size_t before = model->state_size + model->features + model->horizons * model->target_size;
    const float *record = reading->buffer;
    const float *marks = record + fixed + place * (before + model->horizons) + before;
    for (size_t h = 0; h < model->horizons; h++)
        count += marks[h] == 1;
    return count;
}

/* Those of the open steps that are there must have as many targets as their record says, which has
   been read last. */
static int read_open_steps(const struct reading *reading, size_t row, uint32_t slot,
                           struct error *error) {
    struct learner *learner = reading->learner;
    const struct learner_window window = learner_window(learner, 0, slot);
    size_t places = learner_places(learner);
    for (size_t place = 0; place < places; place++) {
        int64_t numbers[CHECKPOINT_OPEN];
        size_t age = (window.next + places - place - 1) % places + 1; /* 1: the newest step */
        if (reading_row(reading, PART_OPEN, row * places + place, numbers, sizeof numbers, error))
            return -1;
        *learner_open_step(learner, slot, place) =
            (struct learner_open){.producer = (uint64_t)numbers[0],
                                  .sequence = (uint64_t)numbers[1],
                                  .epoch = (uint32_t)numbers[2],
                                  .steps = (uint32_t)numbers[3],
                                  .known = (uint32_t)numbers[4],
                                  .terms = (uint32_t)numbers[5]};
        for (size_t n = 2; n < CHECKPOINT_OPEN; n++)
            if (numbers[n] < 0 || numbers[n] > UINT32_MAX)
                return reading_damaged(reading, "what is known of an open step cannot be", error);
        if (numbers[4] > 1 ||
            (age <= window.open && (size_t)numbers[5] != count_marks(reading, place)))
            return reading_damaged(reading, "what is known of an open step cannot be", error);
    }
    return 0;
}

static int read_open_times(const struct reading *reading, size_t row, uint32_t slot,
                           struct error *error) {
    size_t places = learner_places(reading->learner);
    for (size_t place = 0; place < places; place++) {
        double *time = &learner_open_step(reading->learner, slot, place)->time;
        if (reading_row(reading, PART_OPEN_TIMES, row * places + place, time, sizeof *time, error))
            return -1;
        if (!isfinite(*time))
            return reading_damaged(reading, "the time of an open step cannot be", error);
    }
    return 0;
}

/* Where the file lacks them, all classes that it has appeared before. */
static int read_open_classes(const struct reading *reading, size_t row, uint32_t slot,
                             struct error *error) {
    struct learner *learner = reading->learner;
    size_t places = learner_places(learner);
    uint64_t most = learner_lexicon(learner, learner_lexicon_of_classes(learner)).count;
    for (size_t place = 0; place < places; place++) {
        uint64_t *classes = &learner_open_step(learner, slot, place)->classes;
        *classes = most;
        if (reading_row(reading, PART_OPEN_CLASSES, row * places + place, classes, sizeof *classes,
                        error))
            return -1;
        if (*classes > most)
            return reading_damaged(reading, "the classes of an open step cannot be", error);
    }
    return 0;
}

/* What waits for targets, and the last x. */
static int read_open(const struct reading *reading, size_t row, uint32_t slot,
                     struct error *error) {
    struct learner *learner = reading->learner;
    size_t size = reading->model->target_size, places = learner_places(learner);
    size_t inputs = reading->model->architecture.input.size;
    float *held = learner_held(learner, slot);
    if ((held && reading_row(reading, PART_HELD, row, held, inputs * sizeof *held, error)) ||
        (reading_has(reading, PART_SCALES) &&
         reading_row(reading, PART_SCALES, row, learner_scale(learner, slot, 0),
                     places * 2 * size * sizeof(double), error)) ||
        (reading_has(reading, PART_BASES) &&
         reading_row(reading, PART_BASES, row, learner_base(learner, slot, 0),
                     places * size * sizeof(float), error)) ||
        (reading_has(reading, PART_LASTS) &&
         reading_row(reading, PART_LASTS, row, learner_last(learner, slot), size * sizeof(float),
                     error)))
        return -1;
    if (!learner_targets_valid(learner, slot))
        return reading_damaged(reading, "what a stream's targets are relative to cannot be", error);
    if (reading->begins) /* no step is open */
        return 0;
    if (reading_has(reading, PART_OPEN) && read_open_steps(reading, row, slot, error))
        return -1;
    if (reading_has(reading, PART_OPEN_TIMES) && read_open_times(reading, row, slot, error))
        return -1;
    return reading_has(reading, PART_OPEN_CLASSES) ? read_open_classes(reading, row, slot, error)
                                                   : 0;
}

static int read_forecast(const struct reading *reading, size_t row, uint32_t slot,
                         struct error *error) {
    const struct learner_forecast forecast = learner_forecast(reading->learner, slot);
    if (!forecast.experts)
        return 0;
    if (reading_row(reading, PART_EXPERTS, row, forecast.experts,
                    forecast.experts_size * sizeof(double), error) ||
        reading_row(reading, PART_MIXTURE, row, forecast.mixture,
                    forecast.mixture_size * sizeof(double), error))
        return -1;
    if (!learner_forecast_valid(reading->learner, slot))
        return reading_damaged(reading, "what a stream's experts keep cannot be", error);
    return 0;
}

/* A checkpoint of before has none. */
static int read_baseline(const struct reading *reading, size_t row, uint32_t slot,
                         struct error *error) {
    size_t size = learner_baseline_size(reading->learner);
    if (!size)
        return 0;
    if (reading->layout.of[reading->layout.parts[0][PART_BASELINE]].lacked) {
        learner_lose_baseline(reading->learner, slot);
        return 0;
    }
    if (reading_row(reading, PART_BASELINE, row, learner_baseline(reading->learner, slot),
                    size * sizeof(double), error))
        return -1;
    if (!learner_baseline_valid(reading->learner, slot))
        return reading_damaged(reading, "a stream's baseline cannot be", error);
    return 0;
}

static int read_truths(const struct reading *reading, size_t row, uint32_t slot,
                       struct error *error) {
    struct truth *truth = learner_truth(reading->learner);
    const struct truth_state s = truth_state(truth, slot);
    if (reading_row(reading, PART_SAID, row, s.said, s.said_size * sizeof(double), error))
        return -1;
    if (s.levels &&
        (reading_row(reading, PART_LEVELS, row, s.levels, s.levels_size * sizeof(double), error) ||
         reading_row(reading, PART_ERRORS, row, s.errors, s.errors_size * sizeof(float), error)))
        return -1;
    if (!truth_written(truth, slot))
        return reading_damaged(reading, "what a stream's predictions keep cannot be", error);
    return 0;
}

/* As many as the numbers of the stream's columns say, which have been read. */
static int read_contexts(struct reading *reading, uint32_t slot, size_t memories,
                         struct error *error) {
    const struct checkpoint_layout *layout = &reading->layout;
    size_t size = ANOMALY_CONTEXT * sizeof(float);
    for (size_t m = 0; m < memories; m++) {
        const struct anomaly_contexts c = learner_contexts(reading->learner, slot, m);
        const size_t at = layout->parts[0][PART_CONTEXTS];
        if (layout->of[at].lacked || c.count == 0)
            continue;
        if (c.count > layout->entries[at].shape[0] - reading->contexts)
            return reading_damaged(reading, "it has too few contexts of its anomalies", error);
        if (reading_bytes(reading, &layout->entries[at], reading->contexts * size, c.floats,
                          c.count * size, error))
            return -1;
        reading->contexts += c.count;
    }
    return 0;
}

/* Of a stream whose numbers say that it holds what is missing. */
static int read_held(struct reading *reading, uint32_t slot, struct error *error) {
    const struct anomaly_state s = learner_anomaly(reading->learner, slot);
    const struct checkpoint_layout *layout = &reading->layout;
    const size_t at = layout->parts[0][PART_HOLDS];
    if (!s.holds || layout->of[at].lacked)
        return 0;
    if (reading->holds == layout->entries[at].shape[0])
        return reading_damaged(reading, "it has too little of what its anomalies hold", error);
    return reading_row(reading, PART_HOLDS, reading->holds++, s.held, s.held_size * sizeof(double),
                       error);
}

static int read_watch(struct reading *reading, size_t row, uint32_t slot, struct error *error) {
    const struct anomaly_state s = learner_anomaly(reading->learner, slot);
    if (reading_row(reading, PART_WATCH, row, s.numbers, s.numbers_size * sizeof(double), error) ||
        reading_row(reading, PART_ALARMS, row, s.alarms, s.alarms_size * sizeof(double), error) ||
        read_held(reading, slot, error) || read_contexts(reading, slot, s.memories, error))
        return -1;
    if (!learner_anomaly_written(reading->learner, slot))
        return reading_damaged(reading, "what a stream's anomalies are judged by cannot be", error);
    return 0;
}

/* Of one member whose window begins anew: the state that its slot goes on from. */
static int read_state(const struct reading *reading, size_t member, size_t row, uint32_t slot,
                      struct error *error) {
    struct learner *learner = reading->learner;
    const struct checkpoint_layout *layout = &reading->layout;
    const struct safetensors_entry *records = &layout->entries[layout->parts[member][PART_RECORDS]];
    size_t numbers = learner_member_model(learner, member)->state_size;
    memset(reading->buffer, 0, learner_record_size(learner, member) * sizeof(float));
    if (records->shape[1] < numbers)
        return reading_damaged(reading, "its streams' records are too short", error);
    if (reading_bytes(reading, records, row * records->shape[1] * sizeof(float), reading->buffer,
                      numbers * sizeof(float), error))
        return -1;
    if (!learner_record_finite(learner, member, reading->buffer))
        return reading_damaged(reading, "a stream's record cannot be", error);
    return learner_write(learner, member, ENGINE_SLOT, slot, reading->buffer, error);
}

/* Of one member: its window and its slot. */
static int read_member_stream(const struct reading *reading, size_t member, size_t row,
                              uint32_t slot, struct error *error) {
    struct learner *learner = reading->learner;
    struct learner_window window;
    size_t size = learner_record_size(learner, member) * sizeof(float);
    if (reading->begins)
        return read_state(reading, member, row, slot, error);
    if (read_window(reading, member, row, &window, error) ||
        reading_member_row(reading, PART_RECORDS, member, row, reading->buffer, size, error))
        return -1;
    if (!learner_record_finite(learner, member, reading->buffer) ||
        !record_valid(reading, member, reading->buffer, &window))
        return reading_damaged(reading, "a stream's record cannot be", error);
    learner_write_window(learner, member, slot, &window);
    return learner_write(learner, member, ENGINE_SLOT, slot, reading->buffer, error);
}

static int read_times(const struct reading *reading, size_t row, uint32_t slot,
                      struct error *error) {
    double *times = learner_times(reading->learner, slot);
    if (!times)
        return 0;
    if (reading_row(reading, PART_TIMES, row, times, LEARNER_TIMES * sizeof *times, error))
        return -1;
    if (!learner_times_valid(reading->learner, slot))
        return reading_damaged(reading, "the times of a stream cannot be", error);
    return 0;
}

int reading_stream(struct reading *reading, size_t row, uint32_t slot, struct error *error) {
    struct learner *learner = reading->learner;
    for (size_t m = 0; m < learner_members(learner); m++)
        if (read_member_stream(reading, m, row, slot, error))
            return -1;
    if (read_times(reading, row, slot, error) || read_open(reading, row, slot, error))
        return -1;
    if (read_baseline(reading, row, slot, error))
        return -1;
    if (learner_truth(learner) && read_truths(reading, row, slot, error))
        return -1;
    if (learner_watches(learner) && read_watch(reading, row, slot, error))
        return -1;
    return read_forecast(reading, row, slot, error);
}

static int read_stream(struct reading *reading, size_t row, struct error *error) {
    struct learner *learner = reading->learner;
    unsigned char key[CHECKPOINT_KEY];
    const char *name = (const char *)key + 1;
    if (reading_row(reading, PART_KEYS, row, key, sizeof key, error))
        return -1;
    if (!wire_is_utf8(name, key[0]) ||
        streams_find(learner_streams_table(learner), name, key[0]) != STREAMS_NONE)
        return reading_damaged(reading, "a stream's key is no UTF-8 or there twice", error);
    return reading_stream(reading, row, learner_add_stream(learner, name, key[0]), error);
}

static int read_shared(struct reading *reading, struct error *error) {
    for (size_t n = 0; n < learner_shared(reading->learner); n++) {
        const uint32_t slot = learner_shared_slot(reading->learner, n);
        const struct anomaly_state s = learner_anomaly(reading->learner, slot);
        if (reading_row(reading, PART_SHARED, n, s.numbers, s.numbers_size * sizeof(double),
                        error) ||
            read_contexts(reading, slot, s.memories, error))
            return -1;
        if (!learner_anomaly_written(reading->learner, slot))
            return reading_damaged(reading, "what streams share cannot be", error);
    }
    return 0;
}

int reading_streams(struct reading *reading, struct error *error) {
    const struct checkpoint_layout *layout = &reading->layout;
    const size_t contexts = layout->parts[0][PART_CONTEXTS], holds = layout->parts[0][PART_HOLDS];
    for (size_t row = 0; row < layout->streams; row++)
        if (read_stream(reading, row, error))
            return -1;
    if (read_shared(reading, error))
        return -1;
    if (contexts != SIZE_MAX && !layout->of[contexts].lacked &&
        layout->entries[contexts].shape[0] != reading->contexts)
        return reading_damaged(reading, "it has too many contexts of its anomalies", error);
    if (holds != SIZE_MAX && !layout->of[holds].lacked &&
        layout->entries[holds].shape[0] != reading->holds)
        return reading_damaged(reading, "it has too much of what its anomalies hold", error);
    return 0;
}
