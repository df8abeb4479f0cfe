/* /api/...: JSON about the daemons and from the history. docs/reference/web-api.md has the paths. */
#ifndef RUNNEL_WEB_API_H
#define RUNNEL_WEB_API_H

#include "web_feed.h"
#include "web_reply.h"

/* The reply to a GET of `path`, which begins with "/api/". */
struct reply api_answer(const struct feeds *feeds, struct MHD_Connection *connection,
                        const char *path);

#endif
