/* x or y of an example's JSON, rewritten as the numbers and words of binary frames: a number, a
   list, a list of lists, or columns by name. Only files of the decoder include this. */
#ifndef RUNNEL_DECODE_JSON_VALUES_H
#define RUNNEL_DECODE_JSON_VALUES_H

#include <jansson.h>
#include <stdbool.h>

#include "decode_numbers.h"

/* Numbers or words of one frame, grown as messages need it. */
struct numbers {
    unsigned char *bytes; /* malloc'ed */
    size_t capacity;      /* in bytes */
    size_t size;          /* of words: of those that are there */
};

/* Room for `size` bytes; what is there stays. -1: out of memory, and nothing has changed. */
int numbers_reserve(struct numbers *numbers, size_t size);

/* "a list", for sentences. */
const char *json_kind(const json_t *value);

bool whole_between(double value, double low, double high);

/* REJECT_NOT: `frame` leads into `numbers`, and its words are appended to `words`. */
enum reject_reason json_put_value(const struct shape *shape, json_t *value, struct numbers *numbers,
                                  struct numbers *words, struct frame *frame,
                                  char why[REJECT_WHY_SIZE]);

#endif
