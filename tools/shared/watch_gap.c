#include "build-config.h"

#include "watch_gap.h"

#include <stdio.h>

#include "tool.h"

#define SAY_EVERY 1.0 /* seconds */

bool gap_say(double *said, const double unheard[2], char text[GAP_TEXT]) {
    char before[TOOL_NUMBER_SIZE], after[TOOL_NUMBER_SIZE];
    double now = tool_now();
    if (now - *said < SAY_EVERY)
        return false;
    *said = now;
    snprintf(text, GAP_TEXT, "nothing was heard between %s and %s examples",
             tool_format_grouped(before, unheard[0]), tool_format_grouped(after, unheard[1]));
    return true;
}
