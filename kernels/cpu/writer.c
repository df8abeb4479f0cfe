/* A writer: the network that says a message atom by atom, each from those before it, from a state
   made of h. Its arrays hold one message at a time. */
#include <math.h>
#include <string.h>

#include "matrix.h"
#include "slot.h"
#include "split.h"
#include "walk.h"

/* A message to say. Classes have one more, the end, after the last atom. The writer's atoms are
   those of the message. */
struct written {
    struct network *writer;
    size_t count, terms;    /* atoms; with the end */
    struct model_head atom; /* an atom as a target, */
    struct input_part part; /* and as the input of the next one */
    size_t table;           /* offset of its embedding in the block, */
    bool embedded;          /* if it has one */
    union value end;
};

static struct written written_of(const struct network *n, const struct model_head *head,
                                 const union value *y) {
    struct network *writer = network_of_output(n, head->output);
    const struct output *output = model_output(n->model, head->output);
    bool classes = loss_kind(output->loss)->class_id, given = !output_is_input(output);
    size_t longest = output->sequence.longest, count = y->id < longest ? y->id : longest;
    size_t size = classes ? 1 : output->size;
    for (size_t i = 0; i < count; i++)
        writer->atoms[i] = y + 1 + i * size;
    writer->count = count + classes;
    writer->ran = true;
    return (struct written){
        .writer = writer,
        .count = count,
        .terms = count + classes,
        .atom = {.output = head->output, .scored = writer->outputs, .target_size = size},
        .part = {.width = writer->inputs, .size = classes ? output->size : 0},
        .table = writer->at[given ? TENSOR_ATOM_EMBEDDING : TENSOR_EMBEDDING],
        .embedded = classes && (given ? output->sequence.embedding
                                      : n->model->architecture.input.embedding) > 0,
        .end.id = (uint32_t)output->size,
    };
}

/* s = tanh(W_s h + b_s) */
static void start(const struct network *n, struct network *writer, const float *h) {
    size_t size = writer->chain->state_size;
    split_project(writer, n->parameters + writer->at[TENSOR_START_WEIGHT], matrix_pad(size),
                  n->width, n->parameters + writer->at[TENSOR_START_BIAS], &h, &writer->started, 1);
    for (size_t i = 0; i < size; i++)
        writer->started[i] = tanhf(writer->started[i]);
    slot_copy_state(writer, writer->zeros, writer->started, false);
}

static struct network_steps run_of(const struct written *w) {
    return (struct network_steps){0, w->terms, w->writer->zeros, w->writer->atoms};
}

/* Each atom's input is the one before it; that of the first is zeros. */
static void forward(const struct network *n, const struct written *w, const float *h) {
    struct network *writer = w->writer;
    const struct network_steps run = run_of(w);
    const float *rows = w->embedded ? writer->parameters + w->table : NULL;
    start(n, writer, h);
    memset(writer->encoded, 0, writer->inputs * sizeof *writer->encoded);
    for (size_t i = 0; i + 1 < w->terms; i++)
        encode_part(&w->part, rows, writer->atoms[i], writer->encoded + (i + 1) * writer->inputs);
    network_forward(writer, &run, 0);
}

/* The mean loss of the atoms; with `scale` their gradients times it in d_output. */
static double losses(const struct written *w, float scale) {
    struct network *writer = w->writer;
    double loss = 0;
    for (size_t t = 0; t < w->terms; t++)
        loss += loss_step(writer->model, &w->atom, writer->output + t * writer->padded,
                          t < w->count ? writer->atoms[t] : &w->end, scale / (float)w->terms,
                          scale > 0 ? writer->d_output + t * writer->padded : NULL,
                          writer->loss_scratch);
    return loss / (double)w->terms;
}

double writer_loss(const struct network *n, const struct model_head *head, const float *h,
                   const union value *y) {
    const struct written w = written_of(n, head, y);
    forward(n, &w, h);
    return losses(&w, 0);
}

/* Adds the gradients of the starting state's map, and to that of h. */
static void start_backward(const struct network *n, struct network *writer, const float *h,
                           float *d) {
    size_t rows = matrix_pad(writer->chain->state_size), at = writer->at[TENSOR_START_WEIGHT];
    float *ds = writer->d_started, *bias = n->gradient + writer->at[TENSOR_START_BIAS];
    slot_copy_state(writer, writer->d_start, ds, true);
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
    const struct written w = written_of(n, head, y);
    struct network *writer = w.writer;
    const struct network_steps run = run_of(&w);
    const struct network_steps read = {.count = w.terms - 1, .inputs = writer->atoms};
    size_t padded = matrix_pad(writer->inputs);
    forward(n, &w, h);
    memset(writer->d_output, 0, w.terms * writer->padded * sizeof *writer->d_output);
    double loss = losses(&w, scale);
    output_backward(writer, &run, 0);
    chain_backward(writer, &run, w.embedded, 0);
    if (w.embedded)
        add_to_rows(&read, 0, writer->inputs, writer->d_hidden[0] + padded, padded,
                    n->gradient + w.table);
    start_backward(n, writer, h, d);
    return loss;
}
