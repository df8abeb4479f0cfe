/* Learners of many configurations, to whom streams come and from whom they go, and the examples
   that they learn: random, and the same for all. */
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

/* A program's setup and teardown: 0, or it has failed. */
int play_setup(void);
int play_teardown(void);

/* Keys "s0" .. of streams; of them learning.max_streams, 5, have room. */
enum { STREAMS = 7, PLAY_CASES = 9 };

extern const struct play_case { const char *name, *text; } play_cases[PLAY_CASES];

struct play {
    struct config *config;
    struct model model;
    struct learner *learner;
    uint64_t hash; /* of all that was observed */
    uint64_t forgotten;
    unsigned random;   /* of the examples: all plays take the same */
    uint64_t label;    /* the next number that gets one */
    uint64_t position; /* of a journal that would have all of it */
};

/* Elsewhere than on the CPU a run takes a hundred times as long: one case is enough to see that its
   slots go along, and what is above engines is the CPU's to show. */
bool play_can(size_t which);
uint64_t play_examples(void);

struct play *play_open(const char *text);
void play_close(struct play *play);
unsigned play_random(struct play *play, unsigned below);

/* So many examples from the number `first` on, and flush. */
void play_take(struct play *play, uint64_t first, uint64_t count);

struct bytes {
    unsigned char *bytes;
    size_t size;
};

/* All that a checkpoint has of it, to be freed; that it is what it was. */
struct bytes play_state(struct play *play);
void play_assert_state(struct play *play, const struct bytes *before);

#endif
