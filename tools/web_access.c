#include "build-config.h"

#include "web_access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "tool.h"

#define COOKIE "runnel_token"
#define BEARER "Bearer "

/* What a cookie and an address can carry as it is. */
static const char token_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-._~";

static int check_token(struct access *access, const char *path) {
    char *token = access->token;
    token[strcspn(token, "\r\n")] = '\0';
    size_t length = strlen(token);
    if (length < ACCESS_TOKEN_LEAST || length > ACCESS_TOKEN_MOST ||
        token[strspn(token, token_characters)])
        return tool_fail(EX_USAGE,
                         "the first line of %s is no token: %d to %d letters, digits and -._~ "
                         "(one comes from: openssl rand -hex 16)",
                         path, ACCESS_TOKEN_LEAST, ACCESS_TOKEN_MOST);
    access->guarded = true;
    return EX_OK;
}

int access_read(struct access *access, const char *path) {
    char line[ACCESS_TOKEN_MOST + 3] = "";
    struct stat state;
    FILE *file = fopen(path, "re");
    if (!file)
        return tool_fail(EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    bool shared = fstat(fileno(file), &state) == 0 && (state.st_mode & (S_IRGRP | S_IROTH));
    bool has_line = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (shared)
        return tool_fail(EX_USAGE, "others may read %s, so it is no secret: chmod 600 %s", path,
                         path);
    snprintf(access->token, sizeof access->token, "%s", has_line ? line : "");
    if (strlen(line) >= sizeof access->token && !strpbrk(line, "\r\n"))
        access->token[0] = '\0';
    return check_token(access, path);
}

/* In a time that does not tell how much of it is right. */
static bool is_token(const struct access *access, const char *text) {
    size_t length = strlen(access->token);
    unsigned char difference = 0;
    if (!text || strlen(text) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(text[i] ^ access->token[i]);
    return difference == 0;
}

static enum access_verdict check_token_of(const struct access *access,
                                          struct MHD_Connection *connection) {
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (header && strncasecmp(header, BEARER, strlen(BEARER)) == 0 &&
        is_token(access, header + strlen(BEARER)))
        return ACCESS_GRANTED;
    if (is_token(access, MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, COOKIE)))
        return ACCESS_GRANTED;
    return is_token(access, MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token"))
               ? ACCESS_COOKIE
               : ACCESS_NO_TOKEN;
}

/* "localhost:5580", "127.0.0.1", "[::1]:5580", "x.localhost" */
static bool is_own_name(const char *host) {
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    static const char suffix[] = ".localhost";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncasecmp(host, names[i], length) == 0)
            return true;
    return length > strlen(suffix) &&
           strncasecmp(host + length - strlen(suffix), suffix, strlen(suffix)) == 0;
}

enum access_verdict access_check(const struct access *access, struct MHD_Connection *connection) {
    if (access->guarded)
        return check_token_of(access, connection);
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return host && is_own_name(host) ? ACCESS_GRANTED : ACCESS_NO_HOST;
}

void access_cookie(const struct access *access, char text[ACCESS_COOKIE_SIZE]) {
    snprintf(text, ACCESS_COOKIE_SIZE, COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/",
             access->token);
}
