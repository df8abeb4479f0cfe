#include "feed_call.h"

#include <assert.h>
#include <stdio.h>
#include <sysexits.h>

#include "feed_progress.h"

#define SECONDS_MAX 1e6

int feed_call_option(struct feed_call *call, int code, const char *value,
                     struct feed_error *error) {
    uint64_t epoch = 0;
    switch (code) {
    case 'c':
        call->to.endpoint = value;
        call->to.bind = false;
        return 0;
    case 'o':
        return sender_parse_socket(&call->to, value, error);
    case 'e':
        if (feed_parse_count("--epoch", value, 0, UINT32_MAX, &epoch, error) < 0)
            return -1;
        call->epoch = (uint32_t)epoch;
        call->epoch_given = true;
        return 0;
    case 'w':
        return feed_parse_real("--wait", value, 0, SECONDS_MAX, &call->wait, error);
    case 'l':
        return feed_parse_real("--linger", value, 0, SECONDS_MAX, &call->linger, error);
    case 'K':
        call->key = value;
        return 0;
    case 'Y':
        call->server_key = value;
        return 0;
    case 'q':
        call->quiet = true;
        return 0;
    case 'v':
        call->verbose = true;
        return 0;
    case 'h':
        call->help = true;
        return 0;
    case 'V':
        call->version = true;
        return 0;
    }
    assert(!"an option of FEED_CALL_OPTIONS");
    return -1;
}

int feed_call_parse(int count, char **arguments, const char *letters, const struct option *table,
                    const char *of, feed_take *take, void *context, struct feed_error *error) {
    int code;
    opterr = 0;
    optind = 0; /* glibc begins anew */
    while ((code = getopt_long(count, arguments, letters, table, NULL)) != -1) {
        const char *given = arguments[optind - 1];
        if (code == ':')
            return feed_fail(error, EX_USAGE, "%s needs a value", given);
        if (code == '?')
            return feed_fail(error, EX_USAGE, "there is no option %s%s%s", given, of ? " of " : "",
                             of ? of : "");
        if (take(context, code, optarg, error) < 0)
            return -1;
    }
    return 0;
}

static void on_signal(int number) {
    (void)number;
    feed_signals++;
}

int feed_call_start(struct feed_call *call, bool line, struct feed_error *error) {
    const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    char why[KEYS_WHY_SIZE];
    if (keys_client(&call->to.keys, call->key, call->server_key, why))
        return feed_fail(error, EX_USAGE, "%s", why);
    progress_start(call->program, call->quiet, call->verbose, line);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaction(caught[i], &action, NULL);
    return 0;
}

int feed_call_end(const struct feed_call *call, int status, const struct feed_error *error) {
    if (status == 0 || error->status == FEED_INTERRUPTED)
        return EX_OK;
    fprintf(stderr, "%s: %s\n", call->program, error->text);
    if (error->status == EX_USAGE)
        fprintf(stderr, "%s: try %s --help\n", call->program, call->program);
    return error->status;
}
