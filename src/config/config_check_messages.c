/* Rules for messages that are read and written: model.input.sequence. */
#include "config_read.h"

#include <stdlib.h>

#include "model/rule.h"

static const char reader[] = "model.input.sequence",
                  reader_layers[] = "model.input.sequence.layers";

/* ---- What cannot be combined ---- */

struct refusal {
    const char *path;
    bool found;
};

static int refuse(const struct reading *reading, const struct refusal *rows, size_t count,
                  const char *with, const char *where) {
    for (size_t n = 0; n < count; n++)
        if (rows[n].found)
            return config_fail(reading, rows[n].path, "found with %s; it is allowed only where %s",
                               with, where);
    return 0;
}

/* Keys of a chain's section require its layers. */
static int check_section(const struct reading *reading, const char *section) {
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(config_keys[k].path, section) &&
            config_given(reading, config_keys[k].path)) {
            char path[CONFIG_KEY_SIZE];
            snprintf(path, sizeof path, "%s.layers", section);
            return config_fail(reading, path, "missing; expected a list of 1 to %d layers",
                               SEQUENCE_LAYERS_MAX);
        }
    return 0;
}

static int check_reader(const struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    if (!input_is_message(input))
        return check_section(reading, reader);
    const struct refusal rows[] = {
        {"preset", config->preset != PRESET_NONE},
        {"model.input.columns", input->column_count},
        {"model.input.hash", input->hash},
        {"model.input.scale", input->scale != SCALE_NONE},
        {"model.input.missing", input->hold},
        {"model.input.time", input->time},
        {"model.output.skip", output->skip},
        {"model.output.readout", output->solved},
        {"anomaly.level", config_given(reading, "anomaly.level") && config->anomaly.level},
        {"anomaly.shape", config->anomaly.shape > 0},
        {"anomaly.share", config->anomaly.share.count},
    };
    if (refuse(reading, rows, sizeof rows / sizeof *rows, reader, "an x is one vector") != 0)
        return -1;
    const struct rule_kind *rule = rule_kind(config->learning.rule);
    if (rule->keeps != KEEPS_NOTHING)
        return config_fail(reading, "learning.rule",
                           "found %s with %s; allowed is tbptt: a message is read whole",
                           rule->name, reader);
    return 0;
}

int config_check_messages(struct reading *reading) {
    return check_reader(reading);
}

/* ---- Layers ---- */

/* Check the layers as model.layers of a model whose inputs are `atoms`. */
static int check_chain(const struct reading *reading, const char *path, const struct input *atoms,
                       struct layer *layers, size_t count) {
    struct reading *own = calloc(1, sizeof *own);
    const struct place *place = config_place(reading, path);
    char at[CONFIG_KEY_SIZE], to[CONFIG_KEY_SIZE];
    if (!own)
        return config_fail(reading, path, "out of memory");
    struct architecture *architecture = &own->draft.config.architecture;
    own->origin = reading->origin;
    own->origin.from = "model.layers";
    own->origin.to = config_rename(&reading->origin, path, to, sizeof to);
    config_note_section(own, "model.layers", place);
    architecture->input = *atoms;
    architecture->input.sequence.layer_count = 0;
    architecture->layer_count = count;
    architecture->output.size = 1;
    memcpy(architecture->layers, layers, count * sizeof *layers);
    int status = config_check_layers(own);
    for (size_t n = 0; n < count && status == 0; n++) {
        const struct norm_kind *norm = norm_kind(architecture->layers[n].norm);
        snprintf(at, sizeof at, "model.layers.%zu.norm", n);
        if (norm->source != SOURCE_NOTHING && norm->source != SOURCE_GROUP)
            status =
                config_fail(own, at, "found %s; allowed is none, layer or rms", norm->kind.name);
    }
    memcpy(layers, architecture->layers, count * sizeof *layers);
    free(own);
    return status;
}

int config_check_chains(struct reading *reading) {
    struct config *config = &reading->draft.config;
    struct input *input = &config->architecture.input;
    struct sequence *sequence = &input->sequence;
    char lacks[MODEL_LACKS_SIZE];
    if (input_is_message(input) &&
        check_chain(reading, reader_layers, input, sequence->layers, sequence->layer_count) != 0)
        return -1;
    if (pool_kind(sequence->pool)->attends && !sequence->attention)
        sequence->attention = layer_width(&sequence->layers[sequence->layer_count - 1]);
    if (!strncmp(config->device, "cuda", strlen("cuda")) &&
        model_of_cpu(&config->architecture, lacks))
        return config_fail(reading, "device", "found %s with %s; allowed is cpu", config->device,
                           lacks);
    return 0;
}
