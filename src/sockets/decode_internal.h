/* What decoder.c opens and decode.c reads. */
#ifndef RUNNEL_DECODE_INTERNAL_H
#define RUNNEL_DECODE_INTERNAL_H

#include <stdbool.h>

#include "decode_json.h"
#include "decode_numbers.h"
#include "model/model.h"

struct decoder {
    enum target target;
    bool many;  /* several steps need no header */
    bool words; /* symbols or classes may be words */
    struct shape x, y;
    struct range x_range, y_range;
    struct range *column_ranges; /* (x.width,); NULL: x_range is that of all numbers of x */
    struct column *targets;      /* malloc'ed (y.width,), of targets with names */
    struct json_example json;
};

#endif
