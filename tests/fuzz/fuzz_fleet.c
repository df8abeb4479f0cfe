/* A fleet on a log, after a byte that says what the rest is. 'l': its log, a line for each message,
   which begins with a byte for the seconds since the one before. 's': a snapshot without its first
   line and its hash. 'p': a piece of a snapshot. Whatever it is, what is accepted has the same
   bytes again, and the machine goes on. */
#include <stdlib.h>
#include <string.h>

#include "cluster/fleet_machine.h"
#include "cluster/fleet_rows.h"
#include "common/error.h"
#include "common/hash.h"
#include "fuzz.h"

#define HEAD "runnel fleet machine 1\n"

enum { HASH_SIZE = 8, MS = 1000 };

static struct fleet_machine *open_machine(void) {
    struct error error;
    struct fleet_machine *machine = fleet_machine_open(&error);
    REQUIRE(machine, "no memory");
    return machine;
}

/* ---- What must hold of any machine ---- */

static void require_same(const struct fleet_machine *machine) {
    struct error error = {0};
    uint64_t position;
    size_t size, again;
    void *bytes = fleet_machine_save(machine, 1, &size, &error);
    struct fleet_machine *copy = bytes ? fleet_machine_load(bytes, size, &position, &error) : NULL;
    REQUIRE(copy && position == 1, "a machine cannot be loaded: %s", error.text);
    void *other = fleet_machine_save(copy, 1, &again, &error);
    REQUIRE(other && again == size && !memcmp(bytes, other, size), "a machine is another one");
    fleet_machine_close(&copy);
    free(bytes);
    free(other);
}

static void require_good(const struct fleet_machine *machine) {
    struct fleet_view view;
    struct error error;
    const char *names;
    REQUIRE(!fleet_machine_view(machine, 0, &view, &error), "no view");
    for (size_t n = 1; n < view.daemon_count; n++)
        REQUIRE(strcmp(view.daemons[n - 1].name, view.daemons[n].name) < 0, "names not in order");
    for (size_t n = 0; n < view.partition_count; n++) {
        struct fleet_claim claim = {.partition = n};
        REQUIRE(view.partitions[n].owner < (int)view.daemon_count, "an owner that is not there");
        REQUIRE(fleet_machine_claim(machine, &claim) && claim.claim == view.partitions[n].claim,
                "another claim");
    }
    for (uint64_t round = 0; round < 3; round++) {
        char where[FLEET_WHERE_SIZE];
        if (fleet_machine_round(machine, round, 1, 0, &names) == FLEET_ROUND_CLOSED)
            fleet_machine_where(machine, round, "a", where);
    }
    fleet_view_free(&view);
    require_same(machine);
}

/* ---- A log ---- */

static void require_same_bytes(const struct fleet_command *command) {
    struct fleet_command read;
    struct error error = {0};
    size_t size, again;
    char *bytes = fleet_command_encode(command, &size);
    REQUIRE(bytes && !fleet_command_decode(bytes, size, &read, &error),
            "a command cannot be read: %s", error.text);
    char *other = fleet_command_encode(&read, &again);
    REQUIRE(other && size == again && !memcmp(bytes, other, size), "a command is another one");
    fleet_command_free(&read);
    free(bytes);
    free(other);
}

/* Whether it is a command. */
static bool play_line(struct fleet_machine *machine, struct fuzz_input line, uint64_t *time) {
    struct fleet_command command;
    struct fleet_answer answer;
    struct error error = {0};
    *time += (uint64_t)fuzz_byte(&line) * MS;
    size_t size = line.size;
    void *block = fuzz_block(&line, &size);
    int result = fleet_command_decode(block, size, &command, &error);
    if (result)
        fuzz_require_sentence(error.text);
    else
        require_same_bytes(&command);
    if (result)
        fleet_machine_skip(machine, *time);
    else
        REQUIRE(!fleet_machine_apply(machine, *time, &command, &answer, &error), "no memory");
    fleet_command_free(&command);
    free(block);
    return result == 0;
}

static bool play_log(struct fuzz_input input) {
    struct fleet_machine *machine = open_machine();
    uint64_t time = 0;
    bool all = true;
    while (input.size > 0) {
        const uint8_t *end = memchr(input.bytes, '\n', input.size);
        size_t size = end ? (size_t)(end - input.bytes) : input.size;
        all &= play_line(machine, (struct fuzz_input){input.bytes, size}, &time);
        size += end != NULL;
        input.bytes += size;
        input.size -= size;
    }
    require_good(machine);
    fleet_machine_close(&machine);
    return all;
}

/* ---- Snapshots ---- */

static void apply(struct fleet_machine *machine, struct fleet_command *command) {
    struct fleet_answer answer;
    struct error error = {0};
    command->name = "zoe";
    command->id = "z";
    command->run = "r";
    command->number++;
    REQUIRE(
        !fleet_machine_apply(machine, fleet_machine_time(machine) + MS, command, &answer, &error),
        "%s", error.text);
}

/* Whether it has counted to more than a snapshot may say: none does that in a thousand years. */
static bool counts_too_far(const struct fleet_machine *machine) {
    const uint64_t last = INT64_MAX / 2;
    struct fleet_claim claim = {.partition = 0};
    struct fleet_view view;
    struct error error;
    REQUIRE(!fleet_machine_view(machine, 0, &view, &error), "no view");
    bool far = fleet_machine_version(machine) > last || view.round > last ||
               (fleet_machine_claim(machine, &claim) && claim.claim > last);
    fleet_view_free(&view);
    return far;
}

/* A daemon comes, takes what is free, and goes. */
static void go_on(struct fleet_machine *machine) {
    const struct fleet_kind kind = fleet_machine_kind(machine);
    struct fleet_claim known = {.partition = 0};
    struct fleet_take take = {.partition = 0};
    struct fleet_command command = {.kind = FLEET_COMMAND_JOIN,
                                    .stream = kind.stream ? kind.stream : "s",
                                    .digest = kind.digest ? kind.digest : "d",
                                    .partitions = kind.stream ? kind.partitions : 1,
                                    .every = kind.every,
                                    .lease = MS};
    apply(machine, &command);
    if (fleet_machine_claim(machine, &known))
        take.claim = known.claim;
    command.kind = FLEET_COMMAND_TAKE;
    command.takes = &take;
    command.count = 1;
    apply(machine, &command);
    command.count = 0;
    command.kind = FLEET_COMMAND_ARRIVE;
    command.serial = 1;
    apply(machine, &command);
    command.kind = FLEET_COMMAND_LEAVE;
    apply(machine, &command);
    if (!counts_too_far(machine))
        require_good(machine);
}

static bool play_snapshot(struct fuzz_input input) {
    const size_t head = strlen(HEAD), size = head + input.size + HASH_SIZE;
    unsigned char *bytes = malloc(size);
    struct error error = {0};
    uint64_t position;
    REQUIRE(bytes, "no memory");
    memcpy(bytes, HEAD, head);
    if (input.size)
        memcpy(bytes + head, input.bytes, input.size);
    uint64_t hash = hash_bytes(HASH_BEGIN, bytes, head + input.size);
    for (size_t n = 0; n < HASH_SIZE; n++)
        bytes[head + input.size + n] = (unsigned char)(hash >> 8 * n);
    struct fleet_machine *machine = fleet_machine_load(bytes, size, &position, &error);
    bool loaded = machine != NULL;
    if (loaded) {
        require_good(machine);
        go_on(machine);
    } else {
        fuzz_require_sentence(error.text);
    }
    fleet_machine_close(&machine);
    free(bytes);
    return loaded;
}

static bool play_piece(struct fuzz_input input) {
    struct fleet_pieces pieces = {.bytes = NULL};
    size_t size = input.size;
    void *block = fuzz_block(&input, &size);
    int result = fleet_pieces_add(&pieces, block, size);
    REQUIRE(result >= 0, "no memory");
    REQUIRE(!result || pieces.size <= size, "a piece with more than it has");
    fleet_pieces_free(&pieces);
    free(block);
    return result > 0;
}

bool fuzz_fleet(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    switch (fuzz_byte(&input)) {
    case 'l':
        return play_log(input);
    case 's':
        return play_snapshot(input);
    default:
        return play_piece(input);
    }
}
