#include "experiment_examples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/program.h"
#include "common/sync.h"
#include "experiment_memory.h"

enum { HEADER = sizeof EXAMPLES_HEADER - 1, NUMBER = sizeof(uint32_t) };

static uint32_t number_at(const unsigned char *byte) {
    return byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

/* The end of the message that begins at `at`; 0: incomplete. */
static size_t end_of(const struct examples *e, size_t at) {
    if (e->size - at < NUMBER)
        return 0;
    uint32_t frames = number_at(e->bytes + at);
    for (at += NUMBER; frames > 0; frames--) {
        if (e->size - at < NUMBER)
            return 0;
        size_t size = number_at(e->bytes + at);
        at += NUMBER;
        if (e->size - at < size)
            return 0;
        at += size;
    }
    return at;
}

static int find_messages(struct examples *e, const char *path, struct error *error) {
    size_t room = 0;
    for (size_t at = HEADER, end; at < e->size; at = end) {
        end = end_of(e, at);
        if (end == 0)
            return error_set(error, EX_DATAERR,
                             "%s ends in the middle of a message; restore it, or record the stream "
                             "again with --again",
                             path);
        if (e->count == room) {
            enum { FIRST = 1024 };
            room = room ? 2 * room : FIRST;
            uint64_t *larger = realloc(e->at, room * sizeof *larger);
            if (!larger)
                return error_no_memory(error);
            e->at = larger;
        }
        e->at[e->count++] = at;
    }
    snprintf(e->digest, sizeof e->digest, "%016" PRIx64,
             hash_bytes(HASH_BEGIN, e->bytes + HEADER, e->size - HEADER));
    return 0;
}

static int map(struct examples *e, int descriptor, const char *path, struct error *error) {
    struct stat status;
    if (fstat(descriptor, &status))
        return error_set(error, EX_NOINPUT, "%s: %s", path, strerror(errno));
    if (status.st_size < HEADER)
        return error_set(error, EX_DATAERR, "%s is not a recorded stream: the file is too short",
                         path);
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, EX_NOINPUT, "cannot map %s: %s", path, strerror(errno));
    e->bytes = bytes;
    e->size = (size_t)status.st_size;
    if (memcmp(e->bytes, EXAMPLES_HEADER, HEADER) != 0)
        return error_set(error, EX_DATAERR, "%s is not a recorded stream: invalid header", path);
    return find_messages(e, path, error);
}

int examples_open(struct examples *examples, const char *path, struct error *error) {
    *examples = (struct examples){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return error_set(error, EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    int result = map(examples, descriptor, path, error);
    close(descriptor);
    if (result)
        examples_close(examples);
    return result;
}

void examples_close(struct examples *examples) {
    if (examples->bytes)
        munmap((void *)(uintptr_t)examples->bytes, examples->size);
    free(examples->at);
    *examples = (struct examples){0};
}

size_t examples_message(const struct examples *examples, size_t n,
                        struct frame frames[MESSAGE_FRAMES_MAX]) {
    const unsigned char *at = examples->bytes + examples->at[n];
    size_t count = number_at(at);
    at += NUMBER;
    for (size_t f = 0; f < count && f < MESSAGE_FRAMES_MAX; f++) {
        frames[f] = (struct frame){at + NUMBER, number_at(at)};
        at += NUMBER + frames[f].size;
    }
    return count;
}

enum {
    PATH_SIZE = 4096,
    ENDPOINT_SIZE = 128,
    POLL_MS = 50,
    QUEUE = 10000, /* queued messages */
    BUFFER = 1 << 20,
};
static const double SHOW_SECONDS = 0.2, CLOSE_SECONDS = 60, END_SECONDS = 1;

/* A stream that is being recorded. */
struct recorder {
    const struct experiment_spec *spec;
    const struct spec_stream *stream;
    char part[PATH_SIZE];
    FILE *file;
    void *zmq, *pull, *monitor;
    char directory[ENDPOINT_SIZE], endpoint[ENDPOINT_SIZE]; /* private: of the socket */
    char program[PATH_MAX];
    bool shows;      /* shows progress on a terminal */
    pid_t child;     /* 0: none, or already waited for */
    int connections; /* open connections of the child */
    uint64_t examples;
};

static const char *program_name(const struct recorder *r) {
    return r->stream->replay ? "runnel-replay" : "runnel-feed";
}

/* ---- The program ---- */

/* Runs in the child: only functions that are safe after fork. A killed parent also kills the
   child. */
static void start(const struct recorder *r, char *const *arguments, pid_t parent) {
    setpgid(0, 0); /* Ctrl-C goes to the parent: an interrupted feeder exits with success */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent was killed before */
        _exit(EX_UNAVAILABLE);
    if (chdir(r->spec->directory) == 0)
        execvp(arguments[0], arguments);
    int reason = errno;
    dprintf(STDERR_FILENO, "runnel-experiment: cannot start %s: %s\n", arguments[0],
            strerror(reason));
    _exit(EX_UNAVAILABLE);
}

static int start_child(struct recorder *r, struct error *error) {
    static const char *const own[] = {"--quiet", "--socket", "push", "--connect"};
    enum { OWN = sizeof own / sizeof *own };
    const char **arguments = calloc(r->stream->word_count + OWN + 3, sizeof *arguments);
    if (!arguments)
        return error_no_memory(error);
    program_find(r->program, program_name(r));
    size_t count = 0;
    arguments[count++] = r->program;
    for (size_t n = 0; n < r->stream->word_count; n++)
        arguments[count++] = r->stream->arguments[n];
    for (size_t n = 0; n < OWN; n++)
        arguments[count++] = own[n];
    arguments[count] = r->endpoint;
    pid_t parent = getpid();
    r->child = fork();
    if (r->child == 0)
        start(r, (char *const *)arguments, parent);
    free(arguments);
    return r->child > 0
               ? 0
               : error_set(error, EX_OSERR, "cannot start %s: %s", r->program, strerror(errno));
}

/* ---- Sockets ---- */

static int open_sockets(struct recorder *r, struct error *error) {
    const char *temporary = getenv("TMPDIR");
    char monitor[ENDPOINT_SIZE];
    const int queue = QUEUE, now = 0;
    snprintf(r->directory, sizeof r->directory, "%s/runnel-experiment.XXXXXX",
             temporary && strlen(temporary) < ENDPOINT_SIZE / 2 ? temporary : "/tmp");
    if (!mkdtemp(r->directory)) {
        int reason = errno;
        *r->directory = 0;
        return error_set(error, EX_IOERR, "cannot create a directory for a socket in %s: %s",
                         temporary ? temporary : "/tmp", strerror(reason));
    }
    snprintf(r->endpoint, sizeof r->endpoint, "ipc://%.*s/s", ENDPOINT_SIZE / 2 + 32, r->directory);
    snprintf(monitor, sizeof monitor, "inproc://recording");
    r->zmq = zmq_ctx_new();
    r->pull = r->zmq ? zmq_socket(r->zmq, ZMQ_PULL) : NULL;
    r->monitor = r->pull ? zmq_socket(r->zmq, ZMQ_PAIR) : NULL;
    if (!r->monitor || zmq_setsockopt(r->pull, ZMQ_RCVHWM, &queue, sizeof queue) ||
        zmq_setsockopt(r->pull, ZMQ_LINGER, &now, sizeof now) ||
        zmq_setsockopt(r->monitor, ZMQ_LINGER, &now, sizeof now) ||
        zmq_socket_monitor(r->pull, monitor,
                           ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED) ||
        zmq_connect(r->monitor, monitor) || zmq_bind(r->pull, r->endpoint))
        return error_set(error, EX_OSERR, "cannot open a socket for %s at %s: %s", program_name(r),
                         r->endpoint, zmq_strerror(errno));
    return 0;
}

static void close_sockets(struct recorder *r) {
    if (r->pull)
        zmq_socket_monitor(r->pull, NULL, 0);
    if (r->monitor)
        zmq_close(r->monitor);
    if (r->pull)
        zmq_close(r->pull);
    if (r->zmq)
        zmq_ctx_term(r->zmq);
    if (*r->directory) {
        unlink(r->endpoint + strlen("ipc://"));
        rmdir(r->directory);
    }
}

/* Reads the monitor's events. Whether the listening socket was closed. */
static bool take_events(struct recorder *r) {
    bool closed = false;
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (zmq_msg_recv(&message, r->monitor, ZMQ_DONTWAIT) >= 0) {
        uint16_t event = 0;
        memcpy(&event, zmq_msg_data(&message), sizeof event);
        r->connections += (event == ZMQ_EVENT_ACCEPTED) - (event == ZMQ_EVENT_DISCONNECTED);
        closed |= event == ZMQ_EVENT_CLOSED;
        zmq_msg_recv(&message, r->monitor, 0); /* the address */
    }
    zmq_msg_close(&message);
    return closed;
}

/* ---- The file ---- */

static int disk_error(const struct recorder *r, const char *doing, struct error *error) {
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return error_set(error, EX_IOERR, "cannot %s %s: %s%s", doing, r->part, strerror(errno),
                     full ? "; free disk space, and run the same command to resume" : "");
}

static bool put_number(FILE *file, uint32_t number) {
    const unsigned char bytes[] = {(unsigned char)number, (unsigned char)(number >> 8),
                                   (unsigned char)(number >> 16), (unsigned char)(number >> 24)};
    return fwrite(bytes, sizeof bytes, 1, file) == 1;
}

enum { FRAMES_MAX = 64 /* frames of a stored message: more than a daemon accepts */ };

struct message {
    zmq_msg_t frames[FRAMES_MAX];
    uint32_t count;
};

/* 1: a message; 0: none waits. */
static int receive(struct recorder *r, struct message *message) {
    message->count = 0;
    bool more = true;
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        int received;
        do
            received = zmq_msg_recv(&frame, r->pull, message->count ? 0 : ZMQ_DONTWAIT);
        while (received < 0 && errno == EINTR);
        if (received < 0) {
            zmq_msg_close(&frame);
            return 0;
        }
        more = zmq_msg_more(&frame);
        if (message->count < FRAMES_MAX)
            message->frames[message->count++] = frame;
        else
            zmq_msg_close(&frame);
    }
    return 1;
}

static int write_message(struct recorder *r, struct message *message, struct error *error) {
    bool written = put_number(r->file, message->count);
    for (uint32_t n = 0; n < message->count; n++) {
        size_t size = zmq_msg_size(&message->frames[n]);
        written = written && put_number(r->file, (uint32_t)size) &&
                  fwrite(zmq_msg_data(&message->frames[n]), 1, size, r->file) == size;
        zmq_msg_close(&message->frames[n]);
    }
    r->examples++;
    return written ? 0 : disk_error(r, "write", error);
}

/* Receives all waiting messages, up to a limit, so that the caller can check other things. */
static int drain(struct recorder *r, bool *any, struct error *error) {
    enum { MOST = 4096 };
    struct message message;
    *any = false;
    for (int n = 0; n < MOST && receive(r, &message); n++) {
        *any = true;
        if (write_message(r, &message, error))
            return -1;
    }
    return 0;
}

static int open_file(struct recorder *r, const char *path, struct error *error) {
    if (snprintf(r->part, sizeof r->part, "%s.part", path) >= (int)sizeof r->part)
        return error_set(error, EX_USAGE, "the path %s is too long", path);
    r->file = fopen(r->part, "wbe");
    if (!r->file)
        return disk_error(r, "create", error);
    setvbuf(r->file, NULL, _IOFBF, BUFFER);
    return fputs(EXAMPLES_HEADER, r->file) >= 0 ? 0 : disk_error(r, "write", error);
}

static int finish_file(struct recorder *r, const char *path, struct error *error) {
    if (fflush(r->file) || fsync(fileno(r->file)))
        return disk_error(r, "write", error);
    int closed = fclose(r->file);
    r->file = NULL;
    if (closed || rename(r->part, path) || sync_directory_of(path))
        return disk_error(r, "write", error);
    return 0;
}

/* ---- Sequence of a recording ---- */

/* The result of the child; `status` is from waitpid. */
static int check_exit(const struct recorder *r, int status, struct error *error) {
    const char *name = r->stream->name;
    if (WIFSIGNALED(status))
        return error_set(error, EX_UNAVAILABLE,
                         "streams.%s: %s was killed by signal %d; its examples were discarded",
                         name, program_name(r), WTERMSIG(status));
    int code = WEXITSTATUS(status);
    return code == 0 ? 0
                     : error_set(error, code,
                                 "streams.%s: %s failed with exit status %d (its error is above); "
                                 "its examples were discarded",
                                 name, program_name(r), code);
}

/* Receives messages until the child has ended. */
static int receive_all(struct recorder *r, const volatile sig_atomic_t *stop, struct error *error) {
    double shown = clock_seconds();
    for (;;) {
        zmq_pollitem_t item = {.socket = r->pull, .events = ZMQ_POLLIN};
        int status;
        bool any;
        zmq_poll(&item, 1, POLL_MS);
        if (drain(r, &any, error))
            return -1;
        take_events(r);
        if (*stop)
            return error_set(
                error, EX_TEMPFAIL,
                "interrupted while recording streams.%s; run the same command to record it again",
                r->stream->name);
        double now = clock_seconds();
        if (r->shows && now > shown + SHOW_SECONDS) {
            fprintf(stderr, "\r\033[Krecording stream %s: %llu examples", r->stream->name,
                    (unsigned long long)r->examples);
            fflush(stderr);
            shown = now;
        }
        pid_t ended = waitpid(r->child, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR))
            continue;
        r->child = 0;
        if (ended < 0)
            return error_set(error, EX_OSERR, "streams.%s: cannot wait for %s: %s", r->stream->name,
                             program_name(r), strerror(errno));
        return check_exit(r, status, error);
    }
}

/* After the child's end: its messages are in the kernel's buffers, or in libzmq's. The end of a
   connection is reported after all of its data was read, and passed on before the listening
   socket is closed, since one thread does all of it. */
static int receive_rest(struct recorder *r, struct error *error) {
    double deadline = clock_seconds() + CLOSE_SECONDS;
    bool closed = false, unbound = false, any = true;
    while (!closed || any) {
        zmq_pollitem_t items[] = {{.socket = r->pull, .events = ZMQ_POLLIN},
                                  {.socket = r->monitor, .events = ZMQ_POLLIN}};
        if (!any)
            zmq_poll(items, sizeof items / sizeof *items, POLL_MS);
        closed |= take_events(r); /* before the last check for messages */
        if (drain(r, &any, error))
            return -1;
        if (any)
            deadline = clock_seconds() + CLOSE_SECONDS;
        if (!unbound && r->connections <= 0)
            unbound = zmq_unbind(r->pull, r->endpoint) == 0;
        if (clock_seconds() > deadline)
            return error_set(error, EX_SOFTWARE,
                             "streams.%s: timed out waiting for %s to close its connection",
                             r->stream->name, program_name(r));
    }
    return r->examples ? 0
                       : error_set(error, EX_DATAERR, "streams.%s: %s sent no examples",
                                   r->stream->name, program_name(r));
}

static int record(struct recorder *r, const char *path, const volatile sig_atomic_t *stop,
                  struct error *error) {
    if (open_file(r, path, error) || open_sockets(r, error) || start_child(r, error) ||
        receive_all(r, stop, error) || receive_rest(r, error))
        return -1;
    return finish_file(r, path, error);
}

/* The child may wait for its messages to be received, which nobody does any more. */
static void end_child(struct recorder *r) {
    double deadline = clock_seconds() + END_SECONDS;
    if (r->child <= 0)
        return;
    kill(r->child, SIGTERM);
    while (waitpid(r->child, NULL, WNOHANG) == 0) {
        if (clock_seconds() > deadline)
            kill(r->child, SIGKILL);
        poll(NULL, 0, POLL_MS);
    }
}

int record_stream(const struct experiment_spec *spec, size_t stream, const char *path,
                  const volatile sig_atomic_t *stop, bool quiet, struct error *error) {
    struct recorder r = {.spec = spec,
                         .stream = &spec->streams[stream],
                         .shows = !quiet && isatty(STDERR_FILENO) == 1};
    int result = record(&r, path, stop, error);
    if (r.shows)
        fputs("\r\033[K", stderr);
    end_child(&r);
    if (r.file)
        fclose(r.file);
    if (result && *r.part)
        unlink(r.part);
    close_sockets(&r);
    return result;
}

/* ---- Files among the arguments ---- */

static bool digest_of(const char *path, char digest[EXAMPLES_DIGEST_SIZE]) {
    FILE *file = fopen(path, "rbe");
    char *buffer = malloc(BUFFER);
    uint64_t hash = HASH_BEGIN;
    size_t size;
    bool good = file && buffer;
    while (good && (size = fread(buffer, 1, BUFFER, file)) > 0)
        hash = hash_bytes(hash, buffer, size);
    good = good && !ferror(file);
    if (file)
        fclose(file);
    free(buffer);
    snprintf(digest, EXAMPLES_DIGEST_SIZE, "%016" PRIx64, hash);
    return good;
}

char *record_files(void **memory, const struct experiment_spec *spec, size_t stream) {
    const struct spec_stream *of = &spec->streams[stream];
    json_t *files = json_array();
    for (size_t n = 0; n < of->word_count; n++) {
        char path[PATH_SIZE], digest[EXAMPLES_DIGEST_SIZE];
        struct stat status;
        const char *word = of->arguments[n];
        int length = *word == '/' ? snprintf(path, sizeof path, "%s", word)
                                  : snprintf(path, sizeof path, "%s/%s", spec->directory, word);
        if (length >= (int)sizeof path || stat(path, &status) || !S_ISREG(status.st_mode) ||
            !digest_of(path, digest))
            continue;
        json_array_append_new(files, json_pack("{s:s,s:I,s:s}", "path", of->words[n], "size",
                                               (json_int_t)status.st_size, "digest", digest));
    }
    char *text = json_dumps(files, JSON_COMPACT), *copy = text ? memory_copy(memory, text) : NULL;
    json_decref(files);
    free(text);
    return copy;
}
