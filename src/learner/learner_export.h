/* The learned parameters as a safetensors file in memory, described in
   docs/reference/protocol.md. */
#ifndef RUNNEL_LEARNER_EXPORT_H
#define RUNNEL_LEARNER_EXPORT_H

#include <jansson.h>

#include "learner.h"
#include "model/safetensors.h"

/* Exports the parameters of all members, scalers and vocabularies; `digest` is the configuration's.
   Call only between plans, after a flush. The caller frees memory->bytes. Equal learners export
   equal bytes. */
int learner_export(struct learner *learner, const char *digest, struct safetensors_memory *memory,
                   struct error *error);

/* Exports other parameters: (parameters,) of each member, one after the other; NULL: the
   learner's. */
int learner_export_values(struct learner *learner, const char *digest, const float *values,
                          struct safetensors_memory *memory, struct error *error);

/* Returns a vocabulary's words in the order of their ids. */
json_t *learner_words_list(const struct learner *learner, size_t lexicon);

#endif
