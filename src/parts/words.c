/* Words that become symbols and classes (docs/reference/words.md). A word's id depends only on the
   examples and their order, so ids are assigned when an example is taken.

   A network's parameters of a word are the symbol's row of the embedding or column of the first
   layer, and the class's rows of the output, with the optimizer's numbers for each. They are read
   from the engine and written back while the plan is empty, which is rare: once for each new word,
   or with forget: lru, for each forgotten one. A symbol without an example, and a class with
   probability 0, have gradients of 0: their rows stay unchanged, except for weight decay, which
   skips the bias of such a class (ENGINE_HIDDEN_BIAS). */
#include "words.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "baselines.h"
#include "common/array.h"
#include "common/unaligned.h"
#include "model/safetensors.h"
#include "part.h"

#define NO_COLUMN SIZE_MAX

/* A vocabulary: words and their ids. */
struct lexicon {
    char name[CONFIG_NAME_SIZE]; /* "input", "output" */
    struct vocabulary of;
    bool x, y;             /* ids are symbols of x, classes of targets */
    size_t column;         /* its column of x; NO_COLUMN: none */
    struct streams *words; /* a word's slot is its id */
    uint64_t *appeared;    /* (capacity,) the count when the word appeared */
    uint64_t *used;        /* (capacity,) the example that last used it, from the start */
    uint64_t count;        /* words that have appeared */
    /* new words of the current example; NULL: unknown: reject is not set */
    struct streams *newcomers;
};

/* An id that the current example has introduced. */
struct fresh {
    size_t lexicon;
    uint32_t id;
};

struct resolved {
    union value *values;
    size_t capacity;
};

struct words {
    struct part_host *host;
    struct lexicon *of;
    size_t count;
    size_t most;                /* words of one vocabulary in an example */
    struct lexicon **of_column; /* (input_row,) NULL: no vocabulary */
    struct resolved x, y;       /* the current example, as ids */
    struct fresh *fresh;
    size_t fresh_count, fresh_capacity;
    float *buffer; /* (the largest tensor by ids,) */
    size_t buffer_size;
    bool decays, keeps_start; /* the optimizer's weight_decay and kept starting values (kinds.h) */
    struct json_t *initial;   /* words of model.initial by name; NULL: none */
    float *start[][MODEL_TENSORS_MAX]; /* (members,) starting values, once requested */
};

/* Returns the vocabulary of classes; NULL: none. */
static struct lexicon *of_classes(const struct words *words) {
    for (size_t n = 0; n < words->count; n++)
        if (words->of[n].y)
            return &words->of[n];
    return NULL;
}

/* Whether the output's classes are the words of the vocabulary of classes. */
static bool is_of(const struct lexicon *classes, const struct output *output) {
    return classes && output_has_classes(output) && output_is_input(output) == classes->x;
}

bool words_of_output(const struct part_host *host, size_t k) {
    const struct words *words = part_find(host, &words_part);
    return words && is_of(of_classes(words), model_output(host->model, k));
}

/* Returns how many times the tensor has a row of each class, one horizon after the other; 0:
   never. */
static size_t by_classes(const struct words *words, const struct model *model,
                         const struct tensor *tensor) {
    switch (tensor->role) {
    case TENSOR_OUTPUT_WEIGHT:
    case TENSOR_OUTPUT_SKIP:
    case TENSOR_OUTPUT_BIAS:
    case TENSOR_WRITER_WEIGHT:
    case TENSOR_WRITER_BIAS:
    case TENSOR_ATOM_EMBEDDING:
    case TENSOR_CANDIDATE_ROWS:
    case TENSOR_CANDIDATE_BIAS:
        return is_of(of_classes(words), model_output(model, tensor->layer)) ? model_ahead(model)
                                                                            : 0;
    default:
        return 0;
    }
}

static bool is_bias(const struct tensor *tensor) {
    return tensor->role == TENSOR_OUTPUT_BIAS || tensor->role == TENSOR_WRITER_BIAS;
}

/* Updates the number of classes in the baseline. */
static void count_classes(const struct words *words) {
    const struct lexicon *classes = of_classes(words);
    const struct model *model = words->host->model;
    if (!classes)
        return;
    words->host->known_classes = streams_count(classes->words);
    words->host->class_biases = 0;
    for (size_t n = 0; n < model->tensor_count; n++)
        if (is_bias(&model->tensors[n]))
            words->host->class_biases += by_classes(words, model, &model->tensors[n]);
    baselines_set_classes(words->host, words->host->known_classes);
}

static void note_appeared(const struct words *words) {
    const struct lexicon *classes = of_classes(words);
    words->host->appeared = classes ? classes->count : 0;
}

static uint32_t unknown_of(const struct lexicon *lexicon) {
    return (uint32_t)lexicon->of.capacity;
}

/* Returns the word of an id; NULL: none. */
static const char *word_of(const struct lexicon *lexicon, uint32_t id, size_t *size) {
    return id < streams_count(lexicon->words) ? streams_key(lexicon->words, id, size) : NULL;
}

/* ---- Memory ---- */

static int add_lexicon(struct words *words, const char *name, const struct vocabulary *of,
                       size_t column, bool y, struct error *error) {
    struct lexicon *lexicon = &words->of[words->count++];
    bool x = column != NO_COLUMN;
    snprintf(lexicon->name, sizeof lexicon->name, "%s", name);
    lexicon->of = *of;
    lexicon->x = x;
    lexicon->y = y;
    lexicon->column = column;
    if (x)
        words->of_column[column] = lexicon;
    lexicon->appeared = calloc(of->capacity, sizeof *lexicon->appeared);
    lexicon->used = calloc(of->capacity, sizeof *lexicon->used);
    size_t most = of->capacity < words->most ? of->capacity : words->most;
    if (streams_open(&lexicon->words, of->capacity, error) ||
        (of->reject && streams_open(&lexicon->newcomers, most, error)))
        return -1;
    return lexicon->appeared && lexicon->used ? 0 : error_no_memory(error);
}

/* Adds the vocabularies of columns; a symbol without columns has its own. */
static int add_inputs(struct words *words, struct error *error) {
    const struct model *model = words->host->model;
    const struct input *input = &model->architecture.input;
    const struct output *output = &model->architecture.output;
    bool next = false;
    for (size_t k = 0; k <= model->architecture.other_count; k++)
        next |=
            output_is_input(model_output(model, k)) && output_has_classes(model_output(model, k));
    if (!input->column_count)
        return input->vocabulary.capacity
                   ? add_lexicon(words, "input", &input->vocabulary, 0, next, error)
                   : 0;
    for (size_t k = 0; k < input->column_count; k++) {
        const struct column *column = &input->columns[k];
        bool y = next && (!input_is_real(input) || output->columns[0] == k);
        if (column->vocabulary.capacity &&
            add_lexicon(words, column->name, &column->vocabulary, k, y, error))
            return -1;
    }
    return 0;
}

static bool are_wanted(const struct model *model) {
    const struct input *input = &model->architecture.input;
    bool wanted =
        input->vocabulary.capacity || model_output(model, model->sent)->vocabulary.capacity;
    for (size_t k = 0; k < input->column_count; k++)
        wanted |= input->columns[k].vocabulary.capacity > 0;
    return wanted;
}

static bool words_wanted(const struct part_host *host) {
    return *host->initial || are_wanted(host->model);
}

static int words_open(void **self, struct part_host *host, struct error *error) {
    const struct output *sent = model_output(host->model, host->model->sent);
    const struct vocabulary *output = &sent->vocabulary;
    const struct optimizer *optimizer = &host->config->learning.optimizer;
    struct words *words = *self =
        calloc(1, sizeof *words + host->member_count * sizeof *words->start);
    if (!words)
        return error_no_memory(error);
    words->host = host;
    words->most = model_most_rows(host->model);
    words->decays = optimizer->weight_decay > 0;
    words->keeps_start = optimizer_kind(optimizer->kind)->keeps_start;
    words->of = calloc(host->model->x_size + 1, sizeof *words->of);
    words->of_column = calloc(host->model->x_size, sizeof *words->of_column);
    if (!words->of || !words->of_column)
        return error_no_memory(error);
    if (add_inputs(words, error) ||
        (output->capacity && add_lexicon(words, "output", output, NO_COLUMN, true, error)))
        return -1;
    count_classes(words);
    return 0;
}

static void words_close(void *self) {
    struct words *words = self;
    for (size_t n = 0; words->of && n < words->count; n++) {
        streams_close(&words->of[n].words);
        streams_close(&words->of[n].newcomers);
        free(words->of[n].appeared);
        free(words->of[n].used);
    }
    free(words->of);
    free(words->of_column);
    free(words->x.values);
    free(words->y.values);
    free(words->fresh);
    for (size_t m = 0; m < words->host->member_count; m++)
        for (size_t n = 0; n < MODEL_TENSORS_MAX; n++)
            free(words->start[m][n]);
    free(words->buffer);
    json_decref(words->initial);
    free(words);
}

static int reserve(struct resolved *resolved, size_t count, struct error *error) {
    return array_reserve(&resolved->values, &resolved->capacity, count, sizeof *resolved->values)
               ? 0
               : error_no_memory(error);
}

/* Part of a tensor: consecutive rows or columns. */
struct piece {
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
    return array_reserve(&words->buffer, &words->buffer_size, size, sizeof *words->buffer)
               ? 0
               : error_no_memory(error);
}

/* Returns the tensor's starting values, which depend only on the seed. */
static const float *start_of(struct words *words, size_t m, size_t n, struct error *error) {
    const struct member *member = &words->host->members[m];
    const struct tensor *tensor = &member->model->tensors[n];
    float **start = &words->start[m][n];
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

static int write_piece(struct words *words, size_t m, const struct piece *piece,
                       enum engine_block block, const float *values, struct error *error) {
    const struct tensor *tensor = &words->host->members[m].model->tensors[piece->tensor];
    float *buffer = words->buffer;
    if (member_read(&words->host->members[m], block, piece->tensor, buffer, error))
        return -1;
    for (size_t k = 0; k < piece->count; k++)
        copy_one(tensor, piece->column, piece->at + k, buffer, values);
    return member_write(&words->host->members[m], block, piece->tensor, buffer, error);
}

/* Writes starting values to the part, and zeros to the optimizer's numbers for it. */
static int begin_piece(struct words *words, size_t m, const struct piece *piece,
                       struct error *error) {
    const struct member *member = &words->host->members[m];
    const float *start = start_of(words, m, piece->tensor, error);
    if (!start || get_buffer(words, tensor_size(&member->model->tensors[piece->tensor]), error) ||
        write_piece(words, m, piece, ENGINE_PARAMETERS, start, error))
        return -1;
    for (size_t k = 0; piece->tensor < member->model->learned_count && k < member->moments; k++)
        if (write_piece(words, m, piece, ENGINE_MOMENTS + (unsigned)k,
                        (k == 0 && words->keeps_start) || k == member->start ? start : NULL, error))
            return -1;
    return 0;
}

/* ---- Parameters of an id ---- */

/* Returns whether a layer's inputs are x, or its atoms: also those that a writer has written. */
static bool reads_x(const struct model *model, size_t layer) {
    const struct chain *c = &model->chains[model_chain_of_layer(model, layer)];
    bool reads = c->kind == CHAIN_WRITER  ? output_is_input(model_output(model, c->output))
                 : c->kind == CHAIN_MODEL ? !input_is_message(&model->architecture.input)
                                          : c->kind == CHAIN_READER;
    return reads && c->first == layer;
}

/* Returns whether the tensor has a row or column of each symbol of that column of x; and the
   first. */
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
    return (tensor->role == TENSOR_WEIGHT_IH && reads_x(model, tensor->layer)) ||
           (tensor->role == TENSOR_OUTPUT_SKIP && !input_is_message(input));
}

static int begin_symbol(struct words *words, size_t m, size_t column, uint32_t id,
                        struct error *error) {
    const struct model *model = words->host->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        struct piece piece = {.tensor = n, .count = 1};
        size_t first;
        if (!is_by_symbols(model, &model->tensors[n], column, &piece.column, &first))
            continue;
        piece.at = first + id;
        if (begin_piece(words, m, &piece, error))
            return -1;
    }
    return 0;
}

/* Sets the classes in each horizon's outputs to starting values. */
static int begin_classes(struct words *words, size_t m, uint32_t first, uint32_t count, bool all,
                         struct error *error) {
    const struct model *model = words->host->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        size_t copies = all || is_bias(tensor) ? by_classes(words, model, tensor) : 0;
        for (size_t h = 0; h < copies; h++) {
            const struct piece piece = {
                .tensor = n, .at = h * (tensor->rows / copies) + first, .count = count};
            if (begin_piece(words, m, &piece, error))
                return -1;
        }
    }
    return 0;
}

static bool is_hidden(const struct tensor *tensor) {
    return tensor->role == TENSOR_OUTPUT_SKIP || is_bias(tensor);
}

/* Hides bias and weights of the path from the input, which can have any size. */
static void hide_class(const struct words *words, const struct model *model, uint32_t id, size_t n,
                       float *values) {
    const struct tensor *tensor = &model->tensors[n];
    size_t copies = is_hidden(tensor) ? by_classes(words, model, tensor) : 0;
    size_t width = is_bias(tensor) ? 1 : tensor->columns;
    for (size_t h = 0; h < copies; h++)
        for (size_t k = 0; k < width; k++)
            values[(h * (tensor->rows / copies) + id) * width + k] =
                is_bias(tensor) ? ENGINE_HIDDEN_BIAS : 0;
}

/* Returns whether the id has a word with values in the file of model.initial. */
static bool is_of_file(const struct words *words, size_t n, uint32_t id) {
    const json_t *list = json_object_get(words->initial, words->of[n].name);
    const json_t *word = json_array_get(list, id);
    size_t size;
    const char *own = word_of(&words->of[n], id, &size);
    return own && word && json_string_length(word) == size &&
           memcmp(json_string_value(word), own, size) == 0;
}

/* Sets a member's parameters of an id to starting values by the seed. */
static int start_id(struct words *words, size_t m, const struct lexicon *lexicon, uint32_t id,
                    float *values, struct error *error) {
    const struct model *model = words->host->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        size_t first, copies = lexicon->y ? by_classes(words, model, tensor) : 0;
        bool columns, symbols;
        symbols = lexicon->x && is_by_symbols(model, tensor, lexicon->column, &columns, &first);
        if (!symbols && !copies)
            continue;
        const float *start = start_of(words, m, n, error);
        if (!start)
            return -1;
        if (symbols)
            copy_one(tensor, columns, first + id, values + tensor->offset, start);
        for (size_t h = 0; h < copies; h++)
            copy_one(tensor, false, h * (tensor->rows / copies) + id, values + tensor->offset,
                     start);
    }
    return 0;
}

/* A file without this vocabulary has no values for its words. */
static int start_ids(struct words *words, size_t m, float *values, struct error *error) {
    for (size_t n = 0; *words->host->initial && n < words->count; n++)
        for (uint32_t id = 0; id < words->of[n].of.capacity; id++)
            if (!is_of_file(words, n, id) && start_id(words, m, &words->of[n], id, values, error))
                return -1;
    return 0;
}

static int words_fill(void *self, size_t m, float *values, struct error *error) {
    struct words *words = self;
    const struct model *model = words->host->members[m].model;
    const struct lexicon *lexicon = of_classes(words);
    if (start_ids(words, m, values, error))
        return -1;
    if (!lexicon)
        return 0;
    words->host->hidden_classes = lexicon->of.capacity - streams_count(lexicon->words);
    for (size_t n = 0; n < model->tensor_count; n++)
        for (size_t id = streams_count(lexicon->words); id < lexicon->of.capacity; id++)
            hide_class(words, model, (uint32_t)id, n, values + model->tensors[n].offset);
    return 0;
}

/* A class is hidden until it is shown. */
static int hide_again(struct words *words, size_t m, uint32_t id, struct error *error) {
    const struct model *model = words->host->members[m].model;
    for (size_t n = 0; n < model->tensor_count; n++) {
        if (!is_hidden(&model->tensors[n]))
            continue;
        if (get_buffer(words, tensor_size(&model->tensors[n]), error) ||
            member_read(&words->host->members[m], ENGINE_PARAMETERS, n, words->buffer, error))
            return -1;
        hide_class(words, model, id, n, words->buffer);
        if (member_write(&words->host->members[m], ENGINE_PARAMETERS, n, words->buffer, error))
            return -1;
    }
    return 0;
}

/* ---- When a word's rows begin ---- */

/* Plays the plan first; values computed before use the earlier parameters. */
static int pause(struct words *words, struct error *error) {
    if (words->host->play(words->host, error))
        return -1;
    for (size_t m = 0; m < words->host->member_count; m++)
        words->host->members[m].run_length = 0;
    return 0;
}

static int begin_rows(struct words *words, const struct lexicon *lexicon, uint32_t id, bool again,
                      struct error *error) {
    bool symbols = lexicon->x && (again || words->decays);
    if (!symbols && !again)
        return 0;
    if (pause(words, error))
        return -1;
    for (size_t m = 0; m < words->host->member_count; m++)
        if ((symbols && begin_symbol(words, m, lexicon->column, id, error)) ||
            (lexicon->y && again && hide_again(words, m, id, error)))
            return -1;
    if (!lexicon->y || !again)
        return 0;
    words->host->hidden_classes++;
    baselines_forget_class(words->host, id);
    return 0;
}

static int show_rows(struct words *words, uint32_t first, uint32_t count, struct error *error) {
    const struct lexicon *lexicon = of_classes(words);
    const struct output *output = &words->host->model->architecture.output;
    bool all = lexicon->of.lru || words->decays || output->skip;
    if (pause(words, error))
        return -1;
    for (size_t m = 0; m < words->host->member_count; m++)
        if (begin_classes(words, m, first, count, all, error))
            return -1;
    words->host->hidden_classes -= count;
    return 0;
}

/* ---- Ids ---- */

/* Adds an id of this example, which cannot be predicted before the next example. */
static int note_fresh(struct words *words, const struct lexicon *lexicon, uint32_t id,
                      struct error *error) {
    if (!array_reserve(&words->fresh, &words->fresh_capacity, words->fresh_count + 1,
                       sizeof *words->fresh))
        return error_no_memory(error);
    words->fresh[words->fresh_count++] = (struct fresh){(size_t)(lexicon - words->of), id};
    return 0;
}

/* Assigns an id to a new word; the unknown's id if none is free. */
static int assign(struct words *words, struct lexicon *lexicon, const char *word, size_t size,
                  uint32_t *id, struct error *error) {
    struct streams *table = lexicon->words;
    bool again = streams_count(table) == lexicon->of.capacity;
    uint32_t oldest = streams_oldest(table);
    *id = unknown_of(lexicon);
    if (again && (!lexicon->of.lru || lexicon->used[oldest] == words->host->taken))
        return 0;
    if (again)
        streams_remove(table, oldest);
    *id = streams_add(table, word, size);
    lexicon->appeared[*id] = ++lexicon->count;
    if (note_fresh(words, lexicon, *id, error))
        return -1;
    return begin_rows(words, lexicon, *id, again, error);
}

static int find_word(struct words *words, struct lexicon *lexicon, const char *word, size_t size,
                     uint32_t *id, struct error *error) {
    *id = streams_find(lexicon->words, word, size);
    if (*id == STREAMS_NONE && assign(words, lexicon, word, size, id, error))
        return -1;
    return 0;
}

/* Returns the id of a sent number: that of a word, or the unknown's. */
static uint32_t find_number(const struct lexicon *lexicon, uint32_t id) {
    bool known = id < streams_count(lexicon->words) || id == WIRE_NO_CLASS;
    return known ? id : unknown_of(lexicon);
}

static void touch(const struct words *words, struct lexicon *lexicon, uint32_t id) {
    if (id >= lexicon->of.capacity)
        return;
    lexicon->used[id] = words->host->taken;
    if (lexicon->of.lru)
        streams_touch(lexicon->words, id);
}

/* Resolves the next cell, whose word, if it has one, is the next of the example's. */
static int resolve(struct words *words, struct lexicon *lexicon, uint32_t cell,
                   const unsigned char **word, uint32_t *id, struct error *error) {
    if (cell == WIRE_WORD) {
        if (find_word(words, lexicon, (const char *)*word + 1, **word, id, error))
            return -1;
        *word += 1 + **word;
    } else {
        *id = find_number(lexicon, cell);
    }
    touch(words, lexicon, *id);
    return 0;
}

static uint32_t target_of(const struct words *words, uint32_t id, uint64_t classes) {
    const struct lexicon *lexicon = of_classes(words);
    bool late = lexicon && id < lexicon->of.capacity && lexicon->appeared[id] > classes;
    return late ? unknown_of(lexicon) : id;
}

/* ---- Examples ---- */

static bool has_x(const struct words *words) {
    return words->of[0].x;
}

/* Returns the vocabulary of sent classes; NULL: classes are the next x, or numbers. */
static struct lexicon *lexicon_of_y(const struct words *words) {
    if (!words->count)
        return NULL;
    struct lexicon *last = &words->of[words->count - 1];
    return last->y && !last->x ? last : NULL;
}

/* Resolves rows of cells, each of which has a vocabulary or is a number. */
static int resolve_all(struct words *words, struct lexicon *const *lexicons, size_t width,
                       struct resolved *into, const void *cells, size_t steps,
                       const unsigned char **word, struct error *error) {
    if (reserve(into, steps * width, error))
        return -1;
    for (size_t i = 0, k = 0; i < steps * width; i++, k = k + 1 < width ? k + 1 : 0) {
        uint32_t cell = unaligned_id(cells, i);
        into->values[i].id = cell;
        if (lexicons[k] && resolve(words, lexicons[k], cell, word, &into->values[i].id, error))
            return -1;
    }
    return 0;
}

/* Marks known ids of the example as used, so that its new words do not get them. */
static void touch_known(const struct words *words, struct lexicon *const *lexicons, size_t width,
                        const void *cells, size_t count, const unsigned char **word) {
    for (size_t i = 0, k = 0; i < count; i++, k = k + 1 < width ? k + 1 : 0) {
        if (!lexicons[k])
            continue;
        uint32_t id = unaligned_id(cells, i);
        if (id == WIRE_WORD) {
            id = streams_find(lexicons[k]->words, (const char *)*word + 1, **word);
            *word += 1 + **word;
        }
        if (id < streams_count(lexicons[k]->words))
            touch(words, lexicons[k], id);
    }
}

static int words_take(void *self, struct example *example, struct error *error) {
    struct words *words = self;
    size_t width = words->host->model->x_size;
    const unsigned char *word = (const unsigned char *)example->words, *known = word;
    struct lexicon *y = lexicon_of_y(words);
    words->fresh_count = 0;
    note_appeared(words);
    size_t inputs = example_inputs(example), targets = example_targets(example);
    if (has_x(words) && inputs) {
        touch_known(words, words->of_column, width, example->x, inputs * width, &known);
        if (resolve_all(words, words->of_column, width, &words->x, example->x, inputs, &word,
                        error))
            return -1;
        example->x = words->x.values;
    }
    if (y && targets) {
        touch_known(words, &y, 1, example->y, targets, &known);
        if (resolve_all(words, &y, 1, &words->y, example->y, targets, &word, error))
            return -1;
        example->y = words->y.values;
    }
    return 0;
}

static void resolve_target(void *self, const struct target_arrival *target) {
    const struct words *words = self;
    const struct model_head *head = &words->host->model->heads[target->horizon];
    const struct output *output = model_output(words->host->model, head->output);
    union value *value = target->value + output_is_message(output); /* after their count */
    size_t count = output_is_message(output) ? target->value->id : 1;
    for (size_t n = 0; is_of(of_classes(words), output) && n < count; n++)
        value[n].id = target_of(words, value[n].id, target->classes);
}

void words_target(const struct part_host *host, const struct target_arrival *target) {
    void *self = part_find(host, &words_part);
    if (self)
        resolve_target(self, target);
}

/* Baselines use the classes of this example from now on. */
static int words_taken(void *self, struct error *error) {
    struct words *words = self;
    uint32_t first = 0, count = 0; /* consecutive ids, as new words get */
    for (size_t n = 0; n < words->fresh_count; n++) {
        uint32_t id = words->fresh[n].id;
        if (!words->of[words->fresh[n].lexicon].y)
            continue;
        if (count && id != first + count) {
            if (show_rows(words, first, count, error))
                return -1;
            count = 0;
        }
        first = count++ ? first : id;
    }
    if (count && show_rows(words, first, count, error))
        return -1;
    words->fresh_count = 0;
    if (count)
        count_classes(words);
    note_appeared(words);
    return 0;
}

/* ---- Words of model.initial ---- */

/* The words are used in the order of their ids, before any example. */
#define NEVER UINT64_MAX

static int refuse(const struct words *words, const char *name, const char *what,
                  struct error *error) {
    return error_set(error, EX_CONFIG,
                     "%s: vocabulary \"%.*s\" %s: it belongs to another model; change the model, "
                     "or use another file",
                     words->host->initial, CONFIG_NAME_SIZE, name, what);
}

static bool is_word(const json_t *word) {
    return json_is_string(word) && json_string_length(word) <= WIRE_WORD_MAX;
}

/* Checks that a list fits the vocabulary: at most as many words as ids, without duplicates. */
static int check_list(const struct words *words, const struct lexicon *lexicon, const json_t *list,
                      struct error *error) {
    json_t *seen = json_object();
    const char *wrong = NULL;
    size_t n;
    json_t *word;
    if (!json_is_array(list))
        wrong = list ? "is not a list" : "not found";
    else if (json_array_size(list) > lexicon->of.capacity)
        wrong = "exceeds its capacity";
    json_array_foreach(list, n, word) {
        if (wrong)
            break;
        if (!is_word(word))
            wrong = "contains an invalid word";
        else if (json_object_get(seen, json_string_value(word)))
            wrong = "contains a duplicate word";
        else
            json_object_set_new(seen, json_string_value(word), json_true());
    }
    json_decref(seen);
    return wrong ? refuse(words, lexicon->name, wrong, error) : 0;
}

static const struct lexicon *lexicon_named(const struct words *words, const char *name) {
    for (size_t n = 0; n < words->count; n++)
        if (strcmp(words->of[n].name, name) == 0)
            return &words->of[n];
    return NULL;
}

static int check(const struct words *words, json_t *all, struct error *error) {
    const char *name;
    json_t *list;
    if (!json_is_object(all))
        return error_set(error, EX_CONFIG, "%s: the vocabulary must be a JSON object",
                         words->host->initial);
    json_object_foreach(all, name, list) {
        if (!lexicon_named(words, name))
            return refuse(words, name, "is unknown in this model", error);
    }
    for (size_t n = 0; n < words->count; n++)
        if (check_list(words, &words->of[n], json_object_get(all, words->of[n].name), error))
            return -1;
    return 0;
}

static int words_prepare(void *self, struct error *error) {
    struct words *words = self;
    struct safetensors *file = NULL;
    if (!*words->host->initial)
        return 0;
    if (safetensors_open(&file, words->host->initial, error))
        return -1;
    const char *text = safetensors_metadata(file, "vocabulary");
    json_t *all = text ? json_loads(text, 0, NULL) : NULL;
    int status = text ? check(words, all, error) : 0;
    safetensors_close(&file);
    if (status) {
        json_decref(all);
        return status;
    }
    json_decref(words->initial);
    words->initial = all;
    return 0;
}

static int add_word(struct lexicon *lexicon, const char *word, size_t size, uint64_t appeared) {
    if (streams_count(lexicon->words) == lexicon->of.capacity || size > WIRE_WORD_MAX ||
        streams_find(lexicon->words, word, size) != STREAMS_NONE)
        return -1;
    uint32_t id = streams_add(lexicon->words, word, size);
    lexicon->appeared[id] = appeared;
    if (appeared > lexicon->count)
        lexicon->count = appeared;
    return 0;
}

/* Forgets all words except those that learning starts with. */
static void words_reset(void *self) {
    struct words *words = self;
    for (size_t n = 0; n < words->count; n++) {
        /* From the last id on, so that ids are assigned from the first on again. */
        for (size_t id = streams_count(words->of[n].words); id-- > 0;)
            streams_remove(words->of[n].words, (uint32_t)id);
        words->of[n].count = 0;
    }
    for (size_t n = 0; words->initial && n < words->count; n++) {
        struct lexicon *lexicon = &words->of[n];
        const json_t *list = json_object_get(words->initial, lexicon->name), *word;
        size_t id;
        json_array_foreach(list, id, word) {
            add_word(lexicon, json_string_value(word), json_string_length(word), id + 1);
            lexicon->used[id] = NEVER;
        }
    }
    count_classes(words);
    note_appeared(words);
}

/* ---- Rejection ---- */

/* Returns whether the cell is known, or can get an id besides the new words of the example so far;
   with forget: lru, besides all its words so far. */
static bool has_place(const struct lexicon *lexicon, uint32_t cell, const unsigned char *word) {
    struct streams *newcomers = lexicon->newcomers;
    bool lru = lexicon->of.lru;
    size_t size, known = streams_count(lexicon->words), count = streams_count(newcomers);
    if (cell == WIRE_NO_CLASS)
        return true;
    if (cell != WIRE_WORD && cell >= known)
        return false;
    const char *key =
        cell == WIRE_WORD ? (const char *)word + 1 : streams_key(lexicon->words, cell, &size);
    if (cell == WIRE_WORD)
        size = *word;
    if ((!lru && streams_find(lexicon->words, key, size) != STREAMS_NONE) ||
        streams_find(newcomers, key, size) != STREAMS_NONE)
        return true;
    if (count + (lru ? 0 : known) == lexicon->of.capacity || count == streams_capacity(newcomers))
        return false;
    streams_add(newcomers, key, size);
    return true;
}

/* Returns the vocabulary without room for one of `count` cells, in rows of `width`, or NULL; its
   word at `wrong`, NULL: a number. Moves `word` past the cells. */
static const struct lexicon *find_beyond(struct lexicon *const *lexicons, size_t width,
                                         const void *cells, size_t count,
                                         const unsigned char **word, const unsigned char **wrong) {
    for (size_t i = 0, k = 0; i < count; i++, k = k + 1 < width ? k + 1 : 0) {
        if (!lexicons[k])
            continue;
        uint32_t cell = unaligned_id(cells, i);
        *wrong = cell == WIRE_WORD ? *word : NULL;
        if (lexicons[k]->newcomers && !has_place(lexicons[k], cell, *word))
            return lexicons[k];
        if (cell == WIRE_WORD)
            *word += 1 + **word;
    }
    return NULL;
}

const char *words_refused(const struct part_host *host, const struct example *example,
                          const char **word, size_t *size) {
    const struct words *words = part_find(host, &words_part);
    const unsigned char *next = (const unsigned char *)example->words, *wrong = NULL;
    const struct lexicon *of = NULL;
    if (!words)
        return NULL;
    for (size_t n = 0; n < words->count; n++)
        if (words->of[n].newcomers && streams_count(words->of[n].newcomers))
            streams_clear(words->of[n].newcomers);
    struct lexicon *y = lexicon_of_y(words);
    size_t width = words->host->model->x_size;
    if (has_x(words))
        of = find_beyond(words->of_column, width, example->x, example_inputs(example) * width,
                         &next, &wrong);
    if (!of && y)
        of = find_beyond(&y, 1, example->y, example_targets(example), &next, &wrong);
    if (!of)
        return NULL;
    *word = wrong ? (const char *)wrong + 1 : NULL;
    *size = wrong ? *wrong : 0;
    return of->name;
}

/* ---- Reports ---- */

size_t words_lexicons(const struct part_host *host) {
    const struct words *words = part_find(host, &words_part);
    return words ? words->count : 0;
}

static struct lexicon *lexicon_at(const struct part_host *host, size_t n) {
    const struct words *words = part_find(host, &words_part);
    return words && n < words->count ? &words->of[n] : NULL;
}

struct learner_lexicon words_lexicon(const struct part_host *host, size_t n) {
    const struct lexicon *lexicon = lexicon_at(host, n);
    return (struct learner_lexicon){
        .name = lexicon->name,
        .size = streams_count(lexicon->words),
        .capacity = lexicon->of.capacity,
        .classes = lexicon->y,
        .forgets = lexicon->of.lru,
        .words = lexicon->words,
        .appeared = lexicon->appeared,
        .count = lexicon->count,
    };
}

size_t words_lexicon_of_classes(const struct part_host *host) {
    const struct words *words = part_find(host, &words_part);
    const struct lexicon *classes = words ? of_classes(words) : NULL;
    return classes ? (size_t)(classes - words->of) : SIZE_MAX;
}

const char *words_word(const struct part_host *host, size_t n, uint32_t id, size_t *size) {
    return word_of(lexicon_at(host, n), id, size);
}

/* ---- Checkpoints ---- */

int words_add(const struct part_host *host, size_t n, const char *word, size_t size,
              uint64_t appeared) {
    struct lexicon *lexicon = lexicon_at(host, n);
    return lexicon ? add_word(lexicon, word, size, appeared) : -1;
}

int words_use(const struct part_host *host, size_t n, uint32_t id) {
    struct lexicon *lexicon = lexicon_at(host, n);
    if (!lexicon || id >= streams_count(lexicon->words))
        return -1;
    streams_touch(lexicon->words, id);
    return 0;
}

void words_written(const struct part_host *host) {
    const struct words *words = part_find(host, &words_part);
    const struct lexicon *classes = of_classes(words);
    if (classes)
        words->host->hidden_classes = classes->of.capacity - streams_count(classes->words);
    count_classes(words);
    note_appeared(words);
}

static void words_figures(const void *self, double *figures) {
    const struct words *words = self;
    size_t size = 0;
    for (size_t n = 0; n < words->count; n++)
        size += streams_count(words->of[n].words);
    figures[FIGURE_words] = (double)size;
}

const struct part_kind words_part = {
    .name = "words",
    .wanted = words_wanted,
    .open = words_open,
    .close = words_close,
    .prepare = words_prepare,
    .reset = words_reset,
    .fill = words_fill,
    .take = words_take,
    .taken = words_taken,
    .target = resolve_target,
    .figures = words_figures,
};
