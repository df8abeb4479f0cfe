#include "machine.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS "/proc/self/cgroup"
#define MOUNTED "/sys/fs/cgroup"

/* Of a file that has one; "max", as a file that is missing, is no limit. */
static double read_limit(const char *path) {
    double limit;
    FILE *file = fopen(path, "re");
    if (!file)
        return INFINITY;
    if (fscanf(file, "%lf", &limit) != 1 || !(limit > 0))
        limit = INFINITY;
    fclose(file);
    return limit;
}

/* The least limit of a group, and of those above it. In a container its path may be that of
   outside: then only the uppermost is found. */
static double least_limit(const char *root, const char *controller, char *group, const char *name) {
    double least = INFINITY;
    for (;;) {
        char path[PATH_MAX];
        int size =
            snprintf(path, sizeof path, "%s" MOUNTED "%s%s/%s", root, controller, group, name);
        if (size < (int)sizeof path)
            least = fmin(least, read_limit(path));
        char *last = strrchr(group, '/');
        if (!last)
            return least;
        *last = '\0';
    }
}

/* Whether "memory" is among "cpu,memory". */
static int names_memory(const char *controllers) {
    static const char memory[] = "memory";
    size_t size = sizeof memory - 1;
    const char *found = strstr(controllers, memory);
    return found && (found == controllers || found[-1] == ',') &&
           (found[size] == ',' || found[size] == '\0');
}

/* A line is NUMBER:CONTROLLERS:/PATH, without controllers in version 2. */
static double limit_of_line(const char *root, char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return INFINITY;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0')
        return least_limit(root, "", group, "memory.max");
    return names_memory(controllers + 1)
               ? least_limit(root, "/memory", group, "memory.limit_in_bytes")
               : INFINITY;
}

double machine_memory(const char *root) {
    double least = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char path[PATH_MAX], line[PATH_MAX];
    if (!(least > 0))
        least = INFINITY;
    snprintf(path, sizeof path, "%s" GROUPS, root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        least = fmin(least, limit_of_line(root, line));
    if (file)
        fclose(file);
    return isfinite(least) ? least : 0;
}
