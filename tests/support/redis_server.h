/* A separate redis-server for tests, on a socket in its own directory, without files; it always
   ends with the test. And a fleet in it, whose leases end when a test requests it, without
   waiting. */
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

/* Whether the program exists; reports it if not. */
int redis_is_there(void);

/* cmocka's setup and teardown of a group. */
int redis_start(void **unused);
int redis_stop(void **unused);

/* Kills it, and starts another one without data. */
void redis_start_anew(void);
void redis_end(void);

/* A reply to a command, to be freed; fails the running test without a reply. */
redisReply *redis_ask(const char *format, ...);
void redis_do(const char *format, ...);

/* Runs the group, or reports that redis-server is missing: main's result. */
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

/* A commit of `count` examples, without states, from the claim's committed position. */
struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence);

struct fleet_ended ended(struct fleet_link *link, size_t partition, uint64_t claim);

#endif
