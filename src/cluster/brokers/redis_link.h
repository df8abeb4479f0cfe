/* Connections to Redis, or what speaks its protocol: Valkey, KeyDB. */
#ifndef RUNNEL_REDIS_LINK_H
#define RUNNEL_REDIS_LINK_H

#include <hiredis.h>

struct error;
struct url;

/* Connect, log in, and choose the database: blocking, a few seconds at most. NULL: EX_TEMPFAIL, it
   is not there or not ready, and the text is a clause that says why; EX_NOPERM or EX_UNAVAILABLE
   with a sentence: it makes no sense to try again. */
redisContext *redis_connect(const struct url *url, struct error *error);

/* The two parts of it: from the first on the context can be shut down by another thread. */
redisContext *redis_reach(const struct url *url, struct error *error);
int redis_log_in(redisContext *context, const struct url *url, struct error *error);

/* What the server's error says, as above. Returns -1. */
int redis_judge(const struct url *url, const char *text, struct error *error);

/* The context is done for: EX_TEMPFAIL with hiredis's reason. Returns -1. */
int redis_lost(const redisContext *context, struct error *error);

#endif
