/* Rules for messages that are read and written, for several outputs, and for rankings. */
#include "config_read.h"

#include <stdlib.h>

static const char reader[] = "model.input.sequence", writer[] = "model.output.sequence";
static const char output_path[] = "model.output", name_path[] = "model.output.name";
static const char target_path[] = "model.output.target";

/* ---- What cannot be combined ---- */

/* Whether a key below the section is given. */
static bool has_given(const struct reading *reading, const char *section) {
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(config_keys[k].path, section) &&
            config_given(reading, config_keys[k].path))
            return true;
    return false;
}

/* Keys of a chain's section require its layers. */
static int check_section(const struct reading *reading, const char *section) {
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s.layers", section);
    return config_section_given(reading, section) || has_given(reading, section)
               ? config_fail(reading, path, "missing; expected a list of 1 to %d layers",
                             SEQUENCE_LAYERS_MAX)
               : 0;
}

static bool is_later(const struct ahead *ahead) {
    return ahead->count > 1 || (ahead->count && ahead->steps[0] > 1);
}

/* Keys that are refused with others; the first pair is reported. */
static int check_refused(const struct reading *reading) {
    enum {
        READS = 1,
        WRITES = 2,
        RANKS = 4,
        RANKS_NEXT = 8,
        LISTED = 16,
        OWN = 32,
        OUTPUT = WRITES | RANKS | LISTED
    };
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    const bool ranks = output_ranks(output), next = output->target == TARGET_NEXT;
    const struct {
        unsigned bit;
        bool used;
        const char *with, *only;
    } features[] = {
        {READS, input_is_message(input), reader, "where an x is one vector"},
        {LISTED, *output->name, "model.outputs", "for a lone output"},
        {WRITES, output_is_message(output), writer, "where a target is one vector"},
        {RANKS, ranks, "loss: ranking", "with other losses"},
        {RANKS_NEXT, ranks && next, "loss: ranking", "with target: given"},
        {OWN, output_is_input(output) && !next, "target: previous or same", "with other targets"},
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
        {"model.output.columns", output->column_count, OUTPUT},
        {"model.output.vocabulary.capacity", output->vocabulary.capacity, OUTPUT},
        {"model.output.relative", output->relative != RELATIVE_FALSE, OUTPUT | OWN},
        {"model.output.ahead", is_later(&output->ahead), OUTPUT},
        {"model.output.scale", output->scale != SCALE_NONE, OUTPUT},
        {"model.output.skip", output->skip, OUTPUT | READS},
        {"model.output.readout", output->solved, OUTPUT | READS},
        {"anomaly.shape", config->anomaly.shape > 0, READS},
        {"anomaly.share", config->anomaly.share.count, READS},
    };
    for (size_t f = 0; f < sizeof features / sizeof *features; f++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys && features[f].used; k++)
            if (keys[k].found && keys[k].bits & features[f].bit)
                return config_fail(reading, keys[k].path, "found with %s; it is allowed only %s",
                                   features[f].with, features[f].only);
    return 0;
}

static bool can_be_written(const struct loss_kind *kind) {
    return !kind->ranks && !loss_has_components(kind);
}

static int check_writer(const struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    const struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *loss = loss_kind(output->loss);
    bool written = output_is_message(output);
    char text[CONFIG_TEXT_SIZE];
    if ((!input_is_message(input) && check_section(reading, reader) != 0) ||
        (!written && check_section(reading, writer) != 0))
        return -1;
    if (output_is_input(output) && input_is_message(input) != written)
        return config_fail(reading, target_path, "found %s with %s; it is allowed only with %s%s",
                           target_name(output->target), written ? writer : reader,
                           written ? reader : writer, written ? "" : ": an x is a message");
    if (output->target == TARGET_LATER && (written || *output->name))
        return config_fail(reading, target_path,
                           "expected given, next, previous or same with %s, got later",
                           written ? writer : "model.outputs");
    if (written && !can_be_written(loss))
        return config_fail(reading, "model.output.loss", "expected %s with sequence, got %s",
                           config_losses(can_be_written, " or ", text), loss->name);
    if (output->sequence.embedding && !loss->class_id)
        return config_fail(reading, "model.output.sequence.embedding",
                           "found with loss: %s; it is allowed only with classes", loss->name);
    return 0;
}

static int check_ranking(const struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    const struct output *output = &reading->draft.config.architecture.output;
    const struct ranking *ranking = &output->ranking;
    bool next = output->target == TARGET_NEXT, symbols = ranking->kind == INPUT_SYMBOL;
    if (!output_ranks(output))
        return 0;
    if (output->target != TARGET_GIVEN && !next)
        return config_fail(reading, target_path,
                           "expected given or next with loss: ranking, got %s",
                           target_name(output->target));
    if (symbols && ranking->score != RANKING_DOT)
        return config_fail(reading, "model.output.score",
                           "expected dot with candidates of symbols, got %s",
                           ranking->score == RANKING_ORDER ? "order" : "cosine");
    if (symbols && ranking->layer_count)
        return config_fail(reading, "model.output.candidates.layers",
                           "found with candidates of symbols; it is allowed only with kind: real");
    if (next && (ranking->kind != input->kind || ranking->size != input->size))
        return config_fail(reading, "model.output.candidates",
                           "expected the input's %s %zu with target: next, got %s %zu",
                           input_kind_name(input->kind), input->size,
                           input_kind_name(ranking->kind), ranking->size);
    return 0;
}

/* Names and weights are those of a list. */
static int check_listed(const struct reading *reading) {
    static const char *const own[] = {name_path, "model.output.weight"};
    bool listed = config_given(reading, "model.outputs");
    for (size_t n = 0; n < sizeof own / sizeof *own && !listed; n++)
        if (config_given(reading, own[n]))
            return config_fail(reading, own[n],
                               "found without model.outputs; it is allowed only there");
    return listed && !*reading->draft.config.architecture.output.name
               ? config_fail(reading, name_path, "missing; expected a name of the output")
               : 0;
}

/* Other rules than the first take neither messages nor what is computed from h later. */
static int check_rule(const struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct output *output = &config->architecture.output;
    const struct rule_kind *rule = rule_kind(config->learning.rule);
    const char *with = input_is_message(&config->architecture.input) ? reader
                       : output_is_message(output)                   ? writer
                       : output_ranks(output)                        ? "loss: ranking"
                                                                     : NULL;
    return with && rule->keeps != KEEPS_NOTHING
               ? config_fail(reading, "learning.rule", "expected tbptt with %s, got %s%s", with,
                             rule->name, with == reader ? ": a message is read whole" : "")
               : 0;
}

int config_check_messages(struct reading *reading) {
    return check_listed(reading) || check_refused(reading) || check_rule(reading) ||
                   check_writer(reading) || check_ranking(reading)
               ? -1
               : 0;
}

/* ---- Several outputs ---- */

int config_begin_outputs(struct reading *reading) {
    static const char *const paths[OUTPUTS_MAX] = {"model.outputs.0", "model.outputs.1",
                                                   "model.outputs.2", "model.outputs.3"};
    if (!config_given(reading, "model.outputs"))
        return 0;
    if (config_section_given(reading, output_path) || has_given(reading, output_path))
        return config_fail(reading, output_path, "found beside model.outputs; remove one of them");
    reading->draft.config.architecture.output = reading->draft.outputs[reading->output].output;
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(config_keys[k].path, output_path))
            reading->places[k][0] = reading->draft.outputs[reading->output].places[k];
    config_note_section(reading, output_path, &reading->draft.outputs[reading->output].place);
    reading->origin.from = output_path;
    reading->origin.to = paths[reading->output];
    return 0;
}

/* The output's name is new, and only one output is given. */
static int check_beside(const struct reading *reading, size_t k) {
    const struct architecture *architecture = &reading->draft.config.architecture;
    const struct output *own = architecture_output(architecture, k);
    char path[CONFIG_KEY_SIZE];
    for (size_t n = 0; n < k; n++) {
        const struct output *other = architecture_output(architecture, n);
        snprintf(path, sizeof path, "model.outputs.%zu.name", k);
        if (!strcmp(own->name, other->name))
            return config_fail(reading, path, "duplicate name %s (also outputs.%zu)", own->name, n);
        snprintf(path, sizeof path, "model.outputs.%zu.target", k);
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
    size_t count = config_given(reading, "model.outputs") ? reading->draft.output_count : 1;
    struct reading *own = count > 1 ? malloc(sizeof *own) : NULL;
    int status = 0;
    if (count > 1 && !own)
        return config_fail(reading, "model.outputs", "out of memory");
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
            status = config_fail(own, at, "expected none, layer or rms, got %s", norm->kind.name);
    }
    memcpy(layers, architecture->layers, count * sizeof *layers);
    free(own);
    return status;
}

/* Layers that read candidates have no state. */
static int check_tower(struct reading *reading) {
    struct ranking *ranking = &reading->draft.config.architecture.output.ranking;
    const struct input atoms = {
        .kind = ranking->kind, .size = ranking->size, .shape = ranking->shape};
    static const char candidates[] = "model.output.candidates";
    static const char path[] = "model.output.candidates.layers";
    char at[CONFIG_KEY_SIZE], words[CONFIG_TEXT_SIZE] = "", text[CONFIG_TEXT_SIZE];
    struct config_text to = {.text = words, .size = sizeof words};
    for (enum cell cell = 0; cell < CELLS; cell++)
        if (!cell_kind(cell)->states)
            config_add(&to, "%s%s", to.used ? "|" : "", cell_kind(cell)->kind.name);
    config_words_list(words, text, sizeof text);
    for (size_t n = 0; n < ranking->layer_count; n++) {
        const struct cell_kind *kind = cell_kind(ranking->layers[n].cell);
        snprintf(at, sizeof at, "%s.%zu.cell", path, n);
        if (kind->states)
            return config_fail(reading, at, "expected %s, got %s: a candidate has no past", text,
                               kind->kind.name);
        if (kind->spatial && !ranking->shape.channels)
            return config_fail(reading, at, "found %s without %s.shape", kind->kind.name,
                               candidates);
        snprintf(at, sizeof at, "%s.%zu.taps", path, n);
        if (layer_delay(&ranking->layers[n]))
            return config_fail(reading, at, "expected 1, got %zu: a candidate has no past",
                               ranking->layers[n].taps);
    }
    if (config_check_shape(reading, candidates, ranking->shape, ranking->size) != 0)
        return -1;
    return check_chain(reading, path, &atoms, ranking->layers, ranking->layer_count);
}

static int check_written(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    struct output *output = &architecture->output;
    struct sequence *sequence = &output->sequence;
    const struct input given = {.kind =
                                    loss_kind(output->loss)->class_id ? INPUT_SYMBOL : INPUT_REAL,
                                .size = output->size,
                                .embedding = sequence->embedding};
    bool takes_inputs = output_is_input(output);
    if (takes_inputs)
        sequence->longest = architecture->input.sequence.longest;
    return check_chain(reading, "model.output.sequence.layers",
                       takes_inputs ? &architecture->input : &given, sequence->layers,
                       sequence->layer_count);
}

int config_check_chains(struct reading *reading) {
    struct config *config = &reading->draft.config;
    struct input *input = &config->architecture.input;
    struct sequence *sequence = &input->sequence;
    const struct output *output = &config->architecture.output;
    if (input_is_message(input) && check_chain(reading, "model.input.sequence.layers", input,
                                               sequence->layers, sequence->layer_count) != 0)
        return -1;
    if ((output_is_message(output) && check_written(reading) != 0) ||
        (output_ranks(output) && check_tower(reading) != 0))
        return -1;
    if (pool_kind(sequence->pool)->attends && !sequence->attention)
        sequence->attention = layer_width(&sequence->layers[sequence->layer_count - 1]);
    return 0;
}
