/* A redis-server of the test's own, on a socket in a directory of its own, with nothing on disk. It
   ends with the test, whatever becomes of it. */
#ifndef RUNNEL_TESTS_REDIS_SERVER_H
#define RUNNEL_TESTS_REDIS_SERVER_H

#include <hiredis.h>

#include "cluster/brokers/url.h"

extern struct url redis_url;

/* Whether there is the program. */
int redis_is_there(void);

/* cmocka's setup and teardown of a group. */
int redis_start(void **unused);
int redis_stop(void **unused);

/* End it without a word, and start another one, which knows nothing. */
void redis_start_anew(void);
void redis_end(void);

/* An answer to a command, to be freed; fails the running test when there is none. */
redisReply *redis_ask(const char *format, ...);
void redis_do(const char *format, ...);

#endif
