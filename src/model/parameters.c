#include "parameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"

#define MEMBERS "members."

void parameters_name(const char *member, const char *tensor, char name[PARAMETERS_NAME_SIZE]) {
    if (*member)
        snprintf(name, PARAMETERS_NAME_SIZE, MEMBERS "%s.%s", member, tensor);
    else
        snprintf(name, PARAMETERS_NAME_SIZE, "%s", tensor);
}

void parameters_entries(const struct model *model, struct safetensors_entry *entries) {
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        entries[n] = (struct safetensors_entry){.name = tensor->name,
                                                .type = SAFETENSORS_F32,
                                                .rank = tensor->columns ? 2 : 1,
                                                .shape = {tensor->rows, tensor->columns}};
        for (size_t k = 0; k < TENSOR_DIMENSIONS_MAX && tensor->dimensions[k]; k++) {
            entries[n].shape[k + 1] = tensor->dimensions[k];
            entries[n].rank = k + 2;
        }
    }
}

enum { SHAPE_TEXT_SIZE = 24 * SAFETENSORS_RANK_MAX };

/* "(512, 128)", "(512,)" */
static void describe_shape(char text[SHAPE_TEXT_SIZE], size_t rank, const uint64_t *shape) {
    size_t used = (size_t)snprintf(text, SHAPE_TEXT_SIZE, "(");
    for (size_t n = 0; n < rank; n++)
        used += (size_t)snprintf(text + used, SHAPE_TEXT_SIZE - used, n ? ", %llu" : "%llu",
                                 (unsigned long long)shape[n]);
    snprintf(text + used, SHAPE_TEXT_SIZE - used, rank == 1 ? ",)" : ")");
}

/* Check that the file's entry matches the table. */
static int check_entry(const char *path, const struct safetensors_entry *found,
                       const struct safetensors_entry *wanted, struct error *error) {
    if (!found)
        return error_set(error, EX_CONFIG, "%s: missing tensor %s", path, wanted->name);
    if (found->type != SAFETENSORS_F32)
        return error_set(error, EX_CONFIG, "%s: tensor %s: expected F32, got %s", path,
                         wanted->name, safetensors_type_name(found->type));
    if (found->rank == wanted->rank &&
        memcmp(found->shape, wanted->shape, wanted->rank * sizeof *wanted->shape) == 0)
        return 0;
    char has[SHAPE_TEXT_SIZE], needs[SHAPE_TEXT_SIZE];
    describe_shape(has, found->rank, found->shape);
    describe_shape(needs, wanted->rank, wanted->shape);
    return error_set(error, EX_CONFIG, "%s: tensor %s: expected shape %s, got %s", path,
                     wanted->name, needs, has);
}

/* Whether a tensor of the file belongs to this or another member. */
static bool is_known(const struct model *model, const char *member, const char *name) {
    char prefix[PARAMETERS_NAME_SIZE];
    if (!*member)
        return model_named(model, name) != NULL;
    parameters_name(member, "", prefix);
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        return model_named(model, name + strlen(prefix)) != NULL;
    return strncmp(name, MEMBERS, strlen(MEMBERS)) == 0;
}

static int check_extra(const struct safetensors *file, const char *path, const struct model *model,
                       const char *member, struct error *error) {
    for (size_t n = 0; n < safetensors_count(file); n++) {
        const char *name = safetensors_at(file, n)->name;
        if (!is_known(model, member, name))
            return error_set(error, EX_CONFIG,
                             "%s: unknown tensor %.100s; remove it from the file or change the "
                             "model",
                             path, name);
    }
    return 0;
}

static int check_finite(const char *path, const struct tensor *tensor, const float *values,
                        struct error *error) {
    for (size_t k = 0; k < tensor_size(tensor); k++)
        if (!isfinite(values[k]))
            return error_set(error, EX_CONFIG, "%s: number %zu of tensor %s is not finite", path, k,
                             tensor->name);
    return 0;
}

static int load(const struct model *model, const char *member, const struct safetensors *file,
                const char *path, float *values, struct error *error) {
    struct safetensors_entry wanted[MODEL_TENSORS_MAX];
    char name[PARAMETERS_NAME_SIZE];
    parameters_entries(model, wanted);
    for (size_t n = 0; n < model->tensor_count; n++) {
        parameters_name(member, model->tensors[n].name, name);
        wanted[n].name = name;
        if (check_entry(path, safetensors_find(file, name), &wanted[n], error))
            return -1;
    }
    if (check_extra(file, path, model, member, error))
        return -1;
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        float *target = values + tensor->offset;
        parameters_name(member, tensor->name, name);
        if (safetensors_read(file, safetensors_find(file, name), 0, target,
                             tensor_size(tensor) * sizeof *target, error) ||
            check_finite(path, tensor, target, error))
            return -1;
    }
    return 0;
}

int parameters_load(const struct model *model, const char *member, const char *path, float *values,
                    struct error *error) {
    struct safetensors *file = NULL;
    if (safetensors_open(&file, path, error))
        return -1;
    int status = load(model, member, file, path, values, error);
    safetensors_close(&file);
    return status;
}
