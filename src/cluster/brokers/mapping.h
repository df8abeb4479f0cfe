/* JSON as devices write it, made into examples: options (common/mapping_options.h) name what is the
   x, the stream and the time in

       {"sensor": "a", "ts": 1700000000123, "data": {"temperature": 21.5}, "site": "x"}

   Fields that nothing names are ignored, which one notice reports, or refused. */
#ifndef RUNNEL_MAPPING_H
#define RUNNEL_MAPPING_H

#include <jansson.h>

#include "common/mapping_options.h"
#include "message.h"

struct mapping;

/* What the options ask for; NULL: nothing. Their texts must outlive it. -1 (EX_USAGE): `error`
   begins with the name of the option that is wrong. */
int mapping_open(struct mapping **mapping, const struct mapping_options *options,
                 struct error *error);
void mapping_close(struct mapping **mapping);

/* Make an example of the object: 1, and `*example` is the caller's. 0: it has none, and `why` says
   so. -1: out of memory, or (EX_USAGE) an option is needed: the first time has two meanings. */
int mapping_apply(struct mapping *mapping, json_t *value, json_t **example,
                  char why[MESSAGE_WHY_SIZE], struct error *error);

/* The same with the bytes of a message, which are then those of the example until the next call. */
int mapping_message(struct mapping *mapping, struct message *message, char why[MESSAGE_WHY_SIZE],
                    struct error *error);

#endif
