#include "rule.h"

static bool carries(const struct model *model, size_t layer) {
    return cell_kind(model->architecture.layers[layer].cell)->states > 0;
}

size_t rule_layers(const struct model *model, enum rule rule) {
    size_t layers = model->architecture.layer_count;
    if (rule_kind(rule)->keeps == KEEPS_NOTHING)
        return 0;
    while (layers && !carries(model, layers - 1))
        layers--;
    return layers;
}

bool rule_covers(const struct model *model, enum rule rule, const struct tensor *tensor) {
    bool output = tensor->role >= TENSOR_OUTPUT_WEIGHT && tensor->role <= TENSOR_OUTPUT_SKIP;
    bool learned = (size_t)(tensor - model->tensors) < model->learned_count;
    if (output || !learned || tensor->layer >= rule_layers(model, rule))
        return false;
    return rule_kind(rule)->keeps == KEEPS_INFLUENCE ||
           (tensor->role != TENSOR_EMBEDDING && carries(model, tensor->layer));
}

size_t rule_rows(const struct model *model, enum rule rule) {
    size_t states = 0, layers = rule_layers(model, rule);
    for (size_t k = 0; k < layers; k++)
        states += cell_kind(model->architecture.layers[k].cell)->states *
                  model->architecture.layers[k].size;
    return rule_kind(rule)->keeps == KEEPS_INFLUENCE ? states : layers > 0;
}

size_t rule_record_size(const struct model *model, enum rule rule) {
    size_t numbers = 0;
    for (size_t n = 0; n < model->learned_count; n++)
        if (rule_covers(model, rule, &model->tensors[n]))
            numbers += tensor_size(&model->tensors[n]);
    return rule_rows(model, rule) * numbers;
}
