#include "build-config.h"

#include "watch_gap.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/format.h"

#define SAY_EVERY 1.0 /* seconds */

bool gap_say(double *said, const double unheard[2], char text[GAP_TEXT]) {
    char before[FORMAT_SIZE], after[FORMAT_SIZE];
    double now = clock_seconds();
    if (now - *said < SAY_EVERY)
        return false;
    *said = now;
    snprintf(text, GAP_TEXT, "no message between %s and %s examples",
             format_grouped(before, unheard[0]), format_grouped(after, unheard[1]));
    return true;
}
