/* What a network has of a word: the symbol's row of the embedding or column of the first layer, and
   the class's rows of the output; with them the numbers that the optimizer keeps beside each. They
   are read from the engine and written back while no plan waits, which is a rare thing: a word
   comes anew once, or with forget: lru as often as one is forgotten.

   A symbol that no example has had, and a class whose probability is 0, have gradients of 0: their
   rows stay what they are without being written, but for weight decay, which leaves the bias of
   such a class alone (ENGINE_HIDDEN_BIAS). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "learner_internal.h"

/* Part of a tensor: rows that follow each other, or columns. */
struct part {
    size_t tensor;
    bool column;
    size_t at, count;
};

/* ---- Parts of a tensor ---- */

static void copy_one(const struct tensor *tensor, bool column, size_t at, float *to,
                     const float *from) {
    size_t columns = tensor->columns ? tensor->columns : 1;
    size_t count = column ? tensor->rows : columns;
    size_t first = column ? at : at * columns, step = column ? columns : 1;
    for (size_t i = 0; i < count; i++)
        to[first + i * step] = from ? from[first + i * step] : 0;
}

static int get_buffer(struct words *words, size_t size, struct error *error) {
    if (size <= words->buffer_size)
        return 0;
    float *grown = realloc(words->buffer, size * sizeof *grown);
    if (!grown)
        return error_no_memory(error);
    words->buffer = grown;
    words->buffer_size = size;
    return 0;
}

/* The tensor's starting values, by the seed alone. */
static const float *start_of(struct learner *learner, size_t m, size_t n, struct error *error) {
    const struct member *member = &learner->members[m];
    const struct tensor *tensor = &member->model->tensors[n];
    float **start = &learner->words->start[m][n];
    if (*start)
        return *start;
    *start = calloc(tensor_size(tensor), sizeof **start);
    if (!*start) {
        error_no_memory(error);
        return NULL;
    }
    if (model_initialize(member->model, tensor, member->seed, *start, error) == 0)
        return *start;
    free(*start);
    return *start = NULL;
}

void rows_close(struct learner *learner, struct words *words) {
    for (size_t m = 0; m < learner->member_count; m++)
        for (size_t n = 0; n < MODEL_TENSORS_MAX; n++)
            free(words->start[m][n]);
    free(words->buffer);
}

static int write_part(struct learner *learner, size_t m, const struct part *part,
                      enum engine_block block, const float *values, struct error *error) {
    const struct tensor *tensor = &learner->members[m].model->tensors[part->tensor];
    float *buffer = learner->words->buffer;
    if (learner_read(learner, m, block, part->tensor, buffer, error))
        return -1;
    for (size_t k = 0; k < part->count; k++)
        copy_one(tensor, part->column, part->at + k, buffer, values);
    return learner_write(learner, m, block, part->tensor, buffer, error);
}

/* Starting values into the part, and nothing into what the optimizer keeps of it. */
static int begin_part(struct learner *learner, size_t m, const struct part *part,
                      struct error *error) {
    const struct member *member = &learner->members[m];
    const float *start = start_of(learner, m, part->tensor, error);
    if (!start ||
        get_buffer(learner->words, tensor_size(&member->model->tensors[part->tensor]), error) ||
        write_part(learner, m, part, ENGINE_PARAMETERS, start, error))
        return -1;
    for (size_t k = 0; part->tensor < member->model->learned_count && k < member->moments; k++)
        if (write_part(learner, m, part, ENGINE_MOMENTS + (unsigned)k,
                       k == 0 && learner->keeps_start ? start : NULL, error))
            return -1;
    return 0;
}

/* ---- What belongs to an id ---- */

/* Whether the tensor has a row, or a column, of each symbol of that column of x; and the first. */
static bool is_by_symbols(const struct model *model, const struct tensor *tensor, size_t column,
                          bool *columns, size_t *first) {
    const struct input *input = &model->architecture.input;
    const struct column *of = input->column_count ? &input->columns[column] : NULL;
    char name[MODEL_TENSOR_NAME_SIZE] = "embedding.weight";
    size_t embedding = of ? of->embedding : input->embedding;
    *first = 0;
    for (size_t k = 0; of && !embedding && k < column; k++)
        *first += column_width(&input->columns[k]);
    *columns = !embedding;
    if (of)
        snprintf(name, sizeof name, "embedding.%s.weight", of->name);
    if (embedding)
        return tensor->role == TENSOR_EMBEDDING && strcmp(tensor->name, name) == 0;
    return (tensor->role == TENSOR_WEIGHT_IH && tensor->layer == 0) ||
           tensor->role == TENSOR_OUTPUT_SKIP;
}

static bool is_by_classes(const struct tensor *tensor) {
    return tensor->role == TENSOR_OUTPUT_WEIGHT || tensor->role == TENSOR_OUTPUT_SKIP ||
           tensor->role == TENSOR_OUTPUT_BIAS;
}

static int begin_symbol(struct learner *learner, size_t m, size_t column, uint32_t id,
                        struct error *error) {
    const struct model *model = learner->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        struct part part = {.tensor = n, .count = 1};
        size_t first;
        if (!is_by_symbols(model, &model->tensors[n], column, &part.column, &first))
            continue;
        part.at = first + id;
        if (begin_part(learner, m, &part, error))
            return -1;
    }
    return 0;
}

/* The classes in each horizon's outputs. */
static int begin_classes(struct learner *learner, size_t m, uint32_t first, uint32_t count,
                         bool all, struct error *error) {
    const struct model *model = learner->members[m].model;
    size_t classes = model->outputs / model->horizons;
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        for (size_t h = 0; h < model->horizons; h++) {
            const struct part part = {.tensor = n, .at = h * classes + first, .count = count};
            if (is_by_classes(tensor) && (all || tensor->role == TENSOR_OUTPUT_BIAS) &&
                begin_part(learner, m, &part, error))
                return -1;
        }
    }
    return 0;
}

static bool is_hidden(const struct tensor *tensor) {
    return tensor->role == TENSOR_OUTPUT_SKIP || tensor->role == TENSOR_OUTPUT_BIAS;
}

/* Bias, and weights of the path from the input, which may be of any size. */
static void hide_class(const struct model *model, uint32_t id, size_t n, float *values) {
    const struct tensor *tensor = &model->tensors[n];
    size_t classes = model->outputs / model->horizons;
    bool bias = tensor->role == TENSOR_OUTPUT_BIAS;
    size_t width = bias ? 1 : tensor->columns;
    for (size_t h = 0; h < model->horizons && is_hidden(tensor); h++)
        for (size_t k = 0; k < width; k++)
            values[(h * classes + id) * width + k] = bias ? ENGINE_HIDDEN_BIAS : 0;
}

/* Whether the id has a word, and the file of model.initial the values of that. */
static bool is_of_file(const struct learner *learner, size_t n, uint32_t id) {
    const struct words *words = learner->words;
    const json_t *list = json_object_get(words->initial, words->of[n].name);
    const json_t *word = json_array_get(list, id);
    size_t size;
    const char *own = learner_word(learner, n, id, &size);
    return own && word && json_string_length(word) == size &&
           memcmp(json_string_value(word), own, size) == 0;
}

/* What a member has of an id, from the seed. */
static int start_id(struct learner *learner, size_t m, const struct lexicon *lexicon, uint32_t id,
                    float *values, struct error *error) {
    const struct model *model = learner->members[m].model;
    size_t classes = model->outputs / model->horizons;
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        bool columns, symbols;
        size_t first;
        symbols = lexicon->x && is_by_symbols(model, tensor, lexicon->column, &columns, &first);
        if (!symbols && !(lexicon->y && is_by_classes(tensor)))
            continue;
        const float *start = start_of(learner, m, n, error);
        if (!start)
            return -1;
        if (symbols)
            copy_one(tensor, columns, first + id, values + tensor->offset, start);
        for (size_t h = 0; lexicon->y && is_by_classes(tensor) && h < model->horizons; h++)
            copy_one(tensor, false, h * classes + id, values + tensor->offset, start);
    }
    return 0;
}

/* A file that no vocabulary belongs to, or another's, has nothing of the words that come here. */
static int start_ids(struct learner *learner, size_t m, float *values, struct error *error) {
    const struct words *words = learner->words;
    for (size_t n = 0; *learner->initial && n < words->count; n++)
        for (uint32_t id = 0; id < words->of[n].of.capacity; id++)
            if (!is_of_file(learner, n, id) &&
                start_id(learner, m, &words->of[n], id, values, error))
                return -1;
    return 0;
}

int rows_start(struct learner *learner, size_t m, float *values, struct error *error) {
    const struct model *model = learner->members[m].model;
    const struct lexicon *lexicon = words_of_classes(learner);
    if (learner->words && start_ids(learner, m, values, error))
        return -1;
    if (!lexicon)
        return 0;
    learner->words->hidden = lexicon->of.capacity - streams_count(lexicon->words);
    for (size_t n = 0; n < model->tensor_count; n++)
        for (size_t id = streams_count(lexicon->words); id < lexicon->of.capacity; id++)
            hide_class(model, (uint32_t)id, n, values + model->tensors[n].offset);
    return 0;
}

/* A class is nothing until it is shown. */
static int hide_again(struct learner *learner, size_t m, uint32_t id, struct error *error) {
    const struct model *model = learner->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        if (!is_hidden(&model->tensors[n]))
            continue;
        if (get_buffer(learner->words, tensor_size(&model->tensors[n]), error) ||
            learner_read(learner, m, ENGINE_PARAMETERS, n, learner->words->buffer, error))
            return -1;
        hide_class(model, id, n, learner->words->buffer);
        if (learner_write(learner, m, ENGINE_PARAMETERS, n, learner->words->buffer, error))
            return -1;
    }
    return 0;
}

/* ---- When ---- */

/* What is planned comes before; nothing that was computed is what today's parameters give. */
static int pause(struct learner *learner, struct error *error) {
    if (learner_play(learner, error))
        return -1;
    for (size_t m = 0; m < learner->member_count; m++)
        learner->members[m].run_length = 0;
    return 0;
}

static void forget_baselines(struct learner *learner, uint32_t id) {
    const struct streams *streams = learner->streams;
    size_t horizons = learner->model->horizons;
    for (uint32_t slot = streams_oldest(streams); learner->baseline && slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        for (size_t h = 0; h < horizons; h++)
            baseline_forget_class(learner->baseline, (uint32_t)(slot * horizons + h), id);
}

int rows_begin(struct learner *learner, const struct lexicon *lexicon, uint32_t id, bool again,
               struct error *error) {
    bool symbols = lexicon->x && (again || learner->decays);
    if (!symbols && !again)
        return 0;
    if (pause(learner, error))
        return -1;
    for (size_t m = 0; m < learner->member_count; m++)
        if ((symbols && begin_symbol(learner, m, lexicon->column, id, error)) ||
            (lexicon->y && again && hide_again(learner, m, id, error)))
            return -1;
    if (!lexicon->y || !again)
        return 0;
    learner->words->hidden++;
    forget_baselines(learner, id);
    return 0;
}

int rows_show(struct learner *learner, uint32_t first, uint32_t count, struct error *error) {
    const struct lexicon *lexicon = words_of_classes(learner);
    const struct output *output = &learner->model->architecture.output;
    bool all = lexicon->of.lru || learner->decays || output->skip;
    if (pause(learner, error))
        return -1;
    for (size_t m = 0; m < learner->member_count; m++)
        if (begin_classes(learner, m, first, count, all, error))
            return -1;
    learner->words->hidden -= count;
    return 0;
}

double rows_share(const struct learner *learner, double squares) {
    size_t hidden = learner->words ? learner->words->hidden : 0;
    double theirs =
        (double)(hidden * learner->model->horizons) * (ENGINE_HIDDEN_BIAS * ENGINE_HIDDEN_BIAS);
    return hidden && squares > theirs ? sqrt(squares / (squares - theirs)) : 1;
}
