#include "part.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/unaligned.h"
#include "rows.h"

const struct part_kind *const part_kinds[] = {
#define PART(name) &name##_part,
#include "common/parts.def"
    NULL,
};

void parts_collect(struct part_host *host) {
    host->learned = (struct learned){0};
    for (size_t member = 0; member < PART_MEMBERS; member++) {
        size_t count = 0;
        for (size_t n = 0; n < host->part_count; n++) {
            const struct part *part = &host->parts[n];
            const void *has;
            memcpy(&has, (const char *)part->kind + member * sizeof has, sizeof has);
            if (has && !(part->kind->skips && part->kind->skips(part->self, member)))
                host->having[member][count++] = part;
        }
        host->having[member][count] = NULL;
    }
}

static inline void fill_input(struct part_host *host, struct step *step) {
    memcpy(step->values, step->x, host->model->x_size * sizeof *step->values);
    PARTS_EACH(host, part, input)
    part->kind->input(part->self, step);
}

static void fill_message(struct part_host *host, struct step *step) {
    const struct model *model = host->model;
    const void *x = step->x;
    union value *row = step->input, *values = step->values == row ? NULL : step->values;
    size_t atoms = step->example->atoms, used = 1 + atoms * model->features_atom;
    row->id = (uint32_t)atoms;
    for (size_t n = 0; n < atoms; n++) {
        step->x = unaligned_at(x, n * model->x_size);
        step->input = row + 1 + n * model->features_atom;
        step->values = values ? values : step->input;
        fill_input(host, step);
    }
    memset(row + used, 0, (model->features - used) * sizeof *row);
    step->x = x;
    step->original = step->seen = step->input = step->values = row;
}

void parts_fill_input(struct part_host *host, struct step *step) {
    step->original = step->x;
    step->seen = step->input;
    if (step->example->atoms)
        fill_message(host, step);
    else
        fill_input(host, step);
}

int parts_gather(struct gathered *gathered, const struct planned *example, const void *rows,
                 size_t size, struct error *error) {
    if (gathered->capacity < example->steps * size) {
        void *grown = realloc(gathered->rows, example->steps * size);
        if (!grown)
            return error_set(error, EX_UNAVAILABLE, PART_NO_MEMORY, example->steps);
        *gathered = (struct gathered){grown, example->steps * size};
    }
    if (size)
        memcpy((char *)gathered->rows + example->gathered_steps * size, rows,
               example->planned_steps * size);
    return 0;
}

const struct state_row *part_row(size_t n) {
    for (size_t k = 0; part_kinds[k]; k++) {
        if (n < part_kinds[k]->row_count)
            return &part_kinds[k]->rows[n];
        n -= part_kinds[k]->row_count;
    }
    return NULL;
}
