#include "ingest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "common/wire.h"
#include "config/config.h"
#include "endpoint.h"
#include "security/security.h"

enum {
    /* Rejected messages before the caller's loop continues, so that a flood does not block it. */
    OTHERS_PER_TAKE = 64,
    ANSWERS_MAX = 100000, /* unread answers; more than one commit sends */
    RECONNECT_MS_MAX = 5000,
    EXAMPLE_LARGE_FRAMES = 2, /* x and y: the others are small */
    PEERS_KNOWN = 256,
    SCHEMA_SIZE = 192, /* size of the model's schema in JSON */
};

enum { NUMBERS_KNOWN = 1024 };

static const uint64_t announcement_interval = 1000000000; /* ns */

/* Rejections of one reason, for announcements. */
struct rejections {
    uint64_t count;     /* since open */
    uint64_t announced; /* announced rejections */
    uint64_t due;       /* earliest time of the next announcement */
    char last[REJECT_WHY_SIZE];
    char stream[TEXT_QUOTE_SIZE]; /* stream of the last rejection, "" = unknown */
    char key[WIRE_KEY_MAX];       /* key of the last rejection, (key_size,) */
    size_t key_size;
};

/* The connection of a peer that libzmq has named: a zero byte and a unique number. A client may
   choose such a name itself, and use it again over another connection. */
struct known_peer {
    uint32_t name;
    int descriptor;  /* plus 1; 0 = unknown */
    uint32_t holder; /* security_holder() at the time of the lookup */
};

struct ingest {
    void *socket;
    struct security *security; /* NULL = all clients may send all streams */
    struct decoder *decoder;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    bool router;
    ingest_more *more; /* adds to the answer to a schema; may be NULL */
    const void *more_context;
    bool names_connections; /* each peer's name belongs to one connection */
    zmq_msg_t peer;         /* router: the identity of the sender of the last message */
    struct known_peer peers[PEERS_KNOWN];
    zmq_msg_t messages[MESSAGE_FRAMES_MAX];
    zmq_msg_t surplus;
    struct rejections rejections[REJECT_REASONS];
    const struct rejections *announced; /* the last one announced */
    uint64_t numbers[NUMBERS_KNOWN];    /* hashes of rejected numbers, 0 = none */
};

static int open_socket(struct ingest *ingest, void *zmq_context, struct security *security,
                       const struct config *config, struct error *error) {
    size_t waiting = decoder_step_bytes(ingest->decoder) + MESSAGE_FRAMES_MAX * sizeof(zmq_msg_t);
    size_t queue = INGEST_QUEUE_BYTES / waiting;
    queue = queue < INGEST_QUEUE_MIN ? INGEST_QUEUE_MIN : queue;
    queue = queue > INGEST_QUEUE_MAX ? INGEST_QUEUE_MAX : queue;
    const struct endpoint_option options[] = {
        {ZMQ_RCVHWM, (int64_t)queue},
        {ZMQ_SNDHWM, ANSWERS_MAX}, /* per client of a router */
        {ZMQ_MAXMSGSIZE, (int64_t)decoder_frame_max(ingest->decoder)},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX},
    };
    static const int kinds[] = {
        [EXAMPLES_PULL] = ZMQ_PULL, [EXAMPLES_SUB] = ZMQ_SUB, [EXAMPLES_ROUTER] = ZMQ_ROUTER};
    bool sub = config->examples_socket == EXAMPLES_SUB;
    const char *key = config->examples.connect ? "examples.connect" : "examples.bind";
    if (endpoint_open(&ingest->socket, zmq_context, security, kinds[config->examples_socket],
                      &config->examples, key, options, sizeof options / sizeof *options, error))
        return -1;
    if (sub && zmq_setsockopt(ingest->socket, ZMQ_SUBSCRIBE, "", 0))
        return error_set(error, EX_SOFTWARE, "%s: cannot subscribe: %s", key, zmq_strerror(errno));
    endpoint_name(ingest->socket, &config->examples, ingest->endpoint);
    security_limit_messages(security, SOCKET_EXAMPLES,
                            EXAMPLE_LARGE_FRAMES * decoder_frame_max(ingest->decoder), true);
    return 0;
}

int ingest_open(struct ingest **ingest, void *zmq_context, struct security *security,
                const struct config *config, const struct model *model, struct error *error) {
    struct ingest *i = calloc(1, sizeof *i);
    *ingest = i;
    if (!i)
        return error_set(error, EX_OSERR, "out of memory for the examples socket");
    i->security = security;
    i->router = config->examples_socket == EXAMPLES_ROUTER;
    i->names_connections = i->router && !config->examples.connect;
    for (size_t n = 0; n < MESSAGE_FRAMES_MAX; n++)
        zmq_msg_init(&i->messages[n]);
    zmq_msg_init(&i->peer);
    zmq_msg_init(&i->surplus);
    if (decoder_open(&i->decoder, model, config->many_steps, error) ||
        (!config_consumes(config) && open_socket(i, zmq_context, security, config, error))) {
        ingest_close(ingest);
        return -1;
    }
    return 0;
}

int ingest_renew(struct ingest *ingest, struct security *security,
                 const struct socket_config *config, struct error *error) {
    const char *key = config->connect ? "examples.connect" : "examples.bind";
    if (!ingest->socket)
        return 0;
    return endpoint_renew(ingest->socket, security, config, key, ingest->endpoint, error);
}

void ingest_close(struct ingest **ingest) {
    struct ingest *i = *ingest;
    if (!i)
        return;
    for (size_t n = 0; n < MESSAGE_FRAMES_MAX; n++)
        zmq_msg_close(&i->messages[n]);
    zmq_msg_close(&i->peer);
    zmq_msg_close(&i->surplus);
    endpoint_close(&i->socket);
    decoder_close(&i->decoder);
    free(i);
    *ingest = NULL;
}

void *ingest_socket(const struct ingest *ingest) {
    return ingest->socket;
}

const char *ingest_endpoint(const struct ingest *ingest) {
    return ingest->endpoint;
}

/* The frames of a message arrive together: only the first may be missing. */
static int receive_frame(struct ingest *ingest, zmq_msg_t *message, bool first) {
    while (zmq_msg_recv(message, ingest->socket, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR || first)
            return -1;
    return 0;
}

/* Receive all frames of one message, keeping the first MESSAGE_FRAMES_MAX. Returns their number,
   0 without a message, and -1 on failure. */
static int receive_frames(struct ingest *ingest, struct frame *frames, size_t *bytes) {
    int count = 0;
    zmq_msg_t *message;
    if (ingest->router) {
        if (receive_frame(ingest, &ingest->peer, true))
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (!zmq_msg_more(&ingest->peer))
            return 0;
    }
    do {
        message = count < MESSAGE_FRAMES_MAX ? &ingest->messages[count] : &ingest->surplus;
        if (receive_frame(ingest, message, count == 0 && !ingest->router))
            return count == 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
        size_t size = zmq_msg_size(message);
        if (count < MESSAGE_FRAMES_MAX)
            frames[count] = (struct frame){zmq_msg_data(message), size};
        *bytes += size;
        count++;
    } while (zmq_msg_more(message));
    return count;
}

/* The descriptor of the last message's connection, -1 = unknown. libzmq parses text for each
   lookup, which would be a large part of the cost of receiving. */
static int descriptor_of(struct ingest *ingest) {
    struct known_peer known = {0};
    const unsigned char *name = zmq_msg_data(&ingest->peer);
    if (!ingest->names_connections || zmq_msg_size(&ingest->peer) != 1 + sizeof known.name || *name)
        return zmq_msg_get(&ingest->messages[0], ZMQ_SRCFD);
    memcpy(&known.name, name + 1, sizeof known.name);
    struct known_peer *place = &ingest->peers[name[sizeof known.name] % PEERS_KNOWN];
    if (place->name != known.name || !place->descriptor ||
        place->holder != security_holder(ingest->security, place->descriptor - 1)) {
        known.descriptor = zmq_msg_get(&ingest->messages[0], ZMQ_SRCFD) + 1;
        known.holder = security_holder(ingest->security, known.descriptor - 1);
        *place = known;
    }
    return place->descriptor - 1;
}

static int receive(struct ingest *ingest, struct frame *frames) {
    size_t bytes = 0;
    int count = receive_frames(ingest, frames, &bytes);
    if (count >= 0)
        security_taken(ingest->security, SOCKET_EXAMPLES, count ? descriptor_of(ingest) : -1, bytes,
                       (size_t)count);
    return count;
}

/* Answer a rejected message of a ROUTER's client immediately: it does not need the disk. The
   answer contains the numbers from the header, if it is valid. */
static void answer(struct ingest *ingest, const struct example *example, enum reject_reason reason,
                   const char *why) {
    const struct wire_acknowledgement acknowledgement = {
        .status = reason == REJECT_NOT ? WIRE_ACCEPTED : WIRE_REJECTED,
        .reason = (uint16_t)reason,
        .epoch = example->epoch,
        .sequence = example->sequence};
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE];
    size_t size;
    const void *peer = ingest_peer(ingest, &size);
    wire_acknowledgement_pack(&acknowledgement, bytes);
    const struct frame frames[] = {
        {peer, size}, {example->key, example->key_size}, {bytes, sizeof bytes}, {why, strlen(why)}};
    const int count = sizeof frames / sizeof *frames;
    for (int i = 0; ingest->router && i < count; i++)
        if (zmq_send(ingest->socket, frames[i].data, frames[i].size,
                     ZMQ_DONTWAIT | (i < count - 1 ? ZMQ_SNDMORE : 0)) < 0)
            return;
}

/* An object with the members of both; NULL: out of memory. */
static char *join_objects(const char *one, const char *other) {
    size_t size = strlen(one) + strlen(other);
    char *joined = malloc(size);
    if (joined)
        snprintf(joined, size, "%.*s,%s", (int)strlen(one) - 1, one, other + 1);
    return joined;
}

/* Answer a schema that fits with the schema of the model. */
static void answer_schema(struct ingest *ingest, const struct example *example) {
    struct schema schema;
    char text[SCHEMA_SIZE + SCHEMA_NAMES_SIZE], names[SCHEMA_NAMES_SIZE];
    char *more = ingest->more ? ingest->more(ingest->more_context) : NULL, *all = NULL;
    decoder_schema(ingest->decoder, &schema);
    const char *quote = schema.target_dtype ? "\"" : "";
    snprintf(text, sizeof text,
             "{\"dtype\":\"%s\",\"columns\":%zu,\"target_dtype\":%s%s%s,\"targets\":%zu,"
             "\"target\":\"%s\"%s}",
             schema.dtype, schema.columns, quote, quote[0] ? schema.target_dtype : "null", quote,
             schema.targets, schema.target, decoder_names(ingest->decoder, names));
    if (more)
        all = join_objects(text, more);
    answer(ingest, example, REJECT_NOT, all ? all : text);
    free(all);
    free(more);
}

static uint64_t hash_number(const struct example *example, uint64_t sequence) {
    const uint64_t numbers[] = {example->producer, example->epoch, sequence};
    return hash_bytes(hash_bytes(HASH_BEGIN, numbers, sizeof numbers), example->key,
                      example->key_size);
}

uint64_t ingest_rejected_numbers(const struct ingest *ingest, const struct example *example,
                                 uint64_t first, uint64_t last) {
    uint64_t count = 0, most = NUMBERS_KNOWN;
    for (uint64_t n = last; n >= first && n > 0 && most > 0; n--, most--) {
        uint64_t hash = hash_number(example, n);
        count += ingest->numbers[hash % NUMBERS_KNOWN] == hash;
    }
    return count;
}

static void count_rejection(struct ingest *ingest, enum reject_reason reason,
                            const struct example *example, const char *why) {
    struct rejections *r = &ingest->rejections[reason];
    r->count++;
    strcpy(r->last, why);
    r->stream[0] = '\0';
    r->key_size = example->key_size <= sizeof r->key ? example->key_size : 0;
    memcpy(r->key, example->key, r->key_size);
    if (example->key_size > 0)
        text_quote(r->stream, example->key, example->key_size);
}

void ingest_reject(struct ingest *ingest, const struct example *example, enum reject_reason reason,
                   const char *why) {
    answer(ingest, example, reason, why);
    count_rejection(ingest, reason, example, why);
    if (example->sequence > 0) {
        uint64_t hash = hash_number(example, example->sequence);
        ingest->numbers[hash % NUMBERS_KNOWN] = hash;
    }
}

void ingest_refuse_label(struct ingest *ingest, const struct example *label, const char *why) {
    count_rejection(ingest, REJECT_LABEL, label, why);
}

/* Check a message; an example of 0 steps is a schema that fits. */
static enum reject_reason check(struct ingest *ingest, const struct frame *frames, size_t count,
                                struct example *example, char why[REJECT_WHY_SIZE]) {
    enum reject_reason reason = decode(ingest->decoder, frames, count, example, why);
    if (reason != REJECT_NOT || example->steps == 0)
        return reason;
    if (ingest->router && !example->numbered)
        return reject(REJECT_HEADER, why, "a router socket requires epoch and sequence");
    return security_may_send(ingest->security, &ingest->messages[0], example->key,
                             example->key_size, why, REJECT_WHY_SIZE)
               ? REJECT_NOT
               : REJECT_NOT_ALLOWED;
}

int ingest_take(struct ingest *ingest, uint64_t now, struct example *example, struct error *error) {
    for (size_t others = 0; others < OTHERS_PER_TAKE; others++) {
        struct frame frames[MESSAGE_FRAMES_MAX];
        int count = receive(ingest, frames);
        if (count < 0)
            return error_set(error, EX_UNAVAILABLE, "examples: cannot receive from %s: %s",
                             ingest->endpoint, zmq_strerror(errno));
        if (count == 0)
            return 0;
        char why[REJECT_WHY_SIZE];
        *why = '\0';
        enum reject_reason reason = check(ingest, frames, (size_t)count, example, why);
        example->received = now;
        if (reason == REJECT_NOT && example->steps > 0)
            return 1;
        if (reason == REJECT_NOT)
            answer_schema(ingest, example);
        else
            ingest_reject(ingest, example, reason, why);
    }
    return 0;
}

void ingest_idle(struct ingest *ingest) {
    security_taken(ingest->security, SOCKET_EXAMPLES, -1, 0, 0);
}

void ingest_schema(const struct ingest *ingest, struct schema *schema) {
    decoder_schema(ingest->decoder, schema);
}

void ingest_answer_more(struct ingest *ingest, ingest_more *more, const void *context) {
    ingest->more = more;
    ingest->more_context = context;
}

const void *ingest_peer(const struct ingest *ingest, size_t *size) {
    zmq_msg_t *peer = (zmq_msg_t *)&ingest->peer;
    *size = zmq_msg_size(peer);
    return zmq_msg_data(peer);
}

uint64_t ingest_rejected(const struct ingest *ingest, enum reject_reason reason) {
    if (reason != REJECT_NOT)
        return ingest->rejections[reason].count;
    uint64_t sum = 0;
    for (size_t r = 0; r < REJECT_REASONS; r++)
        sum += ingest->rejections[r].count;
    return sum;
}

static void announce(struct rejections *r, enum reject_reason reason, char *text, size_t size) {
    uint64_t count = r->count - r->announced;
    const char *of = r->stream[0] ? " of stream " : "";
    const char *what = reason == REJECT_SCHEMA  ? "schema"
                       : reason == REJECT_LABEL ? "label"
                                                : "example";
    if (count == 1)
        snprintf(text, size, "rejected %s %s%s%s (%s): %s", *what == 'e' ? "an" : "a", what, of,
                 r->stream, reject_name(reason), r->last);
    else
        snprintf(text, size, "rejected %llu %ss (%s), the last%s%s: %s", (unsigned long long)count,
                 what, reject_name(reason), of, r->stream, r->last);
}

bool ingest_announce(struct ingest *ingest, uint64_t now, char *text, size_t size) {
    for (size_t reason = 0; reason < REJECT_REASONS; reason++) {
        struct rejections *r = &ingest->rejections[reason];
        if (r->count == r->announced || now < r->due)
            continue;
        announce(r, (enum reject_reason)reason, text, size);
        r->announced = r->count;
        ingest->announced = r;
        r->due = now < UINT64_MAX - announcement_interval ? now + announcement_interval : now;
        return true;
    }
    return false;
}

const char *ingest_announced_stream(const struct ingest *ingest, size_t *size) {
    *size = ingest->announced->key_size;
    return ingest->announced->key;
}

uint64_t ingest_announcement_due(const struct ingest *ingest) {
    uint64_t due = UINT64_MAX;
    for (size_t reason = 0; reason < REJECT_REASONS; reason++) {
        const struct rejections *r = &ingest->rejections[reason];
        if (r->count != r->announced && r->due < due)
            due = r->due;
    }
    return due;
}
