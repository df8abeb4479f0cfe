#include "redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 60000, STEP_MS = 5, MS = 1000000 };

struct url redis_url;

static char directory[] = "/tmp/runnel-redis-XXXXXX";
static char path[sizeof directory + sizeof "/redis.socket"];
static pid_t server;

int redis_is_there(void) {
    int is_there = system("redis-server --version >/dev/null 2>&1") == 0;
    if (!is_there)
        puts("needs redis-server");
    return is_there;
}

static redisContext *connect_to(void) {
    redisContext *context = redisConnectUnix(path);
    if (context && !context->err)
        return context;
    if (context)
        redisFree(context);
    return NULL;
}

static void run(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen("/dev/null", "w", stdout))
        _exit(1);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--dir", directory,
           "--save", "", "--appendonly", "no", (char *)NULL);
    _exit(1);
}

static void start(void) {
    const struct timespec step = {.tv_nsec = STEP_MS * MS};
    redisContext *context = NULL;
    unlink(path);
    server = fork();
    assert_true(server >= 0);
    if (server == 0)
        run();
    for (int waited = 0; waited < PATIENCE_MS && !context; waited += STEP_MS) {
        context = connect_to();
        if (!context)
            nanosleep(&step, NULL);
    }
    assert_non_null(context);
    redisFree(context);
}

void redis_end(void) {
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    server = 0;
}

void redis_start_anew(void) {
    redis_end();
    start();
}

int redis_start(void **unused) {
    char text[sizeof path + sizeof "unix://"];
    (void)unused;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/redis.socket", directory);
    snprintf(text, sizeof text, "unix://%s", path);
    if (url_parse(&redis_url, "url", text, "unix", "", &error))
        return -1;
    start();
    return 0;
}

int redis_stop(void **unused) {
    (void)unused;
    redis_end();
    unlink(path);
    return rmdir(directory);
}

static redisReply *ask(const char *format, va_list arguments) {
    redisContext *context = connect_to();
    assert_non_null(context);
    redisReply *reply = redisvCommand(context, format, arguments);
    redisFree(context);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    return reply;
}

redisReply *redis_ask(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(format, arguments);
    va_end(arguments);
    return reply;
}

void redis_do(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    freeReplyObject(ask(format, arguments));
    va_end(arguments);
}

/* ---- A fleet in it ---- */

const struct fleet_self anna = {.group = "g",
                                .name = "anna",
                                .id = "1",
                                .stream = "s",
                                .digest = "d",
                                .partitions = PARTITIONS,
                                .every = 100,
                                .lease = 3600};
struct error error;

struct fleet_link *fleet_redis_link(const struct fleet_self *self) {
    struct fleet_link *link;
    good(fleet_redis_open(&link, &redis_url, self, &error));
    return link;
}

void end_lease(const char *name) {
    redis_do("ZADD runnel:{g}:leases 1 %s", name);
}

struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence) {
    return (struct fleet_commit){.partition = claim->partition,
                                 .claim = claim->claim,
                                 .offset = {.epoch = 7, .sequence = sequence},
                                 .base = claim->offset,
                                 .learned = sequence,
                                 .serial = sequence};
}

struct fleet_ended ended(struct fleet_link *link, size_t partition, uint64_t claim) {
    struct fleet_ended one = {.claim = claim, .partition = partition};
    good(link->ops->ended(link, &one, 1, &error));
    return one;
}
