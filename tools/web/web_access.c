#include "build-config.h"

#include "web_access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"

#define COOKIE "runnel_token"
#define COOKIE_SEPARATOR ":" /* between token and session */
#define BEARER "Bearer "

/* What a cookie and an address can carry as it is. */
static const char token_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-._~";

static int make_session(struct access *access) {
    unsigned char bytes[ACCESS_SESSION / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return complain(EX_UNAVAILABLE, "there are no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(access->session + 2 * i, 3, "%02x", bytes[i]);
    return EX_OK;
}

static int take_token(struct access *access, const char *line, const char *path) {
    size_t length = strcspn(line, "\r\n");
    if (length < ACCESS_TOKEN_LEAST || length > ACCESS_TOKEN_MOST ||
        strspn(line, token_characters) < length)
        return complain(EX_USAGE,
                        "the first line of %s is no token: %d to %d letters, digits and -._~ "
                        "(one comes from: openssl rand -hex 16)",
                        path, ACCESS_TOKEN_LEAST, ACCESS_TOKEN_MOST);
    memcpy(access->token, line, length);
    access->token[length] = '\0';
    access->guarded = true;
    return make_session(access);
}

int access_read(struct access *access, const char *path) {
    char line[ACCESS_TOKEN_MOST + 2] = ""; /* one more than there may be, to know that there is */
    struct stat state;
    FILE *file = fopen(path, "re");
    if (!file)
        return complain(EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    bool shared = fstat(fileno(file), &state) == 0 && (state.st_mode & (S_IRGRP | S_IROTH));
    if (!fgets(line, sizeof line, file))
        *line = '\0';
    fclose(file);
    if (shared)
        return complain(EX_USAGE, "others may read %s, so it is no secret: chmod 600 %s", path,
                        path);
    return take_token(access, line, path);
}

/* In constant time: it does not show how much of it is right. */
static bool is_secret(const char *secret, const char *text, size_t length) {
    unsigned char difference = 0;
    if (length != strlen(secret))
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(text[i] ^ secret[i]);
    return difference == 0;
}

static bool is_token(const struct access *access, const char *text) {
    return text && is_secret(access->token, text, strlen(text));
}

static double wait_of(struct access *access, const struct sockaddr *address) {
    return address ? guesses_wait(&access->guesses, address, clock_seconds()) : 0;
}

/* Who has shown the token before is heard whatever others at the same address send. */
static enum access_verdict check_token_of(struct access *access,
                                          struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *cookie = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, COOKIE);
    const char *argument = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    size_t kept = cookie ? strcspn(cookie, COOKIE_SEPARATOR) : 0; /* of the token */
    if (header)
        header = strncasecmp(header, BEARER, strlen(BEARER)) == 0 ? header + strlen(BEARER) : NULL;
    if (cookie && cookie[kept] &&
        is_secret(access->session, cookie + kept + 1, strlen(cookie + kept + 1)))
        return ACCESS_GRANTED;
    if (!header && !cookie && !argument)
        return ACCESS_NO_TOKEN;
    access->wait = (unsigned)ceil(wait_of(access, address));
    if (access->wait)
        return ACCESS_NOT_HEARD;
    if (is_token(access, header))
        return ACCESS_GRANTED;
    if (cookie && is_secret(access->token, cookie, kept))
        return ACCESS_RENEW;
    if (is_token(access, argument))
        return ACCESS_COOKIE;
    if (address)
        guesses_add(&access->guesses, address,
                    header     ? header
                    : argument ? argument
                               : cookie,
                    clock_seconds());
    return ACCESS_NO_TOKEN;
}

/* "127.0.0.1", "127.0.0.2", "[::1]" */
static bool is_loopback(const char *name) {
    struct in_addr address;
    return strcmp(name, "[::1]") == 0 || (inet_pton(AF_INET, name, &address) == 1 &&
                                          ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* An address of loopback, "localhost" or "x.localhost", with or without a port after it. */
static bool is_own_name(const char *host) {
    enum { NAME_MOST = 255 };
    static const char local[] = "localhost";
    char name[NAME_MOST + 1];
    size_t length = *host == '[' ? strcspn(host, "]") : 0;
    length += strcspn(host + length, ":");
    if (length > NAME_MOST)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    if (is_loopback(name) || strcasecmp(name, local) == 0)
        return true;
    const char *end = length > strlen(local) ? name + length - strlen(local) : NULL;
    return end && end[-1] == '.' && strcasecmp(end, local) == 0;
}

/* Another site's page cannot read what it asks for here, but every question costs; browsers tell
   who asks. Links that lead here are followed. */
static bool is_foreign(struct MHD_Connection *connection) {
    const char *site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
           !(mode && strcmp(mode, "navigate") == 0);
}

enum access_verdict access_check(struct access *access, struct MHD_Connection *connection) {
    if (is_foreign(connection))
        return ACCESS_FOREIGN;
    if (access->guarded)
        return check_token_of(access, connection);
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return host && is_own_name(host) ? ACCESS_GRANTED : ACCESS_NO_HOST;
}

void access_cookie(const struct access *access, char text[ACCESS_COOKIE_SIZE]) {
    snprintf(text, ACCESS_COOKIE_SIZE,
             COOKIE "=%s" COOKIE_SEPARATOR "%s; HttpOnly; SameSite=Strict; Path=/", access->token,
             access->session);
}
