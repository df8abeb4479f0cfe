/* Rules between the keys of layers: grids, taps, norms and starting values. */
#include "config_read.h"

/* Layers one above the other, and the input of the first. */
struct layers {
    const char *path, *section; /* of the layers, and of the input */
    const struct input *atoms;
    struct layer *of;
    size_t count;
    bool inner, timeless; /* they are not model.layers; they read what has no past */
};

/* A path in a layer. */
#define LAYER(name) CONFIG_PATH("%s.%zu." name, layers->path, n)

/* The section's shape must have `size` numbers. */
static int check_shape(const struct reading *reading, const char *section, struct grid_shape s,
                       size_t size) {
    size_t numbers = s.channels * s.rows * s.columns;
    return numbers && numbers != size
               ? config_fail(reading, CONFIG_PATH("%s.shape", section),
                             "found [%zu, %zu, %zu], %zu numbers; %s.size is %zu", s.channels,
                             s.rows, s.columns, numbers, section, size)
               : 0;
}

/* The norms that the layer may have. */
static const char *norms(struct layer layer, char text[CONFIG_TEXT_SIZE]) {
    char words[CONFIG_TEXT_SIZE] = "";
    for (layer.norm = 0; layer.norm < NORMS; layer.norm++)
        if (layer_takes_norm(&layer))
            config_words_add(words, norm_kind(layer.norm)->kind.name);
    return config_words_list(words, text, CONFIG_TEXT_SIZE);
}

/* Kernel, groups, norm and size of a spatial layer, whose rows and columns it derives. */
static int check_grid(const struct reading *reading, const struct layers *layers, size_t n) {
    struct layer *layer = &layers->of[n];
    const struct cell_kind *kind = cell_kind(layer->cell);
    const char *norm = norm_kind(layer->norm)->kind.name;
    struct grid_shape from = n                                 ? layer[-1].shape
                             : input_is_message(layers->atoms) ? (struct grid_shape){0}
                                                               : layers->atoms->shape;
    size_t least = from.rows < from.columns ? from.rows : from.columns;
    char text[CONFIG_TEXT_SIZE];
    if (n && !cell_kind(layer[-1].cell)->spatial)
        return config_fail(reading, LAYER("cell"),
                           "%s cannot follow %s, which has no rows and columns; list %s first",
                           kind->kind.name, cell_kind(layer[-1].cell)->kind.name, kind->kind.name);
    if (!from.channels)
        return config_fail(
            reading, LAYER("cell"),
            "found %s without %s.shape; set it to [channels, rows, columns] of the input",
            kind->kind.name, layers->section);
    if (layer->kernel > least)
        return config_fail(reading, LAYER("kernel"), "expected at most %zu for %zu x %zu, got %zu",
                           least, from.rows, from.columns, layer->kernel);
    if (!layer_takes_norm(layer))
        return config_fail(reading, LAYER("norm"), "expected %s with cell: %s, got %s",
                           norms(*layer, text), kind->kind.name, norm);
    if (layer->norm_groups > 1 && norm_kind(layer->norm)->source != SOURCE_GROUP)
        return config_fail(reading, LAYER("norm_groups"),
                           "found with norm: %s; it is allowed only with norm: layer or rms", norm);
    if (layer->shape.channels % layer->norm_groups)
        return config_fail(reading, LAYER("norm_groups"),
                           "expected a divisor of %zu channels, got %zu", layer->shape.channels,
                           layer->norm_groups);
    layer_derive(layer, from);
    if (layer_width(layer) > (size_t)INPUT_MAX)
        return config_fail(reading, LAYER("channels"),
                           "expected at most %.0f units, got %zu of %zu x %zu", INPUT_MAX,
                           layer->shape.channels, layer->shape.rows, layer->shape.columns);
    return 0;
}

/* Numbers that layer n gets; later ones may be invalid. */
static size_t inputs_of(const struct layers *layers, size_t n) {
    struct architecture below = {
        .input = *layers->atoms, .layer_count = n + 1, .output = {.size = 1}};
    struct model model;
    memcpy(below.layers, layers->of, (n + 1) * sizeof *layers->of);
    model_build(&model, &below);
    return model.input_width[n];
}

static int check_taps(const struct reading *reading, const struct layers *layers, size_t n) {
    enum { DELAY_MAX = 4096 };
    const struct layer *layer = &layers->of[n];
    size_t inputs = layer->residual ? inputs_of(layers, n) : layer->size;
    if (layer->dilation > 1 && layer_taps(layer) == 1)
        return config_fail(reading, LAYER("dilation"), "requires taps of at least 2");
    if (layer_delay(layer) > DELAY_MAX)
        return config_fail(reading, LAYER("dilation"),
                           "expected at most %d steps for (taps - 1) dilation, got %zu", DELAY_MAX,
                           layer_delay(layer));
    return inputs == layer->size ? 0
                                 : config_fail(reading, LAYER("residual"),
                                               "expected as many inputs as units, got %zu and %zu",
                                               inputs, layer->size);
}

/* Layers that read candidates have no state, and inner ones no running statistics. */
static int check_inner(const struct reading *reading, const struct layers *layers, size_t n) {
    const struct layer *layer = &layers->of[n];
    const struct norm_kind *norm = norm_kind(layer->norm);
    static const char past[] = "a candidate has no past";
    char words[CONFIG_TEXT_SIZE] = "", text[CONFIG_TEXT_SIZE];
    for (enum cell cell = 0; cell < CELLS; cell++)
        if (!cell_kind(cell)->states)
            config_words_add(words, cell_kind(cell)->kind.name);
    config_words_list(words, text, sizeof text);
    if (layers->timeless && cell_kind(layer->cell)->states)
        return config_fail(reading, LAYER("cell"), "expected %s, got %s: %s", text,
                           cell_kind(layer->cell)->kind.name, past);
    if (layers->timeless && layer_delay(layer))
        return config_fail(reading, LAYER("taps"), "expected 1, got %zu: %s", layer->taps, past);
    return norm->source != SOURCE_NOTHING && norm->source != SOURCE_GROUP
               ? config_fail(reading, LAYER("norm"), "expected none, layer or rms, got %s",
                             norm->kind.name)
               : 0;
}

static int check_layer(const struct reading *reading, const struct layers *layers, size_t n) {
    static const struct radius usual = {2, {0.9, 0.999}};
    struct layer *layer = &layers->of[n];
    const char *cell = cell_kind(layer->cell)->kind.name;
    if (cell_kind(layer->cell)->spatial && check_grid(reading, layers, n) != 0)
        return -1;
    if (!layer_takes_norm(layer))
        return config_fail(reading, LAYER("norm"), "expected layer or none with %s, got %s",
                           layer->diagonal ? "recurrent: diagonal" : cell,
                           norm_kind(layer->norm)->kind.name);
    if (layer->memory && !layer_is_columns(layer))
        return config_fail(reading, LAYER("memory"), "requires recurrent: diagonal with cell: %s",
                           cell);
    if (layer->radius.count == 1)
        return config_fail(reading, LAYER("radius"),
                           "expected two rising numbers, as in [0.9, 0.999]");
    if (!layer->radius.count)
        layer->radius = usual;
    return check_taps(reading, layers, n) || (layers->inner && check_inner(reading, layers, n));
}

int config_check_layers(struct reading *reading) {
    static const char x[] = "model.input", candidates[] = "model.output.candidates";
    struct architecture *architecture = &reading->draft.config.architecture;
    struct input *input = &architecture->input, atom = *input;
    struct sequence *reader = &input->sequence, *writer = &architecture->output.sequence;
    struct ranking *ranking = &architecture->output.ranking;
    bool of_x = output_is_input(&architecture->output);
    const struct input y = {.kind = loss_kind(architecture->output.loss)->class_id ? INPUT_SYMBOL
                                                                                   : INPUT_REAL,
                            .size = architecture->output.size,
                            .embedding = writer->embedding};
    const struct input candidate = {
        .kind = ranking->kind, .size = ranking->size, .shape = ranking->shape};
    const struct layers all[] = {
        {"model.input.sequence.layers", x, &atom, reader->layers, reader->layer_count, true, false},
        {"model.output.sequence.layers", x, of_x ? &atom : &y, writer->layers, writer->layer_count,
         true, false},
        {"model.output.candidates.layers", candidates, &candidate, ranking->layers,
         ranking->layer_count, true, true},
        {"model.layers", x, input, architecture->layers, architecture->layer_count, false, false},
    };
    const char *device = reading->draft.config.device;
    char lacks[MODEL_LACKS_SIZE];
    atom.sequence.layer_count = 0;
    if (input->shape.channels &&
        (input->column_count || input->time || input->scale == SCALE_FORECAST))
        return config_fail(reading, "model.input.shape",
                           "cannot be combined with model.input.columns, time or scale: forecast; "
                           "remove one of them");
    if (check_shape(reading, x, input->shape, input->size) != 0 ||
        check_shape(reading, candidates, ranking->shape, ranking->size) != 0)
        return -1;
    for (const struct layers *layers = all; layers < all + sizeof all / sizeof *all; layers++)
        for (size_t n = 0; n < layers->count; n++)
            if (check_layer(reading, layers, n) != 0)
                return -1;
    if (of_x)
        writer->longest = reader->longest;
    if (pool_kind(reader->pool)->attends && !reader->attention)
        reader->attention = layer_width(&reader->layers[reader->layer_count - 1]);
    return strncmp(device, "cuda", strlen("cuda")) == 0 && model_of_cpu(architecture, lacks)
               ? config_fail(reading, "device", "expected cpu with %s, got %s", lacks, device)
               : 0;
}
