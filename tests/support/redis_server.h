/* A redis-server of the test's own, on a socket in a directory of its own, with nothing on disk; it
   ends with the test, whatever becomes of it. And a fleet in it, whose leases are over when a test
   says so; none is waited for. */
#ifndef RUNNEL_TESTS_REDIS_SERVER_H
#define RUNNEL_TESTS_REDIS_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hiredis.h>

#include "cluster/brokers/url.h"
#include "cluster/fleet_link.h"
#include "common/error.h"

extern struct url redis_url;

/* Whether there is the program: else it is said. */
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

/* Runs the group, or says that there is no redis-server: main's result. */
enum { REDIS_SKIPPED = 77 };
#define REDIS_RUN(tests)                                                                           \
    (redis_is_there() ? cmocka_run_group_tests(tests, redis_start, redis_stop) : REDIS_SKIPPED)

/* ---- A fleet in it ---- */

enum { PARTITIONS = 4 };
extern const struct fleet_self anna;
extern struct error error;

#define good(call)                                                                                 \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s", error.text);                                                            \
    } while (0)

struct fleet_link *fleet_redis_link(const struct fleet_self *self);

void end_lease(const char *name);

/* A commit of so many examples, without states, over what the claim knows as committed. */
struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence);

struct fleet_ended ended(struct fleet_link *link, size_t partition, uint64_t claim);

#endif
