/* Data that a learning rule keeps for a stream, beside its state and steps: its size, and its
   layout in a slot's record. kernels/rules/ defines its meaning. */
#ifndef RUNNEL_MODEL_RULE_H
#define RUNNEL_MODEL_RULE_H

#include "model.h"

/* Largest size per stream, in bytes: larger data takes seconds per step. */
#define RULE_BYTES_MOST ((size_t)256 << 20)

/* Layers up to the last recurrent one, whose parameters the data covers; 0: no data. */
size_t rule_layers(const struct model *model, enum rule rule);

/* Whether the data covers that tensor. */
bool rule_covers(const struct model *model, enum rule rule, const struct tensor *tensor);

/* Rows of the data, each with one number for each number of the covered tensors: one row for
   each state, layer by layer, h before an inner state; or one row, with columns of two states two.
 */
size_t rule_rows(const struct model *model, enum rule rule);

/* Numbers after a slot's record (slot_record_size): the rows, each tensor by tensor in the
   table's order and layout. */
size_t rule_record_size(const struct model *model, enum rule rule);

#endif
