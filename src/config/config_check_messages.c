/* Rules for messages that are read and written, for several outputs, and for rankings. */
#include "config_read.h"

#include <stdlib.h>

static const char reader[] = "model.input.sequence", writer[] = "model.output.sequence";
static const char output_path[] = "model.output", name_path[] = "model.output.name";
static const char target_path[] = "model.output.target", list_path[] = "model.outputs";

/* ---- What cannot be combined ---- */

static bool is_later(const struct ahead *ahead) {
    return ahead->count > 1 || (ahead->count && ahead->steps[0] > 1);
}

/* Keys that are refused with others; the first pair is reported. */
static int check_refused(const struct reading *reading) {
    enum {
        READS = 1,
        LISTED = 2,
        WRITES = 4,
        RANKS = 8,
        RANKS_NEXT = 16,
        OWN = 32,
        ALONE = 64,
        SYMBOLS = 128,
        NUMBERS = 256,
        OUTPUT = WRITES | RANKS | LISTED
    };
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    const struct ranking *ranking = &output->ranking;
    const struct loss_kind *loss = loss_kind(output->loss);
    const bool next = output->target == TARGET_NEXT, listed = config_given(reading, list_path);
    const struct {
        bool used;
        const char *with, *only;
    } features[] = {
        {input_is_message(input), reader, "where an x is one vector"},
        {listed, list_path, "for a lone output"},
        {output_is_message(output), writer, "where a target is one vector"},
        {loss->ranks, "loss: ranking", "with other losses"},
        {loss->ranks && next, "loss: ranking", "with target: given"},
        {output_is_input(output) && !next, "target: previous or same", "with other targets"},
        {!listed, "a lone output", "in model.outputs"},
        {ranking->kind == INPUT_SYMBOL, "candidates of symbols", "with kind: real"},
        {!loss->class_id, CONFIG_PATH("loss: %s", loss->name), "with classes"},
    };
    const struct {
        const char *path;
        bool found;
        unsigned bits; /* of features that refuse it */
    } keys[] = {
        {"preset", config->preset != PRESET_NONE, READS | WRITES | LISTED},
        {"model.input.columns", input->column_count, READS | RANKS_NEXT},
        {"model.input.hash", input->hash, READS},
        {"model.input.scale", input->scale != SCALE_NONE, READS | RANKS_NEXT},
        {"model.input.scale", input_has_experts(input), LISTED | WRITES},
        {"model.input.missing", input->hold, READS},
        {"model.input.time", input->time, READS},
        {name_path, *output->name, ALONE},
        {"model.output.weight", config_given(reading, "model.output.weight"), ALONE},
        {"model.output.columns", output->column_count, OUTPUT},
        {"model.output.vocabulary.capacity", output->vocabulary.capacity, OUTPUT},
        {"model.output.relative", output->relative != RELATIVE_FALSE, OUTPUT | OWN},
        {"model.output.ahead", is_later(&output->ahead), OUTPUT},
        {"model.output.scale", output->scale != SCALE_NONE, OUTPUT},
        {"model.output.skip", output->skip, OUTPUT | READS},
        {"model.output.sequence.embedding", output->sequence.embedding, NUMBERS},
        {"model.output.candidates.layers", ranking->layer_count, SYMBOLS},
        {"anomaly.shape", config->anomaly.shape > 0, READS},
        {"anomaly.share", config->anomaly.share.count, READS},
    };
    for (size_t f = 0; f < sizeof features / sizeof *features; f++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys && features[f].used; k++)
            if (keys[k].found && keys[k].bits >> f & 1)
                return config_fail(reading, keys[k].path, "found with %s; it is allowed only %s",
                                   features[f].with, features[f].only);
    return 0;
}

static bool can_be_written(const struct loss_kind *kind) {
    return !kind->ranks && !loss_has_components(kind);
}

static bool has_section(const struct reading *reading, const char *section) {
    return config_section_given(reading, section) || config_given_below(reading, section);
}

/* Keys of a message require its layers. */
static int check_sections(const struct reading *reading, bool read, bool written) {
    const char *section = !read && has_section(reading, reader)      ? reader
                          : !written && has_section(reading, writer) ? writer
                                                                     : NULL;
    return section ? config_fail(reading, CONFIG_PATH("%s.layers", section),
                                 "missing; expected a list of 1 to %d layers", SEQUENCE_LAYERS_MAX)
                   : 0;
}

int config_check_messages(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    const struct ranking *ranking = &output->ranking;
    const bool read = input_is_message(input), written = output_is_message(output);
    const bool next = output->target == TARGET_NEXT, ranks = output_ranks(output);
    const char *with = read ? reader : written ? writer : ranks ? "loss: ranking" : NULL;
    char text[CONFIG_TEXT_SIZE];
    if (check_refused(reading) != 0 || check_sections(reading, read, written) != 0)
        return -1;
    if (output_is_input(output) && read != written)
        return config_fail(reading, target_path, "found %s with %s; it is allowed only with %s%s",
                           target_name(output->target), written ? writer : reader,
                           written ? reader : writer, written ? "" : ": an x is a message");
    if (ranks && next && (ranking->kind != input->kind || ranking->size != input->size))
        return config_fail(reading, "model.output.candidates",
                           "expected the input's %s %zu with target: next, got %s %zu",
                           input_kind_name(input->kind), input->size,
                           input_kind_name(ranking->kind), ranking->size);
    return config_expect(reading, !with || rule_kind(config->learning.rule)->keeps == KEEPS_NOTHING,
                         "learning.rule", read ? "a message is read whole" : NULL, "tbptt with %s",
                         with ? with : "") ||
           config_expect(reading, output->target != TARGET_LATER || (!written && !*output->name),
                         target_path, NULL, "given, next, previous or same with %s",
                         written ? writer : list_path) ||
           config_expect(reading, !ranks || next || output->target == TARGET_GIVEN, target_path,
                         NULL, "given or next with loss: ranking") ||
           config_expect(reading, !written || can_be_written(loss_kind(output->loss)),
                         "model.output.loss", NULL, "%s with sequence",
                         config_losses(can_be_written, text)) ||
           config_expect(reading, ranking->kind != INPUT_SYMBOL || ranking->score == RANKING_DOT,
                         "model.output.score", NULL, "dot with candidates of symbols");
}

/* ---- Several outputs ---- */

int config_begin_outputs(struct reading *reading) {
    if (!config_given(reading, list_path))
        return 0;
    if (config_section_given(reading, output_path) || config_given_below(reading, output_path))
        return config_fail(reading, output_path, "found beside model.outputs; remove one of them");
    reading->draft.config.architecture.output = reading->draft.outputs[reading->output].output;
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(config_keys[k].path, output_path))
            reading->places[k][0] = reading->draft.outputs[reading->output].places[k];
    config_note_section(reading, output_path, &reading->draft.outputs[reading->output].place);
    reading->origin.from = output_path;
    reading->origin.to = config_path_format(reading->to, "%s.%zu", list_path, reading->output);
    return config_given(reading, name_path)
               ? 0
               : config_fail(reading, name_path, "missing; expected a name of the output");
}

/* The output's name is new, and only one output is given. */
static int check_beside(const struct reading *reading, size_t k) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct output *own = architecture_output(architecture, k);
    const char *path = CONFIG_PATH("%s.%zu.target", list_path, k);
    for (size_t n = 0; n < k; n++) {
        const struct output *other = architecture_output(architecture, n);
        if (!strcmp(own->name, other->name))
            return config_fail(reading, CONFIG_PATH("%s.%zu.name", list_path, k),
                               "duplicate name %s (also outputs.%zu)", own->name, n);
        if (own->target == TARGET_GIVEN && other->target == TARGET_GIVEN)
            return config_fail(reading, path,
                               "expected next, previous or same beside outputs.%zu, got given: a "
                               "message has one y",
                               n);
        if (output_is_input(own) && output_is_input(other) &&
            (own->column_count != other->column_count ||
             memcmp(own->columns, other->columns, own->column_count * sizeof *own->columns) != 0))
            return config_fail(reading, path, "found %s of other columns than outputs.%zu",
                               target_name(own->target), n);
    }
    return 0;
}

int config_check_outputs(struct reading *reading, const struct reading *read) {
    struct architecture *architecture = &reading->draft.config.architecture;
    size_t count = config_given(reading, list_path) ? reading->draft.output_count : 1;
    struct reading *own = count > 1 ? malloc(sizeof *own) : NULL;
    int status = 0;
    if (count > 1 && !own)
        return config_fail(reading, list_path, "out of memory");
    for (size_t k = 1; k < count && status == 0; k++) {
        *own = *read;
        own->output = k;
        status = config_check(own);
        architecture->others[k - 1] = own->draft.config.architecture.output;
        status = status || check_beside(reading, k);
    }
    free(own);
    architecture->other_count = count - 1;
    return status || (count > 1 && config_check_size(reading) != 0) ? -1 : 0;
}
