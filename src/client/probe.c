#include "probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"

/* The greeting: signature (0xff, 8 bytes, 0x7f), version (major, minor), mechanism, as-server,
   filler. */
enum {
    SIGNATURE_SIZE = 10,
    MAJOR_AT = 10,
    OPENING_SIZE = 11, /* up to the major version: a peer then sends its whole greeting */
    MECHANISM_AT = 12,
    MECHANISM_SIZE = 20,
    GREETING_SIZE = 64,
};

/* A frame: flags, size (1 byte, or 8 of a long one), body; of a command the body is its name and
   properties, each a name and a value, with their sizes (1 and 4 bytes) before them. */
enum { FLAG_LONG = 2, FLAG_COMMAND = 4, BODY_SIZE = 512, HOST_SIZE = 256 };

struct talk {
    int connection, stop;
    double deadline; /* CLOCK_MONOTONIC, seconds */
};

enum outcome { DONE, CLOSED, TIMED_OUT };

/* Wait until the connection is ready for `events` or broken. False: timed out. */
static bool await(const struct talk *talk, short events) {
    for (;;) {
        struct pollfd items[] = {{.fd = talk->connection, .events = events},
                                 {.fd = talk->stop, .events = POLLIN}};
        int left = clock_milliseconds(talk->deadline - clock_seconds());
        int ready = poll(items, 2, left);
        if (ready > 0)
            return !items[1].revents;
        if (ready < 0 ? errno != EINTR : left == 0)
            return false;
    }
}

/* Send or receive all of the bytes. */
static enum outcome transfer(const struct talk *talk, unsigned char *bytes, size_t size,
                             bool sends) {
    while (size > 0) {
        ssize_t moved = sends ? send(talk->connection, bytes, size, MSG_NOSIGNAL)
                              : recv(talk->connection, bytes, size, 0);
        if (moved > 0) {
            bytes += moved;
            size -= (size_t)moved;
        } else if (moved == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            return CLOSED;
        } else if (errno != EINTR && !await(talk, sends ? POLLOUT : POLLIN)) {
            return TIMED_OUT;
        }
    }
    return DONE;
}

/* ---- Connecting ---- */

static int connect_to(struct talk *talk, const struct sockaddr *address, socklen_t size) {
    int failure = 0;
    socklen_t failure_size = sizeof failure;
    talk->connection = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (talk->connection < 0)
        return -1;
    if (connect(talk->connection, address, size) == 0)
        return 0;
    if (errno == EINPROGRESS && await(talk, POLLOUT) &&
        getsockopt(talk->connection, SOL_SOCKET, SO_ERROR, &failure, &failure_size) == 0 &&
        failure == 0)
        return 0;
    close(talk->connection);
    talk->connection = -1;
    return -1;
}

static int connect_ipc(struct talk *talk, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, length);
    bool abstract = path[0] == '@';
    if (abstract)
        address.sun_path[0] = '\0';
    size_t size = offsetof(struct sockaddr_un, sun_path) + length + !abstract;
    return connect_to(talk, (const struct sockaddr *)&address, (socklen_t)size);
}

/* HOST:PORT or [HOST]:PORT; a source address may precede it, with a ';'. As for our libzmq
   sockets, only addresses in brackets are IPv6. */
static int connect_tcp(struct talk *talk, const char *address) {
    char host[HOST_SIZE];
    const char *source = strchr(address, ';');
    if (source)
        address = source + 1;
    const char *port = strrchr(address, ':');
    if (!port || (size_t)(port - address) >= sizeof host)
        return -1;
    bool brackets = port - address >= 2 && address[0] == '[' && port[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(port - address) - 2 * brackets, address + brackets);
    struct addrinfo hints = {.ai_family = brackets ? AF_UNSPEC : AF_INET,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, port + 1, &hints, &found) != 0)
        return -1;
    int status = -1;
    for (const struct addrinfo *each = found; each && status < 0; each = each->ai_next)
        status = connect_to(talk, each->ai_addr, each->ai_addrlen);
    freeaddrinfo(found);
    return status;
}

static int connect_endpoint(struct talk *talk, const char *endpoint) {
    static const char ipc[] = "ipc://", tcp[] = "tcp://";
    if (strncmp(endpoint, ipc, strlen(ipc)) == 0)
        return connect_ipc(talk, endpoint + strlen(ipc));
    if (strncmp(endpoint, tcp, strlen(tcp)) == 0)
        return connect_tcp(talk, endpoint + strlen(tcp));
    return -1;
}

/* ---- The probe ---- */

static void make_greeting(unsigned char greeting[GREETING_SIZE]) {
    memset(greeting, 0, GREETING_SIZE);
    greeting[0] = 0xff;
    greeting[SIGNATURE_SIZE - 1] = 0x7f;
    greeting[MAJOR_AT] = 3;
    strcpy((char *)greeting + MECHANISM_AT, "NULL");
}

/* The value of the property Socket-Type among (size,) bytes of properties; "" if it is missing
   or longer than the name of any kind. */
static void find_type(char type[PROBE_TYPE_SIZE], const unsigned char *bytes, size_t size) {
    static const char wanted[] = "Socket-Type";
    enum { VALUE_SIZE_BYTES = 4 };
    type[0] = '\0';
    while (size > 0 && size >= 1u + bytes[0] + VALUE_SIZE_BYTES) {
        const unsigned char *name = bytes + 1, *value = name + bytes[0] + VALUE_SIZE_BYTES;
        size_t name_size = bytes[0], value_size = 0;
        for (const unsigned char *digit = value - VALUE_SIZE_BYTES; digit < value; digit++)
            value_size = value_size << 8 | *digit;
        size -= 1 + name_size + VALUE_SIZE_BYTES;
        if (value_size > size)
            return;
        if (name_size == strlen(wanted) && memcmp(name, wanted, name_size) == 0 &&
            value_size < PROBE_TYPE_SIZE) {
            memcpy(type, value, value_size);
            type[value_size] = '\0';
        }
        size -= value_size;
        bytes = value + value_size;
    }
}

/* The peer's first command, READY with its kind of socket. */
static void read_ready(const struct talk *talk, char type[PROBE_TYPE_SIZE]) {
    static const unsigned char ready[] = {5, 'R', 'E', 'A', 'D', 'Y'};
    unsigned char head[9], body[BODY_SIZE];
    if (transfer(talk, head, 2, false) != DONE || !(head[0] & FLAG_COMMAND))
        return;
    size_t size = head[1];
    if (head[0] & FLAG_LONG) {
        if (transfer(talk, head + 2, 7, false) != DONE)
            return;
        for (int i = 2; i < 9; i++)
            size = size << 8 | head[i];
    }
    if (size > sizeof body || transfer(talk, body, size, false) != DONE || size < sizeof ready ||
        memcmp(body, ready, sizeof ready) != 0)
        return;
    find_type(type, body + sizeof ready, size - sizeof ready);
}

static bool is_mechanism(const unsigned char greeting[GREETING_SIZE], const char *name) {
    char padded[MECHANISM_SIZE] = {0};
    memcpy(padded, name, strlen(name));
    return memcmp(greeting + MECHANISM_AT, padded, sizeof padded) == 0;
}

/* Read the peer's greeting. Its signature arrives first, so other protocols are detected early. */
static enum probe_answer read_greeting(const struct talk *talk) {
    unsigned char greeting[GREETING_SIZE];
    size_t part = 0;
    static const size_t ends[] = {1, SIGNATURE_SIZE, MAJOR_AT + 1, GREETING_SIZE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; part = ends[i++]) {
        enum outcome outcome = transfer(talk, greeting + part, ends[i] - part, false);
        if (outcome != DONE)
            return outcome == CLOSED ? PROBE_CLOSES : PROBE_SILENT;
        if (greeting[0] != 0xff ||
            (ends[i] >= SIGNATURE_SIZE && !(greeting[SIGNATURE_SIZE - 1] & 1)) ||
            (ends[i] > MAJOR_AT && greeting[MAJOR_AT] < 3))
            return PROBE_FOREIGN;
    }
    return is_mechanism(greeting, "NULL")    ? PROBE_PLAIN
           : is_mechanism(greeting, "CURVE") ? PROBE_CURVE
                                             : PROBE_OTHER;
}

static void ask(struct probe *probe, const struct talk *talk) {
    unsigned char greeting[GREETING_SIZE];
    make_greeting(greeting);
    enum outcome outcome = transfer(talk, greeting, OPENING_SIZE, true);
    if (outcome != DONE) {
        probe->answer = outcome == CLOSED ? PROBE_CLOSES : PROBE_SILENT;
        return;
    }
    probe->answer = read_greeting(talk);
    /* The rest of our greeting also shows a daemon with keys why this peer leaves. */
    bool greeted =
        probe->answer >= PROBE_PLAIN &&
        transfer(talk, greeting + OPENING_SIZE, GREETING_SIZE - OPENING_SIZE, true) == DONE;
    if (greeted && probe->answer == PROBE_PLAIN)
        read_ready(talk, probe->type);
}

void probe_ask(struct probe *probe, const char *endpoint, double seconds, int stop) {
    struct talk talk = {.connection = -1, .stop = stop, .deadline = clock_seconds() + seconds};
    *probe = (struct probe){.answer = PROBE_NOBODY};
    if (connect_endpoint(&talk, endpoint) < 0)
        return;
    ask(probe, &talk);
    close(talk.connection);
}
