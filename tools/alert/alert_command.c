#include "build-config.h"

#include "alert_command.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"

#define GRACE 2.0 /* seconds between SIGTERM and SIGKILL */
#define PREFIX "RUNNEL_ALERT_"

enum { NAME_SIZE = 64 };

static bool runs(const char *directory, size_t length, const char *program) {
    char path[4096];
    int size =
        snprintf(path, sizeof path, "%.*s/%s", (int)length, length ? directory : ".", program);
    return size > 0 && (size_t)size < sizeof path && access(path, X_OK) == 0;
}

bool command_exists(const char *program) {
    const char *path = getenv("PATH");
    if (strchr(program, '/'))
        return access(program, X_OK) == 0;
    for (const char *at = path ? path : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        if (runs(at, strcspn(at, ":"), program))
            return true;
    }
    return false;
}

/* NAME=VALUE of a member; NULL when out of memory. A number is written as in JSON, null is empty.
 */
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

/* This program's own environment, without variables that look like the alert's, and the alert. */
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

/* A file in memory, so that a command that does not read its input blocks nothing. */
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

/* Returns an error number. In a process group of its own, so that all of it can be ended. */
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

/* With -1 for the process (no descriptor was available) it waits the whole time. */
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
        kill(-child, SIGKILL); /* also what it started and has not ended with it */
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
        return error_set(error, EX_UNAVAILABLE, "'%s' ended with exit status %d", program,
                         WEXITSTATUS(status));
    return error_set(error, EX_UNAVAILABLE, "'%s' was ended by signal %d", program,
                     WTERMSIG(status));
}

int command_run(char *const *words, const json_t *alert, double seconds, struct error *error) {
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
