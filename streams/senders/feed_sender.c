#include "feed_sender.h"

#include "streams/feed.h"

int sender_open(struct sender *sender, const struct sender_options *options,
                const struct outlet_waiter *waiter, struct error *error) {
    return options->router
               ? router_open(&sender->router, options->endpoint, &options->keys, waiter, error)
               : outlet_open(&sender->outlet, options->endpoint, options->bind, &options->keys,
                             waiter, error);
}

int sender_wait(struct sender *sender, double seconds, struct error *error) {
    return sender->router ? router_wait(sender->router, seconds, error)
                          : outlet_wait(sender->outlet, seconds, error);
}

int sender_listen(struct sender *sender, struct error *error) {
    if (sender->router)
        return router_listen(sender->router, error);
    outlet_listen(sender->outlet);
    return 0;
}

int sender_send(struct sender *sender, const struct message *message, struct error *error) {
    return sender->router ? router_send(sender->router, message, error)
                          : outlet_send(sender->outlet, message, error);
}

int sender_close(struct sender *sender, double linger, struct router_figures *figures,
                 struct error *error) {
    return sender->router ? router_close(&sender->router, linger, figures, error)
                          : outlet_close(&sender->outlet, linger, error);
}
