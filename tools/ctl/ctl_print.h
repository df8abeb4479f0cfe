/* Replies of the control socket for people. */
#ifndef RUNNEL_CTL_PRINT_H
#define RUNNEL_CTL_PRINT_H

#include <jansson.h>

/* All of a `status` reply on standard output, in groups, one "name  value" a line. What the reply
   does not have is left out; what is null is "-". */
void print_status(const json_t *reply);

#endif
