/* What tools share of talking to daemons. */
#ifndef RUNNEL_TOOL_H
#define RUNNEL_TOOL_H

#include "common/keys.h"
#include "runnel.h"

/* A daemon there, with the keys of the options. */
struct runnel_peer tool_peer(const char *endpoint, const struct key_options *keys);

/* Milliseconds for poll(2), rounded up: a deadline that is waited for has passed when the wait is
   over. */
int tool_poll_time(double seconds);

#endif
