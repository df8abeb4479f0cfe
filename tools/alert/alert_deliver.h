/* Deliver alerts to a command and to a URL, one after another, on a thread of its own: watching
   never waits for them. */
#ifndef RUNNEL_ALERT_DELIVER_H
#define RUNNEL_ALERT_DELIVER_H

#include <jansson.h>

enum { DELIVER_WAITING = 1000 }; /* alerts; of more the oldest are lost, and that is reported */

struct deliver_options {
    char *const *command; /* words ending with NULL; NULL = none */
    const char *url;      /* NULL = none */
    double seconds;       /* that one command, or one try to post, may take */
};

struct deliver;

/* `options` must outlive it. Returns EX_OK, or prints an error and returns an exit status. Later
   errors are printed on standard error. */
int deliver_open(struct deliver **deliver, const struct deliver_options *options);

/* Wait until all is delivered, except second and later tries; then end. */
void deliver_close(struct deliver **deliver);

/* Takes over the reference to the alert. */
void deliver_add(struct deliver *deliver, json_t *alert);

#endif
