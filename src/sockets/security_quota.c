#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/error.h"
#include "security_internal.h"

enum {
    BURST_S = 2,   /* what a bucket holds: so many seconds' worth */
    KEPT_S = 10,   /* a client without connections: who comes back has no fresh buckets */
    PATIENCE = 10, /* so many times its rate of requests refused within a second: it is ended */
};

bool security_take(struct bucket *bucket, double rate, double seconds, double amount,
                   uint64_t now) {
    double most = rate * seconds;
    bucket->left += bucket->at ? rate * (double)(now - bucket->at) / (double)NS_PER_SECOND : most;
    bucket->at = now;
    if (bucket->left > most)
        bucket->left = most;
    if (bucket->left < amount)
        return false;
    bucket->left -= amount;
    return true;
}

/* ---- Clients ---- */

static struct client *find(struct security *security, const char *key) {
    struct client *client;
    TAILQ_FOREACH(client, &security->clients, all)
    if (!strcmp(client->key, key))
        break;
    return client;
}

static void drop_old(struct security *security, uint64_t now) {
    struct client *client = TAILQ_FIRST(&security->clients), *next;
    for (; client; client = next) {
        next = TAILQ_NEXT(client, all);
        if (client->connections > 0 || now < client->left + KEPT_S * NS_PER_SECOND)
            continue;
        TAILQ_REMOVE(&security->clients, client, all);
        free(client);
    }
}

static struct client *add(struct security *security, const char *key, uint64_t now) {
    struct client *client = calloc(1, sizeof *client);
    drop_old(security, now);
    if (!client)
        return NULL;
    memcpy(client->key, key, sizeof client->key);
    TAILQ_INSERT_HEAD(&security->clients, client, all);
    return client;
}

bool security_quota_join(struct security *security, struct connection *c, const char *key) {
    uint64_t most = security->quota.connections, now = clock_ns();
    struct client *client = find(security, key);
    if (!client && !(client = add(security, key, now)))
        return false;
    client->left = now;
    if (most && client->connections >= most)
        return false;
    client->connections++;
    c->client = client;
    return true;
}

void security_quota_leave(struct connection *c) {
    struct client *client = c->client;
    if (!client)
        return;
    client->connections--;
    client->subscriptions -= c->subscriptions;
    client->left = clock_ns();
    c->client = NULL;
}

void security_quota_free(struct security *security) {
    struct client *client;
    while ((client = TAILQ_FIRST(&security->clients))) {
        TAILQ_REMOVE(&security->clients, client, all);
        free(client);
    }
}

/* ---- What they take ---- */

/* A connection that may be another key's has a bucket of its own: nobody is ended for what others
   send, nor for what is only guessed. */
void security_quota_bytes(struct security *security, struct connection *c, uint64_t came,
                          uint64_t now) {
    double rate = (double)security->quota.bytes;
    if (rate > 0 && c->client && c->counted &&
        !security_take(c->unclear ? &c->bytes : &c->client->bytes, rate, BURST_S, (double)came,
                       now))
        security_end_for(security, c, SECURITY_QUOTA_BYTES);
}

/* The connection over which a message came; NULL: it has gone. Messages outlive their connection,
   and its descriptor may be another's by now. */
static struct connection *sender(struct security *security, enum socket_role role,
                                 zmq_msg_t *message) {
    const char *key = zmq_msg_gets(message, "User-Id");
    struct connection *c =
        security_find(security, &security->sockets[role], zmq_msg_get(message, ZMQ_SRCFD));
    return c && key && !strcmp(c->key, key) ? c : NULL;
}

void security_subscribed(struct security *security, zmq_msg_t *message, size_t subscriptions) {
    if (!security_has_keys(security))
        return;
    pthread_mutex_lock(&security->lock);
    struct connection *c = sender(security, SOCKET_STATISTICS, message);
    if (c && c->client) {
        uint64_t most = security->quota.subscriptions;
        c->client->subscriptions += subscriptions - c->subscriptions;
        c->subscriptions = subscriptions;
        if (most && (c->unclear ? subscriptions : c->client->subscriptions) > most)
            security_end_for(security, c, SECURITY_QUOTA_SUBSCRIPTIONS);
    }
    pthread_mutex_unlock(&security->lock);
}

/* Who asks much more often than is allowed is not even refused any more. */
static bool lose_patience(struct client *client, uint64_t rate, uint64_t now) {
    if (now >= client->refused_at + NS_PER_SECOND) {
        client->refused_at = now;
        client->refused = 0;
    }
    return ++client->refused > PATIENCE * rate;
}

bool security_may_ask(struct security *security, zmq_msg_t *message, struct error *error) {
    if (!security_has_keys(security))
        return true;
    uint64_t now = clock_ns();
    const char *key = zmq_msg_gets(message, "User-Id");
    pthread_mutex_lock(&security->lock);
    uint64_t rate = security->quota.requests;
    struct client *client = key ? find(security, key) : NULL;
    bool may = !rate || !client || security_take(&client->requests, (double)rate, BURST_S, 1, now);
    if (!may) {
        struct connection *c = sender(security, SOCKET_CONTROL, message);
        security_fail(security, SECURITY_QUOTA_REQUESTS, &security->sockets[SOCKET_CONTROL],
                      c ? c->address : "", key);
        if (lose_patience(client, rate, now) && c)
            security_end(security, c);
        error_set(error, EX_TEMPFAIL,
                  "too many requests: this key may make %" PRIu64
                  " a second (security.quota.requests); wait, and ask less often",
                  rate);
    }
    pthread_mutex_unlock(&security->lock);
    return may;
}
