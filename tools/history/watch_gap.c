#include "build-config.h"

#include "watch_gap.h"

#include <stdio.h>

#include "tools/shared/tool.h"

#define SAY_EVERY 1.0 /* seconds */

void gap_status(struct gap *gap, const json_t *body) {
    double every, examples;
    if (!tool_number(body, "every", &every) || !tool_number(body, "examples", &examples))
        return;
    /* A smaller interval begins to count where it was set. */
    if (every < gap->every && examples > gap->newest && examples - gap->newest <= gap->every)
        gap->newest = examples;
    gap->every = every;
}

void gap_restart(struct gap *gap) {
    gap->said = -INFINITY;
}

bool gap_loss(struct gap *gap, double examples, char text[GAP_TEXT]) {
    char before[TOOL_NUMBER_SIZE], after[TOOL_NUMBER_SIZE];
    double last = gap->newest, now = tool_now();
    gap->newest = examples;
    *text = '\0';
    if (!(examples - last > gap->every))
        return false;
    if (now - gap->said < SAY_EVERY)
        return true;
    gap->said = now;
    snprintf(text, GAP_TEXT, "nothing was heard between %s and %s examples",
             tool_format_grouped(before, last), tool_format_grouped(after, examples));
    return true;
}
