/* Redis streams: XADD, confirmed by the server's answer. */
#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/brokers/redis_link.h"
#include "common/error.h"
#include "relay_sink.h"

enum { NUMBER_SIZE = 24 };

struct sink {
    struct sink_options options;
    redisContext *context;
    char keep[NUMBER_SIZE];
};

static int open_redis(struct sink **result, const struct sink_options *options,
                      struct error *error) {
    struct sink *sink = *result = calloc(1, sizeof *sink);
    if (!sink)
        return error_no_memory(error);
    sink->options = *options;
    snprintf(sink->keep, sizeof sink->keep, "%llu", (unsigned long long)options->keep);
    return 0;
}

static int connect_redis(struct sink *sink, struct error *error) {
    sink->context = redis_connect(&sink->options.url, error);
    return sink->context ? 0 : -1;
}

static void disconnect_redis(struct sink *sink) {
    if (sink->context)
        redisFree(sink->context);
    sink->context = NULL;
}

static void append(struct sink *sink, const struct sink_message *message) {
    if (sink->options.keep)
        redisAppendCommand(sink->context, "XADD %s MAXLEN ~ %s * message %b", message->topic,
                           sink->keep, message->text, message->size);
    else
        redisAppendCommand(sink->context, "XADD %s * message %b", message->topic, message->text,
                           message->size);
}

static int receive_reply(struct sink *sink, struct error *error) {
    void *got = NULL;
    if (redisGetReply(sink->context, &got) != REDIS_OK)
        return redis_lost(sink->context, error);
    redisReply *reply = got;
    int status =
        reply->type == REDIS_REPLY_ERROR ? redis_fail(&sink->options.url, reply->str, error) : 0;
    freeReplyObject(reply);
    return status;
}

static int write_redis(struct sink *sink, struct sink_message *messages, size_t count,
                       struct error *error) {
    for (size_t n = 0; n < count; n++)
        append(sink, &messages[n]);
    for (size_t n = 0; n < count; n++)
        if (receive_reply(sink, error) < 0)
            return -1;
    return 0;
}

const struct sink_type sink_redis = {
    .name = "redis",
    .schemes = REDIS_URL_SCHEMES,
    .form = REDIS_URL_FORM,
    .topic = "runnel:{topic}",
    .replaced = "+#/ \t\r\n",
    .open = open_redis,
    .connect = connect_redis,
    .write = write_redis,
    .disconnect = disconnect_redis,
};
