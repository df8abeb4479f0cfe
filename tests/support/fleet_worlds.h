/* The same fleet twice: over a real Redis, and over the machine that decides on a log. What differs
   fails the running test. */
#ifndef RUNNEL_TESTS_FLEET_WORLDS_H
#define RUNNEL_TESTS_FLEET_WORLDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/fleet_link.h"
#include "common/error.h"
#include "machine_link.h"

enum { REDIS, MACHINE, WORLDS };
enum { PARTITIONS = 5 };

/* Three daemons have one name, and two of these one state directory; the last but one only looks,
   and the last does not belong here. */
enum { ANNA, BERT, CARL, OTHER_ANNA, COPY_OF_ANNA, ZOE, EVE, ACTORS, PLAYERS = ZOE };
extern const struct fleet_self selves[ACTORS];
extern struct machine_world *world;
extern struct fleet_link *links[ACTORS][WORLDS];

/* For whoever reads what differs. */
extern size_t step;
extern const char *doing;

void worlds_open(void);
void worlds_close(void);

#define differ(...)                                                                                \
    do {                                                                                           \
        print_error("step %zu, %s: ", step, doing);                                                \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

void same_text(const char *const text[WORLDS]);
void same_number(const char *what, uint64_t redis, uint64_t machine);

/* What both answered: whether it went well is given back. */
bool same_result(const int result[WORLDS], const struct error error[WORLDS]);

/* Call an operation in both worlds. */
#define both(good, actor, operation, ...)                                                          \
    do {                                                                                           \
        int result[WORLDS];                                                                        \
        struct error error[WORLDS];                                                                \
        for (int w = 0; w < WORLDS; w++)                                                           \
            result[w] = links[actor][w]->ops->operation(links[actor][w], __VA_ARGS__ & error[w]);  \
        good = same_result(result, error);                                                         \
    } while (0)

/* What both see, the machine's; to be freed. */
struct fleet_view worlds_look(void);

/* Whether the version has changed since the last time, once leases that are over have been seen. */
void same_versions(void);

/* Claims are numbered from here in both: Redis begins with its clock otherwise. */
#define CLAIM_FIRST UINT64_C(4000000000000000)

/* How each claim so far has ended, of the partition that it was of. */
void same_claims(uint64_t newest_claim, const size_t *partitions);

/* The states of a partition, "key=state" in order. */
enum { KEYS = 8, ROWS_SIZE = 16 };
struct found {
    size_t count;
    char row[KEYS + 1][2 * ROWS_SIZE];
};

struct found states(size_t partition);

#endif
