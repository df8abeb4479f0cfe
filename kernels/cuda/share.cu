/* How the work of a wave is shared out among blocks: by the share that each product has of the
   weights, since their bytes are what a wave waits for. */
#include "engine.cuh"

enum {
    CHUNK_ROWS_MIN = 32,   /* of a transposed product: fewer are not worth a block, */
    CHUNK_ROWS_MAX = 4096, /* and of more the gradient would take too much shared memory */
};

/* Blocks for a product that takes `part` of `whole` of the weights, of `most` that can be of use.
 */
static uint32_t share(const struct engine *e, double part, double whole, uint32_t most) {
    double blocks = (double)e->device.multiprocessors * part / whole + 0.5;
    return blocks < 1 ? 1 : blocks > most ? most : (uint32_t)blocks;
}

static double weights(uint32_t rows, uint32_t ld) {
    return (double)rows * ld;
}

/* Numbers that a wave reads of a layer's W_ih. */
static double input_weights(const struct network *n, uint32_t k) {
    const struct network_layer *l = &n->layers[k];
    return k == 0 && is_one_hot(*n) ? l->rows : weights(l->rows, l->ld_ih);
}

static uint32_t row_blocks(const struct engine *e, uint32_t rows) {
    uint32_t warps = e->threads / LANES;
    return (rows + warps - 1) / warps;
}

/* Forward: each product's rows are cut into as many pieces as its share of the weights. */
static void share_forward(struct engine *e) {
    struct network *n = &e->network;
    double whole = weights(n->outputs, n->ld_output);
    for (uint32_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        whole += input_weights(n, k);
        whole += l->states == 0 ? 0 : weights(l->rows, l->ld_hh);
    }
    uint32_t next = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        uint32_t most = row_blocks(e, l->rows);
        l->first_ih = next;
        l->blocks_ih = share(e, input_weights(n, k), whole, most);
        l->first_hh = l->first_ih + l->blocks_ih;
        l->blocks_hh = l->states == 0 ? 0 : share(e, weights(l->rows, l->ld_hh), whole, most);
        next = l->first_hh + l->blocks_hh;
    }
    n->first_output = next;
    n->blocks_output =
        share(e, weights(n->outputs, n->ld_output), whole, row_blocks(e, n->outputs));
    n->blocks_forward = next + n->blocks_output;
}

/* Columns in groups, and rows in as many chunks as the share of blocks allows. */
static void split_product(const struct engine *e, struct split *s, uint32_t rows, uint32_t ld,
                          double whole) {
    s->groups = (ld + COLUMN_GROUP - 1) / COLUMN_GROUP;
    uint32_t most = (rows + CHUNK_ROWS_MIN - 1) / CHUNK_ROWS_MIN;
    uint32_t chunks = share(e, weights(rows, ld), whole * s->groups, most);
    uint32_t least = (rows + CHUNK_ROWS_MAX - 1) / CHUNK_ROWS_MAX;
    chunks = chunks > least ? chunks : least;
    s->chunk_rows = (rows + chunks - 1) / chunks;
    s->chunks = (rows + s->chunk_rows - 1) / s->chunk_rows;
}

static bool has_input_gradient(const struct engine *e, uint32_t k) {
    return k > 0 || e->model->architecture.input.embedding || e->encoding.learned;
}

static void share_backward(struct engine *e) {
    struct network *n = &e->network;
    double whole = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        whole += has_input_gradient(e, k) ? weights(l->rows, l->ld_ih) : 0;
        whole += l->states == 0 ? 0 : weights(l->rows, l->ld_hh);
    }
    uint32_t next = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        l->split_ih.first_block = next;
        if (has_input_gradient(e, k))
            split_product(e, &l->split_ih, l->rows, l->ld_ih, whole);
        l->split_hh.first_block = next + l->split_ih.chunks * l->split_ih.groups;
        l->split_hh.chunks = 1; /* one that only keeps */
        l->split_hh.chunk_rows = l->rows;
        if (l->states > 0)
            split_product(e, &l->split_hh, l->rows, l->ld_hh, whole);
        uint32_t groups = l->split_hh.groups ? l->split_hh.groups : 1;
        next = l->split_hh.first_block + l->split_hh.chunks * groups;
    }
    n->blocks_backward = next;
    uint32_t columns = gradient_columns(*n);
    split_product(e, &n->split_output, n->outputs, columns, weights(n->outputs, columns));
}

void engine_share(struct engine *e) {
    share_forward(e);
    share_backward(e);
}
