/* /api/...: JSON about daemons and history. See docs/reference/web-api.md. */
#ifndef RUNNEL_WEB_API_H
#define RUNNEL_WEB_API_H

#include "web_feed.h"
#include "web_reply.h"

/* Answers a GET of `path`, which begins with "/api/". */
struct reply api_answer(const struct feeds *feeds, struct MHD_Connection *connection,
                        const char *path);

#endif
