/* Words that get ids as they come. For learner*.c alone, as part of learner_internal.h. */
#ifndef RUNNEL_LEARNER_WORDS_H
#define RUNNEL_LEARNER_WORDS_H

#include "config/config.h"
#include "engine.h"

struct example;
struct learner;

/* ---- What is kept ---- */

#define NO_COLUMN SIZE_MAX

/* A vocabulary: words and their ids. */
struct lexicon {
    char name[CONFIG_NAME_SIZE]; /* "input", "output" */
    struct vocabulary of;
    bool x, y;                 /* whose ids are symbols of x, classes of targets */
    size_t column;             /* of x; NO_COLUMN: of none */
    struct streams *words;     /* a word's slot is its id */
    uint64_t *appeared;        /* (capacity,) how many had appeared with the word */
    uint64_t *used;            /* (capacity,) the example that used it last, since the start */
    uint64_t count;            /* that have appeared */
    struct streams *newcomers; /* words of the example that is looked at; NULL: none is rejected */
};

/* An id that has come with the example that is taken. */
struct fresh {
    size_t lexicon;
    uint32_t id;
};

struct resolved {
    union value *values;
    size_t capacity;
};

/* Words that become symbols and classes: learner_words.c, and what belongs to them of the network:
   learner_rows.c. */
struct words {
    struct lexicon *of;
    size_t count;
    struct lexicon **of_column; /* (input_row,) NULL: it has none */
    struct resolved x, y;       /* of the example that is taken, with ids alone */
    struct fresh *fresh;
    size_t fresh_count, fresh_capacity;
    float *buffer; /* (of the largest tensor that is by ids,) */
    size_t buffer_size;
    size_t hidden;                     /* classes that have not come, as the engines have it */
    uint64_t classes;                  /* that had appeared before the example that is taken */
    struct json_t *initial;            /* by name the words of model.initial; NULL: it has none */
    float *start[][MODEL_TENSORS_MAX]; /* (members,) starting values, once asked for */
};

/* ---- Words (learner_words.c) ---- */

int words_open(struct learner *learner, struct error *error);
void words_close(struct learner *learner);

/* Forget all. */
void words_reset(struct learner *learner);

/* Before an example is planned: put ids in the place of its words; x and y then lie here. After it:
   classes that came with it take part from now on. The plan may be played. */
int words_take(struct learner *learner, struct example *example, struct error *error);
int words_taken(struct learner *learner, struct error *error);

/* The class that an id is as a target of a step: the unknown if the class appeared after the step,
   which `classes` had appeared before. */
uint32_t words_target(const struct learner *learner, uint32_t id, uint64_t classes);

/* The vocabulary of classes; NULL: there is none. */
struct lexicon *words_of_classes(const struct learner *learner);
uint32_t words_unknown(const struct lexicon *lexicon);

/* The baseline says the frequencies of classes that have come. */
void words_count_classes(struct learner *learner);

/* ---- Words of model.initial (learner_initial.c) ---- */

/* Read and check them; EX_CONFIG: they are another model's. Then: learning begins with them. */
int words_read_initial(struct learner *learner, struct error *error);
void words_write_initial(struct learner *learner);

/* ---- Rows of words (learner_rows.c) ---- */

/* A word gets an id, which another had before it or not (`again`): what is learned of its symbol
   and class begins. Its class takes no part in predictions until it is shown, with those that
   follow it. */
int rows_begin(struct learner *learner, const struct lexicon *lexicon, uint32_t id, bool again,
               struct error *error);
int rows_show(struct learner *learner, uint32_t first, uint32_t count, struct error *error);

/* Of starting values (parameters,) of a member: an id that has no word of model.initial begins as
   the seed gives it, and classes that have not come take no part. */
int rows_start(struct learner *learner, size_t m, float *values, struct error *error);

/* The classes that have not come have biases that are no part of what is learned: the norm of all
   parameters, whose sum of squares this is, over that of the others. */
double rows_share(const struct learner *learner, double squares);
void rows_close(struct learner *learner, struct words *words);

#endif
