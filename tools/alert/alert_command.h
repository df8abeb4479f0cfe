/* Run a command for an alert: the program itself, never a shell. */
#ifndef RUNNEL_ALERT_COMMAND_H
#define RUNNEL_ALERT_COMMAND_H

#include <stdbool.h>

#include <jansson.h>

struct error;

/* Whether there is such a program, as execvp(3) looks for it. */
bool command_exists(const char *program);

/* Run words[0] with the others as its arguments (ending with NULL). On its standard input is the
   alert as JSON, in its environment each member of it as RUNNEL_ALERT_MEMBER; its output goes to
   standard error. After `seconds` it and what it has started are ended. Returns 0 when it exits
   with 0, else -1 with `error` filled. */
int command_run(char *const *words, const json_t *alert, double seconds, struct error *error);

#endif
