/* /metrics: the newest numbers of each daemon, as Prometheus reads them. */
#ifndef RUNNEL_WEB_METRICS_H
#define RUNNEL_WEB_METRICS_H

#include "web_feed.h"
#include "web_guesses.h"
#include "web_reply.h"

/* In OpenMetrics 1.0 when `open`, else in the text format 0.0.4 of Prometheus. A number that is not
   there, or not finite, is NaN once its daemon has sent a message that should have it. `guesses`:
   NULL where there is no token. */
struct reply metrics_answer(const struct feeds *feeds, const struct guesses *guesses, bool open);

/* Whether a header `Accept` (NULL = none) asks for OpenMetrics. */
bool metrics_wants_open(const char *accept);

#endif
