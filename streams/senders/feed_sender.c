#include "feed_sender.h"

#include <string.h>
#include <sysexits.h>

#include "streams/feed.h"

int sender_parse_socket(struct sender_options *options, const char *value,
                        struct feed_error *error) {
    options->router = strcmp(value, "router") == 0;
    if (options->router || strcmp(value, "push") == 0)
        return 0;
    return feed_fail(error, EX_USAGE, "--socket: found '%s', expected push or router", value);
}

int sender_open(struct sender *sender, const struct sender_options *options,
                const struct outlet_waiter *waiter, struct feed_error *error) {
    return options->router
               ? router_open(&sender->router, options->endpoint, &options->keys, waiter, error)
               : outlet_open(&sender->outlet, options->endpoint, options->bind, &options->keys,
                             waiter, error);
}

int sender_wait(struct sender *sender, double seconds, struct feed_error *error) {
    return sender->router ? router_wait(sender->router, seconds, error)
                          : outlet_wait(sender->outlet, seconds, error);
}

int sender_listen(struct sender *sender, struct feed_error *error) {
    if (sender->router)
        return router_listen(sender->router, error);
    outlet_listen(sender->outlet);
    return 0;
}

int sender_send(struct sender *sender, const struct message *message, struct feed_error *error) {
    return sender->router ? router_send(sender->router, message, error)
                          : outlet_send(sender->outlet, message, error);
}

int sender_close(struct sender *sender, double linger, struct router_figures *figures,
                 struct feed_error *error) {
    return sender->router ? router_close(&sender->router, linger, figures, error)
                          : outlet_close(&sender->outlet, linger, error);
}
