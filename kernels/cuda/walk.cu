/* How matrices are dealt in strips, and the tensors for gradient and optimizer: the factors of each
   one's gradient, and its tiles. */
#include "engine.cuh"

#include <stdlib.h>

/* ---- Strips ---- */

/* The strips of a matrix (rows, ld) follow those in the table, which may still be missing. */
static void cut_matrix(struct engine *e, struct strips *of, uint32_t layer, enum matrix matrix,
                       uint32_t rows, uint32_t ld, uint64_t *before) {
    uint32_t each = tile_rows(quad_bits_of(ld));
    of->first = e->network.strip_count;
    of->count = (rows + each - 1) / each;
    for (uint32_t k = 0; k < of->count; k++) {
        struct strip s = {(uint8_t)layer, (uint8_t)matrix, k * each, (k + 1) * each};
        s.end = s.end < rows ? s.end : rows;
        s.number = k;
        s.tensor = NONE;
        s.before = (uint32_t)*before;
        *before += (uint64_t)(s.end - s.first) * ld;
        if (e->strips)
            e->strips[e->network.strip_count] = s;
        e->network.strip_count++;
    }
}

static uint64_t cut_all(struct engine *e) {
    struct network *n = &e->network;
    uint64_t before = 0;
    n->strip_count = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        cut_matrix(e, &l->ih, k, MATRIX_IH, l->rows, l->ld_ih, &before);
        if (l->recurrent)
            cut_matrix(e, &l->hh, k, MATRIX_HH, l->rows, l->ld_hh, &before);
        l->input_gradient = k > 0 || e->model->architecture.input.embedding || n->encoding.learned;
    }
    n->inbox_size = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        uint32_t sums = 2 * l->rows;
        uint32_t partials = partial_numbers(*l, true) + (k > 0) * partial_numbers(*l, false);
        l->inbox = n->inbox_size;
        n->inbox_size += padded(2 * (sums > partials ? sums : partials));
    }
    cut_matrix(e, &n->out, n->layer_count - 1, MATRIX_OUTPUT, n->outputs, n->ld_output, &before);
    return before;
}

/* First their number, then the table, which ends with the number of weights. */
int engine_cut_strips(struct engine *e, struct error *error) {
    cut_all(e);
    e->strips = (struct strip *)calloc(e->network.strip_count + 1, sizeof *e->strips);
    if (!e->strips)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CUDA engine");
    e->strips[e->network.strip_count].before = (uint32_t)cut_all(e);
    return 0;
}

/* The strips of a tensor, if it is dealt in them. */
static void walk_strips(struct engine *e, struct walked *w, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct network_layer *l = &n->layers[tensor->layer];
    const struct strips *of = tensor->role == TENSOR_WEIGHT_IH       ? &l->ih
                              : tensor->role == TENSOR_WEIGHT_HH     ? &l->hh
                              : tensor->role == TENSOR_OUTPUT_WEIGHT ? &n->out
                                                                     : NULL;
    if (!of || !tensor->columns)
        return;
    w->dealt = true;
    for (uint32_t k = 0; k < of->count; k++)
        e->strips[of->first + k].tensor = (uint32_t)(w - e->walked);
}

/* ---- Tensors ---- */

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
    uint32_t arrays[TENSOR_ROLES] = {0,
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
                                     l->d_weight + n->window * padded((uint32_t)tensor->rows)};
    arrays[TENSOR_OUTPUT_BIAS] = n->d_output;
    w->a.kind = FACTOR_ONE;
    w->b = array_of(arrays[tensor->role], padded((uint32_t)tensor->rows));
}

static uint32_t pull_of(const struct engine *e, const struct tensor *tensor) {
    const struct network_layer *l = &e->network.layers[tensor->layer];
    bool ih = tensor->role == TENSOR_WEIGHT_IH, hh = tensor->role == TENSOR_WEIGHT_HH;
    if (l->source != SOURCE_ROWS || (!ih && !hh))
        return NONE;
    return l->pull + (hh && l->apart ? l->rows : 0);
}

void engine_walk(struct engine *e) {
    struct network *n = &e->network;
    n->tensor_count = n->tiles = n->widest_vector = 0;
    for (size_t k = 0; k < e->model->learned_count; k++) {
        const struct tensor *tensor = &e->model->tensors[k];
        struct walked *w = &e->walked[n->tensor_count];
        if (tensor->role == TENSOR_OUTPUT_SKIP && n->skip_from)
            continue; /* processed with output.weight */
        n->tensor_count++;
        w->pull = pull_of(e, tensor);
        n->pulls |= w->pull != NONE;
        struct placed placed = engine_placed(e, tensor);
        w->offset = placed.offset;
        w->ld = placed.ld;
        w->rows = tensor->columns ? (uint32_t)tensor->rows : 1;
        w->columns = (uint32_t)(tensor->columns ? tensor->columns : tensor->rows);
        if (tensor->columns)
            walk_matrix(e, w, tensor);
        else
            walk_vector(e, w, tensor);
        walk_strips(e, w, tensor);
        w->quad_bits = quad_bits_of(w->ld);
        uint32_t rows = tile_rows(w->quad_bits), columns = tile_columns(w->quad_bits);
        uint32_t slices = (w->columns + SLICE - 1) / SLICE;
        w->column_tiles = (w->ld + columns - 1) / columns;
        w->first_tile = n->tiles;
        n->tiles += (w->rows + rows - 1) / rows * w->column_tiles;
        if (w->a.kind == FACTOR_ONE && slices > n->widest_vector)
            n->widest_vector = slices;
    }
}
