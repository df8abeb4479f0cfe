#include "feed_call.h"

#include <stdio.h>
#include <sysexits.h>

#include "feed_progress.h"

static void on_signal(int number) {
    (void)number;
    feed_signals++;
}

int feed_call_start(struct feed_call *call, const char *program, bool line, struct error *error) {
    const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    if (key_options_check(&call->to.keys, error))
        return -1;
    if (call->producer &&
        (wire_producer_parse(call->producer, &call->to.producer) || call->to.producer == 0))
        return error_set(error, EX_USAGE,
                         "--producer: found '%s', expected 1 to 16 hexadecimal digits, not 0",
                         call->producer);
    progress_start(program, call->quiet, call->verbose, line);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaction(caught[i], &action, NULL);
    return 0;
}

int feed_call_end(const struct command_line *line, int status, const struct error *error) {
    if (status == 0 || error->status == FEED_INTERRUPTED)
        return EX_OK;
    if (error->status == EX_USAGE)
        return options_complain(line, "%s", error->text);
    fprintf(stderr, "%s: %s\n", line->name, error->text);
    return error->status;
}
