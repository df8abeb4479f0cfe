/* Prints replies of the control socket as text. */
#ifndef RUNNEL_CTL_PRINT_H
#define RUNNEL_CTL_PRINT_H

#include <jansson.h>

#include "common/format.h"
#include "runnel.h"

/* Prints a `status` reply on standard output in groups, one "name value" a line. Members that the
   reply does not have are left out; null is "-". */
void print_status(const json_t *reply);

/* A number of the reply as text; "?" if the reply does not have it. */
const char *count_of(char text[FORMAT_SIZE], const struct runnel_reply *reply, const char *key);

/* The plural ending for a number of the reply: "s", or "" for 1. */
const char *s_of(const struct runnel_reply *reply, const char *key);

#endif
