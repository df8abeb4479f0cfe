/* A schema: what a client says that its examples are, so that it is told before it sends any. It is
   a message of one frame, and no example:

     {"schema": {"dtype": "float32", "columns": ["load", "oil"], "targets": 1}}

   `dtype` is that of x: float32, or uint32 for symbols; `columns` are those of one step of x, their
   names, which are the model's in its order where that has names, or how many; `targets` likewise
   those of y, 0 where the target is the next x; `target_dtype` is that of y; `names` are those of
   columns that x will name, in any order. Each may be left out:
   then nothing is said of it. A column may also be an object with its "name" and "kind": real,
   symbol or cycle. Other members of it, and of the schema, are for later versions. */
#ifndef RUNNEL_DECODE_SCHEMA_H
#define RUNNEL_DECODE_SCHEMA_H

#include <jansson.h>

#include "decode_numbers.h"

/* REJECT_NOT: examples of this schema fit the model. REJECT_JSON: it is none. REJECT_SCHEMA: `why`
   says which type or column differs. `y` is NULL where the target is the next x. */
enum reject_reason decode_schema(const json_t *schema, const struct shape *x, const struct shape *y,
                                 char why[REJECT_WHY_SIZE]);

#endif
