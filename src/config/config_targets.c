/* Where targets come from, and what the network sees of them: defaults and rules. */
#include <string.h>

#include "config_internal.h"

const char *config_word_of(const struct reading *reading, const char *path,
                           char text[CONFIG_TEXT_SIZE]) {
    const struct config_key *key;
    config_path_kind(path, &key, NULL);
    config_value_print(key, 0, &reading->draft, text, CONFIG_TEXT_SIZE);
    return text;
}

/* Whether a target of the loss is a level, which can be scaled and has differences. */
static bool has_levels(const struct loss_kind *kind) {
    return kind->parts[0].unit == UNIT_LEVEL;
}

bool config_target_value(const struct reading *reading, const struct config_key *key,
                         char text[CONFIG_TEXT_SIZE]) {
    static const struct {
        const char *of, *from;
    } inherited[] = {{"model.output.scale", "model.input.scale"},
                     {"model.output.memory", "model.input.memory"},
                     {"model.output.limit", "model.input.limit"}};
    const struct architecture *architecture = &reading->draft.config.architecture;
    if (architecture->input.scale != SCALE_STANDARD ||
        !has_levels(loss_kind(architecture->output.loss)))
        return false;
    for (size_t n = 0; n < sizeof inherited / sizeof *inherited; n++)
        if (!strcmp(inherited[n].of, key->path)) {
            config_word_of(reading, inherited[n].from, text);
            return true;
        }
    return false;
}

int config_check_targets(struct reading *reading) {
    const struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *kind = loss_kind(output->loss);
    char losses[CONFIG_TEXT_SIZE];
    config_losses(has_levels, " and ", losses);
    if (output->relative == RELATIVE_TRUE && !has_levels(kind))
        return config_fail(reading, "model.output.relative",
                           "found true with loss: %s, whose targets have no difference; it is "
                           "allowed with %s",
                           kind->name, losses);
    if (output->scale == SCALE_STANDARD && !has_levels(kind))
        return config_fail(reading, "model.output.scale",
                           "found standard with loss: %s, whose targets would leave their range; "
                           "it is allowed with %s",
                           kind->name, losses);
    return 0;
}
