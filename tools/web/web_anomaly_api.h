/* /api/anomalies: what daemons found abnormal, as it is recorded. docs/web-api.md has its form. */
#ifndef RUNNEL_WEB_ANOMALY_API_H
#define RUNNEL_WEB_ANOMALY_API_H

#include <microhttpd.h>

#include "web_feed.h"
#include "web_reply.h"

struct reply anomaly_answer(const struct feeds *feeds, struct MHD_Connection *connection);

#endif
