#include "scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/finite.h"
#include "common/unaligned.h"
#include "part.h"
#include "rows.h"

/* Two parts: numbers of x, and sent targets. An example is scaled with the statistics after its own
   x, but predicted targets are unscaled with those before its y. */
struct scaling {
    struct part_host *host;
    struct scaler *scaler;      /* NULL: not scaled */
    size_t size;                /* numbers in a row of the plan */
    const uint16_t *columns;    /* (size,) their numbers in x; NULL: all of x */
    double *means, *deviations; /* (plan_steps, size) for each example */
};

/* ---- Memory ---- */

static void scaling_close(void *self) {
    struct scaling *scaling = self;
    scaler_close(&scaling->scaler);
    free(scaling->means);
    free(scaling->deviations);
    free(scaling);
}

static bool scaling_plan_open(void *self) {
    struct scaling *scaling = self;
    size_t steps = scaling->host->plan_steps;
    if (!scaling->scaler)
        return true;
    scaling->means = calloc(steps, scaling->size * sizeof *scaling->means);
    scaling->deviations = calloc(steps, scaling->size * sizeof *scaling->deviations);
    return scaling->means && scaling->deviations;
}

static void scaling_reset(void *self) {
    struct scaling *scaling = self;
    if (scaling->scaler)
        scaler_reset(scaling->scaler);
}

/* Moves the row of the example that continues to row 0. */
static int scaling_next(void *self, const struct planned *unfinished, size_t last,
                        struct error *error) {
    struct scaling *scaling = self;
    size_t size = scaling->size;
    (void)error;
    if (!scaling->scaler || !unfinished || !last)
        return 0;
    memcpy(scaling->means, scaling->means + last * size, size * sizeof(double));
    memcpy(scaling->deviations, scaling->deviations + last * size, size * sizeof(double));
    return 0;
}

/* Copies the current statistics to the example's row, NaN before an observation. */
static void keep(struct scaling *scaling) {
    const struct scaler *scaler = scaling->scaler;
    size_t first = scaling->host->row * scaling->size;
    for (size_t k = 0; k < scaling->size; k++) {
        size_t column = scaling->columns ? scaling->columns[k] : k;
        scaling->means[first + k] =
            scaler_has_mean(scaler, column) ? scaler_means(scaler)[column] : NAN;
        scaling->deviations[first + k] = scaler_deviations(scaler)[column];
    }
}

static const double *row_of(const struct scaling *scaling, size_t row, bool deviation) {
    return !scaling || !scaling->scaler
               ? NULL
               : (deviation ? scaling->deviations : scaling->means) + row * scaling->size;
}

/* ---- Inputs ---- */

/* Without a scaler and without missing numbers, x stays as it is. */
static bool scaling_wanted(const struct part_host *host) {
    const struct input *input = &host->model->architecture.input;
    return input_is_real(input) && !inputs_have_experts(host->model) &&
           (input_is_standard(input) || input->hold);
}

static int open_scaler(struct scaling *scaling, const struct input *input, struct error *error) {
    double limit = input->column_count ? 0 : input->limit;
    for (size_t k = 0; k < input->column_count; k++)
        limit = fmax(limit, input->columns[k].limit);
    if (scaler_open(&scaling->scaler, scaling->host->model->x_size,
                    input->column_count ? 0 : input->memory, limit, error))
        return -1;
    for (size_t k = 0; k < input->column_count; k++) {
        const struct column *column = &input->columns[k];
        scaler_set(scaling->scaler, k, column->standard, column->memory, column->limit);
    }
    return 0;
}

static int scaling_open(void **self, struct part_host *host, struct error *error) {
    const struct model *model = host->model;
    const struct architecture *architecture = &model->architecture;
    bool chosen = architecture->input.column_count && model_has_output(model, true);
    size_t output = chosen ? model_output_with(model, true) : 0;
    struct scaling *scaling = *self = calloc(1, sizeof *scaling);
    if (!scaling)
        return error_no_memory(error);
    scaling->host = host;
    scaling->size = chosen ? model->heads[output].target_size : model->x_size;
    if (chosen && model_output(model, output)->column_count)
        scaling->columns = model_output(model, output)->columns;
    return input_is_standard(&architecture->input)
               ? open_scaler(scaling, &architecture->input, error)
               : 0;
}

/* Adds all steps of the example before the first is scaled. */
static void scaling_example(void *self, const struct example *example) {
    struct scaling *scaling = self;
    size_t size = scaling->host->model->x_size;
    if (!scaling->scaler)
        return;
    for (size_t t = 0; t < example_inputs(example); t++)
        scaler_add(scaling->scaler, unaligned_at(example->x, t * size));
    keep(scaling);
}

/* A number that is still missing becomes the mean. */
static void scaling_input(void *self, struct step *step) {
    const struct scaling *scaling = self;
    const struct model *model = scaling->host->model;
    const struct column *columns = model->architecture.input.columns;
    bool listed = model->architecture.input.column_count > 0;
    for (size_t k = 0; k < model->x_size; k++) {
        float value = step->values[k].real;
        if (listed && !column_is_real(&columns[k]))
            continue;
        if (isnan(value))
            step->values[k].real = 0;
        else if (listed ? columns[k].standard : scaling->scaler != NULL)
            step->values[k].real = scaler_scale(scaling->scaler, k, value);
    }
}

static void scaling_report(void *self, const struct planned *example, const struct given *given) {
    (void)example;
    given->learned->mean = row_of(self, given->row, false);
    given->learned->deviation = row_of(self, given->row, true);
}

struct scaler *scaling_scaler(const struct part_host *host) {
    const struct scaling *scaling = part_find(host, &scaling_part);
    return scaling ? scaling->scaler : NULL;
}

const double *scaling_row(const struct part_host *host, size_t row, bool deviation) {
    return row_of(part_find(host, &scaling_part), row, deviation);
}

/* ---- Sent targets ---- */

static bool target_scaling_wanted(const struct part_host *host) {
    return output_is_standard(&host->model->architecture.output);
}

static int target_scaling_open(void **self, struct part_host *host, struct error *error) {
    const struct output *output = &host->model->architecture.output;
    struct scaling *scaling = *self = calloc(1, sizeof *scaling);
    if (!scaling)
        return error_no_memory(error);
    scaling->host = host;
    scaling->size = output->size;
    return scaler_open(&scaling->scaler, output->size, output->memory, output->limit, error);
}

static void target_scaling_example(void *self, const struct example *example) {
    struct scaling *scaling = self;
    keep(scaling);
    if (example->label || !example->y)
        return;
    for (size_t t = 0; t < example->steps; t++)
        scaler_add(scaling->scaler, unaligned_at(example->y, t * scaling->size));
}

struct scaler *scaling_target_scaler(const struct part_host *host) {
    const struct scaling *scaling = part_find(host, &target_scaling_part);
    return scaling ? scaling->scaler : NULL;
}

const double *scaling_target_row(const struct part_host *host, size_t row, bool deviation) {
    return row_of(part_find(host, &target_scaling_part), row, deviation);
}

/* ---- Checkpoints ---- */

enum { COUNTS, MEANS, SQUARES, FIRST };

static size_t scaler_numbers(const struct state_place *p) {
    const struct scaler *scaler = ((struct scaling *)p->self)->scaler;
    bool values = p->row->which == FIRST;
    return scaler && (!values || scaler_first(scaler, 0)) ? scaler_size(scaler) : 0;
}

static void *first_at(const struct state_place *p, size_t n) {
    return (void)n, scaler_first(((struct scaling *)p->self)->scaler, 0);
}

static int first_filled(const struct state_place *p) {
    return !finite_floats(first_at(p, 0), scaler_numbers(p) * SCALER_FIRST);
}

static void *field_of(const struct state_place *p, struct scaler_number *number) {
    switch (p->row->which) {
    case COUNTS:
        return &number->count;
    case MEANS:
        return &number->mean;
    default:
        return &number->squares;
    }
}

static int read_scaler(const struct state_place *p, void *numbers, struct error *error) {
    const struct scaler *scaler = ((struct scaling *)p->self)->scaler;
    for (size_t k = 0; k < scaler_numbers(p); k++) {
        struct scaler_number number = scaler_read(scaler, k);
        memcpy((double *)numbers + k, field_of(p, &number), sizeof(double));
    }
    return (void)error, 0;
}

static int write_scaler(const struct state_place *p, const void *numbers, struct error *error) {
    struct scaler *scaler = ((struct scaling *)p->self)->scaler;
    for (size_t k = 0; k < scaler_numbers(p); k++) {
        struct scaler_number number = scaler_read(scaler, k);
        memcpy(field_of(p, &number), (const double *)numbers + k, sizeof(double));
        if (!(fabs(number.mean) <= FINITE_VALUE_MOST && number.squares >= 0 &&
              number.squares <= FINITE_MOST))
            return 1;
        scaler_write(scaler, k, &number);
    }
    return (void)error, 0;
}

#define SCALER_ROW(name, type, field)                                                              \
    STATE_ROW(name, type, STATE_ONCE, field, .size = scaler_numbers, STATE_COPIED(scaler))
#define SCALER_ROWS(of)                                                                            \
    SCALER_ROW(of ".counts", I64, COUNTS), SCALER_ROW(of ".means", F64, MEANS),                    \
        SCALER_ROW(of ".squares", F64, SQUARES),                                                   \
        STATE_ROW(of ".first", F32, STATE_ONCE, FIRST, .width = SCALER_FIRST,                      \
                  .size = scaler_numbers, .at = first_at, .filled = first_filled)

static const struct state_row rows[] = {SCALER_ROWS("scaler")};
static const struct state_row target_rows[] = {SCALER_ROWS("targets")};

const struct part_kind scaling_part = {
    .name = "scaling",
    .wanted = scaling_wanted,
    .open = scaling_open,
    .close = scaling_close,
    .plan_open = scaling_plan_open,
    .reset = scaling_reset,
    .example = scaling_example,
    .input = scaling_input,
    .report = scaling_report,
    .next = scaling_next,
    STATE_ROWS(rows),
};

const struct part_kind target_scaling_part = {
    .name = "target scaling",
    .wanted = target_scaling_wanted,
    .open = target_scaling_open,
    .close = scaling_close,
    .plan_open = scaling_plan_open,
    .reset = scaling_reset,
    .example = target_scaling_example,
    .next = scaling_next,
    STATE_ROWS(target_rows),
};
