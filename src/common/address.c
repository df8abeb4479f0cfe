#include "address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HOST_SIZE = 256 };

static const char ipc_scheme[] = "ipc://", tcp_scheme[] = "tcp://";

static bool is_loopback(int family, const void *address) {
    const unsigned char *bytes = address; /* 127.0.0.0/8, ::ffff:127.0.0.0/104, ::1 */
    enum { LOOPBACK = 127, MAPPED_AT = 12 };
    if (family == AF_INET)
        return bytes[0] == LOOPBACK;
    return IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)address) ||
           (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address) && bytes[MAPPED_AT] == LOOPBACK);
}

/* Whether the interface exists and has only loopback addresses. */
static bool is_loopback_interface(const char *name) {
    struct ifaddrs *list;
    size_t loopback = 0, others = 0;
    if (getifaddrs(&list))
        return false;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (strcmp(i->ifa_name, name) || !i->ifa_addr)
            continue;
        int family = i->ifa_addr->sa_family;
        if (family == AF_INET || family == AF_INET6) {
            const void *address =
                family == AF_INET
                    ? (const void *)&((const struct sockaddr_in *)i->ifa_addr)->sin_addr
                    : (const void *)&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
            *(is_loopback(family, address) ? &loopback : &others) += 1;
        }
    }
    freeifaddrs(list);
    return loopback > 0 && others == 0;
}

bool address_is_abstract(const char *endpoint) {
    size_t scheme = sizeof ipc_scheme - 1;
    return !strncmp(endpoint, ipc_scheme, scheme) && endpoint[scheme] == '@';
}

bool address_is_local(const char *endpoint) {
    char host[HOST_SIZE];
    unsigned char address[sizeof(struct in6_addr)];
    const char *colon = strrchr(endpoint, ':'), *begin = endpoint + sizeof tcp_scheme - 1;
    if (!strncmp(endpoint, ipc_scheme, sizeof ipc_scheme - 1))
        return true;
    if (strncmp(endpoint, tcp_scheme, sizeof tcp_scheme - 1) || colon < begin)
        return false;
    const char *end = colon;
    if (*begin == '[' && end - begin >= 2 && end[-1] == ']')
        begin++, end--;
    snprintf(host, sizeof host, "%.*s", (int)(end - begin), begin);
    if (inet_pton(AF_INET, host, address) == 1)
        return is_loopback(AF_INET, address);
    if (inet_pton(AF_INET6, host, address) == 1)
        return is_loopback(AF_INET6, address);
    return is_loopback_interface(host);
}
