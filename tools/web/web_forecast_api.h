/* /api/forecasts: what daemons have predicted of late, beside what came. docs/web-api.md has its
 * form. */
#ifndef RUNNEL_WEB_FORECAST_API_H
#define RUNNEL_WEB_FORECAST_API_H

#include <microhttpd.h>

#include "web_feed.h"
#include "web_reply.h"

struct reply forecast_answer(const struct feeds *feeds, struct MHD_Connection *connection);

#endif
