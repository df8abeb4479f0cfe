/* Words and classes that appear: what sizes follow from, and rules. */
#include <stdio.h>
#include <string.h>

#include "config_internal.h"

/* Ids of a vocabulary: its words, and one for what is not known. */
static size_t ids(const struct vocabulary *vocabulary) {
    return vocabulary->capacity + 1;
}

bool config_words_value(const struct reading *reading, const struct config_key *key,
                        char text[CONFIG_TEXT_SIZE]) {
    const struct input *input = &reading->draft.config.architecture.input;
    if (strcmp(key->path, "model.input.size") != 0 || input->kind != INPUT_SYMBOL ||
        (!input->vocabulary.capacity && !input->hash))
        return false;
    snprintf(text, CONFIG_TEXT_SIZE, "%zu", input->hash ? input->hash : ids(&input->vocabulary));
    return true;
}

size_t config_words_classes(const struct reading *reading) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct output *output = &architecture->output;
    bool words = architecture->input.vocabulary.capacity || architecture->input.hash;
    if (!loss_kind(output->loss)->class_id)
        return 0;
    if (output->vocabulary.capacity)
        return ids(&output->vocabulary);
    return output->target == TARGET_NEXT && words ? architecture->input.size : 0;
}

/* Where sizes follow from something else they are not given, too. */
static int check_one(const struct reading *reading, const char *path, const char *other) {
    if (!config_place(reading, path)->given || !config_place(reading, other)->given)
        return 0;
    return config_fail(reading, path, "found beside %s; allowed is one of them", other);
}

int config_check_words(struct reading *reading) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    static const char of_input[] = "model.input.vocabulary.capacity";
    static const char of_output[] = "model.output.vocabulary.capacity";
    if ((input->vocabulary.capacity && check_one(reading, "model.input.size", of_input)) ||
        (input->hash && check_one(reading, "model.input.size", "model.input.hash")) ||
        (input->hash && input->vocabulary.capacity &&
         check_one(reading, "model.input.hash", of_input)) ||
        (output->vocabulary.capacity && check_one(reading, "model.output.size", of_output)))
        return -1;
    for (size_t k = 0; output->vocabulary.capacity && k < input->column_count; k++)
        if (input->columns[k].vocabulary.capacity && !strcmp(input->columns[k].name, "output"))
            return config_fail(reading, of_output,
                               "found beside a column of words that is called output, as this "
                               "vocabulary is: give the column another name");
    if (output->vocabulary.capacity && output->target == TARGET_NEXT)
        return config_fail(reading, of_output,
                           "found with target: next, whose classes are the inputs; allowed is "
                           "model.input.vocabulary");
    return 0;
}
