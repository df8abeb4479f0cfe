#include "bench_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "config/config.h"

/* What preset: forecast says where nothing else is said. */
static bool are_of_preset(const struct config *config) {
    return config->preset && config->member_count == 2 &&
           !strcmp(config->members[0].name, "change") && !strcmp(config->members[1].name, "level");
}

int bench_members(const struct config *config, const char *path, size_t count,
                  char text[BENCH_MEMBERS_SIZE], struct error *error) {
    if (config->architecture.input.scale != SCALE_FORECAST)
        return error_set(error, EX_CONFIG,
                         "%s: --members needs model.input.scale: forecast, for only then has a "
                         "daemon members: add --set model.input.scale=forecast and --set "
                         "model.output.target=next",
                         path);
    if (config->members_given && !are_of_preset(config))
        return error_set(error, EX_CONFIG,
                         "%s: members are listed there, and --members makes its own: leave one of "
                         "the two out",
                         path);
    size_t used = (size_t)snprintf(text, BENCH_MEMBERS_SIZE, "members=[");
    for (size_t n = 0; n < count; n++)
        used += (size_t)snprintf(text + used, BENCH_MEMBERS_SIZE - used,
                                 "%s{name: m%zu, set: {seed: %" PRIu64 "}}", n ? ", " : "", n + 1,
                                 config->seed + n);
    snprintf(text + used, BENCH_MEMBERS_SIZE - used, "]");
    return 0;
}
