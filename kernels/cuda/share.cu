/* Distributes the blocks of a wave over its products, by their share of the weights, whose bytes
   take the time. Blocks do not wait for one another. One block more than there are
   multiprocessors would share a multiprocessor, and double the time of the wave, so there are at
   most as many as multiprocessors if each product gets one. */
#include "engine.cuh"

enum {
    /* least rows of a chunk of a transposed product: fewer do not pay a block, */
    CHUNK_ROWS_MIN = 32,
    /* most rows of a chunk: more would need too much shared memory for the gradient */
    CHUNK_ROWS_MAX = 4096,
};

/* The number of `all` blocks for a product with `part` of `whole` of the weights, at most
   `most`. */
static uint32_t share(uint32_t all, double part, double whole, uint32_t most) {
    double blocks = (double)all * part / whole + 0.5;
    return blocks < 1 ? 1 : blocks > most ? most : (uint32_t)blocks;
}

/* Blocks, chunks and groups are counted in two bytes, which is enough: a model has at most 2^31
   parameters and 10^6 inputs (src/config), and a block for a group of columns has CHUNK_ROWS_MAX
   rows: some 8,000 blocks of parameters and 15,625 of inputs. */
static uint16_t few(uint32_t count) {
    return (uint16_t)count;
}

static double weights(uint32_t rows, uint32_t ld) {
    return (double)rows * ld;
}

/* Numbers of a layer's W_ih that a wave reads. */
static double input_weights(const struct network *n, uint32_t k) {
    const struct network_layer *l = &n->layers[k];
    return k == 0 && is_one_hot(*n) ? l->rows : weights(l->rows, l->ld_ih);
}

static uint32_t row_blocks(unsigned threads, uint32_t rows) {
    uint32_t warps = threads / LANES;
    return (rows + warps - 1) / warps;
}

/* Forward: each product's rows are cut into pieces in proportion to its weights. */
struct rows_of {
    uint16_t *blocks;
    uint32_t rows;
    double weights; /* numbers that a wave reads */
};

/* Takes blocks from the products whose blocks read the least. */
static void fit_forward(uint32_t most, struct rows_of *products, size_t count) {
    for (;;) {
        struct rows_of *least = NULL;
        uint32_t all = 0;
        for (size_t k = 0; k < count; k++) {
            struct rows_of *p = &products[k];
            all += *p->blocks;
            if (*p->blocks > 1 &&
                (!least || p->weights / *p->blocks < least->weights / *least->blocks))
                least = p;
        }
        if (all <= most || !least)
            return;
        --*least->blocks;
    }
}

void share_forward(struct network *n, unsigned threads, uint32_t most) {
    struct rows_of products[2 * MODEL_LAYERS_MAX + 1];
    size_t count = 0;
    double whole = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        products[count++] = (struct rows_of){&l->blocks_ih, l->rows, input_weights(n, k)};
        if (l->recurrent)
            products[count++] =
                (struct rows_of){&l->blocks_hh, l->rows, weights(l->rows, l->ld_hh)};
    }
    products[count++] =
        (struct rows_of){&n->blocks_output, n->outputs, weights(n->outputs, n->ld_output)};
    for (size_t k = 0; k < count; k++)
        whole += products[k].weights;
    for (size_t k = 0; k < count; k++)
        *products[k].blocks =
            few(share(most, products[k].weights, whole, row_blocks(threads, products[k].rows)));
    fit_forward(most, products, count);
    uint32_t next = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        l->first_ih = few(next);
        l->first_hh = few(next + l->blocks_ih);
        next = l->first_hh + l->blocks_hh;
    }
    n->first_output = few(next);
    n->blocks_forward = few(next + n->blocks_output);
}

static void cut(struct split *s, uint32_t rows, uint32_t chunks) {
    s->chunk_rows = few((rows + chunks - 1) / chunks);
    s->chunks = few((rows + s->chunk_rows - 1) / s->chunk_rows);
}

/* Columns in groups, and rows in as many chunks as the share of blocks allows. */
static void split_product(const struct engine *e, struct split *s, uint32_t rows, uint32_t ld,
                          double whole) {
    s->groups = few((ld + COLUMN_GROUP - 1) / COLUMN_GROUP);
    uint32_t most = (rows + CHUNK_ROWS_MIN - 1) / CHUNK_ROWS_MIN;
    uint32_t chunks =
        share((uint32_t)e->device.multiprocessors, weights(rows, ld), whole * s->groups, most);
    uint32_t least = (rows + CHUNK_ROWS_MAX - 1) / CHUNK_ROWS_MAX;
    cut(s, rows, chunks > least ? chunks : least);
}

static bool has_input_gradient(const struct engine *e, uint32_t k) {
    return k > 0 || e->model->architecture.input.embedding || e->encoding.learned;
}

static uint32_t split_blocks(const struct split *s) {
    return s->chunks * (s->groups ? s->groups : 1);
}

/* Takes chunks from the products whose chunks are shortest. */
static void fit_backward(struct engine *e) {
    struct network *n = &e->network;
    for (;;) {
        struct split *least = NULL;
        uint32_t all = 0, rows = 0;
        for (uint32_t k = 0; k < n->layer_count; k++) {
            struct network_layer *l = &n->layers[k];
            struct split *of_layer[2] = {&l->split_ih, &l->split_hh};
            for (int at = 0; at < 2; at++) {
                struct split *s = of_layer[at];
                all += split_blocks(s);
                bool can = s->chunks > 1 && (s->chunks - 1) * CHUNK_ROWS_MAX >= l->rows;
                if (can && (!least || s->chunk_rows < least->chunk_rows)) {
                    least = s;
                    rows = l->rows;
                }
            }
        }
        if (all <= (uint32_t)e->device.multiprocessors || !least)
            return;
        cut(least, rows, least->chunks - 1);
    }
}

static void share_backward(struct engine *e) {
    struct network *n = &e->network;
    double whole = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        whole += has_input_gradient(e, k) ? weights(l->rows, l->ld_ih) : 0;
        whole += l->recurrent ? weights(l->rows, l->ld_hh) : 0;
    }
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        if (has_input_gradient(e, k))
            split_product(e, &l->split_ih, l->rows, l->ld_ih, whole);
        l->split_hh.chunks = 1; /* one that only stores */
        l->split_hh.chunk_rows = few(l->rows);
        if (l->recurrent)
            split_product(e, &l->split_hh, l->rows, l->ld_hh, whole);
    }
    fit_backward(e);
    uint32_t next = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        l->split_ih.first_block = few(next);
        l->split_hh.first_block = few(next + split_blocks(&l->split_ih));
        next = l->split_hh.first_block + split_blocks(&l->split_hh);
    }
    n->blocks_backward = few(next);
    uint32_t columns = gradient_columns(*n);
    split_product(e, &n->split_output, n->outputs, columns, weights(n->outputs, columns));
}

void engine_share(struct engine *e) {
    share_forward(&e->network, e->threads, (uint32_t)e->device.multiprocessors);
    share_backward(e);
}
