/* Two daemons of a fleet, anna and bert, who know of each other through a real Redis: two links in
   one process. A lease is over when a test says so; none is waited for. */
#ifndef RUNNEL_TESTS_FLEET_PAIR_H
#define RUNNEL_TESTS_FLEET_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/fleet_link.h"
#include "common/error.h"
#include "redis_server.h"

enum { PARTITIONS = 4 };

extern const struct fleet_self anna;
extern struct fleet_self bert;
extern struct fleet_link *a, *b;
extern struct error error;

#define good(call)                                                                                 \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s", error.text);                                                            \
    } while (0)

/* cmocka's setup and teardown of a test: an empty server; both have joined, with begin_joined. */
int pair_begin(void **unused);
int pair_begin_joined(void **unused);
int pair_end(void **unused);
#define joined(name) cmocka_unit_test_setup_teardown(name, pair_begin_joined, pair_end)

struct fleet_link *pair_open(const struct fleet_self *self);

void end_lease(const char *name);

/* A whole view, to be freed. */
struct fleet_view look(struct fleet_link *link);

/* Claims of `count` partitions from the first, as that daemon sees them; how many it got. */
size_t take(struct fleet_link *link, struct fleet_claim *claims, size_t first, size_t count);

/* A commit of so many examples, without states, over what the claim knows as committed. */
struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence);

/* Stage one state, NULL: the stream is forgotten. `rows` of the commit counts it. */
void stage(struct fleet_link *link, struct fleet_commit *commit, const char *key,
           const char *state);

/* Commit one, with `release` or without. */
void commit(struct fleet_link *link, struct fleet_commit *one, bool release);

/* "key=state " of all that is committed, by the key. */
const char *states(struct fleet_link *link, size_t partition);

struct fleet_ended ended(struct fleet_link *link, size_t partition, uint64_t claim);

/* Runs the group, or says that there is no redis-server: main's result. */
#define PAIR_RUN(tests)                                                                            \
    (pair_is_there() ? cmocka_run_group_tests(tests, redis_start, redis_stop) : PAIR_SKIPPED)
enum { PAIR_SKIPPED = 77 };
int pair_is_there(void);

#endif
