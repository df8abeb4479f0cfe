/* A writer: the network that says a message atom by atom, each from those before it, from a state
   made of h. Its arrays hold one message at a time. */
#include <math.h>
#include <string.h>

#include "matrix.h"
#include "split.h"
#include "walk.h"

/* A message to say. Classes have one more, the end, after the last atom. */
struct written {
    struct network *writer;
    const struct output *output;
    const union value *atoms;
    size_t count, terms;    /* atoms; with the end */
    struct model_head atom; /* an atom as a target */
};

static struct written written_of(const struct network *n, const struct model_head *head,
                                 const union value *y) {
    struct network *writer = network_of_output(n, head->output);
    const struct output *output = model_output(n->model, head->output);
    bool classes = loss_kind(output->loss)->class_id;
    size_t longest = output->sequence.longest, count = y->id < longest ? y->id : longest;
    writer->count = count + classes;
    writer->ran = true;
    return (struct written){writer,
                            output,
                            y + 1,
                            count,
                            count + classes,
                            {.output = head->output,
                             .scored = writer->outputs,
                             .target_size = classes ? 1 : output->size}};
}

/* The row of an atom's embedding in a block; NULL: it has none. */
static float *row_of(const struct written *w, float *block, uint32_t id) {
    bool given = !output_is_input(w->output);
    const struct network *writer = w->writer;
    bool embedded =
        given ? w->output->sequence.embedding > 0 : writer->model->architecture.input.embedding > 0;
    size_t at = given ? writer->at[TENSOR_ATOM_EMBEDDING] : writer->embedding;
    return embedded ? block + at + id * writer->inputs : NULL;
}

static bool is_class(const struct written *w) {
    return loss_kind(w->output->loss)->class_id;
}

/* Encodes the atom before each atom; that of the first is zeros. */
static void encode_before(const struct written *w) {
    struct network *writer = w->writer;
    size_t width = writer->inputs;
    memset(writer->encoded, 0, w->terms * width * sizeof *writer->encoded);
    for (size_t i = 0; i + 1 < w->terms; i++) {
        float *x = writer->encoded + (i + 1) * width;
        const union value *atom = w->atoms + i * w->atom.target_size;
        const float *row = is_class(w) ? row_of(w, writer->parameters, atom->id) : &atom->real;
        if (row)
            memcpy(x, row, width * sizeof *x);
        else
            x[atom->id] = 1;
    }
}

/* Copies between a state (state_size,) and its padded form. */
static void copy_state(const struct network *writer, float *packed, float *padded, bool pack) {
    for (size_t k = 0; k < writer->layer_count; k++) {
        const struct network_layer *l = &writer->layers[k];
        for (size_t i = 0; i < l->kind->states; i++, packed += l->size) {
            float *state = padded + l->state + i * l->padded;
            memcpy(pack ? packed : state, pack ? state : packed, l->size * sizeof *state);
        }
        float *line = padded + l->state;
        memcpy(pack ? packed : line, pack ? line : packed, network_line(l) * sizeof *line);
        packed += network_line(l);
    }
}

/* s = tanh(W_s h + b_s) */
static void start(const struct network *n, struct network *writer, const float *h) {
    size_t size = writer->chain->state_size;
    split_project(writer, n->parameters + writer->at[TENSOR_START_WEIGHT], matrix_pad(size),
                  n->width, n->parameters + writer->at[TENSOR_START_BIAS], &h, &writer->started, 1);
    for (size_t i = 0; i < size; i++)
        writer->started[i] = tanhf(writer->started[i]);
    copy_state(writer, writer->started, writer->zeros, false);
}

static struct network_steps run_of(const struct written *w) {
    return (struct network_steps){0, w->terms, w->writer->zeros, w->writer->atoms};
}

/* The mean loss of the atoms; with `scale` their gradients times it in d_output. */
static double losses(const struct written *w, float scale) {
    struct network *writer = w->writer;
    const union value end = {.id = (uint32_t)w->output->size};
    double loss = 0;
    for (size_t t = 0; t < w->terms; t++)
        loss += loss_step(
            writer->model, &w->atom, writer->output + t * writer->padded,
            t < w->count ? w->atoms + t * w->atom.target_size : &end, scale / (float)w->terms,
            scale > 0 ? writer->d_output + t * writer->padded : NULL, writer->loss_scratch);
    return loss / (double)w->terms;
}

double writer_loss(const struct network *n, const struct model_head *head, const float *h,
                   const union value *y) {
    const struct written w = written_of(n, head, y);
    const struct network_steps run = run_of(&w);
    start(n, w.writer, h);
    encode_before(&w);
    network_forward(w.writer, &run, 0);
    return losses(&w, 0);
}

/* Adds the gradients of the starting state's map, and to that of h. */
static void start_backward(const struct network *n, struct network *writer, const float *h,
                           float *d) {
    size_t rows = matrix_pad(writer->chain->state_size), at = writer->at[TENSOR_START_WEIGHT];
    float *ds = writer->d_started, *bias = n->gradient + writer->at[TENSOR_START_BIAS];
    copy_state(writer, ds, writer->d_start, true);
    for (size_t i = 0; i < writer->chain->state_size; i++) {
        ds[i] *= 1 - writer->started[i] * writer->started[i];
        bias[i] += ds[i];
    }
    split_gradient(writer, n->gradient + at, rows, n->width, ds, &h, 1);
    split_transposed(writer, n->parameters + at, rows, n->width, ds, writer->d_given, 0);
    for (size_t i = 0; i < n->width; i++)
        d[i] += writer->d_given[i];
}

double writer_backward(const struct network *n, const struct model_head *head, const float *h,
                       const union value *y, float scale, float *d) {
    writer_loss(n, head, h, y);
    const struct written w = written_of(n, head, y);
    struct network *writer = w.writer;
    const struct network_steps run = run_of(&w);
    memset(writer->d_output, 0, w.terms * writer->padded * sizeof *writer->d_output);
    double loss = losses(&w, scale);
    bool embedded = is_class(&w) && row_of(&w, n->gradient, 0);
    output_backward(writer, &run, 0);
    chain_backward(writer, &run, embedded);
    for (size_t i = 0; embedded && i + 1 < w.terms; i++) {
        const float *from = writer->d_hidden[0] + (i + 1) * matrix_pad(writer->inputs);
        float *row = row_of(&w, n->gradient, w.atoms[i].id);
        for (size_t k = 0; k < writer->inputs; k++)
            row[k] += from[k];
    }
    start_backward(n, writer, h, d);
    return loss;
}
