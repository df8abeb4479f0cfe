/* /metrics: the newest numbers of each daemon for Prometheus. */
#ifndef RUNNEL_WEB_METRICS_H
#define RUNNEL_WEB_METRICS_H

#include "web_feed.h"
#include "web_guesses.h"
#include "web_reply.h"

/* OpenMetrics 1.0 when `open`, else the text format 0.0.4 of Prometheus. A number that is missing
   or not finite is NaN, once its daemon has sent a message with the topic. `guesses`: NULL without
   a token. */
struct reply metrics_answer(const struct feeds *feeds, const struct guesses *guesses, bool open);

/* Whether a header `Accept` (NULL = none) requests OpenMetrics. */
bool metrics_wants_open(const char *accept);

#endif
