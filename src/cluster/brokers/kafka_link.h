/* Connections to Kafka, or what speaks its protocol: Redpanda, Azure Event Hubs. librdkafka
   connects again by itself, after pauses that grow to ten seconds. */
#ifndef RUNNEL_KAFKA_LINK_H
#define RUNNEL_KAFKA_LINK_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

#include "kafka_options.h"

struct error;

/* Settings of a program, (count,) of names and values, and what the options say after them. NULL:
   EX_USAGE, librdkafka takes none like that; EX_NOINPUT. */
rd_kafka_conf_t *kafka_settings(const char *const (*settings)[2], size_t count,
                                const struct kafka_options *options, struct error *error);

/* A client; the settings are taken, also when it fails. EX_USAGE: they contradict each other. */
int kafka_client(rd_kafka_t **client, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                 struct error *error);

/* Destroys a client, whose topics and queues have been destroyed; a consumer leaves its group.
   NULL: there is none. librdkafka waits for the answer to each commit, for minutes, and for ever
   where a topic that it reads was deleted: after a second that goes on by itself, as long as the
   process does, and calls nobody back. */
void kafka_end(rd_kafka_t **client);

/* What somebody wanted to do. */
struct kafka_aim {
    const char *operation; /* "Read", as access lists call it, */
    const char *topic;     /* on this topic, */
    const char *group;     /* for this group, which it has to read; NULL: it is not known, or none
                            */
};

/* Whether the code says that this user is not admitted, and the sentence: EX_NOPERM. Returns -1. */
bool kafka_refuses(rd_kafka_resp_err_t code);
int kafka_say_refused(struct error *error, const struct kafka_options *options,
                      rd_kafka_resp_err_t code, const struct kafka_aim *aim, const char *why);

/* Keep why a server cannot be reached, as librdkafka's error callback tells it before it says that
   none can; and the clause: EX_TEMPFAIL. Returns -1. */
enum { KAFKA_WHY_SIZE = 512 };
void kafka_keep_why(char kept[KAFKA_WHY_SIZE], rd_kafka_resp_err_t code, const char *why);
int kafka_say_away(struct error *error, const struct kafka_options *options,
                   const char kept[KAFKA_WHY_SIZE]);

/* Whether what failed with the code may go well the next time, since servers come and go. */
bool kafka_passes(rd_kafka_resp_err_t code);

/* The first offset of a partition, and the next one to be written, as its server says within so
   many milliseconds (rd_kafka_query_watermark_offsets has no limit: it may take minutes). */
rd_kafka_resp_err_t kafka_ask_offsets(rd_kafka_t *client, const char *topic, int32_t partition,
                                      int64_t *low, int64_t *high, int milliseconds);

/* Whether a server answers within so many milliseconds. */
bool kafka_answers(rd_kafka_t *client, int milliseconds);

#endif
