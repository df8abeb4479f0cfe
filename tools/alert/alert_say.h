/* An alert as people and programs get it: a line, and JSON. */
#ifndef RUNNEL_ALERT_SAY_H
#define RUNNEL_ALERT_SAY_H

#include "alert_watcher.h"

/* Its JSON (docs/watching.md, "Alerts"); `unix_offset` makes Unix times of those in the alert. NULL
   when out of memory. */
json_t *say_json(const struct watcher *watcher, const struct alert *alert, double unix_offset,
                 double unix_since);

enum { SAY_LINE_SIZE = ALERT_TEXT_SIZE + 2 * ALERT_NAME_SIZE + ALERT_NOTE_SIZE };

/* "2026-01-31 14:03:59 ALERT host adwin: the loss has risen ... (at example 50,090, in data of
   2014-12-31 23:30:00)". */
char *say_line(char line[SAY_LINE_SIZE], const struct watcher *watcher, const struct alert *alert,
               double unix_offset);

#endif
