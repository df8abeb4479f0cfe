/* The tensors for gradient and optimizer: the factors of each one's gradient, and its tiles. */
#include "engine.cuh"

static struct factor array_of(uint32_t offset, uint32_t stride) {
    struct factor f = {FACTOR_ARRAY, offset, stride};
    return f;
}

static void walk_matrix(const struct engine *e, struct walked *w, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct network_layer *l = &n->layers[tensor->layer];
    const struct encoded_part *part = engine_input_part(e, tensor);
    const struct factor symbol = {FACTOR_SYMBOL, part ? part->ids : n->ids, 0};
    switch (tensor->role) {
    case TENSOR_EMBEDDING:
        w->a = symbol;
        w->b = part ? array_of(part->d, part->ld) : array_of(n->d_embedding, n->ld_embedding);
        break;
    case TENSOR_WEIGHT_IH:
        w->a = array_of(l->d_ih, padded(l->rows));
        w->b = tensor->layer == 0 && is_one_hot(*n) ? symbol : array_of(l->input, l->ld_ih);
        break;
    case TENSOR_WEIGHT_HH:
        w->a = array_of(l->d_hh, padded(l->rows));
        w->b = array_of(l->before, l->ld_hh);
        break;
    case TENSOR_OUTPUT_SKIP: /* with its own rows */
        w->a = array_of(n->d_output, padded(n->outputs));
        w->b = symbol;
        break;
    default: /* TENSOR_OUTPUT_WEIGHT, with the skip path's columns */
        w->columns = n->ld_output;
        w->a = array_of(n->d_output, padded(n->outputs));
        w->b = array_of(n->top, n->ld_output);
    }
}

/* A vector's gradient is the sum of one array's rows. */
static void walk_vector(const struct engine *e, struct walked *w, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct network_layer *l = &n->layers[tensor->layer];
    const uint32_t arrays[TENSOR_ROLES] = {
        0,
        0,
        l->d_weight,
        l->d_ih,
        l->d_hh,
        l->d_gain[0],
        l->d_gain[1],
        l->d_gain[2],
        l->d_bias[0],
        l->d_bias[1],
        l->d_bias[2],
        l->d_weight,
        l->d_weight + n->window * padded((uint32_t)tensor->rows),
        0,
        n->d_output,
    };
    bool wide = tensor->role == TENSOR_BIAS_IH || tensor->role == TENSOR_BIAS_HH ||
                tensor->role == TENSOR_OUTPUT_BIAS || tensor->role == TENSOR_WEIGHT_HH ||
                tensor->role == TENSOR_UNIT_0 || tensor->role == TENSOR_UNIT_1;
    uint32_t rows = (uint32_t)tensor->rows;
    w->a.kind = FACTOR_ONE;
    w->b = array_of(arrays[tensor->role], wide ? padded(rows) : rows);
}

static uint32_t pull_of(const struct engine *e, const struct tensor *tensor) {
    const struct network_layer *l = &e->network.layers[tensor->layer];
    bool ih = tensor->role == TENSOR_WEIGHT_IH, hh = tensor->role == TENSOR_WEIGHT_HH;
    if (l->source != SOURCE_ROWS || (!ih && !hh))
        return NONE;
    return l->pull + (hh && l->apart ? l->rows : 0);
}

void engine_walk(struct engine *e) {
    struct gradient_plan *plan = &e->gradient;
    uint32_t tile = 0;
    for (size_t k = 0; k < e->model->learned_count; k++) {
        const struct tensor *tensor = &e->model->tensors[k];
        struct walked *w = &e->walked[plan->count];
        if (tensor->role == TENSOR_OUTPUT_SKIP && e->network.skip_from)
            continue; /* processed with output.weight */
        plan->count++;
        w->pull = pull_of(e, tensor);
        plan->pulls |= w->pull != NONE;
        struct placed placed = engine_placed(e, tensor);
        w->offset = placed.offset;
        w->ld = placed.ld;
        w->rows = tensor->columns ? (uint32_t)tensor->rows : 1;
        w->columns = (uint32_t)(tensor->columns ? tensor->columns : tensor->rows);
        if (tensor->columns)
            walk_matrix(e, w, tensor);
        else
            walk_vector(e, w, tensor);
        w->quad_bits = QUAD_BITS_MIN;
        while (w->quad_bits < QUAD_BITS_MAX && (uint32_t)QUAD << w->quad_bits < w->ld)
            w->quad_bits++;
        uint32_t rows = tile_rows(w->quad_bits), columns = tile_columns(w->quad_bits);
        w->column_tiles = (w->ld + columns - 1) / columns;
        w->first_tile = tile;
        tile += (w->rows + rows - 1) / rows * w->column_tiles;
        size_t end = w->offset + (size_t)w->rows * w->ld;
        plan->numbers = end > plan->numbers ? end : plan->numbers;
    }
    plan->host = e->walked;
    plan->tiles = tile;
    plan->multiprocessors = (uint32_t)e->device.multiprocessors;
}
