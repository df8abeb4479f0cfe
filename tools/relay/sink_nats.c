/* NATS subjects of a JetStream stream: confirmed by JetStream's answer. The header Nats-Msg-Id lets
   JetStream drop a message that is soon written again. */
#include <stdlib.h>
#include <sysexits.h>

#include <jansson.h>

#include "cluster/brokers/nats_link.h"
#include "common/error.h"
#include "common/json_member.h"
#include "relay_sink.h"

enum { ANSWER_MS = 10000 };

struct sink {
    struct nats_options options;
    natsConnection *connection; /* NULL: not connected */
    natsSubscription *answers;  /* subscription and inbox of the answers */
    natsInbox *inbox;
};

static int open_nats(struct sink **result, const struct sink_options *options,
                     struct error *error) {
    struct sink *sink = *result = calloc(1, sizeof *sink);
    if (!sink)
        return error_no_memory(error);
    sink->options = (struct nats_options){.credentials = options->credentials,
                                          .authorities = options->authorities,
                                          .address = options->url};
    return nats_check_files(&sink->options, error);
}

static void disconnect_nats(struct sink *sink) {
    natsSubscription_Destroy(sink->answers);
    natsInbox_Destroy(sink->inbox);
    natsConnection_Destroy(sink->connection);
    sink->answers = NULL;
    sink->inbox = NULL;
    sink->connection = NULL;
}

static int check_status(struct sink *sink, natsStatus status, struct error *error) {
    return status == NATS_OK ? 0 : nats_fail(&sink->options, status, 0, error);
}

static int connect_nats(struct sink *sink, struct error *error) {
    if (nats_connect(&sink->connection, &sink->options, error) < 0)
        return -1;
    natsStatus status = natsInbox_Create(&sink->inbox);
    if (status == NATS_OK)
        status = natsConnection_SubscribeSync(&sink->answers, sink->connection, sink->inbox);
    return check_status(sink, status, error);
}

static int publish(struct sink *sink, struct sink_message *message, struct error *error) {
    natsMsg *out = NULL;
    natsStatus status =
        natsMsg_Create(&out, message->topic, sink->inbox, message->text, (int)message->size);
    if (status == NATS_OK && message->id)
        status = natsMsgHeader_Set(out, "Nats-Msg-Id", message->id);
    if (status == NATS_OK)
        status = natsConnection_PublishMsg(sink->connection, out);
    natsMsg_Destroy(out);
    if (status == NATS_INVALID_SUBJECT)
        return error_set(error, EX_USAGE, "--topic: cannot write to '%s'", message->topic);
    message->too_large = status == NATS_MAX_PAYLOAD;
    if (message->too_large)
        return 0;
    return check_status(sink, status, error);
}

/* Parses {"stream": .., "seq": ..} or {"error": {"description": ..}}. */
static int check_answer(natsMsg *answer, const char *subject, struct error *error) {
    json_t *body =
        json_loadb(natsMsg_GetData(answer), (size_t)natsMsg_GetDataLength(answer), 0, NULL);
    const json_t *wrong = json_object_get(body, "error");
    const char *why = member_string(wrong, "description");
    int status = 0;
    if (wrong || !member_string(body, "stream"))
        status = error_set(error, EX_TEMPFAIL, "JetStream rejects %s: %s", subject,
                           why ? why : "no reason given");
    json_decref(body);
    return status;
}

/* Receives the next answer; `subject` is for messages. */
static int receive_answer(struct sink *sink, const char *subject, struct error *error) {
    natsMsg *answer = NULL;
    natsStatus status = natsSubscription_NextMsg(&answer, sink->answers, ANSWER_MS);
    int result;
    if (status == NATS_TIMEOUT)
        result = error_set(error, EX_TEMPFAIL, "no answer for %d s", ANSWER_MS / 1000);
    else if (status == NATS_NO_RESPONDERS || (answer && natsMsg_IsNoResponders(answer)))
        result = error_set(error, EX_TEMPFAIL, "no JetStream stream for subject %s yet", subject);
    else if (status != NATS_OK)
        result = check_status(sink, status, error);
    else
        result = check_answer(answer, subject, error);
    natsMsg_Destroy(answer);
    return result;
}

static int write_nats(struct sink *sink, struct sink_message *messages, size_t count,
                      struct error *error) {
    for (size_t n = 0; n < count; n++)
        if (publish(sink, &messages[n], error) < 0)
            return -1;
    for (size_t n = 0; n < count; n++)
        if (!messages[n].too_large && receive_answer(sink, messages[n].topic, error) < 0)
            return -1;
    return 0;
}

static int tend_nats(struct sink *sink, struct error *error) {
    return natsConnection_IsClosed(sink->connection)
               ? error_set(error, EX_TEMPFAIL, "connection closed")
               : 0;
}

static void close_nats(struct sink *sink) {
    (void)sink;
    nats_Close();
}

const struct sink_type sink_nats = {
    .name = "nats",
    .schemes = NATS_URL_SCHEMES,
    .form = NATS_URL_FORM,
    .topic = "runnel.{daemon}.{topic}",
    .replaced = ".*> \t\r\n",
    .size_limit = "max_payload",
    .open = open_nats,
    .connect = connect_nats,
    .write = write_nats,
    .tend = tend_nats,
    .disconnect = disconnect_nats,
    .close = close_nats,
};
