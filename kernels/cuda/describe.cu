/* The network's sizes and kinds for the kernels, without offsets. */
#include "engine.cuh"

static void describe_layer(struct engine *e, uint32_t k) {
    const struct layer *from = &e->model->architecture.layers[k];
    const struct cell_kind *kind = cell_kind(from->cell);
    struct network_layer *l = &e->network.layers[k];
    l->cell = (uint8_t)from->cell;
    l->activation = (uint8_t)from->activation;
    l->source =
        (uint8_t)(layer_normalizes_sums(from) ? norm_kind(from->norm)->source : SOURCE_NOTHING);
    l->columns = layer_is_columns(from);
    l->recurrent = kind->states > 0 && !l->columns;
    l->normalized = layer_normalizes_output(from);
    l->outputs = (uint8_t)kind->outputs;
    l->centred = norm_kind(from->norm)->centred;
    l->gates = (uint8_t)kind->gates;
    l->states = (uint8_t)kind->states;
    l->apart = kind->apart;
    l->inner = kind->inner;
    l->finishes = kind->finishes;
    l->own = kind->own;
    l->carries = kind->carries;
    bool units = l->source == SOURCE_ROWS || l->source == SOURCE_RUNNING;
    l->ages = units && norm_kind(from->norm)->by_age ? (uint32_t)from->norm_steps : units;
    e->network.rows_norms |= l->source == SOURCE_ROWS;
    e->network.factors |= kind->parameters > 0;
    l->parameters = (uint8_t)kind->parameters;
    e->network.running_norms |= l->source == SOURCE_RUNNING;
    l->group_gates = (uint8_t)kind->group_gates[0];
    l->size = (uint32_t)layer_width(from);
    l->rows = (uint32_t)(l->gates * from->size);
    l->inputs = (uint32_t)e->model->input_width[k];
    l->ld_ih = padded(l->inputs);
    l->ld_hh = padded(l->size);
    l->state = (uint32_t)e->model->state_offset[k];
}

static void describe_output(struct engine *e) {
    const struct architecture *a = &e->model->architecture;
    struct network *n = &e->network;
    uint32_t ld_skip = padded((uint32_t)e->model->input_width[0]);
    n->ld_output = padded(n->layers[n->layer_count - 1].size);
    if (!a->output.skip)
        return;
    if (is_one_hot(*n)) {
        n->ld_skip = ld_skip;
        return;
    }
    n->skip_from = n->ld_output;
    n->ld_output += ld_skip;
    n->ld_skip = n->ld_output;
}

/* The parts of an encoded x. */
static void describe_encoding(struct engine *e) {
    const struct model *model = e->model;
    struct encoding *encoding = &e->network.encoding;
    encoding->count = (uint32_t)model->part_count;
    encoding->features = (uint32_t)model->features;
    encoding->learned = model->embeddings > 0;
    for (size_t k = 0; k < model->part_count; k++) {
        const struct input_part *from = &model->parts[k];
        struct encoded_part *part = &e->parts[k];
        part->from = (uint32_t)from->from;
        part->at = (uint32_t)from->at;
        part->width = (uint32_t)from->width;
        part->size = (uint32_t)from->size;
        part->ld = from->tensor == MODEL_NO_TENSOR ? 0 : padded(part->width);
    }
    const struct input *input = &model->architecture.input;
    if (input->hash &&
        !model->part_count) { /* it may be negated, which is not possible with plain one-hot */
        encoding->count = 1;
        e->parts[0].width = e->parts[0].size = (uint32_t)input->size;
    }
}

static void describe_input(struct engine *e) {
    const struct model *model = e->model;
    const struct input *input = &model->architecture.input;
    struct network *n = &e->network;
    describe_encoding(e);
    n->input_real = !n->encoding.count && input_is_real(input);
    n->input_size = (uint32_t)(input_is_real(input) ? model->features : input->size);
    n->embedding_size = !input_is_real(input) ? (uint32_t)input->embedding : 0;
    if (n->encoding.count)
        n->embedding_size = (uint32_t)model->input_width[0];
    n->ld_embedding = padded(n->embedding_size);
}

void engine_describe_network(struct engine *e) {
    const struct model *model = e->model;
    const struct architecture *a = &model->architecture;
    struct network *n = &e->network;
    n->layer_count = (uint32_t)a->layer_count;
    n->age = (uint32_t)model->age_offset;
    n->ages = (uint32_t)model->ages;
    n->window = (uint32_t)e->options.window;
    n->ring = (uint32_t)model_ring(model, e->options.window);
    n->many = model->open > 1;
    n->horizons = (uint32_t)model->horizons;
    n->scored = (uint32_t)model->scored;
    n->outputs = (uint32_t)model->outputs;
    describe_input(e);
    n->loss = a->output.loss;
    n->together = (uint32_t)loss_kind(a->output.loss)->together;
    n->target_size = (uint32_t)model->target_size;
    n->components = (uint32_t)a->output.components;
    for (uint32_t k = 0; k < n->layer_count; k++)
        describe_layer(e, k);
    describe_output(e);
}
