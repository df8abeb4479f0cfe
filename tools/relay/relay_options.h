/* What runnel-relay is told: a daemon, a broker, and what goes from one to the other. */
#ifndef RUNNEL_RELAY_OPTIONS_H
#define RUNNEL_RELAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/options.h"
#include "relay_sink.h"
#include "tools/shared/watch_link.h"

struct options {
    const char *config; /* a file whose section `publish` comes before the other options, or NULL */
    const char *endpoint; /* "": the file does not say it */
    struct key_options keys;
    const char *broker;                  /* "mqtt": the kind, with target.address */
    struct sink_options target, of_file; /* of_file: with the login of the file's broker */
    const char *topic;
    bool published[TOPICS];
    bool from_file; /* the broker: an option may name another */
    bool published_from_file;
    uint64_t buffer, count;
    double silence;

    const struct sink_type *type; /* set by options_check, as target.url and name */
};

extern const struct option_row relay_options[];

/* The values without options. */
void relay_options_default(struct options *options);

/* OPTIONS_GO_ON, or an exit status: after a complaint. */
int relay_options_check(struct options *options);

#endif
