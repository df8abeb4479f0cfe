#include "build-config.h"

#include "web_live.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

#define PING_EVERY 15.0    /* seconds: proxies close silent connections */
#define TAKES_NOTHING 60.0 /* seconds without reading after which a client is dropped */

enum {
    ENTRIES = 2048,        /* events in the ring */
    BYTES_MAX = 4 << 20,   /* maximum bytes of all events */
    BLOCK_SIZE = 16 << 10, /* bytes requested at once */
};

/* One event in the form that is sent. `holders` counts references. */
struct entry {
    unsigned holders;
    size_t size;
    char text[];
};

struct client {
    struct client *next;
    struct live *live;
    struct MHD_Connection *connection;
    bool suspended, stopping;
    uint64_t place;      /* number of the next event */
    struct entry *entry; /* partly sent event; NULL = none */
    size_t sent;         /* bytes of it that are sent */
    double took;         /* time of the last read */
};

struct live {
    struct entry *ring[ENTRIES]; /* event n is at n % ENTRIES */
    uint64_t first, end;         /* numbers of the oldest event and of the next one */
    size_t bytes;
    struct client *clients;
    size_t count;
    struct entry *lost, *hello, *ping;
    double pinged;
    bool stopped;
};

static void let_go(struct entry **entry) {
    if (*entry && --(*entry)->holders == 0)
        free(*entry);
    *entry = NULL;
}

static struct entry *make_entry(const char *name, const char *json) {
    static const char form[] = "event: %s\ndata: %s\n\n";
    size_t size = strlen(name) + strlen(json) + sizeof form;
    struct entry *entry = malloc(sizeof *entry + size);
    if (!entry)
        return NULL;
    entry->holders = 1;
    entry->size = (size_t)snprintf(entry->text, size, form, name, json);
    return entry;
}

struct live *live_open(void) {
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        return NULL;
    live->lost = make_entry("lost", "{}");
    live->hello = make_entry("hello", "{\"version\":\"" PACKAGE_VERSION "\"}");
    live->ping = make_entry("ping", "{}");
    live->pinged = clock_seconds();
    if (!live->lost || !live->hello || !live->ping)
        live_close(&live);
    return live;
}

static void drop_oldest(struct live *live) {
    struct entry **oldest = &live->ring[live->first++ % ENTRIES];
    live->bytes -= (*oldest)->size;
    let_go(oldest);
}

void live_close(struct live **live) {
    struct live *l = *live;
    if (!l)
        return;
    while (l->first < l->end)
        drop_oldest(l);
    let_go(&l->lost);
    let_go(&l->hello);
    let_go(&l->ping);
    free(l);
    *live = NULL;
}

size_t live_clients(const struct live *live) {
    return live->count;
}

static void wake(struct client *client) {
    if (!client->suspended)
        return;
    client->suspended = false;
    MHD_resume_connection(client->connection);
}

static void add(struct live *live, struct entry *entry) {
    while (live->first < live->end &&
           (live->end - live->first == ENTRIES || live->bytes + entry->size > BYTES_MAX))
        drop_oldest(live);
    live->ring[live->end++ % ENTRIES] = entry;
    live->bytes += entry->size;
    for (struct client *client = live->clients; client; client = client->next)
        wake(client);
}

void live_publish(struct live *live, const char *name, const char *json) {
    if (live->count == 0)
        return;
    struct entry *entry = make_entry(name, json);
    if (entry)
        add(live, entry);
}

static struct entry *hold(struct entry *entry) {
    entry->holders++;
    return entry;
}

/* Takes the client's next event; false without a waiting event. */
static bool next_entry(struct client *client) {
    struct live *live = client->live;
    client->sent = 0;
    if (client->place < live->first) {
        client->place = live->first;
        client->entry = hold(live->lost);
    } else if (client->place < live->end) {
        client->entry = hold(live->ring[client->place++ % ENTRIES]);
    }
    return client->entry != NULL;
}

static ssize_t read_events(void *context, uint64_t position, char *buffer, size_t size) {
    struct client *client = context;
    size_t used = 0;
    (void)position;
    if (client->stopping || client->live->stopped)
        return MHD_CONTENT_READER_END_OF_STREAM;
    client->took = clock_seconds();
    while (used < size && (client->entry || next_entry(client))) {
        size_t part = client->entry->size - client->sent;
        if (part > size - used)
            part = size - used;
        memcpy(buffer + used, client->entry->text + client->sent, part);
        client->sent += part;
        used += part;
        if (client->sent == client->entry->size)
            let_go(&client->entry);
    }
    if (used == 0) {
        client->suspended = true;
        MHD_suspend_connection(client->connection);
    }
    return (ssize_t)used;
}

static void forget_client(void *context) {
    struct client *client = context;
    struct client **at = &client->live->clients;
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    client->live->count--;
    let_go(&client->entry);
    free(client);
}

struct MHD_Response *live_response(struct live *live, struct MHD_Connection *connection) {
    if (live->count >= LIVE_CLIENTS_MAX || live->stopped)
        return NULL;
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    *client = (struct client){.next = live->clients,
                              .live = live,
                              .connection = connection,
                              .place = live->end,
                              .entry = hold(live->hello),
                              .took = clock_seconds()};
    live->clients = client;
    live->count++;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_events, client, forget_client);
    if (!response) {
        forget_client(client);
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, LIVE_TYPE);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    return response;
}

/* A socket that is shut down reads as closed, so the server ends the connection itself. */
static void drop(struct client *client) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    client->stopping = true;
    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
    wake(client);
}

void live_tick(struct live *live) {
    double now = clock_seconds();
    if (now - live->pinged < PING_EVERY)
        return;
    live->pinged = now;
    for (struct client *client = live->clients; client; client = client->next)
        if (now - client->took > TAKES_NOTHING && !client->stopping)
            drop(client);
    if (live->count)
        add(live, hold(live->ping));
}

double live_next(const struct live *live) {
    return live->count ? fmax(0, live->pinged + PING_EVERY - clock_seconds()) : PING_EVERY;
}

void live_stop(struct live *live) {
    live->stopped = true;
    for (struct client *client = live->clients; client; client = client->next)
        wake(client);
}
