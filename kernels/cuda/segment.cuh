/* The start and the end of a segment's run of steps. */
#ifndef RUNNEL_CUDA_SEGMENT_CUH
#define RUNNEL_CUDA_SEGMENT_CUH

#include "cells.cuh"
#include "loss.cuh"

/* ---- The start of a segment ---- */

static __device__ void keep_target(const struct network &n, float *slot,
                                   const struct score_entry *entry, const union value *y) {
    if (!entry->learn)
        return;
    size_t target = (size_t)entry->position * n.horizons + entry->horizon;
    union value *kept = (union value *)(slot + n.slot.target) + target * n.slot.target_size;
    for (uint32_t k = threadIdx.x; k < n.slot.target_size; k += blockDim.x)
        kept[k] = y[k];
    if (threadIdx.x == 0)
        slot[n.slot.learned + target] = 1.0f;
}

/* Scores a step's output a (K,) at a horizon, and stores its target if it is to be learned. */
static __device__ void score(const struct network &n, float *slot, const struct score_entry *entry,
                             const float *a) {
    a += entry->horizon * n.scored;
    const struct queue *q = n.queue;
    const union value *y = q->targets + (size_t)entry->target * n.target_size;
    struct loss_step step = {a, y, 1, NULL};
    double loss = block_loss(step);
    if (threadIdx.x == 0)
        q->losses[entry->result] = loss;
    for (uint32_t k = threadIdx.x; k < n.scored; k += blockDim.x)
        q->scored[(size_t)entry->result * n.scored + k] = a[k];
    keep_target(n, slot, entry, y);
}

/* Copies inputs of the run to their positions of the slot's ring, and clears the marks there. */
static __device__ void keep_inputs(const struct network &n, const struct segment *s, float *slot) {
    const struct queue *q = n.queue;
    uint32_t size = n.input_real ? n.input_size : 1;
    uint32_t count = s->steps * size, stride = n.team.size * blockDim.x;
    for (uint32_t i = n.team.rank * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint32_t t = i / size, k = i % size, position = ring_position(n, s->position, t);
        union value x = q->inputs[(size_t)q->steps[s->first + t].input * size + k];
        if (n.input_real)
            x.real = formula_bounded(x.real);
        ((union value *)(slot + n.slot.input))[(size_t)position * n.slot.input_row + k] = x;
        for (uint32_t h = 0; k == 0 && h < n.horizons; h++)
            slot[n.slot.learned + position * n.horizons + h] = 0.0f;
    }
}

/* Scores the step before the run, forgets, and stores the run's inputs. Bound by latency: it moves
   a few kilobytes. */
PHASE void begin() {
    const struct network &n = block_network();
    const struct queue *q = n.queue;
    const struct segment *s = n.current;
    float *slot = slot_of(n);
    if (n.team.rank == 0) {
        if (s->lead != NONE)
            score(n, slot, q->scores + s->lead,
                  slot + n.slot.output +
                      (size_t)place_of(n, q->scores[s->lead].position) * n.outputs);
        float *before = slot + n.slot.before + (size_t)s->position * n.slot.state;
        for (uint32_t k = threadIdx.x; k < n.slot.state; k += blockDim.x) {
            float value = s->forget ? 0.0f : slot[k];
            if (s->forget)
                slot[k] = 0.0f;
            if (s->steps)
                before[k] = value;
        }
    }
    keep_inputs(n, s, slot);
}

/* ---- The end of a run ---- */

/* Stores the inputs of a step's least squares: h of the last layer, and x of the skip path. */
static __device__ void keep_solved(const struct network &n, float *slot, uint32_t position) {
    const struct network_layer &top = n.layers[n.layer_count - 1];
    const float *h = layer_at(n, top, position).hidden, *x = input_at(n, slot, position);
    float *kept = slot + n.slot.solved + (size_t)place_of(n, position) * n.slot.solved_row;
    for (uint32_t i = threadIdx.x; i < top.size; i += blockDim.x)
        kept[i] = h[i];
    for (uint32_t i = threadIdx.x; n.skip_from && i < n.layers[0].inputs; i += blockDim.x)
        kept[top.size + i] = x[i];
}

/* The state (S,) after step t of the run, gathered from the layers. */
static __device__ void gather_state(const struct network &n, uint32_t position, float *state) {
    for (uint32_t k = 0; k < n.layer_count; k++) {
        const struct network_layer &l = n.layers[k];
        if (l.states == 0)
            continue;
        struct layer_step s = layer_at(n, l, position);
        for (uint32_t i = threadIdx.x; i < l.size / l.outputs; i += blockDim.x) {
            state[l.state + i] = l.columns ? s.raw[i] : s.hidden[i];
            if (l.states > 1)
                state[l.state + l.size / l.outputs + i] = s.inner[i];
        }
    }
}

/* A step's output and score, and the state after it. */
DEVICE void finish_step(const struct network &n, uint32_t t) {
    const struct segment *s = n.current;
    const struct queue *q = n.queue;
    uint32_t position = ring_position(n, s->position, t);
    const struct step_entry *step = q->steps + s->first + t;
    float *slot = slot_of(n);
    const float *a = n.activations + n.output + (size_t)position * n.outputs;
    bool last = t + 1 == s->steps, kept = last || n.many;
    uint32_t next = ring_position(n, s->position, t + 1);
    float *state = last ? slot : slot + n.slot.before + (size_t)next * n.slot.state;
    gather_state(n, position, state);
    if (kept && n.slot.solved)
        keep_solved(n, slot, position);
    if (n.ages && threadIdx.x == 0) {
        const float *first = slot + n.slot.before + (size_t)s->position * n.slot.state;
        float age = fmaxf(first[n.age], 0.0f) + (float)(t + 1);
        state[n.age] = age < (float)n.ages ? age : (float)n.ages;
    }
    for (uint32_t k = threadIdx.x; k < n.outputs; k += blockDim.x) {
        if (kept)
            slot[n.slot.output + (size_t)place_of(n, position) * n.outputs + k] = a[k];
        if (step->output != NONE)
            q->outputs[(size_t)step->output * n.outputs + k] = a[k];
    }
    if (step->score != NONE)
        score(n, slot, q->scores + step->score, a);
}

/* Returns outputs and scores of the run, and stores the states: a step a block. */
PHASE void finish() {
    const struct network &n = block_network();
    for (uint32_t t = n.team.rank; t < n.current->steps; t += n.team.size)
        finish_step(n, t);
}

#endif
