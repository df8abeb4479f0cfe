/* Connections to Redis and compatible servers (Valkey, KeyDB). */
#ifndef RUNNEL_REDIS_LINK_H
#define RUNNEL_REDIS_LINK_H

#include <hiredis.h>

struct error;
struct url;

/* Connects, logs in and selects the database; blocks for a few seconds at most. Returns NULL with
   EX_TEMPFAIL and a clause if the server is not available. EX_NOPERM and EX_UNAVAILABLE have a
   whole sentence: a retry does not help. */
redisContext *redis_connect(const struct url *url, struct error *error);

/* The two steps of redis_connect. After the first, another thread may shut down the context. */
redisContext *redis_reach(const struct url *url, struct error *error);
int redis_log_in(redisContext *context, const struct url *url, struct error *error);

/* Sets the error for a server's error reply, as redis_connect does. Returns -1. */
int redis_fail(const struct url *url, const char *text, struct error *error);

/* Sets EX_TEMPFAIL with hiredis's reason for a broken context. Returns -1. */
int redis_lost(const redisContext *context, struct error *error);

#endif
