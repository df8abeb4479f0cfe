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

/* With traces one row, or two if one of the layers is of columns with two states. */
size_t rule_rows(const struct model *model, enum rule rule) {
    size_t states = 0, layers = rule_layers(model, rule), traces = layers > 0;
    for (size_t k = 0; k < layers; k++) {
        const struct layer *layer = &model->architecture.layers[k];
        states += cell_kind(layer->cell)->states * layer->size;
        if (layer_is_columns(layer) && cell_kind(layer->cell)->states > traces)
            traces = cell_kind(layer->cell)->states;
    }
    return rule_kind(rule)->keeps == KEEPS_INFLUENCE ? states : traces;
}

size_t rule_record_size(const struct model *model, enum rule rule) {
    size_t numbers = 0;
    for (size_t n = 0; n < model->learned_count; n++)
        if (rule_covers(model, rule, &model->tensors[n]))
            numbers += tensor_size(&model->tensors[n]);
    return rule_rows(model, rule) * numbers;
}
