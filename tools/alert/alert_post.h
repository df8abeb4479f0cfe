/* Post an alert to a URL. */
#ifndef RUNNEL_ALERT_POST_H
#define RUNNEL_ALERT_POST_H

#include <stdbool.h>

#include <jansson.h>

struct error;

/* Whether the text is an http or https URL. */
bool post_is_url(const char *text);

/* POST the alert as application/json and wait for the answer, `seconds` at most in all. Redirects
   are not followed, what the answer says is not read. Returns 0 when it is a 2xx; else -1 with
   `error` filled, and *again when another try might help. Nothing in `error` tells the URL, which
   may be a secret. */
int post_send(const char *url, const json_t *alert, double seconds, bool *again,
              struct error *error);

#endif
