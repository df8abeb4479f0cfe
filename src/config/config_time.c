/* Rules of times: what the network is told of them, and in which zone. */
#include "common/error.h"
#include "config_internal.h"

static const char time_path[] = "model.input.time", zone_path[] = "model.input.time_zone";

bool config_has_time(const struct reading *reading) {
    return config_place(reading, time_path)->given &&
           reading->draft.config.architecture.input.time != 0;
}

/* It is read only to be sure: the learner reads it again when it opens. */
static int check_zone(struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    struct time_zone *zone;
    struct error error;
    if (time_zone_open(&zone, input->time_zone, &error))
        return config_fail(reading, zone_path, "%s", error.text);
    time_zone_close(&zone);
    return 0;
}

int config_check_time(struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    bool clock = input->time & ~(1U << TIME_GAP);
    if (config_place(reading, zone_path)->given && !clock)
        return config_fail(reading, zone_path,
                           "found without day, week or year in model.input.time, which alone have "
                           "a zone; leave it out");
    if (input->time && input->kind == INPUT_SYMBOL)
        return config_fail(reading, time_path,
                           "found with kind: symbol; allowed are real inputs and columns: write "
                           "the symbol as model.input.columns: [{name: NAME, kind: symbol, size: "
                           "%zu}]",
                           input->size);
    return clock ? check_zone(reading) : 0;
}
