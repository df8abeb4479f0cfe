#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char module_directory[] = RUNNEL_PKGLIBDIR;

static bool beside_program(char path[MODULE_PATH_SIZE], const char *file) {
    ssize_t length = readlink("/proc/self/exe", path, MODULE_PATH_SIZE - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    size_t room = MODULE_PATH_SIZE - (size_t)(name - path);
    return snprintf(name, room, "%s", file) < (int)room && access(path, F_OK) == 0;
}

bool module_find(char path[MODULE_PATH_SIZE], const char *file, const char *variable) {
    const char *named = getenv(variable);
    if (named && *named) {
        /* Without a slash the loader would search its own directories. */
        snprintf(path, MODULE_PATH_SIZE, "%s%s", strchr(named, '/') ? "" : "./", named);
        return true;
    }
    if (beside_program(path, file))
        return true;
    snprintf(path, MODULE_PATH_SIZE, "%s/%s", module_directory, file);
    return access(path, F_OK) == 0;
}
