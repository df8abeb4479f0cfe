#include "slot.h"

#include <string.h>

#include "matrix.h"
#include "memory.h"
#include "model/rule.h"
#include "network.h"

struct slot_layout slot_lay_out(const struct network *n) {
    const struct model *model = n->model;
    struct slot_layout l = {
        .model = model,
        .places = model_places(model, n->window),
        .state_size = n->state,
        .output_size = n->padded,
        .input_size = model->features,
        .target_size = model->target_size,
        .solved_size = model->kept,
    };
    l.output = l.state_size;
    l.before = l.output + l.places * l.output_size;
    l.input = l.before + n->ring * l.state_size;
    l.target = l.input + n->ring * l.input_size;
    l.learned = l.target + n->ring * model->horizons * l.target_size;
    l.solved = l.learned + n->ring * model->horizons;
    l.kept = matrix_pad(l.solved + l.places * l.solved_size);
    l.kept_size = n->kept.rows * n->kept.row;
    l.size = l.kept + l.kept_size;
    return l;
}

void slot_gather(const struct network *n, size_t position, const float *before, float *state) {
    if (n->model->ages)
        state[n->age] = n->ages[position] + 1.0f;
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        size_t bytes = l->padded * sizeof(float);
        if (l->kind->states > 0)
            memcpy(state + l->state, l->hidden + position * l->padded, bytes);
        if (l->kind->states > 1)
            memcpy(state + l->state + l->padded, l->inner + position * l->padded, bytes);
        if (!l->delay)
            continue;
        size_t width = network_tap(l), older = network_line(l) - width;
        memcpy(state + l->state, before + l->state + width, older * sizeof(float));
        memcpy(state + l->state + older, network_gathered(l, position) + l->inputs - width,
               width * sizeof(float));
    }
}

void slot_copy_state(const struct network *n, float *padded, float *packed, bool read) {
    if (!read)
        memset(padded, 0, n->state * sizeof *padded);
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        for (size_t i = 0; i < l->kind->states; i++, packed += l->size)
            memory_copy(padded + l->state + i * l->padded, packed, l->size * sizeof *packed, read);
        memory_copy(padded + l->state, packed, network_line(l) * sizeof *packed, read);
        packed += network_line(l);
    }
    if (n->ages_most)
        memory_copy(padded + n->age, packed, sizeof *packed, read);
}

void slot_forget(const struct slot_layout *l, float *s) {
    memset(s, 0, l->state_size * sizeof(float));
    if (l->kept_size)
        memset(slot_kept(l, s), 0, l->kept_size * sizeof(float));
}

/* Copies a row of the rule's data into the block of gradients (read), or back. */
static void copy_row(const struct network *n, float *row, bool read) {
    const struct range *ranges[] = {&n->kept.matrices, &n->kept.vectors};
    for (size_t k = 0; k < 2; k++) {
        size_t count = ranges[k]->end - ranges[k]->from;
        memory_copy(row, n->gradient + ranges[k]->from, count * sizeof *row, read);
        row += count;
    }
}

static void copy_kept(const struct slot_layout *l, const struct network *n, float *s, float *record,
                      bool read) {
    for (size_t r = 0; r < n->kept.rows; r++) {
        float *row = slot_kept(l, s) + r * n->kept.row;
        if (read)
            copy_row(n, row, read);
        else
            memset(n->gradient, 0, n->block * sizeof *row);
        for (size_t k = 0; k < l->model->learned_count; k++) {
            const struct tensor *tensor = &l->model->tensors[k];
            if (!rule_covers(l->model, n->kept.rule, tensor))
                continue;
            network_copy(n, n->gradient, tensor, record, read);
            record += tensor_size(tensor);
        }
        if (!read)
            copy_row(n, row, read);
    }
}

static float *copy(float *own, float *record, size_t count, bool read) {
    memory_copy(own, record, count * sizeof *own, read);
    return record + count;
}

void slot_copy(const struct slot_layout *l, const struct network *n, float *s, float *record,
               bool read) {
    size_t state = l->model->state_size, horizons = l->model->horizons;
    slot_copy_state(n, s, record, read);
    record += state;
    for (size_t p = 0; p < l->places; p++)
        record = copy(slot_output(l, s, p), record, n->outputs, read);
    record = copy(s + l->solved, record, l->places * l->solved_size, read);
    for (size_t p = 0; p < n->ring; p++) {
        slot_copy_state(n, slot_before(l, s, p), record, read);
        record = copy(slot_input(l, s, p), record + state, l->input_size, read);
        record = copy(slot_target(l, s, p, 0), record, horizons * l->target_size, read);
        record = copy(slot_learned(l, s, p, 0), record, horizons, read);
    }
    copy_kept(l, n, s, record, read);
}
