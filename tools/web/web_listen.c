#include "build-config.h"

#include "web_listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"

enum {
    BACKLOG = 128,
    HOST_SIZE = 256,
    PORT_SIZE = 16,
    PORT_MOST = 65535,
};

/* "[::1]:5580" into host and port; without a host it is 127.0.0.1. */
static bool split(const char *listen, char host[HOST_SIZE], char port[PORT_SIZE]) {
    const char *colon = strrchr(listen, ':'), *begin = listen;
    const char *digits = colon ? colon + 1 : listen;
    size_t length = colon ? (size_t)(colon - listen) : 0;
    if (!*digits || strlen(digits) > 5 || digits[strspn(digits, "0123456789")] ||
        atoi(digits) > PORT_MOST)
        return false;
    if (length >= 2 && *begin == '[' && begin[length - 1] == ']')
        begin++, length -= 2;
    if (length >= HOST_SIZE)
        return false;
    snprintf(host, HOST_SIZE, "%.*s", (int)length, begin);
    if (length == 0)
        strcpy(host, "127.0.0.1");
    strcpy(port, digits);
    return true;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

void listen_url(int listener, char url[SERVER_URL_SIZE]) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[HOST_SIZE] = "?", port[PORT_SIZE] = "?";
    if (getsockname(listener, (struct sockaddr *)&address, &size) == 0)
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = strchr(host, ':') != NULL;
    snprintf(url, SERVER_URL_SIZE, "http://%s%.100s%s:%s/", six ? "[" : "", host, six ? "]" : "",
             port);
}

static int bind_address(const struct addrinfo *address, const char *listen_at, bool guarded,
                        int *status) {
    int one = 1;
    *status = EX_USAGE;
    if (!guarded && !is_loopback(address->ai_addr)) {
        complain_usage("'%s' can be reached from other machines; that needs --token=FILE",
                       listen_at);
        return -1;
    }
    *status = EX_UNAVAILABLE;
    int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(listener, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(listener, BACKLOG) == 0)
        return listener;
    complain(*status, "cannot listen at '%s': %s; --listen chooses another address and port",
             listen_at, strerror(errno));
    if (listener >= 0)
        close(listener);
    return -1;
}

int listen_open(const char *listen_at, bool guarded, int *status) {
    char host[HOST_SIZE], port[PORT_SIZE];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    *status = EX_USAGE;
    if (!split(listen_at, host, port)) {
        complain_usage("--listen is '%s', but must be ADDRESS:PORT, such as 127.0.0.1:5580",
                       listen_at);
        return -1;
    }
    int wrong = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
    if (wrong) {
        complain_usage("there is no address '%s': %s", host, gai_strerror(wrong));
        return -1;
    }
    int listener = bind_address(found, listen_at, guarded, status);
    freeaddrinfo(found);
    return listener;
}
