/* The parameters of a model in safetensors files: entries to write, and starting values to read. */
#ifndef RUNNEL_PARAMETERS_H
#define RUNNEL_PARAMETERS_H

#include "model.h"
#include "safetensors.h"

struct error;

/* Tensors of a member are named "members.MEMBER.NAME" in files; those of the single network
   (member "") keep their names. */
enum { PARAMETERS_NAME_SIZE = 128 };
void parameters_name(const char *member, const char *tensor, char name[PARAMETERS_NAME_SIZE]);

/* Describe every tensor of the table in order: entries (model.tensor_count,). Names point into
   the model. */
void parameters_entries(const struct model *model, struct safetensors_entry *entries);

/* Read all parameters from a file into values (model.parameters,). The file must contain exactly
   the table's tensors, float32 and finite, possibly beside those of other members. EX_CONFIG: the
   file does not fit the model; the sentence names file and tensor. EX_IOERR as in safetensors.h. */
int parameters_load(const struct model *model, const char *member, const char *path, float *values,
                    struct error *error);

#endif
