#include "program.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void program_find(char path[PATH_MAX], const char *name) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t room = slash ? PATH_MAX - (size_t)(slash + 1 - path) : 0;
    if (!slash || snprintf(slash + 1, room, "%s", name) >= (int)room || access(path, X_OK) != 0)
        snprintf(path, PATH_MAX, "%s", name);
}

pid_t program_start(const char *const *arguments, int input, int output, int errors) {
    const int streams[] = {input, output, errors};
    posix_spawn_file_actions_t actions;
    char path[PATH_MAX];
    pid_t child;
    program_find(path, arguments[0]);
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++)
        if (streams[i] >= 0)
            posix_spawn_file_actions_adddup2(&actions, streams[i], i);
    errno = posix_spawnp(&child, path, &actions, NULL, (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return errno ? -1 : child;
}

int program_wait(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
