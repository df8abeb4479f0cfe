/* Words that become symbols and classes: which id a word has is a function of the examples and
   their order alone, so ids are given while an example is taken, and never before.

   A vocabulary gives ids in the order of appearance until its capacity is reached. Then a word more
   is the unknown, whose id is the capacity (or its example is rejected before it is taken). With
   forget: lru it gets the id that was used longest ago, unless all are used by this very example.

   A class takes part in predictions from the example after that in which it came: until then its
   output's bias is so low that its probability is 0, and it is learned not to be anything. As the
   target of a prediction that was made before, it is scored and learned as the unknown, which so
   learns how often something new comes. Whatever gets an id, or one that another had, begins with
   starting values: see
   learner_rows.c. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/unaligned.h"
#include "example.h"
#include "learner_internal.h"

enum {
    FRESH_FIRST = 16,
    NEWCOMERS_MAX = EXAMPLE_STEPS_MAX, /* words of one vocabulary in an example */
};

/* ---- Memory ---- */

static int add_lexicon(struct learner *learner, const char *name, const struct vocabulary *of,
                       size_t column, bool y, struct error *error) {
    struct words *words = learner->words;
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
    size_t most = of->capacity < NEWCOMERS_MAX ? of->capacity : NEWCOMERS_MAX;
    if (streams_open(&lexicon->words, of->capacity, error) ||
        (of->reject && streams_open(&lexicon->newcomers, most, error)))
        return -1;
    return lexicon->appeared && lexicon->used ? 0 : error_no_memory(error);
}

/* Vocabularies of the columns; of a symbol without a column's name its own. */
static int add_inputs(struct learner *learner, struct error *error) {
    const struct input *input = &learner->model->architecture.input;
    const struct output *output = &learner->model->architecture.output;
    bool next = output->target == TARGET_NEXT && loss_kind(output->loss)->class_id;
    if (!input->column_count)
        return input->vocabulary.capacity
                   ? add_lexicon(learner, "input", &input->vocabulary, 0, next, error)
                   : 0;
    for (size_t k = 0; k < input->column_count; k++) {
        const struct column *column = &input->columns[k];
        bool y = next && (input->kind == INPUT_SYMBOL || output->columns[0] == k);
        if (column->vocabulary.capacity &&
            add_lexicon(learner, column->name, &column->vocabulary, k, y, error))
            return -1;
    }
    return 0;
}

static bool are_wanted(const struct architecture *architecture) {
    const struct input *input = &architecture->input;
    bool wanted = input->vocabulary.capacity || architecture->output.vocabulary.capacity;
    for (size_t k = 0; k < input->column_count; k++)
        wanted |= input->columns[k].vocabulary.capacity > 0;
    return wanted;
}

int words_open(struct learner *learner, struct error *error) {
    const struct output *output = &learner->model->architecture.output;
    if (!are_wanted(&learner->model->architecture))
        return 0;
    struct words *words = NULL;
    words = calloc(1, sizeof *words + learner->member_count * sizeof *words->start);
    learner->words = words;
    if (words) {
        words->of = calloc(learner->input_row + 1, sizeof *words->of);
        words->of_column = calloc(learner->input_row, sizeof *words->of_column);
    }
    if (!words || !words->of || !words->of_column)
        return error_no_memory(error);
    if (add_inputs(learner, error) ||
        (output->vocabulary.capacity &&
         add_lexicon(learner, "output", &output->vocabulary, NO_COLUMN, true, error)))
        return -1;
    words_count_classes(learner);
    return 0;
}

void words_close(struct learner *learner) {
    struct words *words = learner->words;
    learner->words = NULL;
    if (!words)
        return;
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
    rows_close(learner, words);
    json_decref(words->initial);
    free(words);
}

void words_reset(struct learner *learner) {
    struct words *words = learner->words;
    for (size_t n = 0; words && n < words->count; n++) {
        /* From the last id on, so that they are given from the first on again. */
        for (size_t id = streams_count(words->of[n].words); id-- > 0;)
            streams_remove(words->of[n].words, (uint32_t)id);
        words->of[n].count = 0;
    }
    words_count_classes(learner);
}

static int reserve(struct resolved *resolved, size_t count, struct error *error) {
    if (count <= resolved->capacity)
        return 0;
    union value *grown = realloc(resolved->values, count * sizeof *grown);
    if (!grown)
        return error_no_memory(error);
    *resolved = (struct resolved){grown, count};
    return 0;
}

/* ---- Ids ---- */

struct lexicon *words_of_classes(const struct learner *learner) {
    const struct words *words = learner->words;
    for (size_t n = 0; words && n < words->count; n++)
        if (words->of[n].y)
            return &words->of[n];
    return NULL;
}

void words_count_classes(struct learner *learner) {
    const struct lexicon *classes = words_of_classes(learner);
    if (classes && learner->baseline)
        baseline_set_classes(learner->baseline, streams_count(classes->words));
}

uint32_t words_unknown(const struct lexicon *lexicon) {
    return (uint32_t)lexicon->of.capacity;
}

/* The id has come with this example: nothing says it before the next one. */
static int note_fresh(struct words *words, const struct lexicon *lexicon, uint32_t id,
                      struct error *error) {
    if (words->fresh_count == words->fresh_capacity) {
        size_t capacity = words->fresh_capacity ? 2 * words->fresh_capacity : FRESH_FIRST;
        struct fresh *grown = realloc(words->fresh, capacity * sizeof *grown);
        if (!grown)
            return error_no_memory(error);
        words->fresh = grown;
        words->fresh_capacity = capacity;
    }
    words->fresh[words->fresh_count++] = (struct fresh){(size_t)(lexicon - words->of), id};
    return 0;
}

/* Give a new word an id; the unknown's where there is none. */
static int assign(struct learner *learner, struct lexicon *lexicon, const char *word, size_t size,
                  uint32_t *id, struct error *error) {
    struct words *words = learner->words;
    struct streams *table = lexicon->words;
    bool again = streams_count(table) == lexicon->of.capacity;
    uint32_t oldest = streams_oldest(table);
    *id = words_unknown(lexicon);
    if (again && (!lexicon->of.lru || lexicon->used[oldest] == learner->taken))
        return 0;
    if (again)
        streams_remove(table, oldest);
    *id = streams_add(table, word, size);
    lexicon->appeared[*id] = ++lexicon->count;
    if (note_fresh(words, lexicon, *id, error))
        return -1;
    return rows_begin(learner, lexicon, *id, again, error);
}

static int find_word(struct learner *learner, struct lexicon *lexicon, const char *word,
                     size_t size, uint32_t *id, struct error *error) {
    *id = streams_find(lexicon->words, word, size);
    if (*id == STREAMS_NONE && assign(learner, lexicon, word, size, id, error))
        return -1;
    return 0;
}

/* A number that came as such: that of a word, or nothing that is known. */
static uint32_t find_number(const struct lexicon *lexicon, uint32_t id) {
    bool known = id < streams_count(lexicon->words) || id == WIRE_NO_CLASS;
    return known ? id : words_unknown(lexicon);
}

static void touch(const struct learner *learner, struct lexicon *lexicon, uint32_t id) {
    if (id >= lexicon->of.capacity)
        return;
    lexicon->used[id] = learner->taken;
    if (lexicon->of.lru)
        streams_touch(lexicon->words, id);
}

/* The next cell, whose word, if it is one, is next of the example's. */
static int resolve(struct learner *learner, struct lexicon *lexicon, uint32_t cell,
                   const unsigned char **word, uint32_t *id, struct error *error) {
    if (cell == WIRE_WORD) {
        if (find_word(learner, lexicon, (const char *)*word + 1, **word, id, error))
            return -1;
        *word += 1 + **word;
    } else {
        *id = find_number(lexicon, cell);
    }
    touch(learner, lexicon, *id);
    return 0;
}

uint32_t words_target(const struct learner *learner, uint32_t id, uint64_t classes) {
    const struct lexicon *lexicon = words_of_classes(learner);
    bool late = lexicon && id < lexicon->of.capacity && lexicon->appeared[id] > classes;
    return late ? words_unknown(lexicon) : id;
}

/* ---- Examples ---- */

static bool has_x(const struct words *words) {
    return words->of[0].x;
}

/* The classes that are sent; NULL: they are the next x, or numbers. */
static struct lexicon *lexicon_of_y(const struct words *words) {
    struct lexicon *last = &words->of[words->count - 1];
    return last->y && !last->x ? last : NULL;
}

/* Rows of cells, each of which has a vocabulary or is a number. */
static int resolve_all(struct learner *learner, struct lexicon *const *lexicons, size_t width,
                       struct resolved *into, const void *cells, size_t steps,
                       const unsigned char **word, struct error *error) {
    if (reserve(into, steps * width, error))
        return -1;
    for (size_t i = 0, k = 0; i < steps * width; i++, k = k + 1 < width ? k + 1 : 0) {
        uint32_t cell = unaligned_id(cells, i);
        into->values[i].id = cell;
        if (lexicons[k] && resolve(learner, lexicons[k], cell, word, &into->values[i].id, error))
            return -1;
    }
    return 0;
}

/* Ids that the example uses are not given to its new words. */
static void touch_known(const struct learner *learner, struct lexicon *const *lexicons,
                        size_t width, const void *cells, size_t count, const unsigned char **word) {
    for (size_t i = 0, k = 0; i < count; i++, k = k + 1 < width ? k + 1 : 0) {
        if (!lexicons[k])
            continue;
        uint32_t id = unaligned_id(cells, i);
        if (id == WIRE_WORD) {
            id = streams_find(lexicons[k]->words, (const char *)*word + 1, **word);
            *word += 1 + **word;
        }
        if (id < streams_count(lexicons[k]->words))
            touch(learner, lexicons[k], id);
    }
}

int words_take(struct learner *learner, struct example *example, struct error *error) {
    struct words *words = learner->words;
    const unsigned char *word = (const unsigned char *)example->words, *known = word;
    struct lexicon *y = lexicon_of_y(words);
    const struct lexicon *classes = words_of_classes(learner);
    words->fresh_count = 0;
    words->classes = classes ? classes->count : 0;
    if (has_x(words) && !example->label) {
        touch_known(learner, words->of_column, learner->input_row, example->x,
                    example->steps * learner->input_row, &known);
        if (resolve_all(learner, words->of_column, learner->input_row, &words->x, example->x,
                        example->steps, &word, error))
            return -1;
        example->x = words->x.values;
    }
    if (y && example->y) {
        touch_known(learner, &y, 1, example->y, example->steps, &known);
        if (resolve_all(learner, &y, 1, &words->y, example->y, example->steps, &word, error))
            return -1;
        example->y = words->y.values;
    }
    return 0;
}

int words_taken(struct learner *learner, struct error *error) {
    struct words *words = learner->words;
    uint32_t first = 0, count = 0; /* ids that follow each other, which new words get */
    for (size_t n = 0; n < words->fresh_count; n++) {
        uint32_t id = words->fresh[n].id;
        if (!words->of[words->fresh[n].lexicon].y)
            continue;
        if (count && id != first + count) {
            if (rows_show(learner, first, count, error))
                return -1;
            count = 0;
        }
        first = count++ ? first : id;
    }
    if (count && rows_show(learner, first, count, error))
        return -1;
    words->fresh_count = 0;
    if (count)
        words_count_classes(learner);
    return 0;
}

/* ---- What is rejected ---- */

/* Whether the cell is known, or can get a place beside what is new in this example before it; with
   forget: lru, beside all that this example has before it. */
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

/* The vocabulary that has no place for one of so many cells, in rows of `width`, or NULL; its word
   at `wrong`, NULL: a number. `word` is moved to after them. */
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

const char *learner_word_refused(const struct learner *learner, const struct example *example,
                                 const char **word, size_t *size) {
    const struct words *words = learner->words;
    const unsigned char *next = (const unsigned char *)example->words, *wrong = NULL;
    const struct lexicon *of = NULL;
    if (!words)
        return NULL;
    for (size_t n = 0; n < words->count; n++)
        if (words->of[n].newcomers && streams_count(words->of[n].newcomers))
            streams_clear(words->of[n].newcomers);
    struct lexicon *y = lexicon_of_y(words);
    size_t width = learner->input_row;
    if (has_x(words) && !example->label)
        of =
            find_beyond(words->of_column, width, example->x, example->steps * width, &next, &wrong);
    if (!of && y && example->y)
        of = find_beyond(&y, 1, example->y, example->steps, &next, &wrong);
    if (!of)
        return NULL;
    *word = wrong ? (const char *)wrong + 1 : NULL;
    *size = wrong ? *wrong : 0;
    return of->name;
}

/* ---- What there is to know ---- */

size_t learner_lexicons(const struct learner *learner) {
    return learner->words ? learner->words->count : 0;
}

struct learner_lexicon learner_lexicon(const struct learner *learner, size_t n) {
    const struct lexicon *lexicon = &learner->words->of[n];
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

size_t learner_lexicon_of_classes(const struct learner *learner) {
    const struct lexicon *lexicon = words_of_classes(learner);
    return lexicon ? (size_t)(lexicon - learner->words->of) : SIZE_MAX;
}

const char *learner_word(const struct learner *learner, size_t n, uint32_t id, size_t *size) {
    const struct lexicon *lexicon = &learner->words->of[n];
    bool known = id < streams_count(lexicon->words);
    return known ? streams_key(lexicon->words, id, size) : NULL;
}

/* ---- Checkpoints ---- */

int learner_add_word(struct learner *learner, size_t n, const char *word, size_t size,
                     uint64_t appeared) {
    struct words *words = learner->words;
    struct lexicon *lexicon = words && n < words->count ? &words->of[n] : NULL;
    if (!lexicon || streams_count(lexicon->words) == lexicon->of.capacity || size > WIRE_WORD_MAX ||
        streams_find(lexicon->words, word, size) != STREAMS_NONE)
        return -1;
    uint32_t id = streams_add(lexicon->words, word, size);
    lexicon->appeared[id] = appeared;
    if (appeared > lexicon->count)
        lexicon->count = appeared;
    return 0;
}

int learner_use_word(struct learner *learner, size_t n, uint32_t id) {
    struct words *words = learner->words;
    if (!words || n >= words->count || id >= streams_count(words->of[n].words))
        return -1;
    streams_touch(words->of[n].words, id);
    return 0;
}

void learner_words_written(struct learner *learner) {
    const struct lexicon *classes = words_of_classes(learner);
    if (classes)
        learner->words->hidden = classes->of.capacity - streams_count(classes->words);
    words_count_classes(learner);
}
