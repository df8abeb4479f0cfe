/* What learning begins with, and how it begins again: all of it, or one member. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "input_range.h"
#include "learner_internal.h"
#include "model/parameters.h"
#include "scaler.h"

/* ---- Starting values ---- */

static int fill_values(const struct learner *learner, const struct member *member, float *values,
                       struct error *error) {
    const struct model *model = member->model;
    if (*learner->initial)
        return parameters_load(model, member->name, learner->initial, values, error);
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        if (model_initialize(model, tensor, member->seed, values + tensor->offset, error))
            return -1;
    }
    return 0;
}

/* All parameters' starting values, to be freed; NULL on error. */
static float *starting_values(const struct learner *learner, const struct member *member,
                              struct error *error) {
    float *values = calloc(member->model->parameters, sizeof *values);
    if (!values)
        error_set(error, EX_UNAVAILABLE, "out of memory for %zu starting values",
                  member->model->parameters);
    else if (fill_values(learner, member, values, error) == 0)
        return values;
    free(values);
    return NULL;
}

static int write_block(struct learner *learner, size_t member, enum engine_block block,
                       const float *values, struct error *error) {
    const struct model *model = learner->members[member].model;
    size_t count = block == ENGINE_PARAMETERS ? model->tensor_count : model->learned_count;
    for (size_t n = 0; n < count; n++)
        if (learner_write(learner, member, block, n, values + model->tensors[n].offset, error))
            return -1;
    return 0;
}

int learner_begin_solution(struct learner *learner, size_t member, struct error *error) {
    const struct model *model = learner->members[member].model;
    if (!model->solved)
        return 0;
    const struct least_squares ls = engine_solution(model);
    double *block = calloc(least_squares_size(&ls), sizeof *block);
    if (!block)
        return error_set(error, EX_UNAVAILABLE,
                         "out of memory for the readout: lower the last layer's size, or use "
                         "readout: gradient");
    least_squares_begin(&ls, block);
    int status = learner_write(learner, member, ENGINE_SOLUTION, 0, block, error);
    free(block);
    return status;
}

static int write_values(struct learner *learner, size_t member, const float *values,
                        struct error *error) {
    return learner_begin_solution(learner, member, error) ||
                   write_block(learner, member, ENGINE_PARAMETERS, values, error)
               ? -1
               : 0;
}

/* The optimizer to nothing; `values` (parameters,) is overwritten. */
static int write_zeros(struct learner *learner, size_t member, float *values, struct error *error) {
    const struct member *m = &learner->members[member];
    memset(values, 0, m->model->parameters * sizeof *values);
    for (unsigned k = 0; k < m->moments; k++)
        if (write_block(learner, member, ENGINE_MOMENTS + k, values, error))
            return -1;
    const uint64_t updates = 0;
    return learner_write(learner, member, ENGINE_UPDATES, 0, &updates, error);
}

/* ---- Beginning ---- */

int learner_start(struct learner *learner, struct error *error) {
    int status = words_read_initial(learner, error);
    if (status == 0)
        words_write_initial(learner);
    for (size_t m = 0; m < learner->member_count && status == 0; m++) {
        float *values = starting_values(learner, &learner->members[m], error);
        status = values && rows_start(learner, m, values, error) == 0
                     ? write_values(learner, m, values, error)
                     : -1;
        free(values);
    }
    return status;
}

static int begin_again(struct learner *learner, float *const *values, struct error *error) {
    if (learner_flush(learner, error) || learner_forget_all(learner, error))
        return -1;
    words_reset(learner);
    words_write_initial(learner);
    for (size_t m = 0; m < learner->member_count; m++)
        if (rows_start(learner, m, values[m], error) ||
            write_values(learner, m, values[m], error) || write_zeros(learner, m, values[m], error))
            return -1;
    if (learner->scaler)
        scaler_reset(learner->scaler);
    if (learner->output_scaler)
        scaler_reset(learner->output_scaler);
    if (learner->range)
        input_range_reset(learner->range);
    learner->time.backwards = 0;
    learner->watch.rule.threshold = learner->watch.configured_threshold;
    if (learner->watch.anomaly)
        anomaly_reset(learner->watch.anomaly);
    for (size_t m = 0; m < learner->member_count || m == 0; m++) {
        struct learner_rates *rates = &learner->members[m].rates;
        rates->rate = rates->configured_rate;
        rates->clip = rates->configured_clip;
    }
    if (learner->truth)
        truth_write_coverage(learner->truth, &(struct truth_coverage){0});
    learner_write_counters(learner,
                           &(struct learner_counters){.position = learner->counters.position});
    return 0;
}

int learner_reset(struct learner *learner, struct error *error) {
    float *values[CONFIG_MEMBERS_MAX] = {NULL};
    int status = words_read_initial(learner, error) ? 1 : 0;
    for (size_t m = 0; m < learner->member_count && status == 0; m++) {
        values[m] = starting_values(learner, &learner->members[m], error);
        status = values[m] ? 0 : 1;
    }
    if (status == 0)
        status = begin_again(learner, values, error);
    for (size_t m = 0; m < learner->member_count; m++)
        free(values[m]);
    return status;
}

static int begin_member(struct learner *learner, size_t member, float *values,
                        struct error *error) {
    if (rows_start(learner, member, values, error) || learner_flush(learner, error) ||
        learner_forget_member(learner, member, error) ||
        write_values(learner, member, values, error) || write_zeros(learner, member, values, error))
        return -1;
    struct learner_rates *rates = &learner->members[member].rates;
    rates->rate = rates->configured_rate;
    rates->clip = rates->configured_clip;
    return 0;
}

int learner_reset_member(struct learner *learner, size_t member, struct error *error) {
    float *values = starting_values(learner, &learner->members[member], error);
    int status = values ? begin_member(learner, member, values, error) : 1;
    free(values);
    return status;
}
