/* How a program that sends examples is called and ends: the options that all of them have, signals,
   the last sentence. */
#ifndef RUNNEL_FEED_CALL_H
#define RUNNEL_FEED_CALL_H

#include "feed.h"
#include "streams/senders/feed_sender.h"

/* Of getopt_long's table; --help and --version are the last two. */
#define FEED_CALL_OPTIONS                                                                          \
    {"connect", required_argument, NULL, 'c'}, {"socket", required_argument, NULL, 'o'},           \
        {"epoch", required_argument, NULL, 'e'}, {"wait", required_argument, NULL, 'w'},           \
        {"linger", required_argument, NULL, 'l'}, {"key", required_argument, NULL, 'K'},           \
        {"server-key", required_argument, NULL, 'Y'}, {"quiet", no_argument, NULL, 'q'},           \
        {"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'}, {                   \
        "version", no_argument, NULL, 'V'                                                          \
    }

/* The caller fills in the program's name and what stands where an option is not given. */
struct feed_call {
    const char *program;
    struct sender_options to;
    uint32_t epoch;
    double wait, linger; /* seconds for somebody to connect, for delivery at the end; INFINITY: for
                            ever */
    const char *key, *server_key;
    bool epoch_given, quiet, verbose, help, version;
};

/* Take one of FEED_CALL_OPTIONS. EX_USAGE: its value is none. */
int feed_call_option(struct feed_call *call, int code, const char *value, struct feed_error *error);

/* Hand the options of getopt_long's `table` to `take`, one after the other; optind is then at the
   first operand. EX_USAGE for those that are not in it, or lack their value: `of` says whose they
   are, or is NULL. */
typedef int feed_take(void *context, int code, const char *value, struct feed_error *error);
int feed_call_parse(int count, char **arguments, const char *letters, const struct option *table,
                    const char *of, feed_take *take, void *context, struct feed_error *error);

/* All is parsed: the client's keys are ready, signals are counted in feed_signals, and sentences
   may be said; `line` as for progress_start. EX_USAGE: the keys cannot be used. */
int feed_call_start(struct feed_call *call, bool line, struct feed_error *error);

/* The program's exit status, after saying what went wrong. */
int feed_call_end(const struct feed_call *call, int status, const struct feed_error *error);

#endif
