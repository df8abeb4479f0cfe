/* How people read the number of a field of a message. */
#ifndef RUNNEL_FIELD_FORMAT_H
#define RUNNEL_FIELD_FORMAT_H

#include "common/fields.h"
#include "common/format.h"

/* NULL: a count, as exact as there is room for (format_count). */
format_function *field_format(const struct field *field);

#endif
