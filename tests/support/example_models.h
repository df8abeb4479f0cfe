/* One model for each rule about an example's numbers. */
#ifndef RUNNEL_TEST_EXAMPLE_MODELS_H
#define RUNNEL_TEST_EXAMPLE_MODELS_H

#include <string.h>

#include "model/model.h"

enum example_model {
    MODEL_REAL,           /* 3 numbers -> 2 numbers, squared, given */
    MODEL_SENSOR,         /* 1 number -> 1 number, gaussian, given */
    MODEL_HOLD,           /* 2 numbers, missing: hold, squared, next */
    MODEL_CHARACTERS,     /* 5 symbols, softmax, next */
    MODEL_TAGS,           /* 5 symbols -> 3 classes, softmax, given */
    MODEL_BERNOULLI,      /* 2 numbers -> 2 in [0, 1], given */
    MODEL_BERNOULLI_NEXT, /* 2 numbers in [0, 1], missing: hold, next */
    MODEL_STROKES,        /* 3 numbers -> mixture, given */
    MODEL_COLUMNS, /* a number that may be missing, one of 5 symbols, a cycle; squared, next */
    MODEL_WORDS,   /* a number that may be missing, words of two kinds -> named classes, given */
    MODEL_LINES,   /* messages of at most 4 of 5 symbols -> 3 classes, softmax, given */
    MODEL_TRACES,  /* messages of at most 3 pairs of numbers -> 2 numbers, squared, given */
    MODEL_REPLY,   /* messages of at most 4 words -> messages of at most 3 words, given */
    MODEL_TITLE,   /* 2 numbers -> messages of at most 3 of 5 symbols, given */
    EXAMPLE_MODELS,
};

#define EXAMPLE_CHAIN(most)                                                                        \
    {                                                                                              \
        .layer_count = 1,                                                                          \
        .layers = {{.cell = CELL_gru, .size = 3, .norm = NORM_layer, .gain = 1.0F}},               \
        .longest = (most)                                                                          \
    }

static inline void example_model(struct model *model, enum example_model which) {
    static const struct {
        struct input input;
        struct output output;
    } models[EXAMPLE_MODELS] = {
        [MODEL_REAL] = {{.kind = INPUT_REAL, .size = 3}, {LOSS_squared, 2, 0, TARGET_GIVEN}},
        [MODEL_SENSOR] = {{.kind = INPUT_REAL, .size = 1}, {LOSS_gaussian, 1, 0, TARGET_GIVEN}},
        [MODEL_HOLD] = {{.kind = INPUT_REAL, .size = 2, .hold = true},
                        {LOSS_squared, 2, 0, TARGET_NEXT}},
        [MODEL_CHARACTERS] = {{.kind = INPUT_SYMBOL, .size = 5}, {LOSS_softmax, 5, 0, TARGET_NEXT}},
        [MODEL_TAGS] = {{.kind = INPUT_SYMBOL, .size = 5, .embedding = 4},
                        {LOSS_softmax, 3, 0, TARGET_GIVEN}},
        [MODEL_BERNOULLI] = {{.kind = INPUT_REAL, .size = 2}, {LOSS_bernoulli, 2, 0, TARGET_GIVEN}},
        [MODEL_BERNOULLI_NEXT] = {{.kind = INPUT_REAL, .size = 2, .hold = true},
                                  {LOSS_bernoulli, 2, 0, TARGET_NEXT}},
        [MODEL_STROKES] = {{.kind = INPUT_REAL, .size = 3}, {LOSS_mixture, 3, 4, TARGET_GIVEN}},
        [MODEL_COLUMNS] =
            {{.kind = INPUT_REAL,
              .size = 3,
              .hold = true,
              .column_count = 3,
              .columns = {{.name = "load", .hold = true},
                          {.name = "host", .kind = COLUMN_SYMBOL, .size = 5},
                          {.name = "hour", .kind = COLUMN_CYCLE, .period = 24, .harmonics = 1}}},
             {LOSS_squared, 1, 0, TARGET_NEXT, .column_count = 1}},
        [MODEL_WORDS] =
            {{.kind = INPUT_REAL,
              .size = 3,
              .hold = true,
              .column_count = 3,
              .columns = {{.name = "load", .hold = true},
                          {.name = "host",
                           .kind = COLUMN_SYMBOL,
                           .size = 5,
                           .vocabulary = {.capacity = 4}},
                          {.name = "user", .kind = COLUMN_SYMBOL, .size = 8, .hash = 8}}},
             {LOSS_softmax, 4, 0, TARGET_GIVEN, .vocabulary = {.capacity = 3}}},
        [MODEL_LINES] = {{.kind = INPUT_SYMBOL, .size = 5, .sequence = EXAMPLE_CHAIN(4)},
                         {LOSS_softmax, 3, 0, TARGET_GIVEN}},
        [MODEL_TRACES] = {{.kind = INPUT_REAL, .size = 2, .sequence = EXAMPLE_CHAIN(3)},
                          {LOSS_squared, 2, 0, TARGET_GIVEN}},
        [MODEL_REPLY] = {{.kind = INPUT_SYMBOL,
                          .size = 5,
                          .vocabulary = {.capacity = 4},
                          .sequence = EXAMPLE_CHAIN(4)},
                         {LOSS_softmax, 4, 0, TARGET_GIVEN, .vocabulary = {.capacity = 3},
                          .sequence = EXAMPLE_CHAIN(3)}},
        [MODEL_TITLE] = {{.kind = INPUT_REAL, .size = 2},
                         {LOSS_softmax, 5, 0, TARGET_GIVEN, .sequence = EXAMPLE_CHAIN(3)}},
    };
    struct architecture architecture = {
        .input = models[which].input,
        .layers = {{.cell = CELL_gru, .size = 4, .norm = NORM_layer, .gain = 1.0F}},
        .layer_count = 1,
        .output = models[which].output,
    };
    memset(model, 0, sizeof *model);
    model_build(model, &architecture);
}

#endif
