/* Converts JSON as devices write it to examples. Options (common/mapping_options.h) name the fields
   for x, stream and time, for instance in

   {"sensor": "a", "ts": 1700000000123, "data": {"temperature": 21.5}, "site": "x"}

   Fields that no option names are ignored, with one notice, or rejected. */
#ifndef RUNNEL_MAPPING_H
#define RUNNEL_MAPPING_H

#include <jansson.h>

#include "common/mapping_options.h"
#include "message.h"

struct mapping;

/* Creates a mapping from the options, whose texts must outlive it. Without such options `*mapping`
   is NULL. Returns -1 (EX_USAGE) on an invalid option; `error` begins with its name. */
int mapping_open(struct mapping **mapping, const struct mapping_options *options,
                 struct error *error);
void mapping_close(struct mapping **mapping);

/* Converts an object to an example. Returns 1: the caller owns `*example`. Returns 0: the object is
   not an example, see `why`. Returns -1: out of memory, or EX_USAGE if the first time is ambiguous
   and needs an option. */
int mapping_apply(struct mapping *mapping, json_t *value, json_t **example,
                  char why[MESSAGE_WHY_SIZE], struct error *error);

/* Converts the bytes of a message in place; they are valid until the next call. */
int mapping_message(struct mapping *mapping, struct message *message, char why[MESSAGE_WHY_SIZE],
                    struct error *error);

#endif
