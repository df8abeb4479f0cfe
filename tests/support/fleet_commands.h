/* Commands of daemons of a fleet on a log, without a log: they go through their bytes, and before
   each one the machine goes through a snapshot, which must change nothing. */
#ifndef RUNNEL_TESTS_FLEET_COMMANDS_H
#define RUNNEL_TESTS_FLEET_COMMANDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/fleet_machine.h"
#include "common/error.h"

enum { PARTITIONS = 4, LEASE = 1000 };

extern struct fleet_machine *machine;
extern struct fleet_answer answer; /* of the last command */
extern struct error error;
extern uint64_t now;    /* ms, of the next message */
extern uint64_t number; /* of the last command */

#define good(call)                                                                                 \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s", error.text);                                                            \
    } while (0)

/* cmocka's setup and teardown of a test: a fleet that has never been. */
int machine_begin(void **unused);
int machine_end(void **unused);

enum fleet_verdict apply(const struct fleet_command *command);

/* Of a daemon, whose id and run are called as it is. */
struct fleet_command of(const char *name, enum fleet_command_kind kind);
enum fleet_verdict do_it(const char *name, enum fleet_command_kind kind);

/* Those that are done. take: the new claim, or 0; `seen`: the one before. renew: the version. */
void join(const char *name);
uint64_t renew(const char *name);
uint64_t take(const char *name, size_t partition, uint64_t seen);
struct fleet_learned learned(size_t partition, uint64_t claim, uint64_t sequence);
enum fleet_result commit(const char *name, struct fleet_learned learned, bool release);

struct fleet_ended ended(uint64_t claim);
struct fleet_view view(void); /* to be freed */

/* Anna has partition 0, bert 1, and carl nothing. */
void begin_rounds(void);
uint64_t arrive(const char *name, uint64_t serial);
void close_round(const char *name, uint64_t round);
void is_closed(uint64_t round, const char *names);
enum fleet_round_state state_of(uint64_t round);

#endif
