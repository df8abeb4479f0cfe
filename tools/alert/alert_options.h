/* The command line of runnel-alert. */
#ifndef RUNNEL_ALERT_OPTIONS_H
#define RUNNEL_ALERT_OPTIONS_H

#include "alert_deliver.h"
#include "alert_watcher.h"
#include "common/keys.h"

enum { ALERT_DAEMONS = 64 };

struct options {
    struct option_list endpoints;
    struct key_options keys;
    const char *recording; /* NULL = live */
    bool json, quiet, verbose;
    bool watched[ALERT_KINDS];
    struct limits limits;
    double interval, again, megabytes;
    struct deliver_options deliver;
    char *url; /* owned, when it was read from a file */
};

/* Returns OPTIONS_GO_ON, or the exit status. */
int options_take(struct options *options, int argc, char **argv);
void options_clear(struct options *options);

#endif
