/* Operations of one member: what a plan has of one step, one score, one update, and where in the
   ring of its stream's positions that is. */
#include "learner_internal.h"

uint32_t plan_position(const struct member *member, uint32_t slot, size_t age) {
    size_t ring = model_ring(member->model, member->window), next = member->windows[slot].next;
    return (uint32_t)(next >= age ? next - age : next + ring - age);
}

static void advance(const struct member *member, struct learner_window *window) {
    window->next = (uint32_t)((window->next + 1) % model_ring(member->model, member->window));
}

/* ---- Operations of one member ---- */

/* There must be room. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot) {
    struct operation *operation = &member->plan.operations[member->plan.count++];
    *operation = (struct operation){.kind = kind, .slot = slot};
    return operation;
}

/* A rule that has no window needs what is closed since the last update alone. */
static bool has_window(const struct member *member) {
    return rule_kind(member->rule)->keeps == KEEPS_NOTHING;
}

static void plan_closed(struct member *member, uint32_t slot, enum operation_kind kind) {
    struct learner_window *window = &member->windows[slot];
    size_t length = has_window(member) ? window->length : window->closed;
    struct operation *update = plan_append(member, kind, slot);
    update->position = plan_position(member, slot, window->open + length);
    update->length = (uint32_t)length;
    update->closed = window->closed;
    update->terms = window->terms;
    update->fresh = member->run_slot == slot && member->run_length >= window->open + length;
}

void plan_update(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->terms) {
        plan_closed(member, slot, OPERATION_UPDATE);
        member->plan.updates++;
        (*updates)++;
        member->run_length = 0;
    } else if (window->closed && !has_window(member)) {
        plan_closed(member, slot, OPERATION_ADVANCE);
        member->run_length = 0;
    }
    window->closed = window->terms = 0;
}

void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    window->open--;
    window->terms += (uint32_t)terms;
    if (window->length < member->window)
        window->length++;
    if (++window->closed == member->stride)
        plan_update(member, slot, updates);
}

void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn) {
    struct operation *score = plan_append(member, OPERATION_SCORE, slot);
    score->position = plan_position(member, slot, age);
    score->value = (uint32_t)member->plan.rows++;
    score->horizon = (uint32_t)horizon;
    score->learn = learn;
    member->plan.scores++;
}

void plan_step(struct member *member, uint32_t slot) {
    struct learner_window *window = &member->windows[slot];
    struct operation *step = plan_append(member, OPERATION_STEP, slot);
    step->position = window->next;
    step->value = (uint32_t)member->plan.steps++;
    advance(member, window);
    window->open++;
    if (member->run_slot != slot)
        member->run_length = 0;
    member->run_slot = slot;
    member->run_length++;
}
