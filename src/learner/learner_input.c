#include "learner_input.h"

#include <string.h>

#include "common/unaligned.h"

static void fill(struct part_host *host, struct step *step) {
    memcpy(step->values, step->x, host->model->x_size * sizeof *step->values);
    PARTS_EACH(host, part, input)
    part->kind->input(part->self, step);
}

/* The atoms follow their number, and zeros follow them. Each is encoded as an x. */
static void fill_message(struct part_host *host, struct step *step) {
    const struct model *model = host->model;
    union value *row = step->input, *values = step->values == row ? NULL : step->values;
    size_t atoms = step->example->atoms, used = 1 + atoms * model->features_atom;
    row->id = (uint32_t)atoms;
    for (size_t n = 0; n < atoms; n++) {
        step->x = unaligned_at(step->example->x, n * model->x_size);
        step->input = row + 1 + n * model->features_atom;
        step->values = values ? values : step->input;
        fill(host, step);
    }
    memset(row + used, 0, (model->features - used) * sizeof *row);
    step->x = step->example->x;
    step->input = step->values = row;
    step->original = step->seen = row;
}

void learner_fill_input(struct part_host *host, struct step *step) {
    step->original = step->x;
    step->seen = step->input;
    if (step->example->atoms)
        fill_message(host, step);
    else
        fill(host, step);
}

void learner_fill_target(const struct model *model, struct example *example, union value *row) {
    size_t used = 1 + example->target_atoms * model->y_size;
    if (!example->target_atoms)
        return;
    row->id = (uint32_t)example->target_atoms;
    memcpy(row + 1, example->y, (used - 1) * sizeof *row);
    memset(row + used, 0, (model->target_size - used) * sizeof *row);
    example->y = row;
}
