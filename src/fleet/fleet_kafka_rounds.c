/* Averages. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "fleet_kafka_internal.h"

int kafka_arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                 uint64_t *round, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_span span = {0};
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_ARRIVE, .serial = serial};
    if (kafka_follow(kafka, true, error) ||
        kafka_write_bytes(kafka, parameters, size, &span, error))
        return -1;
    fleet_span_print(&span, command.where);
    if (kafka_ask(kafka, &command, &answer, error))
        return -1;
    *round = answer.number;
    return 0;
}

int kafka_pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_PASS, .round = round};
    return kafka_ask(kafka_of(link), &command, &answer, error);
}

int kafka_round(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {
        .kind = FLEET_COMMAND_ROUND, .round = round, .lease = kafka_lease(kafka)};
    const char *text = NULL;
    *names = NULL;
    if (kafka_follow(kafka, true, error))
        return -1;
    enum fleet_round_state state =
        fleet_machine_round(kafka->machine, round, kafka_lease(kafka), kafka_now(), &text);
    if (state == FLEET_ROUND_DUE) {
        if (kafka_ask(kafka, &command, &answer, error))
            return -1;
        state = fleet_machine_round(kafka->machine, round, kafka_lease(kafka), 0, &text);
    }
    if (state == FLEET_ROUND_CLOSED && !(*names = strdup(text)))
        return error_no_memory(error);
    return 0;
}

int kafka_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                     size_t *size, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_span span;
    char where[FLEET_WHERE_SIZE];
    unsigned char *found;
    *bytes = NULL;
    if (kafka_follow(kafka, true, error))
        return -1;
    if (!fleet_machine_where(kafka->machine, round, name, where) || !fleet_span_scan(where, &span))
        return error_set(error, EX_UNAVAILABLE,
                         "%s has the parameters of %s in round %" PRIu64 " no more",
                         kafka->options->servers, name, round);
    int result = kafka_read(kafka, kafka->parameters, 0, &span, &found, size, error);
    *bytes = found;
    return result;
}
