/* Learners of many configurations that exchange streams, and their examples: random, and the
   same for all. */
#ifndef RUNNEL_MOVING_PLAY_H
#define RUNNEL_MOVING_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "config/config.h"
#include "learner/learner.h"
#include "model/model.h"

#define GRU "  layers: [{cell: gru, size: 5}]\n"
#define LEARNING                                                                                   \
    "learning: {window: 5, stride: 3, max_streams: 5, optimizer: {kind: adam, rate: 0.01}}\n"
#define FEW "learning: {max_streams: 5}\n"
#define WATCH "anomaly: {enabled: true, memory: 40}\n"

/* A program's setup and teardown: 0, or -1 after a failure. */
int play_setup(void);
int play_teardown(void);

/* Keys "s0" .. of streams; learning.max_streams, 5, limits those in memory. */
enum { STREAMS = 7, PLAY_CASES = 13 };

extern const struct play_case { const char *name, *text; } play_cases[PLAY_CASES];

struct play {
    struct config *config;
    struct model model;
    struct learner *learner;
    uint64_t hash; /* of all observations */
    uint64_t forgotten;
    unsigned random;   /* seed of the examples: the same for all plays */
    uint64_t label;    /* the next number with a label */
    uint64_t position; /* position in a journal with all entries */
};

/* Other engines take a hundred times as long: one case is enough to check their slots; the CPU
   checks all higher layers. */
bool play_can(size_t which);
uint64_t play_examples(void);

struct play *play_open(const char *text);
void play_close(struct play *play);
unsigned play_random(struct play *play, unsigned below);

/* `count` examples from the number `first` on, and a flush. */
void play_take(struct play *play, uint64_t first, uint64_t count);

struct bytes {
    unsigned char *bytes;
    size_t size;
};

/* The content of its checkpoint, to be freed, for comparisons. */
struct bytes play_state(struct play *play);
void play_assert_state(struct play *play, const struct bytes *before);

#endif
