#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint_internal.h"
#include "learner/scaler.h"
#include "model/parameters.h"

/* ---- Entries ---- */

enum engine_block checkpoint_block(size_t block) {
    return block == 0 ? ENGINE_PARAMETERS : (enum engine_block)(ENGINE_MOMENTS + block - 1);
}

/* A tensor of the model in one of the blocks: parameters by its own name, then
   optimizer.moment_1.NAME and so on. */
static void name_tensor(size_t block, const char *tensor, char name[CHECKPOINT_NAME_SIZE]) {
    if (block == 0)
        snprintf(name, CHECKPOINT_NAME_SIZE, "%s", tensor);
    else
        snprintf(name, CHECKPOINT_NAME_SIZE, "optimizer.moment_%zu.%s", block, tensor);
}

static void add_tensors(struct checkpoint_layout *layout, const struct model *model) {
    layout->tensors = model->tensor_count;
    layout->learned = model->learned_count;
    for (size_t block = 0; block < layout->blocks; block++) {
        struct safetensors_entry *entries = layout->entries + layout->count;
        parameters_entries(model, entries);
        for (size_t n = 0; n < (block ? layout->learned : layout->tensors); n++) {
            char *name = layout->names[layout->count++];
            name_tensor(block, entries[n].name, name);
            entries[n].name = name;
        }
    }
}

static void add_part(struct checkpoint_layout *layout, enum checkpoint_part part, const char *name,
                     enum safetensors_type type, size_t rank, uint64_t rows, uint64_t columns) {
    assert(layout->count < CHECKPOINT_ENTRIES_MAX);
    layout->parts[part] = layout->count;
    layout->entries[layout->count++] = (struct safetensors_entry){
        .name = name, .type = type, .rank = rank, .shape = {rows, columns}};
}

void checkpoint_layout(struct checkpoint_layout *layout, const struct config *config,
                       const struct model *model, size_t streams) {
    const struct input *input = &model->architecture.input;
    size_t record = slot_record_size(model, config->learning.window);
    memset(layout, 0, sizeof *layout);
    for (size_t part = 0; part < PARTS; part++)
        layout->parts[part] = SIZE_MAX;
    layout->blocks = 1 + optimizer_moments(&config->learning.optimizer);
    layout->streams = streams;
    add_tensors(layout, model);
    add_part(layout, PART_UPDATES, "optimizer.updates", SAFETENSORS_I64, 1, 1, 0);
    add_part(layout, PART_COUNTERS, "learner.counters", SAFETENSORS_I64, 1, CHECKPOINT_COUNTERS, 0);
    add_part(layout, PART_RATES, "learner.rates", SAFETENSORS_F64, 1, CHECKPOINT_RATES, 0);
    add_part(layout, PART_KEYS, "streams.keys", SAFETENSORS_U8, 2, streams, CHECKPOINT_KEY);
    add_part(layout, PART_WINDOWS, "streams.windows", SAFETENSORS_I64, 2, streams,
             CHECKPOINT_WINDOW);
    if (input->hold)
        add_part(layout, PART_HELD, "streams.held", SAFETENSORS_F32, 2, streams, input->size);
    if (input->standard && model->architecture.output.target == TARGET_NEXT)
        add_part(layout, PART_SCALES, "streams.scales", SAFETENSORS_F64, 2, streams,
                 2 * input->size);
    if (input->standard) {
        add_part(layout, PART_COUNTS, "scaler.counts", SAFETENSORS_I64, 1, input->size, 0);
        add_part(layout, PART_MEANS, "scaler.means", SAFETENSORS_F64, 1, input->size, 0);
        add_part(layout, PART_SQUARES, "scaler.squares", SAFETENSORS_F64, 1, input->size, 0);
    }
    if (input->standard && input->limit > 0)
        add_part(layout, PART_FIRST, "scaler.first", SAFETENSORS_F32, 2, input->size, SCALER_FIRST);
    add_part(layout, PART_RECORDS, "streams.records", SAFETENSORS_F32, 2, streams, record);
    add_part(layout, PART_CHECKSUM, "checksum", SAFETENSORS_I64, 1, 1, 0);
}

size_t checkpoint_buffer_size(const struct config *config, const struct model *model) {
    size_t size = slot_record_size(model, config->learning.window);
    if (model->architecture.input.size > size)
        size = model->architecture.input.size;
    for (size_t n = 0; n < model->tensor_count; n++)
        if (tensor_size(&model->tensors[n]) > size)
            size = tensor_size(&model->tensors[n]);
    return size;
}

/* ---- For people ---- */

void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]) {
    char summary[MODEL_SUMMARY_SIZE];
    model_summary(&config->architecture, summary);
    snprintf(text, CHECKPOINT_DESCRIPTION_SIZE,
             "%s%s, window %zu, stride %zu, %s, max_streams %zu, seed %" PRIu64, summary,
             config->architecture.input.hold ? ", missing: hold" : "", config->learning.window,
             config->learning.stride, optimizer_kind(config->learning.optimizer.kind)->name,
             config->learning.max_streams, config->seed);
}
