/* Rules between the keys of layers: grids, taps, norms and starting values. */
#include "config_read.h"

int config_check_shape(const struct reading *reading, const char *section, struct grid_shape s,
                       size_t size) {
    size_t numbers = s.channels * s.rows * s.columns;
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s.shape", section);
    return numbers && numbers != size
               ? config_fail(reading, path, "found [%zu, %zu, %zu], %zu numbers; %s.size is %zu",
                             s.channels, s.rows, s.columns, numbers, section, size)
               : 0;
}

static int check_shape(const struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    if (input->shape.channels &&
        (input->column_count || input->time || input->scale == SCALE_FORECAST))
        return config_fail(reading, "model.input.shape",
                           "cannot be combined with model.input.columns, time or scale: forecast; "
                           "remove one of them");
    return config_check_shape(reading, "model.input", input->shape, input->size);
}

/* The norms that the layer may have. */
static const char *norms(struct layer layer, char text[CONFIG_TEXT_SIZE]) {
    char words[CONFIG_TEXT_SIZE] = "";
    struct config_text to = {.text = words, .size = sizeof words};
    for (layer.norm = 0; layer.norm < NORMS; layer.norm++)
        if (layer_takes_norm(&layer))
            config_add(&to, "%s%s", to.used ? "|" : "", norm_kind(layer.norm)->kind.name);
    config_words_list(words, text, CONFIG_TEXT_SIZE);
    return text;
}

static const char *layer_path(size_t n, const char *key, char path[CONFIG_KEY_SIZE]) {
    snprintf(path, CONFIG_KEY_SIZE, "model.layers.%zu.%s", n, key);
    return path;
}

/* Kernel, groups, norm and size of a spatial layer, whose rows and columns it derives. */
static int check_grid(struct reading *reading, size_t n) {
    struct architecture *architecture = &reading->draft.config.architecture;
    struct layer *layer = &architecture->layers[n];
    const struct cell_kind *kind = cell_kind(layer->cell);
    struct grid_shape from = n                                        ? layer[-1].shape
                             : input_is_message(&architecture->input) ? (struct grid_shape){0}
                                                                      : architecture->input.shape;
    size_t least = from.rows < from.columns ? from.rows : from.columns;
    char path[CONFIG_KEY_SIZE], text[CONFIG_TEXT_SIZE];
    if (!kind->spatial)
        return 0;
    if (n && !cell_kind(layer[-1].cell)->spatial)
        return config_fail(reading, layer_path(n, "cell", path),
                           "%s cannot follow %s, which has no rows and columns; list %s first",
                           kind->kind.name, cell_kind(layer[-1].cell)->kind.name, kind->kind.name);
    if (!from.channels)
        return config_fail(reading, layer_path(n, "cell", path),
                           "found %s without model.input.shape; set it to [channels, rows, "
                           "columns] of the input",
                           kind->kind.name);
    if (layer->kernel > least)
        return config_fail(reading, layer_path(n, "kernel", path),
                           "expected at most %zu for %zu x %zu, got %zu", least, from.rows,
                           from.columns, layer->kernel);
    if (!layer_takes_norm(layer))
        return config_fail(reading, layer_path(n, "norm", path),
                           "expected %s with cell: %s, got %s", norms(*layer, text),
                           kind->kind.name, norm_kind(layer->norm)->kind.name);
    if (layer->norm_groups > 1 && norm_kind(layer->norm)->source != SOURCE_GROUP)
        return config_fail(reading, layer_path(n, "norm_groups", path),
                           "found with norm: %s; it is allowed only with norm: layer or rms",
                           norm_kind(layer->norm)->kind.name);
    if (layer->shape.channels % layer->norm_groups)
        return config_fail(reading, layer_path(n, "norm_groups", path),
                           "expected a divisor of %zu channels, got %zu", layer->shape.channels,
                           layer->norm_groups);
    layer_derive(layer, from);
    if (layer_width(layer) > (size_t)INPUT_MAX)
        return config_fail(reading, layer_path(n, "channels", path),
                           "expected at most %.0f units, got %zu of %zu x %zu", INPUT_MAX,
                           layer->shape.channels, layer->shape.rows, layer->shape.columns);
    return 0;
}

/* Numbers that layer n gets. */
static size_t inputs_of(const struct reading *reading, size_t n) {
    struct architecture below = reading->draft.config.architecture;
    struct model model;
    below.layer_count = n + 1; /* others may be invalid */
    below.other_count = 0;
    below.output = (struct output){.size = 1};
    model_build(&model, &below);
    return model.input_width[n];
}

static int check_taps(struct reading *reading, const struct layer *layer, size_t n) {
    enum { DELAY_MAX = 4096 };
    char path[CONFIG_KEY_SIZE];
    size_t inputs = layer->residual ? inputs_of(reading, n) : layer->size;
    if (layer->dilation > 1 && layer_taps(layer) == 1)
        return config_fail(reading, layer_path(n, "dilation", path), "requires taps of at least 2");
    if (layer_delay(layer) > DELAY_MAX)
        return config_fail(reading, layer_path(n, "dilation", path),
                           "expected at most %d steps for (taps - 1) dilation, got %zu", DELAY_MAX,
                           layer_delay(layer));
    return inputs == layer->size ? 0
                                 : config_fail(reading, layer_path(n, "residual", path),
                                               "expected as many inputs as units, got %zu and %zu",
                                               inputs, layer->size);
}

static int check_layer(struct reading *reading, struct layer *layer, size_t n) {
    static const struct radius usual = {2, {0.9, 0.999}};
    const char *cell = cell_kind(layer->cell)->kind.name, *norm = norm_kind(layer->norm)->kind.name;
    bool columns = layer_is_columns(layer);
    char path[CONFIG_KEY_SIZE];
    if (check_grid(reading, n) != 0)
        return -1;
    if (!layer_takes_norm(layer))
        return config_fail(reading, layer_path(n, "norm", path),
                           "expected layer or none with %s, got %s",
                           layer->diagonal ? "recurrent: diagonal" : cell, norm);
    if (layer->memory && !columns)
        return config_fail(reading, layer_path(n, "memory", path),
                           "requires recurrent: diagonal with cell: %s", cell);
    if (layer->radius.count == 1)
        return config_fail(reading, layer_path(n, "radius", path),
                           "expected two rising numbers, as in [0.9, 0.999]");
    if (!layer->radius.count)
        layer->radius = usual;
    return check_taps(reading, layer, n);
}

int config_check_layers(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    const char *device = reading->draft.config.device;
    char lacks[MODEL_LACKS_SIZE];
    if (check_shape(reading) != 0)
        return -1;
    for (size_t n = 0; n < architecture->layer_count; n++)
        if (check_layer(reading, &architecture->layers[n], n) != 0)
            return -1;
    if (!strncmp(device, "cuda", strlen("cuda")) && model_of_cpu(architecture, lacks))
        return config_fail(reading, "device", "expected cpu with %s, got %s", lacks, device);
    if (!strncmp(device, "cuda", strlen("cuda")) && reading->draft.config.vectors)
        return config_fail(reading, "device", "expected cpu with statistics.vectors, got %s",
                           device);
    return 0;
}
