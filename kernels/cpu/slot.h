/* A slot: the CPU engine's data of one stream, its state and a ring of its newest steps, in one
   array of floats; and its form as a record (slot_record_size in model/model.h, rule_record_size
   in model/rule.h). */
#ifndef RUNNEL_CPU_SLOT_H
#define RUNNEL_CPU_SLOT_H

#include <stddef.h>

#include "model/model.h"

struct network;

/* Offsets in a slot, in floats: first the state (state_size,), padded as the network's. Symbols
   and class ids keep their bits. */
struct slot_layout {
    const struct model *model;
    size_t places;              /* number of open steps: model_places */
    size_t state_size;          /* the network's, padded */
    size_t output, output_size; /* (places, output_size) padded as the network's */
    size_t before;              /* (ring, state_size) */
    size_t input, input_size;   /* (ring, input_size) */
    size_t target, target_size; /* (ring, horizons, target_size) */
    size_t learned;             /* (ring, horizons) 1 if the target is to be learned */
    size_t solved, solved_size; /* (places, solved_size) h and more: kept of struct model */
    size_t kept, kept_size;     /* (kept_size,) data of the learning rule: network_kept */
    size_t size;                /* size of the slot */
};

struct slot_layout slot_lay_out(const struct network *n);

/* Arrays of the step at `position` of the ring of slot `s`: the state before it, its x, its
   output, and the inputs of its least squares. */
static inline float *slot_before(const struct slot_layout *l, float *s, size_t position) {
    return s + l->before + position * l->state_size;
}

static inline float *slot_input(const struct slot_layout *l, float *s, size_t position) {
    return s + l->input + position * l->input_size;
}

static inline float *slot_output(const struct slot_layout *l, float *s, size_t position) {
    return s + l->output + model_place(l->model, position) * l->output_size;
}

static inline float *slot_solved(const struct slot_layout *l, float *s, size_t position) {
    return s + l->solved + model_place(l->model, position) * l->solved_size;
}

/* Its target of a horizon, and whether it is to be learned. */
static inline float *slot_target(const struct slot_layout *l, float *s, size_t position,
                                 size_t horizon) {
    return s + l->target + (position * l->model->horizons + horizon) * l->target_size;
}

static inline float *slot_learned(const struct slot_layout *l, float *s, size_t position,
                                  size_t horizon) {
    return s + l->learned + position * l->model->horizons + horizon;
}

static inline float *slot_kept(const struct slot_layout *l, float *s) {
    return s + l->kept;
}

/* The network's state after the step at `position`, gathered from its layers, and from the state
   before that step, which is another array. */
void slot_gather(const struct network *n, size_t position, const float *before, float *state);

/* Copies slot `s` into a record (read), or back. Overwrites n->gradient. */
void slot_copy(const struct slot_layout *l, const struct network *n, float *s, float *record,
               bool read);

/* The same of a state of the network or chain n, between its padded form and a record's. */
void slot_copy_state(const struct network *n, float *padded, float *packed, bool read);

/* A stream begins. */
void slot_forget(const struct slot_layout *l, float *s);

#endif
