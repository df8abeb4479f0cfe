/* Connections to Kafka and compatible servers (Redpanda, Azure Event Hubs). librdkafka reconnects
   by itself, after pauses that grow to ten seconds. */
#ifndef RUNNEL_KAFKA_LINK_H
#define RUNNEL_KAFKA_LINK_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

#include "kafka_options.h"

struct error;

/* Builds the configuration of a client: first `count` settings of the program (name, value), then
   the options. Returns NULL on an error: EX_USAGE for an invalid setting, EX_NOINPUT. */
rd_kafka_conf_t *kafka_settings(const char *const (*settings)[2], size_t count,
                                const struct kafka_options *options, struct error *error);

/* Creates a client. It frees the settings, also on failure. Fails with EX_USAGE if they contradict
   each other. */
int kafka_client(rd_kafka_t **client, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                 struct error *error);

/* Destroys a client; destroy its topics and queues first. A consumer leaves its group. NULL is
   allowed.

   librdkafka waits minutes for the answer to each commit, and forever if a topic was deleted. After
   a second this wait therefore continues in a thread of its own, without callbacks. */
void kafka_end(rd_kafka_t **client);

/* The operation that failed, for the error message. */
struct kafka_aim {
    const char *operation; /* as access lists name it: "Read" */
    const char *topic;     /* the topic of the operation */
    const char *group;     /* the group that needs "Read"; NULL: unknown, or none */
};

/* Whether the code means that access is denied. kafka_report_refused sets the error (EX_NOPERM) and
   returns -1. */
bool kafka_refuses(rd_kafka_resp_err_t code);
int kafka_report_refused(struct error *error, const struct kafka_options *options,
                         rd_kafka_resp_err_t code, const struct kafka_aim *aim, const char *why);

/* kafka_keep_why keeps the reason from librdkafka's error callback: it comes before the error that
   no server is available. kafka_report_away makes a clause of it (EX_TEMPFAIL) and returns -1. */
enum { KAFKA_WHY_SIZE = 512 };
void kafka_keep_why(char kept[KAFKA_WHY_SIZE], rd_kafka_resp_err_t code, const char *why);
int kafka_report_away(struct error *error, const struct kafka_options *options,
                      const char kept[KAFKA_WHY_SIZE]);

/* Whether an operation that failed with this code may succeed later. */
bool kafka_passes(rd_kafka_resp_err_t code);

/* Asks for the first and the next offset of a partition, with a time limit:
   rd_kafka_query_watermark_offsets may take minutes. */
rd_kafka_resp_err_t kafka_ask_offsets(rd_kafka_t *client, const char *topic, int32_t partition,
                                      int64_t *low, int64_t *high, int milliseconds);

/* Whether a server answers within this time. */
bool kafka_answers(rd_kafka_t *client, int milliseconds);

#endif
