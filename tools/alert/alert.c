/* runnel-alert: watches daemons and reports problems. See runnel-alert(1). */
#include "build-config.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "alert_watcher.h"
#include "common/clock.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/text.h"
#include "common/wire.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"

/* ---- Command ----

   Runs a command for an alert, without a shell. */

#define GRACE 2.0 /* seconds between SIGTERM and SIGKILL */
#define PREFIX "RUNNEL_ALERT_"

enum { NAME_SIZE = 64 };

static bool is_program(const char *directory, size_t length, const char *program) {
    char path[4096];
    int size =
        snprintf(path, sizeof path, "%.*s/%s", (int)length, length ? directory : ".", program);
    return size > 0 && (size_t)size < sizeof path && access(path, X_OK) == 0;
}

/* Searches the program as execvp(3) does. */
static bool command_exists(const char *program) {
    const char *path = getenv("PATH");
    if (strchr(program, '/'))
        return access(program, X_OK) == 0;
    for (const char *at = path ? path : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        if (is_program(at, strcspn(at, ":"), program))
            return true;
    }
    return false;
}

/* NAME=VALUE of a member; NULL when out of memory. A number is written as in JSON, null is
   empty. */
static char *variable(const char *key, json_t *member) {
    char name[NAME_SIZE], *text = NULL, *dumped = NULL;
    size_t i = 0;
    for (; key[i] && i + 1 < sizeof name; i++)
        name[i] = (char)toupper((unsigned char)key[i]);
    name[i] = '\0';
    const char *value = json_is_null(member) ? "" : json_string_value(member);
    if (!value)
        value = dumped = json_dumps(member, JSON_ENCODE_ANY);
    if (value && asprintf(&text, PREFIX "%s=%s", name, value) < 0)
        text = NULL;
    free(dumped);
    return text;
}

static void free_environment(char **list) {
    for (char **at = list; list && *at; at++)
        free(*at);
    free(list);
}

/* The environment of this program without RUNNEL_ALERT_ variables, plus the alert. */
static char **environment(const json_t *alert) {
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **list = calloc(count + json_object_size(alert) + 1, sizeof *list);
    bool whole = list != NULL;
    for (size_t i = 0; i < count && whole; i++)
        if (strncmp(environ[i], PREFIX, strlen(PREFIX)) != 0)
            whole = (list[used++] = strdup(environ[i])) != NULL;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)alert, key, member) {
        if (whole)
            whole = (list[used++] = variable(key, member)) != NULL;
    }
    if (whole)
        return list;
    free_environment(list);
    return NULL;
}

/* A file in memory: a command that does not read its input cannot block this program. */
static int input_with(const json_t *alert) {
    int file = memfd_create("alert", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    if (json_dumpfd(alert, file, JSON_COMPACT) == 0 && write(file, "\n", 1) == 1 &&
        lseek(file, 0, SEEK_SET) == 0)
        return file;
    close(file);
    return -1;
}

/* Returns an error number. The process group makes it possible to end all processes of the
   command. */
static int start(char *const *words, char **variables, int input, pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    int error = posix_spawnp(child, words[0], &actions, &attributes, words, variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* With process -1 (no descriptor available) waits the whole time. */
static bool has_ended(int process, double seconds) {
    struct pollfd item = {.fd = process, .events = POLLIN};
    return poll(&item, 1, clock_milliseconds(seconds)) > 0;
}

static int wait_for(pid_t child, const char *program, double seconds, struct error *error) {
    int process = pidfd_open(child, 0), status = 0;
    bool late = !has_ended(process, seconds);
    if (late) {
        kill(-child, SIGTERM);
        has_ended(process, GRACE);
        kill(-child, SIGKILL); /* also processes that the command left behind */
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    bool process_unknown = process < 0;
    if (process >= 0)
        close(process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && (!late || process_unknown))
        return 0;
    if (late && !process_unknown)
        return error_set(error, EX_UNAVAILABLE, "'%s' did not end within %g s and was ended",
                         program, seconds);
    if (WIFEXITED(status))
        return error_set(error, EX_UNAVAILABLE, "'%s' failed with exit status %d", program,
                         WEXITSTATUS(status));
    return error_set(error, EX_UNAVAILABLE, "'%s' was ended by signal %d", program,
                     WTERMSIG(status));
}

/* Runs words[0] with the others as its arguments (NULL-terminated). The command gets the alert as
   JSON on standard input, and each member as RUNNEL_ALERT_MEMBER in its environment. Its output
   goes to standard error. After `seconds` the process group is ended. Returns 0 if the command
   exits with 0, else -1 with `error` filled. */
static int command_run(char *const *words, const json_t *alert, double seconds,
                       struct error *error) {
    pid_t child;
    char **variables = environment(alert);
    int input = input_with(alert);
    int code = variables && input >= 0 ? start(words, variables, input, &child) : ENOMEM;
    if (input >= 0)
        close(input);
    free_environment(variables);
    if (code == 0)
        return wait_for(child, words[0], seconds, error);
    return error_set(error, EX_UNAVAILABLE, "cannot run '%s': %s", words[0], strerror(code));
}

/* ---- Post ---- */

enum {
    ANSWER_MAX = 1 << 20, /* bytes; a longer answer is cut off */
    STATUS_FIRST = 200,
    STATUS_AFTER = 300,
    STATUS_BUSY = 429,
    STATUS_SERVER = 500,
};

/* Whether the text is an http or https URL. */
static bool post_is_url(const char *text) {
    CURLU *url = curl_url();
    char *scheme = NULL;
    bool good = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(url);
    return good;
}

static size_t ignore_body(char *bytes, size_t size, size_t count, void *context) {
    size_t *total = context;
    (void)bytes;
    *total += size * count;
    return *total > ANSWER_MAX ? 0 : size * count;
}

static int check_answer(CURLcode result, long status, bool *again, struct error *error) {
    bool answered = result == CURLE_OK || result == CURLE_WRITE_ERROR; /* the answer was cut off */
    *again = !answered || status >= STATUS_SERVER || status == STATUS_BUSY;
    if (!answered)
        return error_set(error, EX_UNAVAILABLE, "cannot post: %s", curl_easy_strerror(result));
    if (status >= STATUS_FIRST && status < STATUS_AFTER)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "cannot post: the server answered %ld", status);
}

/* Posts the alert as application/json and waits at most `seconds` for the answer. Does not follow
   redirects and ignores the body. Returns 0 for a 2xx answer, else -1 with `error` filled; *again
   is true if another try might help. `error` does not contain the URL, which may be a secret. */
static int post_send(const char *url, const json_t *alert, double seconds, bool *again,
                     struct error *error) {
    size_t answered = 0;
    long status = 0;
    *again = false;
    char *text = json_dumps(alert, JSON_COMPACT);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    int done = -1;
    if (!text || !curl || !headers) {
        error_set(error, EX_OSERR, "cannot post: out of memory");
        goto end;
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "runnel-alert/" PACKAGE_VERSION);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(seconds * 1e3) + 1);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answered);
    CURLcode result = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    done = check_answer(result, status, again, error);
end:
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    free(text);
    return done;
}

/* ---- Deliver ----

   Delivers alerts to a command and a URL, one after another, in a separate thread, so that watching
   never waits. */

enum { DELIVER_WAITING = 1000 }; /* alerts; the oldest are dropped and counted */

struct deliver_options {
    char *const *command; /* NULL-terminated words; NULL = none */
    const char *url;      /* NULL = none */
    double seconds;       /* time limit for one command or one post */
};

enum { POST_TRIES = 4, POST_WAIT = 2 }; /* waits of 2, 4 and 8 s */

struct deliver {
    const struct deliver_options *options;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the fields below */
    pthread_cond_t changed;
    bool ending;
    json_t *waiting[DELIVER_WAITING]; /* a ring */
    size_t first, count, lost;
};

/* Returns true, at once, if the thread must end. */
static bool pause_for(struct deliver *d, int seconds) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    pthread_mutex_lock(&d->mutex);
    int result = 0;
    while (!d->ending && result != ETIMEDOUT)
        result = pthread_cond_clockwait(&d->changed, &d->mutex, CLOCK_MONOTONIC, &end);
    bool ending = d->ending;
    pthread_mutex_unlock(&d->mutex);
    return ending;
}

static void post(struct deliver *d, const json_t *alert) {
    struct error error;
    bool again = true;
    for (int attempt = 1, wait = POST_WAIT; again; attempt++, wait *= 2) {
        if (post_send(d->options->url, alert, d->options->seconds, &again, &error) == 0)
            return;
        if (!again || attempt == POST_TRIES || pause_for(d, wait))
            break;
    }
    complain(EX_OK, "%s; this alert is not delivered: %s", error.text,
             member_string(alert, "text"));
}

static void handle(struct deliver *d, const json_t *alert) {
    struct error error;
    if (d->options->command &&
        command_run(d->options->command, alert, d->options->seconds, &error) < 0)
        complain(EX_OK, "%s; the alert was: %s", error.text, member_string(alert, "text"));
    if (d->options->url)
        post(d, alert);
}

/* The oldest alert; NULL if the thread must end and no alert waits. */
static json_t *next_alert(struct deliver *d, size_t *lost) {
    pthread_mutex_lock(&d->mutex);
    while (d->count == 0 && !d->ending)
        pthread_cond_wait(&d->changed, &d->mutex);
    json_t *alert = d->count > 0 ? d->waiting[d->first] : NULL;
    if (alert) {
        d->first = (d->first + 1) % DELIVER_WAITING;
        d->count--;
    }
    *lost = d->lost;
    d->lost = 0;
    pthread_mutex_unlock(&d->mutex);
    return alert;
}

static void *work(void *context) {
    struct deliver *d = context;
    json_t *alert;
    size_t lost;
    while ((alert = next_alert(d, &lost))) {
        if (lost > 0)
            complain(EX_OK, "%zu alerts are not delivered: the queue was full", lost);
        handle(d, alert);
        json_decref(alert);
    }
    return NULL;
}

/* `options` must outlive the result. Returns EX_OK, or prints an error and returns an exit status.
   Later errors are printed on standard error. */
static int deliver_open(struct deliver **deliver, const struct deliver_options *options) {
    struct deliver *d = calloc(1, sizeof *d);
    if (!d)
        return complain(EX_UNAVAILABLE, "out of memory");
    d->options = options;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    sigset_t all, before; /* signals belong to the main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&d->thread, NULL, work, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(d);
        return complain(EX_UNAVAILABLE, "cannot start a thread: %s", strerror(error));
    }
    *deliver = d;
    return EX_OK;
}

/* Waits until all alerts are delivered, without further tries. */
static void deliver_close(struct deliver **deliver) {
    struct deliver *d = *deliver;
    if (!d)
        return;
    pthread_mutex_lock(&d->mutex);
    d->ending = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    free(d);
    *deliver = NULL;
}

/* Takes the reference to the alert. */
static void deliver_add(struct deliver *d, json_t *alert) {
    pthread_mutex_lock(&d->mutex);
    if (d->count == DELIVER_WAITING) {
        json_decref(d->waiting[d->first]);
        d->first = (d->first + 1) % DELIVER_WAITING;
        d->count--;
        d->lost++;
    }
    d->waiting[(d->first + d->count++) % DELIVER_WAITING] = alert;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

/* ---- Options ---- */

enum { ALERT_DAEMONS = 64 };

struct options {
    struct option_list endpoints;
    struct key_options keys;
    const char *recording; /* NULL = live */
    bool json, quiet, verbose;
    bool watched[ALERT_KINDS];
    struct limits limits;
    double interval, again, megabytes;
    struct deliver_options deliver;
    char *url; /* owned, if read from a file */
};

#define INTERVAL 60.0  /* seconds */
#define CALM_LEAST 1.0 /* seconds */
#define SATURATED 0.5
#define DORMANT 0.5
#define QUEUE 100.0
#define WAITING 10.0 /* seconds */
#define DISK 256.0   /* MiB, as the daemon's own warning */
#define FLOOR 1e-6
#define TIMEOUT 30.0 /* seconds */
#define TIMEOUT_MAX 3600
#define MEGABYTE 1048576.0

/* A number greater than 0 and at most `most`, followed by the character `end`. Returns the text
   after it, or NULL. */
static const char *parse_number(const char *text, char end, double most, double *value) {
    char *after;
    double number = strtod(text, &after);
    if (after == text || *after != end || !(number > 0 && number <= most))
        return NULL;
    *value = number;
    return after + (end != '\0');
}

static int parse_page_hinkley(void *values, const struct option_row *row, const char *text,
                              struct error *error) {
    const double most = 1e6;
    struct drift_limits *limits = &((struct options *)values)->limits.drift;
    const char *delta = parse_number(text, ',', most, &limits->page_hinkley_lambda);
    if (delta ? parse_number(delta, '\0', most, &limits->page_hinkley_delta) != NULL
              : parse_number(text, '\0', most, &limits->page_hinkley_lambda) != NULL)
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: expected LAMBDA or LAMBDA,DELTA, both greater than 0, got '%s'",
                     row->name, text);
}

/* --only disables all other kinds, --except the listed ones. */
static int parse_kinds(void *values, const struct option_row *row, const char *list,
                       struct error *error) {
    struct options *o = values;
    bool only = row->letter == 'o';
    if (only)
        memset(o->watched, 0, sizeof o->watched);
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        enum alert_kind kind = alert_find(at, length);
        if (kind == ALERT_KINDS)
            return error_set(error, EX_USAGE, "--%s: unknown alert '%.*s'; --help lists all alerts",
                             row->name, (int)length, at);
        o->watched[kind] = only;
        at += length;
        if (!*at)
            return 0;
    }
}

/* The first line of the file; NULL with `error` filled. */
static char *read_url(const char *path, struct error *error) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file || getline(&line, &size, file) < 0) {
        error_set(error, EX_USAGE, "cannot read a URL from '%s': %s", path,
                  file && !ferror(file) ? "the file is empty" : strerror(errno));
        free(line);
        line = NULL;
    }
    if (line)
        line[strcspn(line, " \t\r\n")] = '\0';
    if (file)
        fclose(file);
    return line;
}

static int parse_url(void *values, const struct option_row *row, const char *text,
                     struct error *error) {
    struct options *o = values;
    free(o->url);
    o->url = NULL;
    if (*text == '@' && !(o->url = read_url(text + 1, error)))
        return -1;
    o->deliver.url = o->url ? o->url : text;
    if (post_is_url(o->deliver.url))
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: expected an http or https URL such as https://example.org/hook, or "
                     "@FILE (a file that contains one)",
                     row->name);
}

#define KINDS                                                                                      \
    "silence restart non-finite rising page-hinkley adwin dead saturated queue rejected journal "  \
    "disk gap input_scale worse_than_baseline anomaly idle dormant stale"

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, ALERT_DAEMONS), .unique = true},
    KEY_OPTIONS(struct options, keys),
    {"post", 0, "URL", "post each alert to URL as JSON; @FILE reads the URL from FILE",
     OPTION_TAKE(parse_url)},
    {"timeout", 0, "SECONDS", "time limit for one command or post (default 30)",
     OPTION_POSITIVE(struct options, deliver.seconds, TIMEOUT_MAX)},
    {"only", 'o', "KINDS", "report only these alerts (comma-separated)", OPTION_TAKE(parse_kinds),
     .complete = COMPLETE_WORDS, .words = KINDS},
    {"except", 'x', "KINDS", "do not report these alerts: " KINDS, OPTION_TAKE(parse_kinds),
     .complete = COMPLETE_WORDS, .words = KINDS},
    {"interval", 'i', "SECONDS", "minimum time between two alerts of a kind (default 60)",
     OPTION_SECONDS(struct options, interval)},
    {"again", 'a', "SECONDS",
     "repeat an alert that has not ended after this time; 0 = never (default 0)",
     OPTION_SECONDS(struct options, again)},
    {"json", 'j', NULL, "print each alert as one line of JSON", OPTION_FLAG(struct options, json)},
    {"quiet", 'q', NULL, "do not print alerts", OPTION_FLAG(struct options, quiet)},
    {"replay", 'r', "FILE",
     "read a recording of runnel-watch --json and print its alerts; - = standard input",
     OPTION_FILE(struct options, recording)},
    {"verbose", 'v', NULL, "report connections and lost messages on standard error",
     OPTION_FLAG(struct options, verbose)},
    OPTIONS_LAST,
};

static const struct option_row limits[] = {
    {"silence", 's', "SECONDS", "time without a message; 0 = never (default 15)",
     OPTION_SECONDS(struct options, limits.silence)},
    {"idle", 0, "SECONDS", "time without a learned example; 0 = never (default 0)",
     OPTION_SECONDS(struct options, limits.idle)},
    {"saturated", 0, "SHARE", "share of saturated units in a layer (default 0.5)",
     OPTION_POSITIVE(struct options, limits.shares[SHARE_SATURATED], 1)},
    {"dormant", 0, "SHARE", "share of dormant units in a layer (default 0.5)",
     OPTION_POSITIVE(struct options, limits.shares[SHARE_DORMANT], 1)},
    {"queue", 0, "EXAMPLES", "number of examples in the queue (default 100)",
     OPTION_POSITIVE(struct options, limits.queue, 1e9)},
    {"waiting", 0, "SECONDS", "time that an example waits for the journal's disk (default 10)",
     OPTION_POSITIVE(struct options, limits.waiting, 1e6)},
    {"disk", 0, "MB", "free disk space for the journal (default 256)",
     OPTION_POSITIVE(struct options, megabytes, 1e9)},
    {"floor", 0, "LOSS",
     "treat a lower loss as this value (default: a hundredth of the initial loss, at least 1e-6)",
     OPTION_POSITIVE(struct options, limits.drift.floor, 1e6),
     OPTION_GIVEN(struct options, limits.drift.fixed)},
    {"page-hinkley", 0, "LAMBDA[,DELTA]",
     "threshold and offset of the Page-Hinkley test, in standard deviations (default 15,0.5)",
     OPTION_TAKE(parse_page_hinkley)},
    {"adwin", 0, "DELTA", "confidence of the ADWIN test (default 0.002)",
     OPTION_POSITIVE(struct options, limits.drift.adwin_delta, 1)},
    OPTIONS_END,
};

static int settle(struct options *o, char **words) {
    if (o->recording && o->endpoints.count > 0)
        return complain_usage("--replay and --connect cannot be used together");
    if (*words)
        o->deliver.command = words;
    if (*words && !command_exists(*words))
        return complain_usage("program '%s' not found", *words);
    if (!key_options_ready(&o->keys))
        return EX_USAGE;
    if (!o->endpoints.count)
        o->endpoints.values[o->endpoints.count++] = WIRE_STATISTICS;
    o->limits.calm = fmax(o->interval, CALM_LEAST);
    o->limits.disk = o->megabytes * MEGABYTE;
    return OPTIONS_GO_ON;
}

/* Returns OPTIONS_GO_ON or the exit status. */
static int options_read(struct options *o, int argc, char **argv) {
    const struct command_line line = {
        .name = "runnel-alert",
        .operands = "[COMMAND [ARGUMENT]...]",
        .summary = "Watch running daemons and report when a problem begins and ends. COMMAND runs "
                   "for each alert. It gets the alert as JSON on standard input, and as "
                   "environment variables RUNNEL_ALERT_KIND, RUNNEL_ALERT_TEXT, ...",
        .ending = "Ctrl-C ends the program. Exit status: 0 success, 64 usage error, 66 cannot open "
                  "the recording, 69 cannot open a socket or access denied, 74 cannot write to "
                  "standard output.",
        .groups = {{NULL, rows, o}, {"Limits:", limits, o}},
        .complete = COMPLETE_PROGRAM,
        .options_first = true,
    };
    *o = (struct options){
        .limits = {.drift = {PAGE_HINKLEY_DELTA, PAGE_HINKLEY_LAMBDA, ADWIN_DELTA, FLOOR, false},
                   .silence = HEALTH_SILENCE,
                   .shares = {SATURATED, DORMANT},
                   .queue = QUEUE,
                   .waiting = WAITING},
        .megabytes = DISK,
        .interval = INTERVAL,
        .deliver.seconds = TIMEOUT,
    };
    memset(o->watched, true, sizeof o->watched);
    char **words;
    int status = options_parse(&line, argc, argv, &words);
    return status == OPTIONS_GO_ON ? settle(o, words) : status;
}

/* ---- Replay ----

   Reads messages from a recording: the output of `runnel-watch --json`, one message a line. */

/* False if the line is not a message with topic and time. */
static bool parse(const char *line, struct message *message, double *now) {
    *message = (struct message){.topic = TOPICS, .body = json_loads(line, 0, NULL)};
    const char *topic = member_string(message->body, "topic");
    if (topic)
        message->topic = topic_find(topic, strlen(topic));
    return message->topic != TOPICS && member_number(message->body, "time", now);
}

/* Calls `take` with each message and its time, until it returns false. Reports and skips other
   lines. "-" is standard input; a signal ends the recording. Returns EX_OK, or prints an error and
   returns EX_NOINPUT or EX_IOERR. */
static int replay(const char *path,
                  bool (*take)(void *context, const struct message *message, double now),
                  void *context) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file)
        return complain(EX_NOINPUT, "cannot open '%s': %s", path, error_of_file(errno));
    char *line = NULL;
    size_t size = 0, number = 0, wrong = 0, first = 0;
    double now = 0;
    bool more = true;
    while (more && getline(&line, &size, file) >= 0) {
        struct message message;
        number++;
        if (parse(line, &message, &now))
            more = take(context, &message, now);
        else if (wrong++ == 0)
            first = number;
        message_clear(&message);
    }
    int status = EX_OK;
    if (ferror(file) && errno != EINTR)
        status = complain(EX_IOERR, "cannot read '%s': %s", path, strerror(errno));
    if (wrong > 0)
        complain(
            EX_OK,
            "%s: skipped %zu line%s: not a message of runnel-watch --json; the first is line %zu",
            path, wrong, wrong == 1 ? "" : "s", first);
    free(line);
    if (file != stdin)
        fclose(file);
    return status;
}

/* ---- Print ----

   An alert as a line of text and as JSON. */

enum { LINE_SIZE = ALERT_TEXT_SIZE + 2 * ALERT_NAME_SIZE + ALERT_NOTE_SIZE };

enum { WHERE_SIZE = 3 * FORMAT_SIZE };

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(double value) {
    return isfinite(value) ? json_integer((json_int_t)value) : json_null();
}

/* Text that is not UTF-8, such as an unusual endpoint, keeps only its ASCII characters. */
static json_t *string(const char *text) {
    json_t *whole = json_string(text);
    char ascii[ALERT_TEXT_SIZE];
    if (whole)
        return whole;
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(ascii);
}

/* The daemon's name is unknown until its first `status`. */
static const char *name_of(const struct watcher *w) {
    return *w->name ? w->name : w->endpoint;
}

/* The alert as JSON (docs/how-to/alerts.md). `unix_offset` converts its times to Unix
   times. NULL when out of memory. */
static json_t *format_json(const struct watcher *w, const struct alert *alert, double unix_offset) {
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "kind",
        alert_names[alert->kind], "state", alert_states[alert->state], "daemon", string(name_of(w)),
        "endpoint", string(w->endpoint), "text", string(alert->text), "time",
        number(alert->now + unix_offset), "since", number(alert->unix_since), "data_time",
        number(alert->data_time), "data_since", number(alert->data_since), "stream",
        *alert->stream ? string(alert->stream) : json_null(), "note",
        *alert->note ? string(alert->note) : json_null(), "run", string(w->run), "examples",
        count(w->examples), "value", number(alert->value), "limit", number(alert->limit), "times",
        (json_int_t)alert->times);
}

/* For example "at example 50,090, in data of 2014-12-31 23:30:00"; unknown parts are left out. */
static void format_where(char where[WHERE_SIZE], const struct watcher *w,
                         const struct alert *alert) {
    char examples[FORMAT_SIZE], date[FORMAT_SIZE];
    bool newest = alert->state == ALERT_OVER || alert->state == ALERT_STILL;
    double data = newest ? alert->data_time : alert->data_since;
    bool counted = isfinite(w->examples), dated = isfinite(data);
    snprintf(where, WHERE_SIZE, "%s%s%s%s%s", counted ? "at example " : "",
             counted ? format_grouped(examples, w->examples) : "", counted && dated ? ", " : "",
             dated ? "in data of " : "", dated ? format_date(date, data) : "");
}

/* For example "2026-01-31 14:03:59 ALERT host adwin: the loss has risen ... (at example 50,090, in
   data of 2014-12-31 23:30:00)". */
static char *format_line(char line[LINE_SIZE], const struct watcher *w, const struct alert *alert,
                         double unix_offset) {
    static const char *const words[] = {"ALERT", "STILL", "over ", "passed"};
    char date[FORMAT_SIZE], where[WHERE_SIZE];
    snprintf(line, LINE_SIZE, "%s %s %s %s: %s", format_date(date, alert->now + unix_offset),
             words[alert->state], name_of(w), alert_names[alert->kind], alert->text);
    if (*alert->note)
        text_append(line, LINE_SIZE, "; \"%s\"", alert->note);
    format_where(where, w, alert);
    if (*where)
        text_append(line, LINE_SIZE, " (%s)", where);
    if (alert->times > (alert->state != ALERT_PASSED))
        text_append(line, LINE_SIZE, "; %llu time%s since it was reported",
                    (unsigned long long)alert->times, text_s(alert->times));
    return line;
}

/* ---- The program ---- */

enum { MESSAGES_AT_ONCE = 1000 /* of one daemon, before the others and the clock are checked */ };

struct daemon {
    struct alerts *alerts;
    const char *endpoint;
    struct link *link;
    struct health health;
    struct watcher watcher;
    bool hindrance_reported, refused;
};

struct alerts {
    struct options options;
    struct deliver *deliver; /* NULL: alerts are only printed */
    struct daemon *daemons;
    size_t count;
    bool broken; /* standard output failed */
};

/* Added to the book's times gives Unix times. The times of a recording are Unix times already. */
static double unix_offset(const struct alerts *a) {
    return a->options.recording ? 0 : clock_unix() - clock_seconds();
}

static void print(struct alerts *a, const struct watcher *watcher, const struct alert *alert,
                  const json_t *json, double offset) {
    char line[LINE_SIZE];
    if (a->options.json)
        a->broken |= json_dumpf(json, stdout, JSON_COMPACT) < 0 || putchar('\n') < 0;
    else
        a->broken |= puts(format_line(line, watcher, alert, offset)) < 0;
    a->broken |= fflush(stdout) != 0;
}

static void report(void *context, struct alert *alert) {
    struct daemon *daemon = context;
    struct alerts *a = daemon->alerts;
    double offset = unix_offset(a);
    /* The same number in all reports, although the two clocks may drift apart. */
    if (alert->unix_since == 0)
        alert->unix_since = alert->since + offset;
    json_t *json = format_json(&daemon->watcher, alert, offset);
    if (!a->options.quiet && (json || !a->options.json))
        print(a, &daemon->watcher, alert, json, offset);
    if (a->deliver && json)
        deliver_add(a->deliver, json);
    else
        json_decref(json);
}

static void note(void *context, const char *text) {
    const struct daemon *daemon = context;
    if (daemon->alerts->options.verbose)
        complain(EX_OK, "%s", text);
}

static void open_daemon(struct alerts *a, struct daemon *daemon, const char *endpoint) {
    const struct options *o = &a->options;
    *daemon = (struct daemon){.alerts = a, .endpoint = endpoint};
    watcher_open(&daemon->watcher, endpoint, &o->limits);
    book_open(&daemon->watcher.book, o->watched, o->interval, o->again, report, daemon);
    health_open(&daemon->health, endpoint, 0, note, daemon);
}

static void handle_message(struct daemon *daemon, const struct message *message) {
    health_message(&daemon->health, message);
    if (message->problem)
        return;
    watcher_message(&daemon->watcher, message, clock_seconds());
    double every = watcher_slow_statistics(&daemon->watcher, message);
    if (every > 0)
        complain(EX_OK,
                 "%s sends its loss every %.0f examples: a short drift can be missed; set a "
                 "shorter interval (runnel-ctl set statistics.every 5)",
                 daemon->endpoint, every);
}

static void handle_change(struct daemon *daemon, enum runnel_kind change) {
    health_changed(&daemon->health, change);
    bool new_refusal = change == RUNNEL_REFUSED && !daemon->refused;
    bool new_hindrance = change == RUNNEL_HINDERED && !daemon->hindrance_reported;
    daemon->refused |= change == RUNNEL_REFUSED;
    daemon->hindrance_reported |= change == RUNNEL_HINDERED;
    if (new_refusal || new_hindrance)
        complain(EX_OK, "%s: %s", daemon->endpoint, link_refusal(daemon->link));
}

static void look_at(struct daemon *daemon) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < MESSAGES_AT_ONCE && !ending_asked() &&
                    (kind = link_next(daemon->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE)
            handle_message(daemon, &message);
        else
            handle_change(daemon, kind);
        message_clear(&message);
    }
    health_tick(&daemon->health, false);
    double now = clock_seconds();
    watcher_quiet(&daemon->watcher, health_quiet(&daemon->health), daemon->health.connected, now);
    book_tick(&daemon->watcher.book, now);
}

/* Seconds until the next action without a message. */
static double next_time(const struct daemon *daemon) {
    double next =
        fmin(health_next(&daemon->health), book_next(&daemon->watcher.book, clock_seconds()));
    double silence = daemon->watcher.limits->silence - health_quiet(&daemon->health);
    if (silence > 0)
        next = fmin(next, silence);
    return next;
}

static void wait_for_messages(struct alerts *a, struct pollfd *items) {
    double seconds = next_time(&a->daemons[0]);
    for (size_t i = 0; i < a->count; i++) {
        items[i] = (struct pollfd){.fd = link_descriptor(a->daemons[i].link), .events = POLLIN};
        seconds = fmin(seconds, next_time(&a->daemons[i]));
    }
    items[a->count] = (struct pollfd){.fd = ending_descriptor(), .events = POLLIN};
    poll(items, a->count + 1, clock_milliseconds(seconds));
}

static bool all_refused(const struct alerts *a) {
    for (size_t i = 0; i < a->count; i++)
        if (!a->daemons[i].refused)
            return false;
    return true;
}

static int watch(struct alerts *a) {
    const struct options *o = &a->options;
    bool topics[TOPICS] = {[TOPIC_STATUS] = true, [TOPIC_LOSS] = true, [TOPIC_EVENT] = true};
    topics[TOPIC_STATE] =
        o->watched[ALERT_DEAD] || o->watched[ALERT_SATURATED] || o->watched[ALERT_DORMANT];
    struct pollfd items[ALERT_DAEMONS + 1];
    for (size_t i = 0; i < a->count; i++) {
        struct runnel_peer peer = tool_peer(o->endpoints.values[i], &o->keys);
        int status = link_open(&a->daemons[i].link, &peer, topics);
        if (status != EX_OK)
            return status;
    }
    while (!ending_asked() && !a->broken) {
        for (size_t i = 0; i < a->count; i++)
            look_at(&a->daemons[i]);
        if (all_refused(a))
            return complain(EX_UNAVAILABLE, "access denied by all daemons (see security.allow)");
        if (!ending_asked() && !a->broken)
            wait_for_messages(a, items);
    }
    return EX_OK;
}

static bool handle_recorded(void *context, const struct message *message, double now) {
    struct alerts *a = context;
    struct watcher *watcher = &a->daemons[0].watcher;
    watcher_message(watcher, message, now);
    book_tick(&watcher->book, now);
    return !ending_asked() && !a->broken;
}

static int run(struct alerts *a) {
    struct options *o = &a->options;
    a->count = o->endpoints.count;
    a->daemons = calloc(a->count, sizeof *a->daemons);
    if (!a->daemons)
        return complain(EX_UNAVAILABLE, "out of memory");
    for (size_t i = 0; i < a->count; i++)
        open_daemon(a, &a->daemons[i], o->recording ? o->recording : o->endpoints.values[i]);
    int status = EX_OK;
    if (o->deliver.command || o->deliver.url)
        status = deliver_open(&a->deliver, &o->deliver);
    if (status == EX_OK)
        status = o->recording ? replay(o->recording, handle_recorded, a) : watch(a);
    for (size_t i = 0; i < a->count; i++)
        book_end(&a->daemons[i].watcher.book);
    deliver_close(&a->deliver);
    for (size_t i = 0; i < a->count; i++)
        link_close(&a->daemons[i].link);
    free(a->daemons);
    if (a->broken)
        return complain(EX_IOERR, "cannot write to standard output");
    return status;
}

int main(int argc, char **argv) {
    struct alerts alerts = {0};
    int status = options_read(&alerts.options, argc, argv);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, commands would have no status */
    if (status == OPTIONS_GO_ON && (status = ending_catch_signals()) == EX_OK)
        status = run(&alerts);
    free(alerts.options.url);
    return status;
}
