#include "missing.h"

#include <math.h>
#include <stdlib.h>

#include "part.h"
#include "rows.h"

/* missing: hold. A missing number becomes the last one of its stream. */
struct missing {
    size_t size; /* numbers in an x */
    bool *holds; /* (size,) columns that hold */
    float *held; /* (slots, size), NaN = none yet */
};

static bool missing_wanted(const struct part_host *host) {
    return host->model->architecture.input.hold && !inputs_have_experts(host->model);
}

static int missing_open(void **self, struct part_host *host, struct error *error) {
    const struct input *input = &host->model->architecture.input;
    struct missing *missing = *self = calloc(1, sizeof *missing);
    if (!missing)
        return error_no_memory(error);
    missing->size = host->model->x_size;
    missing->holds = calloc(missing->size, sizeof *missing->holds);
    missing->held = calloc(host->slots, missing->size * sizeof *missing->held);
    if (!missing->holds || !missing->held)
        return error_no_memory(error);
    for (size_t k = 0; k < missing->size; k++)
        missing->holds[k] =
            !input->column_count || (column_is_real(&input->columns[k]) && input->columns[k].hold);
    return 0;
}

static void missing_close(void *self) {
    struct missing *missing = self;
    free(missing->holds);
    free(missing->held);
    free(missing);
}

static void missing_begin(void *self, uint32_t slot, enum part_begin when) {
    struct missing *missing = self;
    (void)when;
    for (size_t k = 0; k < missing->size; k++)
        missing->held[slot * missing->size + k] = NAN;
}

static void missing_input(void *self, struct step *step) {
    struct missing *missing = self;
    float *held = missing->held + step->slot * missing->size;
    for (size_t k = 0; k < missing->size; k++) {
        if (!missing->holds[k])
            continue;
        if (isnan(step->values[k].real))
            step->values[k].real = held[k];
        else
            held[k] = step->values[k].real;
    }
}

float *missing_held(const struct part_host *host, uint32_t slot) {
    const struct missing *missing = part_find(host, &missing_part);
    return missing ? missing->held + slot * missing->size : NULL;
}

/* ---- Checkpoints ---- */

static size_t held_size(const struct state_place *p) {
    return ((struct missing *)p->self)->size;
}

static void *held_at(const struct state_place *p, size_t n) {
    const struct missing *missing = p->self;
    return (void)n, missing->held + p->slot * missing->size;
}

static const char *missing_valid(void *self, uint32_t slot) {
    const struct missing *missing = self;
    for (size_t k = 0; k < missing->size; k++)
        if (isinf(missing->held[slot * missing->size + k]))
            return "streams.held";
    return NULL;
}

static const struct state_row rows[] = {
    STATE_ROW("streams.held", F32, 0, .size = held_size, .at = held_at),
};

const struct part_kind missing_part = {
    .name = "missing",
    .wanted = missing_wanted,
    .open = missing_open,
    .close = missing_close,
    .begin = missing_begin,
    .input = missing_input,
    STATE_ROWS(rows),
    .valid = missing_valid,
};
