/* A NATS JetStream stream. A message is an example and is acknowledged once the daemon has it on
   disk. Its number in the stream is the example's, so that a repeated message is a duplicate.

   Numbers must rise, but a consumer delivers unacknowledged messages again after newer ones. So the
   consumer is created again for each connection, and begins after its acknowledged messages. It
   only stores that position. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/brokers/nats_link.h"
#include "common/clock.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

#define HEARTBEAT_SECONDS 5  /* of the server, while it has no message */
#define SILENCE_SECONDS 20.0 /* after this time without any message, reconnect */
/* longer than any connection waits, so that nothing is delivered again */
#define ACK_WAIT_SECONDS 3600

enum {
    ID_SIZE = 320,
    IDLE_MS = FEED_TICK_MS, /* while waiting for messages */
    BUSY_MS = 5,            /* while also waiting for answers */
    FLUSH_MS = 2000,
    UNACKNOWLEDGED_MAX = 10000,
};

/* An unacknowledged message of this connection; a list in order. */
struct delivered {
    struct delivered *next;
    natsMsg *message;
    uint64_t sequence;
};

struct nats {
    struct source source; /* in `pending`, `first` is the number */
    struct nats_options options;
    const char *consumer, *filter;
    uint64_t from;
    const char *stream;

    struct retry retry;
    natsConnection *connection; /* NULL: not connected */
    jsCtx *jetstream;
    natsSubscription *subscription;
    double received_at;               /* clock_seconds of the newest message */
    uint64_t seen;                    /* number of the newest received message, 0 = none */
    uint64_t settled_to;              /* all messages up to this number are settled, 0 = none yet */
    struct delivered *first, **after; /* the list, and its end */
    struct payload *payload;
    struct message_number number;
    char id[ID_SIZE];
};

static void set_defaults(struct source *source) {
    struct nats *nats = (struct nats *)source;
    nats->options.url = NATS_URL;
    nats->consumer = "runnel";
    nats->after = &nats->first;
}

static const struct option_row OPTIONS[] = {
    NATS_OPTIONS(struct nats, options),
    {"consumer", 0, "NAME",
     "the durable consumer, which stores the acknowledged position; each feeder needs its own "
     "(default runnel)",
     OPTION_TEXT(struct nats, consumer)},
    {"filter", 0, "SUBJECT", "only messages of this subject, such as sensors.> (default: all)",
     OPTION_TEXT(struct nats, filter)},
    {"from", 0, "NUMBER", "first message of a new consumer (default: the first in the stream)",
     OPTION_COUNT(struct nats, from, 0, UINT64_MAX)},
    FIELD_OPTION(struct nats),
    PAYLOAD_OPTIONS(struct nats),
    OPTIONS_END,
};

static int open_nats(struct source *source, char **operands, struct error *error) {
    struct nats *nats = (struct nats *)source;
    nats->stream = operands[0];
    source->once = true;
    if (nats_check(&nats->options, error) < 0 || pending_open(&nats->source.pending, error) < 0)
        return -1;
    nats->retry.server = nats->options.address.name;
    return payload_open(&nats->payload, source, error);
}

/* ---- Connection ---- */

static void forget_delivered(struct nats *nats) {
    while (nats->first) {
        struct delivered *delivered = nats->first;
        nats->first = delivered->next;
        natsMsg_Destroy(delivered->message);
        free(delivered);
    }
    nats->after = &nats->first;
}

static void disconnect(struct nats *nats) {
    forget_delivered(nats);
    natsSubscription_Destroy(nats->subscription);
    jsCtx_Destroy(nats->jetstream);
    natsConnection_Destroy(nats->connection);
    nats->subscription = NULL;
    nats->jetstream = NULL;
    nats->connection = NULL;
}

static int check_status(struct nats *nats, natsStatus status, jsErrCode code, struct error *error) {
    return nats_fail(&nats->options, status, code, error);
}

/* Derives the producer from the stream and its time of creation. */
static int identify(struct nats *nats, struct error *error) {
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status = js_GetStreamInfo(&info, nats->jetstream, nats->stream, NULL, &code);
    if (status != NATS_OK)
        return check_status(nats, status, code, error);
    nats->number.producer =
        broker_producer("nats", nats->stream, nats->filter ? nats->filter : "", NULL);
    nats->number.epoch = (uint32_t)((uint64_t)info->Created / NS_PER_SECOND);
    jsStreamInfo_Destroy(info);
    return 0;
}

/* Deletes the consumer; `begin` is the message after its acknowledged ones. */
static int end_consumer(struct nats *nats, uint64_t *begin, struct error *error) {
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status =
        js_GetConsumerInfo(&info, nats->jetstream, nats->stream, nats->consumer, NULL, &code);
    *begin = nats->from > 0 ? nats->from : 1;
    if (status == NATS_OK) {
        bool used = info->PushBound;
        *begin = info->AckFloor.Stream + 1;
        jsConsumerInfo_Destroy(info);
        if (used)
            return error_set(error, EX_TEMPFAIL, "another feeder uses the consumer %s",
                             nats->consumer);
        status = js_DeleteConsumer(nats->jetstream, nats->stream, nats->consumer, NULL, &code);
    }
    if (status != NATS_OK && code != JSConsumerNotFoundErr)
        return check_status(nats, status, code, error);
    if (nats->settled_to >= *begin) /* acknowledged, but lost with the connection */
        *begin = nats->settled_to + 1;
    return 0;
}

static int begin_consumer(struct nats *nats, const char *inbox, uint64_t begin,
                          struct error *error) {
    jsConsumerConfig config;
    jsErrCode code = 0;
    jsConsumerConfig_Init(&config);
    config.Durable = nats->consumer;
    config.DeliverSubject = inbox;
    config.DeliverPolicy = js_DeliverByStartSequence;
    config.OptStartSeq = begin;
    config.AckPolicy = js_AckAll;
    config.AckWait = ACK_WAIT_SECONDS * (int64_t)NS_PER_SECOND;
    config.MaxAckPending = UNACKNOWLEDGED_MAX;
    config.FilterSubject = nats->filter;
    config.Heartbeat = HEARTBEAT_SECONDS * (int64_t)NS_PER_SECOND;
    natsStatus status = js_AddConsumer(NULL, nats->jetstream, nats->stream, &config, NULL, &code);
    return status == NATS_OK ? 0 : check_status(nats, status, code, error);
}

static int subscribe(struct nats *nats, struct error *error) {
    natsInbox *inbox = NULL;
    uint64_t begin;
    natsStatus status = natsConnection_JetStream(&nats->jetstream, nats->connection, NULL);
    if (status == NATS_OK)
        status = natsInbox_Create(&inbox);
    if (status == NATS_OK)
        status = natsConnection_SubscribeSync(&nats->subscription, nats->connection, inbox);
    if (status == NATS_OK) /* at most as many messages as can be acknowledged */
        status = natsSubscription_SetPendingLimits(nats->subscription, -1, -1);
    int done = status == NATS_OK ? 0 : check_status(nats, status, 0, error);
    if (done == 0 && (identify(nats, error) < 0 || end_consumer(nats, &begin, error) < 0 ||
                      begin_consumer(nats, inbox, begin, error) < 0))
        done = -1;
    natsInbox_Destroy(inbox);
    nats->received_at = clock_seconds();
    return done;
}

/* Tries until the connection and the consumer exist. */
static int connect_again(struct nats *nats, struct error *error) {
    for (;;) {
        if (nats_connect(&nats->connection, &nats->options, error) == 0 &&
            subscribe(nats, error) == 0)
            break;
        disconnect(nats);
        char why[ERROR_TEXT_SIZE];
        snprintf(why, sizeof why, "%s", error->text);
        if (error->status != EX_TEMPFAIL || retry_wait(&nats->retry, why, error) < 0)
            return -1;
    }
    retry_back(&nats->retry);
    return 0;
}

/* Drops the connection. */
static void lose(struct nats *nats, const char *why) {
    disconnect(nats);
    retry_failed(&nats->retry, why);
}

/* ---- Acknowledgements ---- */

/* Acknowledges all messages up to the last settled one. */
static natsStatus acknowledge(struct nats *nats) {
    struct pending_id id;
    struct delivered *newest = NULL;
    natsStatus status = NATS_OK;
    while (pending_take(nats->source.pending, &id))
        nats->settled_to = id.first;
    while (nats->first && nats->first->sequence <= nats->settled_to) {
        if (newest)
            natsMsg_Destroy(newest->message);
        free(newest);
        newest = nats->first;
        nats->first = newest->next;
    }
    if (!newest)
        return NATS_OK;
    if (!nats->first)
        nats->after = &nats->first;
    status =
        natsConnection_PublishString(nats->connection, natsMsg_GetReply(newest->message), "+ACK");
    natsMsg_Destroy(newest->message);
    free(newest);
    return status;
}

/* ---- Messages ---- */

/* Keeps the message in the list until it can be acknowledged. */
static int keep(struct nats *nats, natsMsg *message, uint64_t sequence, struct error *error) {
    struct delivered *delivered = calloc(1, sizeof *delivered);
    if (!delivered) {
        natsMsg_Destroy(message);
        return error_no_memory(error);
    }
    *delivered = (struct delivered){.message = message, .sequence = sequence};
    *nats->after = delivered;
    nats->after = &delivered->next;
    return 0;
}

/* Takes a message. Returns 1, 0 if it is not an example or is a duplicate, or -1. */
static int take(struct nats *nats, natsMsg *message, const jsMsgMetaData *data, struct step *step,
                struct error *error) {
    uint64_t sequence = data->Sequence.Stream;
    if (keep(nats, message, sequence, error) < 0)
        return -1;
    if (sequence <= nats->seen)
        return 0;
    nats->seen = sequence;
    nats->number.sequence = sequence;
    const char *subject = natsMsg_GetSubject(message);
    struct message content = {.id = nats->id,
                              .key = subject,
                              .key_size = strlen(subject),
                              .bytes = natsMsg_GetData(message),
                              .size = (size_t)natsMsg_GetDataLength(message),
                              .time = (double)data->Timestamp / (double)NS_PER_SECOND,
                              .number = &nats->number};
    if (!content.bytes)
        content.bytes = "";
    snprintf(nats->id, sizeof nats->id, "%llu of %s", (unsigned long long)sequence, nats->stream);
    int taken = payload_step(nats->payload, &content, step, error);
    const struct pending_id id = {NULL, sequence, 0};
    return taken < 0 || pending_add(nats->source.pending, &id, taken, error) < 0 ? -1 : taken;
}

/* Handles a message; heartbeats and messages of other senders have no metadata of the consumer. */
static int receive(struct nats *nats, natsMsg *message, struct step *step, struct error *error) {
    jsMsgMetaData *data = NULL;
    nats->received_at = clock_seconds();
    if (natsMsg_GetMetaData(&data, message) != NATS_OK) {
        natsMsg_Destroy(message);
        return 0;
    }
    int taken = take(nats, message, data, step, error);
    jsMsgMetaData_Destroy(data);
    return taken;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct nats *nats = (struct nats *)source;
    for (;;) {
        natsMsg *message = NULL;
        if (feed_await(-1, false, 0, error) < 0 ||
            (!nats->connection && connect_again(nats, error) < 0))
            return -1;
        natsStatus status = acknowledge(nats);
        if (status == NATS_OK)
            status =
                natsSubscription_NextMsg(&message, nats->subscription,
                                         pending_count(nats->source.pending) ? BUSY_MS : IDLE_MS);
        if (status == NATS_OK) {
            int taken = receive(nats, message, step, error);
            if (taken)
                return taken;
        } else if (status != NATS_TIMEOUT) {
            lose(nats, natsStatus_GetText(status));
        } else if (clock_seconds() > nats->received_at + SILENCE_SECONDS) {
            lose(nats, "no data from the server for too long");
        }
    }
}

static void close_nats(struct source *source) {
    struct nats *nats = (struct nats *)source;
    size_t left = nats->source.pending ? pending_settled(nats->source.pending) : 0;
    bool good = left == 0 || (nats->connection && acknowledge(nats) == NATS_OK);
    if (nats->connection && natsConnection_FlushTimeout(nats->connection, FLUSH_MS) != NATS_OK)
        good = left == 0;
    if (!good)
        feed_print(
            "%s: cannot acknowledge %zu messages that the daemon has; NATS will deliver them "
            "again, and it treats them as duplicates",
            nats->options.address.name, left);
    disconnect(nats);
    nats_Close();
    pending_close(&nats->source.pending);
    payload_close(&nats->payload);
}

const struct source_type source_nats = {
    .command = {"nats", "STREAM", "a NATS JetStream stream", .rows = OPTIONS},
    .notes = PAYLOAD_NOTES "The stream of a message is its subject.",
    .endless = true,
    .ready = true,
    .maps = true,
    .size = sizeof(struct nats),
    .set_defaults = set_defaults,
    .open = open_nats,
    .next = next,
    .settled = broker_settled,
    .close = close_nats,
};
