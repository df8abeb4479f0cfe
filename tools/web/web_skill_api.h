/* /api/skill: how good each number of the targets, each expert and each member was in the newest
   `loss` message of a run. docs/web-api.md has its form. */
#ifndef RUNNEL_WEB_SKILL_API_H
#define RUNNEL_WEB_SKILL_API_H

#include <microhttpd.h>

#include "web_feed.h"
#include "web_reply.h"

struct reply skill_answer(const struct feeds *feeds, struct MHD_Connection *connection);

#endif
