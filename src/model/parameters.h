/* A model's parameters in safetensors files: as entries to write, and as starting values to read.
 */
#ifndef RUNNEL_PARAMETERS_H
#define RUNNEL_PARAMETERS_H

#include "model.h"
#include "safetensors.h"

struct error;

/* Tensors of a member are called "members.MEMBER.NAME" in files; those of the one network, which
   has no name (""), as they are. */
enum { PARAMETERS_NAME_SIZE = 128 };
void parameters_name(const char *member, const char *tensor, char name[PARAMETERS_NAME_SIZE]);

/* Describe every tensor of the table, in its order: entries (model.tensor_count,). Names point into
   the model. */
void parameters_entries(const struct model *model, struct safetensors_entry *entries);

/* Read all parameters from a file that holds exactly the table's tensors, of a member perhaps
   beside those of others, float32 and finite, into the block of all parameters: values
   (model.parameters,).
   EX_CONFIG: the file does not fit the model; the sentence names file and tensor. EX_IOERR as in
   safetensors.h. */
int parameters_load(const struct model *model, const char *member, const char *path, float *values,
                    struct error *error);

#endif
