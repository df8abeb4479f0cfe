#include "build-config.h"

#include "web_server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "web_access.h"
#include "web_api.h"
#include "web_listen.h"
#include "web_metrics.h"
#include "web_pages.h"

#define HEAD_SECONDS 5.0   /* for a request to come whole, and between two of one connection */
#define REPLY_SECONDS 60.0 /* for a reply to be taken */
#define SWEEP_EVERY 1.0
#define LIVE_PATH "/api/live"
#define EXPERIMENT_PATH "/experiment" /* the page that is / when an experiment is shown */

enum {
    CONNECTIONS_MAX = 1000,
    CONNECTION_BYTES = 16 << 10, /* for a request's head and its reply's */
    IDLE_SECONDS = 15,           /* in which nothing moves */
    OTHER_FILES = 64,            /* descriptors that are not connections */
    RETRY_SIZE = 16,
};

/* A connection, from its acceptance on. */
struct visitor {
    struct visitor *next, **previous;
    struct MHD_Connection *connection;
    double since; /* when it came, or its last request ended; while one is answered: began */
    bool answered, stream; /* a request is being answered; by server-sent events */
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
    char retry[RETRY_SIZE], cookie[ACCESS_COOKIE_SIZE]; /* of the reply that is being made */
};

/* ---- Requests ---- */

static struct visitor *visitor_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static struct reply refuse(struct server *s, enum access_verdict verdict) {
    if (verdict == ACCESS_NO_HOST)
        return reply_error(MHD_HTTP_FORBIDDEN,
                           "this page is for the machine it runs on: open %s there, or give "
                           "runnel-web a --token for others",
                           s->url);
    if (verdict == ACCESS_FOREIGN)
        return reply_error(MHD_HTTP_FORBIDDEN, "this is not for pages of other sites");
    if (verdict == ACCESS_NOT_HEARD) {
        snprintf(s->retry, sizeof s->retry, "%u", s->access.wait);
        struct reply reply = reply_error(
            MHD_HTTP_TOO_MANY_REQUESTS,
            "too many wrong tokens came from your address: try again in %s s", s->retry);
        reply.extra[0].name = MHD_HTTP_HEADER_RETRY_AFTER;
        reply.extra[0].value = s->retry;
        return reply;
    }
    struct reply reply = reply_error(
        MHD_HTTP_UNAUTHORIZED, "this needs the token: open /?token=... once in a browser, or send "
                               "the header 'Authorization: Bearer ...'");
    reply.extra[0].name = MHD_HTTP_HEADER_WWW_AUTHENTICATE;
    reply.extra[0].value = "Bearer realm=\"runnel-web\"";
    return reply;
}

/* The token goes from the address, which shows it, into a cookie. */
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
            reply_error(MHD_HTTP_SERVICE_UNAVAILABLE,
                        "%d pages are open already, which is the most", (int)LIVE_CLIENTS_MAX);
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
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE,
                           "too much is asked for at once; try again");
    if (strcmp(path, "/metrics") == 0)
        return metrics_answer(s->feeds, s->access.guarded ? &s->access.guesses : NULL,
                              metrics_wants_open(MHD_lookup_connection_value(
                                  connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT)));
    if (strncmp(path, "/api/", strlen("/api/")) == 0)
        return api_answer(s->feeds, connection, path);
    return reply_error(MHD_HTTP_NOT_FOUND, "there is nothing here; the page is /");
}

/* Whether the client has this version already. */
static bool has_copy(struct MHD_Connection *connection, const char *etag) {
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    return known && strstr(known, etag);
}

/* A request that brings a body would make us read it. */
static bool has_body(struct MHD_Connection *connection) {
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* What is refused before anything else is read; then the connection ends. */
static bool is_refused(struct MHD_Connection *connection, const char *method, struct reply *reply) {
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (reads && !has_body(connection))
        return false;
    *reply = reads ? reply_error(MHD_HTTP_BAD_REQUEST, "a request has no body here")
                   : reply_error(MHD_HTTP_METHOD_NOT_ALLOWED, "this only shows: GET and HEAD");
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

/* Called when the head of a request has come, then for parts of a body, and at its end. */
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

/* A %00 would end the text before its end. */
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

/* The timeout of libmicrohttpd restarts with every byte; these do not. A socket that is shut
   down reads as closed, and the library ends the connection in its own way. */
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

/* How many connections there are descriptors for. */
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
    guesses_say(&s->access.guesses);
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
    guesses_say(&server->access.guesses);
}
