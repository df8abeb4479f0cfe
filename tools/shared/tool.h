/* Helpers of tools that talk to daemons. */
#ifndef RUNNEL_TOOL_H
#define RUNNEL_TOOL_H

#include "common/keys.h"
#include "runnel.h"

static inline struct runnel_peer tool_peer(const char *endpoint, const struct key_options *keys) {
    return (struct runnel_peer){endpoint, keys->server, keys->own};
}

#endif
