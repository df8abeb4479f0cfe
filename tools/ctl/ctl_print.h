/* Replies of the control socket for people. */
#ifndef RUNNEL_CTL_PRINT_H
#define RUNNEL_CTL_PRINT_H

#include <jansson.h>

#include "common/format.h"
#include "runnel.h"

/* All of a `status` reply on standard output, in groups, one "name  value" a line. What the reply
   does not have is left out; what is null is "-". */
void print_status(const json_t *reply);

/* "3" of a number of the reply, "?" for one that it does not have. */
const char *count_of(char text[FORMAT_SIZE], const struct runnel_reply *reply, const char *key);

/* The end of the word after it: "s", but of one. */
const char *s_of(const struct runnel_reply *reply, const char *key);

#endif
