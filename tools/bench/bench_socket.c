#include "bench_socket.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"

/* ---- The sender: a thread that sends generated examples at full speed ---- */

enum { BLOCKED_MS = 50 }; /* longest block of a send before the thread checks its flags */

static const char KEY[] = "bench";

struct bench_sender {
    const struct architecture *architecture;
    const struct bench_data *data;
    void *socket;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted, flowing, ending; /* under the lock */
    uint64_t sent;                /* the thread's while it sends, else under the lock */
};

/* Reports that the thread has stopped sending, and waits until it must send again. False: the
   thread must end. */
static bool await_flow(struct bench_sender *sender) {
    pthread_mutex_lock(&sender->lock);
    sender->flowing = false;
    pthread_cond_broadcast(&sender->changed);
    while (!sender->wanted && !sender->ending)
        pthread_cond_wait(&sender->changed, &sender->lock);
    sender->flowing = true;
    pthread_cond_broadcast(&sender->changed);
    bool ending = sender->ending;
    pthread_mutex_unlock(&sender->lock);
    return !ending;
}

static bool is_wanted(struct bench_sender *sender) {
    return __atomic_load_n(&sender->wanted, __ATOMIC_RELAXED);
}

/* Sends [key][x] or [key][x][y]. False: the socket was full for BLOCKED_MS; nothing was sent. */
static bool send_example(struct bench_sender *sender) {
    const struct bench_data *data = sender->data;
    struct example e = bench_data_example(data, sender->architecture, KEY, sender->sent);
    if (zmq_send(sender->socket, e.key, e.key_size, ZMQ_SNDMORE) < 0)
        return false;
    zmq_send(sender->socket, e.x, data->inputs * sizeof(union value), e.y ? ZMQ_SNDMORE : 0);
    if (e.y)
        zmq_send(sender->socket, e.y, data->targets * sizeof(union value), 0);
    sender->sent++;
    return true;
}

static void *send_all(void *context) {
    struct bench_sender *sender = context;
    while (await_flow(sender))
        while (is_wanted(sender))
            send_example(sender);
    return NULL;
}

static void bench_sender_close(struct bench_sender **sender) {
    struct bench_sender *s = *sender;
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        __atomic_store_n(&s->wanted, false, __ATOMIC_RELAXED);
        s->ending = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    if (s->socket)
        zmq_close(s->socket);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *sender = NULL;
}

/* Connects and waits. Context, architecture and data must outlive it. */
static int bench_sender_open(struct bench_sender **sender, void *zmq_context, const char *endpoint,
                             const struct architecture *architecture, const struct bench_data *data,
                             struct error *error) {
    struct bench_sender *s = *sender = calloc(1, sizeof *s);
    int wait = BLOCKED_MS, linger = 0;
    if (!s)
        return error_set(error, EX_OSERR, "out of memory for a sender");
    s->architecture = architecture;
    s->data = data;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->socket = zmq_socket(zmq_context, ZMQ_PUSH);
    if (!s->socket || zmq_setsockopt(s->socket, ZMQ_SNDTIMEO, &wait, sizeof wait) ||
        zmq_setsockopt(s->socket, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_connect(s->socket, endpoint)) {
        error_set(error, EX_UNAVAILABLE, "%s: %s", endpoint, zmq_strerror(errno));
    } else if (pthread_create(&s->thread, NULL, send_all, s) == 0) {
        s->started = true;
        return 0;
    } else {
        error_set(error, EX_OSERR, "cannot start a sender thread");
    }
    bench_sender_close(sender);
    return -1;
}

/* Starts or stops sending, and returns when the thread has done so. */
static void bench_sender_flow(struct bench_sender *sender, bool flowing) {
    pthread_mutex_lock(&sender->lock);
    __atomic_store_n(&sender->wanted, flowing, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&sender->changed);
    while (sender->flowing != flowing)
        pthread_cond_wait(&sender->changed, &sender->lock);
    pthread_mutex_unlock(&sender->lock);
}

/* Examples sent so far; exact while it waits. */
static uint64_t bench_sender_sent(struct bench_sender *sender) {
    pthread_mutex_lock(&sender->lock);
    uint64_t sent = sender->sent;
    pthread_mutex_unlock(&sender->lock);
    return sent;
}

enum {
    START_TRIES = 600, /* of START_WAIT each */
    REPLY_MS = 10000,
    ENDPOINT_SIZE = 256,
    OVERRIDES = 5, /* of this program */
    LOG_TAIL = 400,
    OPEN_FILES = 8,
    DIRECTORY_SIZE = 64, /* the path of an ipc socket in it must fit 108 bytes */
};

static const double START_WAIT = 0.05, WARM_UP = 0.3, DRAIN = 2.0, DRAIN_WAIT = 0.02, STOP = 10.0,
                    /* limits: STOP for the daemon's end, LEARN for its first examples */
    LEARN = 10.0;

struct bench_socket {
    char directory[DIRECTORY_SIZE]; /* temporary: state, sockets and log */
    pid_t daemon;                   /* 0: none */
    void *context, *control;
    struct bench_sender *sender;
    bool paused;
    uint64_t examples;
};

/* Values from the control socket. */
struct reading {
    uint64_t examples;
    double time;
    char endpoint[ENDPOINT_SIZE];
};

static void sleep_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* ---- The daemon's process ---- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

/* runneld in the directory of this program. */
static int find_program(char *path, size_t size, struct error *error) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length < 0)
        return error_set(error, EX_OSERR, "runneld not found; pass its path with --daemon");
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash + 1, size - (size_t)(slash + 1 - path), "runneld");
    if (access(path, X_OK) == 0)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "%s: %s; pass the path of runneld with --daemon", path,
                     strerror(errno));
}

/* The child's part: never returns. */
static void become_daemon(const struct bench_socket *socket, char *const *arguments) {
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%s/log", socket->directory);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen(log, "w", stderr))
        execv(arguments[0], arguments);
    _exit(EX_UNAVAILABLE);
}

static int start_daemon(struct bench_socket *socket, const struct bench_socket_options *options,
                        struct error *error) {
    char program[PATH_MAX], own[OVERRIDES][ENDPOINT_SIZE];
    if (options->program)
        snprintf(program, sizeof program, "%s", options->program);
    else if (find_program(program, sizeof program, error))
        return -1;
    const char *d = socket->directory;
    if (options->examples)
        snprintf(own[0], sizeof own[0], "examples.bind=%s", options->examples);
    else
        snprintf(own[0], sizeof own[0], "examples.bind=ipc://%s/examples", d);
    snprintf(own[1], sizeof own[1], "statistics.bind=ipc://%s/statistics", d);
    snprintf(own[2], sizeof own[2], "control.bind=ipc://%s/control", d);
    snprintf(own[3], sizeof own[3], "state.directory=%s/state", d);
    snprintf(own[4], sizeof own[4], "state.checkpoint={examples: 0, seconds: 0}");
    char **arguments =
        calloc(2 * (options->override_count + OVERRIDES) + 4, sizeof(char *)); /* and NULL */
    if (!arguments)
        return error_set(error, EX_OSERR, "out of memory: cannot start %s", program);
    size_t n = 0;
    arguments[n++] = program;
    arguments[n++] = "--config";
    arguments[n++] = (char *)options->config;
    for (size_t i = 0; i < options->override_count + OVERRIDES; i++) {
        arguments[n++] = "--set";
        arguments[n++] = i < options->override_count ? (char *)options->overrides[i]
                                                     : own[i - options->override_count];
    }
    socket->daemon = fork();
    if (socket->daemon == 0)
        become_daemon(socket, arguments);
    free(arguments);
    if (socket->daemon > 0)
        return 0;
    socket->daemon = 0;
    return error_set(error, EX_OSERR, "cannot start %s: %s", program, strerror(errno));
}

static void stop_daemon(struct bench_socket *socket) {
    if (!socket->daemon)
        return;
    kill(socket->daemon, SIGTERM);
    for (double begin = clock_seconds(); clock_seconds() < begin + STOP; sleep_for(DRAIN_WAIT))
        if (waitpid(socket->daemon, NULL, WNOHANG) != 0)
            return;
    kill(socket->daemon, SIGKILL);
    waitpid(socket->daemon, NULL, 0);
}

/* Appends the daemon's last log lines to an error. */
static int append_log(const struct bench_socket *socket, struct error *error) {
    char path[PATH_MAX], tail[LOG_TAIL + 1] = "";
    snprintf(path, sizeof path, "%s/log", socket->directory);
    FILE *file = fopen(path, "r");
    if (file && (fseek(file, -LOG_TAIL, SEEK_END) == 0 || fseek(file, 0, SEEK_SET) == 0))
        tail[fread(tail, 1, LOG_TAIL, file)] = '\0';
    if (file)
        fclose(file);
    for (char *c = tail; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    return error_set(error, EX_UNAVAILABLE, "runneld does not respond; its log ends with: %s",
                     tail);
}

/* ---- The control socket ---- */

static json_t *ask(struct bench_socket *socket, const char *command, struct error *error) {
    char request[64];
    snprintf(request, sizeof request, "{\"command\": \"%s\"}", command);
    zmq_msg_t reply;
    zmq_msg_init(&reply);
    json_t *object = NULL;
    if (zmq_send(socket->control, request, strlen(request), 0) >= 0 &&
        zmq_msg_recv(&reply, socket->control, 0) >= 0)
        object = json_loadb(zmq_msg_data(&reply), zmq_msg_size(&reply), 0, NULL);
    zmq_msg_close(&reply);
    if (!object)
        append_log(socket, error);
    return object;
}

static int command(struct bench_socket *socket, const char *name, struct error *error) {
    json_t *reply = ask(socket, name, error);
    json_decref(reply);
    return reply ? 0 : -1;
}

static int read_status(struct bench_socket *socket, struct reading *reading, struct error *error) {
    json_t *reply = ask(socket, "status", error);
    if (!reply)
        return -1;
    json_int_t examples = 0;
    const char *endpoint = "";
    int bad = json_unpack(reply, "{s:I, s:F, s:{s:s}}", "examples", &examples, "time",
                          &reading->time, "sockets", "examples", &endpoint);
    reading->examples = socket->examples = (uint64_t)examples;
    snprintf(reading->endpoint, sizeof reading->endpoint, "%s", endpoint);
    json_decref(reply);
    return bad ? error_set(error, EX_SOFTWARE, "invalid status reply from runneld: missing fields")
               : 0;
}

/* Connects when the daemon has bound its sockets, unless it has ended. */
static int await_daemon(struct bench_socket *socket, struct error *error) {
    char endpoint[ENDPOINT_SIZE];
    int wait = REPLY_MS, linger = 0;
    snprintf(endpoint, sizeof endpoint, "ipc://%s/control", socket->directory);
    for (int i = 0; access(endpoint + strlen("ipc://"), F_OK) != 0; i++) {
        if (waitpid(socket->daemon, NULL, WNOHANG) != 0) {
            socket->daemon = 0;
            return append_log(socket, error);
        }
        if (i == START_TRIES)
            return append_log(socket, error);
        sleep_for(START_WAIT);
    }
    socket->context = zmq_ctx_new();
    socket->control = socket->context ? zmq_socket(socket->context, ZMQ_REQ) : NULL;
    if (!socket->control || zmq_setsockopt(socket->control, ZMQ_RCVTIMEO, &wait, sizeof wait) ||
        zmq_setsockopt(socket->control, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_connect(socket->control, endpoint))
        return error_set(error, EX_OSERR, "%s: %s", endpoint, zmq_strerror(errno));
    return 0;
}

static int make_directory(struct bench_socket *socket, struct error *error) {
    const char *temporary = getenv("TMPDIR");
    int length = snprintf(socket->directory, sizeof socket->directory, "%s/runnel-bench-XXXXXX",
                          temporary && *temporary ? temporary : "/tmp");
    if (length < (int)sizeof socket->directory && mkdtemp(socket->directory))
        return 0;
    socket->directory[0] = '\0';
    return error_set(error, EX_UNAVAILABLE,
                     "cannot create a directory in %s; set TMPDIR to a directory with a short path",
                     temporary && *temporary ? temporary : "/tmp");
}

int bench_socket_open(struct bench_socket **socket, const struct bench_socket_options *options,
                      const struct architecture *architecture, const struct bench_data *data,
                      struct error *error) {
    struct bench_socket *s = *socket = calloc(1, sizeof *s);
    if (!s)
        return error_set(error, EX_OSERR, "out of memory: cannot start a daemon");
    struct reading reading;
    if (make_directory(s, error) == 0 && start_daemon(s, options, error) == 0 &&
        await_daemon(s, error) == 0 && read_status(s, &reading, error) == 0 &&
        bench_sender_open(&s->sender, s->context, reading.endpoint, architecture, data, error) == 0)
        return 0;
    bench_socket_close(socket);
    return -1;
}

void bench_socket_close(struct bench_socket **socket) {
    struct bench_socket *s = *socket;
    if (!s)
        return;
    bench_sender_close(&s->sender);
    if (s->control)
        zmq_close(s->control);
    if (s->context)
        zmq_ctx_term(s->context);
    stop_daemon(s);
    if (s->directory[0])
        nftw(s->directory, remove_entry, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
    free(s);
    *socket = NULL;
}

/* Waits until all sent examples are learned. If that takes too long, pauses the daemon: the
   queue is longer than a slice, and must not distort the next one. */
static int come_to_rest(struct bench_socket *socket, struct error *error) {
    struct reading reading;
    for (double begin = clock_seconds(); clock_seconds() < begin + DRAIN; sleep_for(DRAIN_WAIT)) {
        if (read_status(socket, &reading, error))
            return -1;
        if (reading.examples == bench_sender_sent(socket->sender))
            return 0;
    }
    socket->paused = true;
    return command(socket, "pause", error);
}

int bench_socket_time(struct bench_socket *socket, double seconds, double *example,
                      struct error *error) {
    struct reading begin, end;
    if (socket->paused && command(socket, "resume", error))
        return -1;
    socket->paused = false;
    bench_sender_flow(socket->sender, true);
    sleep_for(WARM_UP);
    if (read_status(socket, &begin, error))
        return -1;
    do { /* longer if the machine is busy */
        sleep_for(seconds);
        if (read_status(socket, &end, error))
            return -1;
    } while (end.examples <= begin.examples && end.time < begin.time + LEARN);
    bench_sender_flow(socket->sender, false);
    if (end.examples <= begin.examples)
        return error_set(error, EX_UNAVAILABLE, "runneld learned nothing in %g s",
                         end.time - begin.time);
    *example = (end.time - begin.time) / (double)(end.examples - begin.examples);
    return come_to_rest(socket, error);
}

uint64_t bench_socket_examples(const struct bench_socket *socket) {
    return socket->examples;
}

struct resident bench_socket_resident(const struct bench_socket *socket) {
    return bench_resident(socket->daemon);
}
