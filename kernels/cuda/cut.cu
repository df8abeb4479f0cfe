/* Cuts a plan into segments: see network.cuh. */
#include "engine.cuh"

#include <string.h>

static struct segment *open_segment(struct cutter *c, uint32_t slot) {
    struct segment *s = &c->segments[c->count];
    memset(s, 0, sizeof *s);
    s->slot = slot;
    s->lead = s->lead_solve = s->solve = s->measure = NONE;
    s->first = c->step_count;
    c->count++;
    return s;
}

/* Whether the newest segment is of this slot and not ended. */
static bool is_open(const struct cutter *c, uint32_t slot) {
    if (c->count == 0)
        return false;
    const struct segment *s = &c->segments[c->count - 1];
    return s->slot == slot && s->length == 0 && s->measure == NONE && s->solve == NONE;
}

static struct segment *newest(struct cutter *c) {
    return &c->segments[c->count - 1];
}

static void cut_forget(struct cutter *c, const struct operation *o) {
    bool open = is_open(c, o->slot) && newest(c)->steps == 0 && newest(c)->lead == NONE;
    struct segment *s = open ? newest(c) : open_segment(c, o->slot);
    s->forget = 1;
}

static void cut_step(struct cutter *c, const struct operation *o) {
    const struct network *n = &c->e->network;
    uint32_t most = n->window < RUN_MAX ? n->window : RUN_MAX;
    bool open = is_open(c, o->slot) && newest(c)->steps < most;
    if (open && newest(c)->steps > 0)
        open = ring_position(*n, newest(c)->position, newest(c)->steps) == o->position;
    /* a run must not reach the position of the score before it: both write the mark there. Other
       steps that may be open longer have positions beyond every run. */
    if (open && newest(c)->steps == 0 && newest(c)->lead != NONE && !n->many)
        open = ring_position(*n, c->scores[newest(c)->lead].position, 1) == o->position;
    struct segment *s = open ? newest(c) : open_segment(c, o->slot);
    if (s->steps == 0)
        s->position = o->position;
    struct step_entry *step = &c->steps[c->step_count];
    step->input = o->value;
    step->output = c->plan->outputs ? c->step_count : static_cast<uint32_t>(NONE);
    step->score = NONE;
    c->step_count++;
    s->steps++;
    c->e->newest = o->position;
}

/* A score belongs to the newest step of its run, or comes before the run if the step may be an
   older one. */
static void cut_score(struct cutter *c, const struct operation *o) {
    struct score_entry *score = &c->scores[c->score_count];
    score->target = o->value;
    score->result = c->score_count;
    score->position = o->position;
    score->horizon = o->horizon;
    score->learn = o->learn;
    struct segment *s = is_open(c, o->slot) ? newest(c) : open_segment(c, o->slot);
    if (s->steps && c->e->network.many)
        s = open_segment(c, o->slot);
    uint32_t *place = s->steps ? &c->steps[c->step_count - 1].score : &s->lead;
    if (*place != NONE)
        place = &open_segment(c, o->slot)->lead;
    *place = c->score_count++;
}

static void cut_update(struct cutter *c, const struct operation *o) {
    struct segment *s = is_open(c, o->slot) ? newest(c) : open_segment(c, o->slot);
    s->window = o->position;
    s->length = o->length;
    c->learned += o->length;
    s->closed = o->closed;
    s->terms = o->terms;
    s->update = c->updates++;
    s->recompute = !o->fresh;
    s->probe = o->probe;
}

/* Before the run, or at the segment's end: then with the target that its update learned. */
static void cut_solve(struct cutter *c, const struct operation *o) {
    bool updated = c->count > 0 && newest(c)->slot == o->slot && newest(c)->length > 0;
    if (!is_open(c, o->slot) && !(updated && newest(c)->solve == NONE))
        open_segment(c, o->slot);
    struct segment *s = newest(c);
    bool leads = s->steps == 0 && s->length == 0 && s->lead_solve == NONE;
    *(leads ? &s->lead_solve : &s->solve) = o->value;
    *(leads ? &s->lead_solved : &s->solved) = o->position;
}

static void cut_measure(struct cutter *c, const struct operation *o) {
    struct segment *s = open_segment(c, o->slot);
    s->measure = c->e->newest;
    s->measured = c->measures++;
}

void engine_cut(struct cutter *c) {
    /* by enum operation_kind; cuda_open rejects rules with ADVANCE */
    static void (*const cut[])(struct cutter *, const struct operation *) = {
        cut_forget, cut_step, cut_score, cut_update, NULL, cut_solve, cut_measure,
    };
    for (size_t i = 0; i < c->plan->count; i++)
        cut[c->plan->operations[i].kind](c, &c->plan->operations[i]);
}
