#include "fleet_commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fleet_machine *machine;
struct fleet_answer answer;
struct error error;
uint64_t now, number;

static uint64_t position;

int machine_begin(void **unused) {
    (void)unused;
    now = LEASE;
    position = 0;
    machine = fleet_machine_open(&error);
    return machine ? 0 : -1;
}

int machine_end(void **unused) {
    (void)unused;
    fleet_machine_close(&machine);
    return 0;
}

/* The machine from a snapshot of it, which has the same snapshot. */
static void save_and_load(void) {
    size_t size, again;
    uint64_t where;
    void *bytes = fleet_machine_save(machine, ++position, &size, &error);
    assert_non_null(bytes);
    fleet_machine_close(&machine);
    machine = fleet_machine_load(bytes, size, &where, &error);
    if (!machine)
        fail_msg("%s", error.text);
    assert_int_equal(where, position);
    void *copy = fleet_machine_save(machine, position, &again, &error);
    assert_int_equal(again, size);
    assert_memory_equal(copy, bytes, size);
    free(copy);
    free(bytes);
}

enum fleet_verdict apply(const struct fleet_command *command) {
    struct fleet_command read;
    size_t size;
    char *bytes = fleet_command_encode(command, &size);
    save_and_load();
    good(fleet_command_decode(bytes, size, &read, &error));
    good(fleet_machine_apply(machine, now, &read, &answer, &error));
    fleet_command_free(&read);
    free(bytes);
    return answer.verdict;
}

/* ---- Commands of a daemon, whose id and run are called as it is ---- */

struct fleet_command of(const char *name, enum fleet_command_kind kind) {
    return (struct fleet_command){.kind = kind,
                                  .name = name,
                                  .id = name,
                                  .run = name,
                                  .number = ++number,
                                  .lease = LEASE,
                                  .stream = "s",
                                  .digest = "d",
                                  .partitions = PARTITIONS,
                                  .every = 10};
}

enum fleet_verdict do_it(const char *name, enum fleet_command_kind kind) {
    const struct fleet_command command = of(name, kind);
    return apply(&command);
}

void join(const char *name) {
    assert_int_equal(do_it(name, FLEET_COMMAND_JOIN), FLEET_DONE);
}

uint64_t renew(const char *name) {
    assert_int_equal(do_it(name, FLEET_COMMAND_RENEW), FLEET_DONE);
    return answer.number;
}

/* The new claim, or 0; `seen`: the one before. */
uint64_t take(const char *name, size_t partition, uint64_t seen) {
    struct fleet_command command = of(name, FLEET_COMMAND_TAKE);
    struct fleet_take take = {partition, seen};
    command.takes = &take;
    command.count = 1;
    assert_int_equal(apply(&command), FLEET_DONE);
    return answer.results[0];
}

struct fleet_learned learned(size_t partition, uint64_t claim, uint64_t sequence) {
    return (struct fleet_learned){
        .partition = partition, .claim = claim, .offset = {7, sequence}, .learned = sequence};
}

enum fleet_result commit(const char *name, struct fleet_learned learned, bool release) {
    struct fleet_command command = of(name, FLEET_COMMAND_COMMIT);
    command.commits = &learned;
    command.count = 1;
    command.release = release;
    assert_int_equal(apply(&command), FLEET_DONE);
    return (enum fleet_result)answer.results[0];
}

struct fleet_ended ended(uint64_t claim) {
    struct fleet_ended one = {.claim = claim};
    fleet_machine_ended(machine, &one);
    return one;
}

struct fleet_view view(void) {
    struct fleet_view seen;
    good(fleet_machine_view(machine, 0, &seen, &error));
    return seen;
}
/* ---- Rounds ---- */

uint64_t arrive(const char *name, uint64_t serial) {
    struct fleet_command command = of(name, FLEET_COMMAND_ARRIVE);
    command.serial = serial;
    snprintf(command.where, sizeof command.where, "%s's %d", name, (int)serial);
    assert_int_equal(apply(&command), FLEET_DONE);
    return answer.number;
}

void is_closed(uint64_t round, const char *names) {
    const char *found;
    enum fleet_round_state state = fleet_machine_round(machine, round, LEASE, now, &found);
    assert_int_equal(state, FLEET_ROUND_CLOSED);
    assert_string_equal(found, names);
}

enum fleet_round_state state_of(uint64_t round) {
    const char *found;
    enum fleet_round_state state = fleet_machine_round(machine, round, LEASE, now, &found);
    assert_true(state == FLEET_ROUND_CLOSED || !found);
    return state;
}

void close_round(const char *name, uint64_t round) {
    struct fleet_command command = of(name, FLEET_COMMAND_ROUND);
    command.round = round;
    assert_int_equal(apply(&command), FLEET_DONE);
}

void begin_rounds(void) {
    join("anna");
    join("bert");
    join("carl"); /* has nothing: nobody waits for it */
    take("anna", 0, 0);
    take("bert", 1, 0);
}
