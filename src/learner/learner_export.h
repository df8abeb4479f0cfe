/* What was learned, as a file of safetensors in memory: docs/reference/protocol.md says what is in it. */
#ifndef RUNNEL_LEARNER_EXPORT_H
#define RUNNEL_LEARNER_EXPORT_H

#include <jansson.h>

#include "learner.h"
#include "model/safetensors.h"

/* The parameters of all members, scalers and vocabularies; `digest` is the configuration's. Between
   plans only: flush before. The caller frees memory->bytes. Nothing but what the bytes follow from
   is in them: two learners that have learned the same export the same. */
int learner_export(struct learner *learner, const char *digest, struct safetensors_memory *memory,
                   struct error *error);

/* The same with other values in the parameters' place, (parameters,) of each member, one after the
   other; NULL: the learner's. */
int learner_export_values(struct learner *learner, const char *digest, const float *values,
                          struct safetensors_memory *memory, struct error *error);

/* A vocabulary's words in the order of their ids. */
json_t *learner_words_list(const struct learner *learner, size_t lexicon);

#endif
