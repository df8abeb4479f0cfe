#include "tool.h"

#include <limits.h>
#include <math.h>

struct runnel_peer tool_peer(const char *endpoint, const struct key_options *keys) {
    return (struct runnel_peer){endpoint, keys->server, keys->own};
}

int tool_poll_time(double seconds) {
    return (int)fmin(fmax(seconds, 0) * 1e3 + 1, INT_MAX);
}
