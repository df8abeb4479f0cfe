#include "build-config.h"

#include "web_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/hash.h"
#include "web_api.h"
#include "web_guesses.h"
#include "web_metrics.h"
#include "web_reply.h"

/* ---- Access ----

   Who may read: everybody on a loopback address, elsewhere clients with the token. */

enum { ACCESS_TOKEN_LEAST = 16, ACCESS_TOKEN_MOST = 128, ACCESS_SESSION = 32 };

struct access {
    bool guarded; /* whether a token is required */
    char token[ACCESS_TOKEN_MOST + 1];
    char session[ACCESS_SESSION + 1]; /* random digits: sent to clients with the token */
    struct guesses guesses;
    unsigned wait; /* seconds, for ACCESS_NOT_HEARD */
};

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_COOKIE,  /* granted by ?token= in the address, which becomes a cookie */
    ACCESS_RENEW,   /* granted by the token in an old cookie, which is renewed */
    ACCESS_NO_HOST, /* `Host` is not a name of this machine */
    ACCESS_NO_TOKEN,
    ACCESS_NOT_HEARD, /* too many wrong tokens from this address */
    ACCESS_FOREIGN,   /* requested by a page of another site, not by a link */
};

/* Size of the header Set-Cookie with token and session. */
enum { ACCESS_COOKIE_SIZE = ACCESS_TOKEN_MOST + ACCESS_SESSION + 64 };

#define COOKIE "runnel_token"
#define COOKIE_SEPARATOR ":" /* between token and session */
#define BEARER "Bearer "

/* Characters that need no escape in cookies and addresses. */
static const char token_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-._~";

static int make_session(struct access *access) {
    unsigned char bytes[ACCESS_SESSION / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return complain(EX_UNAVAILABLE, "cannot get random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(access->session + 2 * i, 3, "%02x", bytes[i]);
    return EX_OK;
}

static int parse_token(struct access *access, const char *line, const char *path) {
    size_t length = strcspn(line, "\r\n");
    if (length < ACCESS_TOKEN_LEAST || length > ACCESS_TOKEN_MOST ||
        strspn(line, token_characters) < length)
        return complain(EX_USAGE,
                        "the first line of %s is not a token: expected %d to %d letters, digits "
                        "and -._~ (create one with: openssl rand -hex 16)",
                        path, ACCESS_TOKEN_LEAST, ACCESS_TOKEN_MOST);
    memcpy(access->token, line, length);
    access->token[length] = '\0';
    access->guarded = true;
    return make_session(access);
}

/* Reads the token: the first line of a file that only its owner may read. Returns EX_OK, or prints
   an error and returns an exit status. */
static int access_read(struct access *access, const char *path) {
    /* one character more than the maximum, to detect longer ones */
    char line[ACCESS_TOKEN_MOST + 2] = "";
    struct stat state;
    FILE *file = fopen(path, "re");
    if (!file)
        return complain(EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    bool shared = fstat(fileno(file), &state) == 0 && (state.st_mode & (S_IRGRP | S_IROTH));
    if (!fgets(line, sizeof line, file))
        *line = '\0';
    fclose(file);
    if (shared)
        return complain(EX_USAGE, "%s is readable by other users: run chmod 600 %s", path, path);
    return parse_token(access, line, path);
}

/* Compares in constant time, which does not reveal a correct beginning. */
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

/* A client with a session is never blocked, whatever others at its address send. */
static enum access_verdict check_token_of(struct access *access,
                                          struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *cookie = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, COOKIE);
    const char *argument = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    size_t kept = cookie ? strcspn(cookie, COOKIE_SEPARATOR) : 0; /* length of the token */
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

/* "127.0.0.1", "127.0.0.2" or "[::1]" */
static bool is_loopback_name(const char *name) {
    struct in_addr address;
    return strcmp(name, "[::1]") == 0 || (inet_pton(AF_INET, name, &address) == 1 &&
                                          ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* A loopback address, "localhost" or "x.localhost", with or without a port. */
static bool is_own_name(const char *host) {
    enum { NAME_MOST = 255 };
    static const char local[] = "localhost";
    char name[NAME_MOST + 1];
    size_t length = *host == '[' ? strcspn(host, "]") : 0;
    length += strcspn(host + length, ":");
    if (length > NAME_MOST)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    if (is_loopback_name(name) || strcasecmp(name, local) == 0)
        return true;
    const char *end = length > strlen(local) ? name + length - strlen(local) : NULL;
    return end && end[-1] == '.' && strcasecmp(end, local) == 0;
}

/* A page of another site cannot read the answers, but each request costs time. Browsers report the
   site. Links to this page are followed. */
static bool is_foreign(struct MHD_Connection *connection) {
    const char *site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
           !(mode && strcmp(mode, "navigate") == 0);
}

/* Without a token, pages of other sites could read this one through a name of theirs that resolves
   to 127.0.0.1. So only names of this machine are accepted. */
static enum access_verdict access_check(struct access *access, struct MHD_Connection *connection) {
    if (is_foreign(connection))
        return ACCESS_FOREIGN;
    if (access->guarded)
        return check_token_of(access, connection);
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return host && is_own_name(host) ? ACCESS_GRANTED : ACCESS_NO_HOST;
}

static void access_cookie(const struct access *access, char text[ACCESS_COOKIE_SIZE]) {
    snprintf(text, ACCESS_COOKIE_SIZE,
             COOKIE "=%s" COOKIE_SEPARATOR "%s; HttpOnly; SameSite=Strict; Path=/", access->token,
             access->session);
}

/* ---- Listen ---- */

enum {
    BACKLOG = 128,
    HOST_SIZE = 256,
    PORT_SIZE = 16,
    PORT_MOST = 65535,
};

/* Splits "[::1]:5580" into host and port; the default host is 127.0.0.1. */
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

/* http://127.0.0.1:5580/ */
static void listen_url(int listener, char url[SERVER_URL_SIZE]) {
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
        complain_usage("other machines can reach '%s': this address requires --token=FILE",
                       listen_at);
        return -1;
    }
    *status = EX_UNAVAILABLE;
    int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(listener, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(listener, BACKLOG) == 0)
        return listener;
    complain(*status, "cannot listen at '%s': %s; choose another address or port with --listen",
             listen_at, strerror(errno));
    if (listener >= 0)
        close(listener);
    return -1;
}

/* Opens a listening socket at "HOST:PORT", "[HOST]:PORT" or "PORT" (on 127.0.0.1). Returns -1 after
   printing an error, with *status. Addresses that other machines can reach are refused unless
   `guarded`. */
static int listen_open(const char *listen_at, bool guarded, int *status) {
    char host[HOST_SIZE], port[PORT_SIZE];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    *status = EX_USAGE;
    if (!split(listen_at, host, port)) {
        complain_usage("--listen: expected ADDRESS:PORT such as 127.0.0.1:5580, got '%s'",
                       listen_at);
        return -1;
    }
    int wrong = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
    if (wrong) {
        complain_usage("--listen: cannot resolve '%s': %s", host, gai_strerror(wrong));
        return -1;
    }
    int listener = bind_address(found, listen_at, guarded, status);
    freeaddrinfo(found);
    return listener;
}

/* ---- Pages ----

   The files of the page, compiled into the program, and the chart library from its package. */

enum { PAGES = 38, PAGE_ETAG_SIZE = 20 };

struct pages {
    char *chart; /* owned */
    size_t chart_size;
    char chart_etag[PAGE_ETAG_SIZE], etags[PAGES][PAGE_ETAG_SIZE];
};

#define CHART_PATH "/chart.js"
#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JAVASCRIPT "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

/* The bytes of a file from NAME_begin to NAME_end. */
#define EMBED_FROM(directory, name, file)                                                          \
    __asm__(".section .rodata\n.global page_" #name "_begin\n.global page_" #name                  \
            "_end\npage_" #name "_begin:\n.incbin \"" directory "/" file "\"\npage_" #name         \
            "_end:\n.byte 0\n.previous\n");                                                        \
    extern const char page_##name##_begin[], page_##name##_end[];
#define EMBED(name, file) EMBED_FROM(RUNNEL_WEB_DIRECTORY, name, file)

EMBED(index, "index.html")
EMBED(style, "style.css")
EMBED(icon, "icon.svg")
EMBED(anomalies, "anomalies.js")
EMBED(score, "score.js")
EMBED(verdict, "verdict.js")
EMBED(app, "app.js")
EMBED(charts, "charts.js")
EMBED(controls, "controls.js")
EMBED(experiment_page, "experiment.html")
EMBED(experiment_style, "experiment.css")
EMBED(experiment, "experiment.js")
EMBED(experiment_chart, "experiment_chart.js")
EMBED(experiment_data, "experiment_data.js")
EMBED(experiment_detail, "experiment_detail.js")
EMBED(experiment_filter, "experiment_filter.js")
EMBED(experiment_table, "experiment_table.js")
EMBED(data, "data.js")
EMBED(dom, "dom.js")
EMBED(draw, "draw.js")
EMBED(fleet, "fleet.js")
EMBED(forecast, "forecast.js")
EMBED(format, "format.js")
EMBED(frame, "frame.js")
EMBED(heat, "heat.js")
EMBED(lists, "lists.js")
EMBED(live, "live.js")
EMBED(multiples, "multiples.js")
EMBED_FROM(RUNNEL_WEB_BUILT, palette, "palette.js")
EMBED(panels, "panels.js")
EMBED(pointer, "pointer.js")
EMBED(range, "range.js")
EMBED(settings, "settings.js")
EMBED(skill, "skill.js")
EMBED(state, "state.js")
EMBED(theme, "theme.js")
EMBED(view, "view.js")

#define PAGE(path, type, name)                                                                     \
    { path, type, page_##name##_begin, page_##name##_end }
#define MODULE(name) PAGE("/" #name ".js", JAVASCRIPT, name)

static const struct page {
    const char *path, *type, *begin, *end;
} pages_table[PAGES] = {
    PAGE("/", HTML, index),
    PAGE("/style.css", CSS, style),
    PAGE("/experiment", HTML, experiment_page),
    PAGE("/experiment.css", CSS, experiment_style),
    PAGE("/icon.svg", SVG, icon),
    PAGE("/favicon.ico", SVG, icon),
    MODULE(anomalies),
    MODULE(score),
    MODULE(verdict),
    MODULE(app),
    MODULE(charts),
    MODULE(controls),
    MODULE(data),
    MODULE(dom),
    MODULE(experiment),
    MODULE(experiment_chart),
    MODULE(experiment_data),
    MODULE(experiment_detail),
    MODULE(experiment_filter),
    MODULE(experiment_table),
    MODULE(draw),
    MODULE(fleet),
    MODULE(forecast),
    MODULE(format),
    MODULE(frame),
    MODULE(heat),
    MODULE(lists),
    MODULE(live),
    MODULE(multiples),
    MODULE(palette),
    MODULE(panels),
    MODULE(pointer),
    MODULE(range),
    MODULE(settings),
    MODULE(skill),
    MODULE(state),
    MODULE(theme),
    MODULE(view),
};

/* Identifies the version of a file for the browser's cache. */
static void write_etag(char etag[PAGE_ETAG_SIZE], const char *begin, const char *end) {
    uint64_t hash = hash_bytes(HASH_BEGIN, begin, (size_t)(end - begin));
    snprintf(etag, PAGE_ETAG_SIZE, "\"%016llx\"", (unsigned long long)hash);
}

static void pages_close(struct pages *pages) {
    free(pages->chart);
    *pages = (struct pages){0};
}

/* Returns EX_OK, or prints an error and returns an exit status. */
static int pages_open(struct pages *pages, const char *chart_file) {
    static const char way_out[] = "it draws the charts; on Debian: apt-get install libjs-chart.js";
    enum { LARGEST = 4 << 20 };
    *pages = (struct pages){0};
    FILE *file = fopen(chart_file, "re");
    if (!file)
        return complain(EX_UNAVAILABLE, "cannot read %s: %s (%s)", chart_file, strerror(errno),
                        way_out);
    pages->chart = malloc(LARGEST);
    pages->chart_size = pages->chart ? fread(pages->chart, 1, LARGEST, file) : 0;
    fclose(file);
    if (pages->chart_size > 0 && pages->chart_size < LARGEST) {
        char *fitting = realloc(pages->chart, pages->chart_size);
        pages->chart = fitting ? fitting : pages->chart;
        write_etag(pages->chart_etag, pages->chart, pages->chart + pages->chart_size);
        for (size_t i = 0; i < PAGES; i++)
            write_etag(pages->etags[i], pages_table[i].begin, pages_table[i].end);
        return EX_OK;
    }
    pages_close(pages);
    return complain(EX_UNAVAILABLE, "%s is not the chart library (%s)", chart_file, way_out);
}

/* Finds the file at this path. Returns true with `reply` filled, valid as long as `pages`. */
static bool pages_find(const struct pages *pages, const char *path, struct reply *reply) {
    *reply = (struct reply){.status = MHD_HTTP_OK};
    if (strcmp(path, CHART_PATH) == 0) {
        reply->type = JAVASCRIPT;
        reply->body = pages->chart;
        reply->size = pages->chart_size;
        reply->etag = pages->chart_etag;
        return true;
    }
    for (size_t i = 0; i < PAGES; i++) {
        const struct page *page = &pages_table[i];
        if (strcmp(path, page->path) != 0)
            continue;
        reply->type = page->type;
        reply->body = page->begin;
        reply->size = (size_t)(page->end - page->begin);
        reply->etag = pages->etags[i];
        return true;
    }
    return false;
}

#define HEAD_SECONDS 5.0   /* maximum seconds to receive a request, and between two requests */
#define REPLY_SECONDS 60.0 /* maximum seconds to send a reply */
#define SWEEP_EVERY 1.0
#define LIVE_PATH "/api/live"
#define EXPERIMENT_PATH "/experiment" /* the page at / when an experiment is shown */

enum {
    CONNECTIONS_MAX = 1000,
    CONNECTION_BYTES = 16 << 10, /* memory for the heads of request and reply */
    IDLE_SECONDS = 15,           /* maximum seconds without traffic */
    OTHER_FILES = 64,            /* descriptors that are not connections */
    RETRY_SIZE = 16,
};

/* A connection. */
struct visitor {
    struct visitor *next, **previous;
    struct MHD_Connection *connection;
    double since;          /* start of the current request, or of the wait for one */
    bool answered, stream; /* answered: a request is being answered; stream: with events */
    bool dropped;
};

struct server {
    struct MHD_Daemon *daemon;
    struct feeds *feeds;
    struct access access;
    struct pages pages;
    struct visitor *visitors;
    double swept;
    char url[SERVER_URL_SIZE];
    char retry[RETRY_SIZE], cookie[ACCESS_COOKIE_SIZE]; /* of the current reply */
};

/* ---- Requests ---- */

static struct visitor *visitor_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static struct reply refuse(struct server *s, enum access_verdict verdict) {
    if (verdict == ACCESS_NO_HOST)
        return reply_error(
            MHD_HTTP_FORBIDDEN,
            "access denied: open %s on the machine where runnel-web runs, or start it with --token",
            s->url);
    if (verdict == ACCESS_FOREIGN)
        return reply_error(MHD_HTTP_FORBIDDEN, "access denied: request from another site");
    if (verdict == ACCESS_NOT_HEARD) {
        snprintf(s->retry, sizeof s->retry, "%u", s->access.wait);
        struct reply reply =
            reply_error(MHD_HTTP_TOO_MANY_REQUESTS,
                        "too many wrong tokens from your address: retry in %s s", s->retry);
        reply.extra[0].name = MHD_HTTP_HEADER_RETRY_AFTER;
        reply.extra[0].value = s->retry;
        return reply;
    }
    struct reply reply =
        reply_error(MHD_HTTP_UNAUTHORIZED, "missing token: open /?token=... once in a browser, or "
                                           "send the header 'Authorization: Bearer ...'");
    reply.extra[0].name = MHD_HTTP_HEADER_WWW_AUTHENTICATE;
    reply.extra[0].value = "Bearer realm=\"runnel-web\"";
    return reply;
}

/* Moves the token from the visible address into a cookie. */
static enum MHD_Result send_cookie(struct server *s, struct MHD_Connection *connection) {
    access_cookie(&s->access, s->cookie);
    struct reply reply = {
        .status = MHD_HTTP_SEE_OTHER,
        .type = REPLY_TEXT,
        .body = "",
        .extra = {{MHD_HTTP_HEADER_SET_COOKIE, s->cookie}, {MHD_HTTP_HEADER_LOCATION, "/"}}};
    return reply_send(connection, &reply);
}

static enum MHD_Result send_live(struct server *s, struct MHD_Connection *connection) {
    struct MHD_Response *response = live_response(s->feeds->live, connection);
    if (!response) {
        struct reply reply =
            reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "too many open pages: the maximum is %d",
                        (int)LIVE_CLIENTS_MAX);
        return reply_send(connection, &reply);
    }
    struct visitor *visitor = visitor_of(connection);
    if (visitor)
        visitor->stream = true;
    reply_headers(response);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static struct reply answer_path(struct server *s, struct MHD_Connection *connection,
                                const char *path) {
    struct reply reply;
    if (s->feeds->experiment && strcmp(path, "/") == 0)
        path = EXPERIMENT_PATH;
    if (pages_find(&s->pages, path, &reply))
        return reply;
    if (reply_pending() > REPLY_PENDING_MAX)
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at once; retry later");
    if (strcmp(path, "/metrics") == 0)
        return metrics_answer(s->feeds, s->access.guarded ? &s->access.guesses : NULL,
                              metrics_wants_open(MHD_lookup_connection_value(
                                  connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT)));
    if (strncmp(path, "/api/", strlen("/api/")) == 0)
        return api_answer(s->feeds, connection, path);
    return reply_error(MHD_HTTP_NOT_FOUND, "path not found; the page is /");
}

/* Whether the client's copy is current. */
static bool has_copy(struct MHD_Connection *connection, const char *etag) {
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    return known && strstr(known, etag);
}

/* Reading a request's body would cost time. */
static bool has_body(struct MHD_Connection *connection) {
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* Rejects the request before anything else is read; then the connection ends. */
static bool is_refused(struct MHD_Connection *connection, const char *method, struct reply *reply) {
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (reads && !has_body(connection))
        return false;
    *reply =
        reads ? reply_error(MHD_HTTP_BAD_REQUEST, "a request must not have a body")
              : reply_error(MHD_HTTP_METHOD_NOT_ALLOWED, "method not supported: use GET or HEAD");
    reply->extra[0].name = MHD_HTTP_HEADER_CONNECTION;
    reply->extra[0].value = "close";
    if (!reads) {
        reply->extra[1].name = MHD_HTTP_HEADER_ALLOW;
        reply->extra[1].value = "GET, HEAD";
    }
    return true;
}

static enum MHD_Result answer_request(struct server *s, struct MHD_Connection *connection,
                                      const char *path, bool get) {
    struct reply reply;
    enum access_verdict verdict = access_check(&s->access, connection);
    if (verdict == ACCESS_COOKIE && strcmp(path, "/") == 0)
        return send_cookie(s, connection);
    if (verdict > ACCESS_RENEW)
        reply = refuse(s, verdict);
    else if (get && strcmp(path, LIVE_PATH) == 0)
        return send_live(s, connection);
    else if (strcmp(path, LIVE_PATH) == 0)
        reply = (struct reply){.status = MHD_HTTP_OK, .type = LIVE_TYPE, .body = ""};
    else
        reply = answer_path(s, connection, path);
    if (verdict == ACCESS_RENEW && !reply.extra[0].name) {
        access_cookie(&s->access, s->cookie);
        reply.extra[0].name = MHD_HTTP_HEADER_SET_COOKIE;
        reply.extra[0].value = s->cookie;
    }
    if (reply.etag && has_copy(connection, reply.etag))
        reply_unchanged(&reply);
    return reply_send(connection, &reply);
}

/* Called after the head of a request, for parts of a body, and at the end. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request) {
    struct server *s = context;
    struct visitor *visitor = visitor_of(connection);
    struct reply reply;
    (void)version, (void)upload;
    if (!*request) {
        *request = s;
        if (visitor) {
            visitor->answered = true;
            visitor->since = clock_seconds();
        }
        return is_refused(connection, method, &reply) ? reply_send(connection, &reply) : MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    return answer_request(s, connection, url, strcmp(method, MHD_HTTP_METHOD_GET) == 0);
}

/* A %00 would truncate the text. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context, (void)connection;
    size_t length = MHD_http_unescape(text);
    for (size_t i = 0; i < length; i++)
        if (!text[i])
            text[i] = '\x01';
    return length;
}

/* ---- Connections ---- */

static void on_connection(void *context, struct MHD_Connection *connection, void **of_socket,
                          enum MHD_ConnectionNotificationCode code) {
    struct server *s = context;
    struct visitor *visitor = *of_socket;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED && visitor) {
        *visitor->previous = visitor->next;
        if (visitor->next)
            visitor->next->previous = visitor->previous;
        free(visitor);
        *of_socket = NULL;
    }
    if (code != MHD_CONNECTION_NOTIFY_STARTED || !(visitor = calloc(1, sizeof *visitor)))
        return;
    *visitor = (struct visitor){.next = s->visitors,
                                .previous = &s->visitors,
                                .connection = connection,
                                .since = clock_seconds()};
    if (visitor->next)
        visitor->next->previous = &visitor->next;
    s->visitors = visitor;
    *of_socket = visitor;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code) {
    struct visitor *visitor = visitor_of(connection);
    (void)context, (void)code;
    *request = NULL;
    if (!visitor)
        return;
    visitor->answered = false;
    visitor->since = clock_seconds();
}

/* The timeout of libmicrohttpd restarts with every byte; these limits do not. A socket that is shut
   down reads as closed, so the library ends the connection itself. */
static void sweep(struct server *s, double now) {
    for (struct visitor *visitor = s->visitors; visitor; visitor = visitor->next) {
        double allowed = visitor->answered ? REPLY_SECONDS : HEAD_SECONDS;
        if (visitor->stream || visitor->dropped || now - visitor->since < allowed)
            continue;
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(visitor->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        visitor->dropped = true;
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
    }
}

/* ---- The server ---- */

/* The number of connections for which there are descriptors. */
static unsigned connections_allowed(void) {
    struct rlimit limit;
    const rlim_t wanted = CONNECTIONS_MAX + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return CONNECTIONS_MAX / 2;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return CONNECTIONS_MAX;
    return limit.rlim_cur > 2 * OTHER_FILES ? (unsigned)limit.rlim_cur - OTHER_FILES : OTHER_FILES;
}

static int start(struct server *s, int listener) {
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, answer, s,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, connections_allowed(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_END);
    if (s->daemon)
        return EX_OK;
    close(listener);
    return complain(EX_UNAVAILABLE, "cannot start the HTTP server");
}

int server_open(struct server **server, const struct server_options *options, struct feeds *feeds) {
    int status = EX_OK, listener = -1;
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return complain(EX_UNAVAILABLE, "out of memory");
    s->feeds = feeds;
    if (options->token_file)
        status = access_read(&s->access, options->token_file);
    if (status == EX_OK)
        status = pages_open(&s->pages, options->chart_file);
    if (status == EX_OK)
        listener = listen_open(options->listen, s->access.guarded, &status);
    if (listener >= 0) {
        listen_url(listener, s->url);
        status = start(s, listener);
    }
    *server = s;
    if (status != EX_OK)
        server_close(server);
    return status;
}

void server_close(struct server **server) {
    struct server *s = *server;
    if (!s)
        return;
    if (s->daemon) {
        live_stop(s->feeds->live);
        MHD_run(s->daemon);
        MHD_stop_daemon(s->daemon);
    }
    guesses_report(&s->access.guesses);
    pages_close(&s->pages);
    free(s);
    *server = NULL;
}

const char *server_url(const struct server *server) {
    return server->url;
}

int server_descriptor(const struct server *server) {
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

double server_next(const struct server *server) {
    MHD_UNSIGNED_LONG_LONG milliseconds;
    double next = server->swept + SWEEP_EVERY - clock_seconds();
    if (MHD_get_timeout(server->daemon, &milliseconds) == MHD_YES)
        next = fmin(next, (double)milliseconds * 1e-3);
    return fmax(next, 0);
}

void server_run(struct server *server) {
    double now = clock_seconds();
    MHD_run(server->daemon);
    if (now - server->swept < SWEEP_EVERY)
        return;
    server->swept = now;
    sweep(server, now);
    guesses_report(&server->access.guesses);
}
