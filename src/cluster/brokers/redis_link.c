#include "redis_link.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <sysexits.h>

#include "common/error.h"
#include "url.h"

enum { PORT = 6379, CONNECT_SECONDS = 3, ANSWER_SECONDS = 10 };

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

int redis_fail(const struct url *url, const char *text, struct error *error) {
    static const char *const FORBIDDEN[] = {"NOAUTH",
                                            "WRONGPASS",
                                            "NOPERM",
                                            "DENIED",
                                            "ERR invalid password",
                                            "ERR AUTH",
                                            "ERR Client sent AUTH",
                                            "ERR invalid username-password"};
    static const char *const FOR_NOW[] = {"LOADING",
                                          "MASTERDOWN",
                                          "READONLY",
                                          "CLUSTERDOWN",
                                          "BUSY ",
                                          "MISCONF",
                                          "TRYAGAIN",
                                          "NOREPLICAS",
                                          "NOGROUP",
                                          "UNBLOCKED",
                                          "ERR max number of clients"};
    char user[BROKER_KEY_SIZE], file[BROKER_KEY_SIZE];
    for (size_t n = 0; n < sizeof FORBIDDEN / sizeof *FORBIDDEN; n++)
        if (begins(text, FORBIDDEN[n]) || strstr(text, "The user executing the script"))
            return error_set(error, EX_NOPERM, "%s: access denied: %s; see %s and %s", url->name,
                             text, broker_key(user, url->section, "user"),
                             broker_key(file, url->section, "password-file"));
    if (begins(text, "OOM"))
        return error_set(error, EX_TEMPFAIL, "the server is full: its data has reached maxmemory");
    for (size_t n = 0; n < sizeof FOR_NOW / sizeof *FOR_NOW; n++)
        if (begins(text, FOR_NOW[n]))
            return error_set(error, EX_TEMPFAIL, "server error: %s", text);
    return error_set(error, EX_UNAVAILABLE, "%s: server error: %s", url->name, text);
}

int redis_lost(const redisContext *context, struct error *error) {
    bool late = context->err == REDIS_ERR_IO && errno == EAGAIN;
    return error_set(error, EX_TEMPFAIL, "%s",
                     late                            ? "no answer"
                     : context->err == REDIS_ERR_EOF ? "connection closed"
                                                     : context->errstr);
}

/* Sends a command and returns the reply; an error reply fails. */
static int ask(redisContext *context, const struct url *url, int count, const char **words,
               struct error *error) {
    redisReply *reply = redisCommandArgv(context, count, words, NULL);
    if (!reply)
        return redis_lost(context, error);
    int status = reply->type == REDIS_REPLY_ERROR ? redis_fail(url, reply->str, error) : 0;
    freeReplyObject(reply);
    return status;
}

int redis_log_in(redisContext *context, const struct url *url, struct error *error) {
    const char *with_user[] = {"AUTH", url->user, url->password};
    const char *without[] = {"AUTH", url->password};
    const char *choose[] = {"SELECT", url->path + 1};
    if (*url->user && ask(context, url, 3, with_user, error) < 0)
        return -1;
    if (!*url->user && *url->password && ask(context, url, 2, without, error) < 0)
        return -1;
    const char *known[] = {"PING"};
    /* then the server's reply shows whether it requires a login */
    bool anonymous = !*url->user && !*url->password;
    if (anonymous && ask(context, url, 1, known, error) < 0)
        return -1;
    bool database = *url->host && strlen(url->path) > 1;
    return database ? ask(context, url, 2, choose, error) : 0;
}

redisContext *redis_reach(const struct url *url, struct error *error) {
    signal(SIGPIPE, SIG_IGN); /* hiredis raises it when it writes to a closed connection */
    struct timeval connect = {.tv_sec = CONNECT_SECONDS}, answer = {.tv_sec = ANSWER_SECONDS};
    redisContext *context =
        *url->host ? redisConnectWithTimeout(url->host, url->port ? url->port : PORT, connect)
                   : redisConnectUnixWithTimeout(url->path, connect);
    if (!context)
        return error_no_memory(error), NULL;
    if (!context->err && redisSetTimeout(context, answer) == REDIS_OK &&
        (!*url->host || redisEnableKeepAlive(context) == REDIS_OK))
        return context;
    redis_lost(context, error);
    redisFree(context);
    return NULL;
}

redisContext *redis_connect(const struct url *url, struct error *error) {
    redisContext *context = redis_reach(url, error);
    if (!context || redis_log_in(context, url, error) == 0)
        return context;
    redisFree(context);
    return NULL;
}
