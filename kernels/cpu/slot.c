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

/* Copies a state between its padded form and a record's. */
static void pack_state(const struct network *n, const float *padded, float *packed) {
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        for (size_t i = 0; i < l->kind->states; i++, packed += l->size)
            memcpy(packed, padded + l->state + i * l->padded, l->size * sizeof(float));
        memcpy(packed, padded + l->state, network_line(l) * sizeof(float));
        packed += network_line(l);
    }
    if (n->model->ages)
        *packed = padded[n->age];
}

static void unpack_state(const struct network *n, const float *packed, float *padded) {
    memset(padded, 0, n->state * sizeof(float));
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        for (size_t i = 0; i < l->kind->states; i++, packed += l->size)
            memcpy(padded + l->state + i * l->padded, packed, l->size * sizeof(float));
        memcpy(padded + l->state, packed, network_line(l) * sizeof(float));
        packed += network_line(l);
    }
    if (n->model->ages)
        padded[n->age] = *packed;
}

static float *append(float *record, const float *values, size_t count) {
    memcpy(record, values, count * sizeof(float));
    return record + count;
}

static const float *extract(const float *record, float *values, size_t count) {
    memcpy(values, record, count * sizeof(float));
    return record + count;
}

void slot_forget(const struct slot_layout *l, float *s) {
    memset(s, 0, l->state_size * sizeof(float));
    if (l->kept_size)
        memset(slot_kept(l, s), 0, l->kept_size * sizeof(float));
}

/* Copies a row of the rule's data from or to the block of parameters. */
static void move_row(const struct network *n, float *row, bool into_block) {
    const struct range *ranges[] = {&n->kept.matrices, &n->kept.vectors};
    for (size_t k = 0; k < 2; k++) {
        size_t count = ranges[k]->end - ranges[k]->from;
        float *block = n->gradient + ranges[k]->from;
        memcpy(into_block ? block : row, into_block ? row : block, count * sizeof(float));
        row += count;
    }
}

static void read_kept(const struct slot_layout *l, const struct network *n, float *s,
                      float *record) {
    for (size_t r = 0; r < n->kept.rows; r++) {
        move_row(n, slot_kept(l, s) + r * n->kept.row, true);
        for (size_t k = 0; k < l->model->learned_count; k++) {
            const struct tensor *tensor = &l->model->tensors[k];
            if (!rule_covers(l->model, n->kept.rule, tensor))
                continue;
            network_read(n, n->gradient, tensor, record);
            record += tensor_size(tensor);
        }
    }
}

static void write_kept(const struct slot_layout *l, const struct network *n, float *s,
                       const float *record) {
    for (size_t r = 0; r < n->kept.rows; r++) {
        memset(n->gradient, 0, n->block * sizeof(float));
        for (size_t k = 0; k < l->model->learned_count; k++) {
            const struct tensor *tensor = &l->model->tensors[k];
            if (!rule_covers(l->model, n->kept.rule, tensor))
                continue;
            network_write(n, n->gradient, tensor, record);
            record += tensor_size(tensor);
        }
        move_row(n, slot_kept(l, s) + r * n->kept.row, false);
    }
}

void slot_read(const struct slot_layout *l, const struct network *n, float *s, float *record) {
    size_t state = l->model->state_size, horizons = l->model->horizons;
    pack_state(n, s, record);
    record += state;
    for (size_t p = 0; p < l->places; p++)
        record = append(record, slot_output(l, s, p), n->outputs);
    record = append(record, s + l->solved, l->places * l->solved_size);
    for (size_t p = 0; p < n->ring; p++) {
        pack_state(n, slot_before(l, s, p), record);
        record = append(record + state, slot_input(l, s, p), l->input_size);
        record = append(record, slot_target(l, s, p, 0), horizons * l->target_size);
        record = append(record, slot_learned(l, s, p, 0), horizons);
    }
    read_kept(l, n, s, record);
}

void slot_write(const struct slot_layout *l, const struct network *n, float *s,
                const float *record) {
    size_t state = l->model->state_size, horizons = l->model->horizons;
    unpack_state(n, record, s);
    record += state;
    for (size_t p = 0; p < l->places; p++)
        record = extract(record, slot_output(l, s, p), n->outputs);
    record = extract(record, s + l->solved, l->places * l->solved_size);
    for (size_t p = 0; p < n->ring; p++) {
        unpack_state(n, record, slot_before(l, s, p));
        record = extract(record + state, slot_input(l, s, p), l->input_size);
        record = extract(record, slot_target(l, s, p, 0), horizons * l->target_size);
        record = extract(record, slot_learned(l, s, p, 0), horizons);
    }
    write_kept(l, n, s, record);
}
