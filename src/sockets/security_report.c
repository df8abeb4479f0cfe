#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "security_internal.h"

enum { COUNTED_SIZE = 64 };

static const uint64_t announcement_interval = 1000000000; /* ns */

static const char *const failure_names[SECURITY_FAILURES] = {
    [SECURITY_UNKNOWN_KEY] = "unknown_key",
    [SECURITY_NO_KEY] = "no_key",
    [SECURITY_WRONG_KEY] = "wrong_key",
    [SECURITY_PROTOCOL] = "protocol",
    [SECURITY_BROKEN_OFF] = "broken_off",
    [SECURITY_CONNECTIONS] = "connections",
    [SECURITY_SUBSCRIPTIONS] = "subscriptions",
    [SECURITY_QUOTA_CONNECTIONS] = "quota_connections",
    [SECURITY_QUOTA_BYTES] = "quota_bytes",
    [SECURITY_QUOTA_WAITING] = "quota_waiting",
    [SECURITY_QUOTA_SUBSCRIPTIONS] = "quota_subscriptions",
    [SECURITY_QUOTA_REQUESTS] = "quota_requests",
    [SECURITY_ENDLESS] = "endless",
};

static const char *const failure_texts[SECURITY_FAILURES] = {
    [SECURITY_UNKNOWN_KEY] = "its key is not among those allowed there",
    [SECURITY_NO_KEY] = "it does not speak CURVE; runnel's own programs do with --server-key",
    [SECURITY_WRONG_KEY] = "it does not have this daemon's public key",
    [SECURITY_PROTOCOL] = "what it says is no handshake of ZeroMQ",
    [SECURITY_BROKEN_OFF] = "it left in the handshake, as clients without keys do, or fell silent",
    [SECURITY_CONNECTIONS] = "there are too many, or too many that begin no handshake",
    [SECURITY_SUBSCRIPTIONS] = "it sends more than subscriptions to the topics there are",
    [SECURITY_QUOTA_CONNECTIONS] = "its key has as many as security.quota.connections allows",
    [SECURITY_QUOTA_BYTES] = "its key sends more than security.quota.bytes allows",
    [SECURITY_QUOTA_WAITING] = "more of its key waits than security.quota.waiting allows",
    [SECURITY_QUOTA_SUBSCRIPTIONS] =
        "its key subscribes to more than security.quota.subscriptions allows",
    [SECURITY_QUOTA_REQUESTS] = "its key asks more often than security.quota.requests allows",
    [SECURITY_ENDLESS] = "it sends a message that is larger than any that could be meant, or more "
                         "than may wait",
};

int security_descriptor(const struct security *security) {
    return security ? security->news : -1;
}

static void write_notice(const struct guarded *guarded, enum security_failure failure,
                         struct security_notice *notice) {
    const struct failures *f = &guarded->failures[failure];
    const char *what = failure == SECURITY_QUOTA_REQUESTS ? "request" : "connection";
    char counted[COUNTED_SIZE];
    notice->count = f->count - f->announced;
    if (notice->count > 1)
        snprintf(counted, sizeof counted, "%" PRIu64 " %ss, the last", notice->count, what);
    else
        snprintf(counted, sizeof counted, "a %s", what);
    notice->reason = failure_names[failure];
    notice->socket = guarded->name;
    memcpy(notice->address, f->address, sizeof notice->address);
    memcpy(notice->key, f->key, sizeof notice->key);
    snprintf(notice->text, sizeof notice->text, "%s %s from %s to the %s socket (%s): %s%s%s",
             failure < SECURITY_REFUSALS ? "refused" : "ended", counted, f->address, guarded->name,
             notice->reason, failure_texts[failure], *f->key ? ": " : "", f->key);
}

/* The next failures that have not been announced, of any socket; NULL without any. */
static struct failures *next_failures(struct security *security, uint64_t now,
                                      struct guarded **guarded, enum security_failure *failure) {
    for (size_t n = 0; n < SOCKET_ROLES * SECURITY_FAILURES; n++) {
        *guarded = &security->sockets[n / SECURITY_FAILURES];
        *failure = (enum security_failure)(n % SECURITY_FAILURES);
        struct failures *f = &(*guarded)->failures[*failure];
        if (f->count > f->announced && now >= f->due)
            return f;
    }
    return NULL;
}

/* The learning thread asks all the time, and must not wait: it takes the lock only when something
   is due. */
static void set_due(struct security *security) {
    uint64_t due = UINT64_MAX;
    for (size_t n = 0; n < SOCKET_ROLES * SECURITY_FAILURES; n++) {
        const struct failures *f =
            &security->sockets[n / SECURITY_FAILURES].failures[n % SECURITY_FAILURES];
        if (f->count > f->announced && f->due < due)
            due = f->due;
    }
    security->due = due;
}

void security_fail(struct security *security, enum security_failure failure,
                   struct guarded *guarded, const char *address, const char *key) {
    struct failures *f = &guarded->failures[failure];
    bool known = f->count > f->announced;
    f->count++;
    snprintf(f->address, sizeof f->address, "%s", *address ? address : "an unknown address");
    memcpy(f->key, key, strlen(key) + 1);
    if (known)
        return;
    set_due(security);
    eventfd_write(security->news, 1);
}

bool security_announce(struct security *security, uint64_t now, struct security_notice *notice) {
    eventfd_t news;
    struct guarded *guarded;
    enum security_failure failure;
    if (!security)
        return false;
    eventfd_read(security->news, &news);
    if (now < security->due)
        return false;
    pthread_mutex_lock(&security->lock);
    struct failures *f = next_failures(security, now, &guarded, &failure);
    if (f) {
        write_notice(guarded, failure, notice);
        f->announced = f->count;
        f->due = now < UINT64_MAX - announcement_interval ? now + announcement_interval : now;
    }
    set_due(security);
    pthread_mutex_unlock(&security->lock);
    return f != NULL;
}

uint64_t security_announcement_due(struct security *security) {
    return security ? security->due : UINT64_MAX;
}

static uint64_t count_failed(struct security *security, enum security_failure failure) {
    uint64_t count = 0;
    if (!security)
        return count;
    pthread_mutex_lock(&security->lock);
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        count += security->sockets[i].failures[failure].count;
    pthread_mutex_unlock(&security->lock);
    return count;
}

void security_report(struct security *security, struct status_fields *status,
                     struct field_count counts[SECURITY_FAILURES]) {
    for (size_t i = 0; i < SECURITY_FAILURES; i++) {
        uint64_t count = count_failed(security, (enum security_failure)i);
        counts[i] = (struct field_count){failure_names[i], count};
        *(i < SECURITY_REFUSALS ? &status->security_refused : &status->connections_ended) += count;
    }
    status->security_key = security ? security->pair.public : "";
    status->security_refused_by = (struct field_tally){counts, SECURITY_REFUSALS};
    status->connections_ended_by =
        (struct field_tally){counts + SECURITY_REFUSALS, SECURITY_FAILURES - SECURITY_REFUSALS};
    status->connections_examples = security_connections(security, SOCKET_EXAMPLES);
    status->connections_statistics = security_connections(security, SOCKET_STATISTICS);
    status->connections_control = security_connections(security, SOCKET_CONTROL);
}
