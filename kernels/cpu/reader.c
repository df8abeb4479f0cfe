/* A reader: the network that reads a message into one vector, from a state of zeros, and a pool.
   Its arrays hold one message at a time: backward over a window reads earlier messages again. */
#include "pools.h"

#include <string.h>

#include "matrix.h"
#include "walk.h"

/* The atoms of a message: a row of the engine's inputs. The check is needed for damaged
   checkpoints. */
static struct network_steps run_of(struct network *reader, const union value *message) {
    size_t count = message->id < 1 ? 1 : message->id;
    reader->count = count < reader->window ? count : reader->window;
    for (size_t i = 0; i < reader->count; i++)
        reader->atoms[i] = message + 1 + i * reader->model->features_atom;
    return (struct network_steps){0, reader->count, reader->zeros, reader->atoms};
}

static struct pool_run pool_of(const struct network *reader) {
    struct pool_run run = {
        .count = reader->count,
        .size = reader->width,
        .attention = reader->model->architecture.input.sequence.attention,
        .h = reader->layers[reader->layer_count - 1].output,
        .dh = reader->d_hidden[0],
        .stride = reader->wide,
        .scratch = reader->pooled,
    };
    for (size_t k = 0; k < POOL_TENSORS_MAX; k++) {
        run.tensors[k] = reader->parameters + reader->at[TENSOR_POOL + k];
        run.gradients[k] = reader->gradient + reader->at[TENSOR_POOL + k];
    }
    return run;
}

void reader_forward(struct network *n, const struct network_steps *steps, size_t t) {
    struct network *reader = network_reader(n);
    size_t position = network_position(n, steps->first, t);
    const struct network_steps run = run_of(reader, steps->inputs[t]);
    network_forward(reader, &run, run.count);
    const struct pool_run pool = pool_of(reader);
    pool_play(n->model->architecture.input.sequence.pool, &pool, n->encoded + position * n->inputs,
              NULL);
    reader->held = position;
}

static bool is_zero(const float *d, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (d[i] != 0)
            return false;
    return true;
}

void reader_backward(struct network *n, const struct network_steps *steps, size_t t,
                     const float *d) {
    struct network *reader = network_reader(n);
    if (is_zero(d, n->inputs))
        return;
    if (reader->held != network_position(n, steps->first, t))
        reader_forward(n, steps, t);
    const struct network_steps run = run_of(reader, steps->inputs[t]);
    memset(reader->d_hidden[0], 0, run.count * reader->wide * sizeof(float));
    const struct pool_run pool = pool_of(reader);
    pool_play(n->model->architecture.input.sequence.pool, &pool, NULL, d);
    bool embedded = reader->form == FORM_EMBEDDED;
    chain_backward(reader, &run, embedded, 0);
    if (embedded)
        backward_embedded(reader, &run, reader->d_hidden[0], matrix_pad(reader->inputs));
}
