/* What a learning rule keeps of a stream beside its state and its steps: how much that is, and how
   it lies in a slot's record. What it means: kernels/rules/. */
#ifndef RUNNEL_MODEL_RULE_H
#define RUNNEL_MODEL_RULE_H

#include "model.h"

/* Bytes that a rule may keep of one stream: what exceeds them takes seconds a step. */
#define RULE_BYTES_MOST ((size_t)256 << 20)

/* Layers up to the last recurrent one, whose parameters it is about; 0: it keeps nothing. */
size_t rule_layers(const struct model *model, enum rule rule);

/* Whether it is about that tensor. */
bool rule_covers(const struct model *model, enum rule rule, const struct tensor *tensor);

/* Rows of numbers that it keeps, each with one for each number of those tensors: a row for each
   state, layer by layer, h before an inner one; or one row. */
size_t rule_rows(const struct model *model, enum rule rule);

/* Numbers that follow a slot's record (slot_record_size): the rows, each tensor by tensor in the
   table's order and layout. */
size_t rule_record_size(const struct model *model, enum rule rule);

#endif
