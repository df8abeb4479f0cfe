#include "machine.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS "/proc/self/cgroup"
#define MOUNTED "/sys/fs/cgroup"

/* A limit of a control group, and its files in version 2 and version 1. */
struct limit {
    const char *controller;
    const char *names[2];
    double (*read)(const char *directory, const char *name);
};

/* ---- Files of a group ---- */

/* Read at most two numbers of a file; returns their count. "max" and a missing file count 0. */
static int read_numbers(const char *directory, const char *name, double numbers[2]) {
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = size < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    int count = fscanf(file, "%lf %lf", &numbers[0], &numbers[1]);
    fclose(file);
    return count > 0 ? count : 0;
}

/* Bytes. */
static double read_memory(const char *directory, const char *name) {
    double numbers[2];
    return read_numbers(directory, name, numbers) && numbers[0] > 0 ? numbers[0] : INFINITY;
}

/* CPU time and period of the group. Version 1 has a separate file for the period, and -1 for no
   limit. */
static double read_cpus(const char *directory, const char *name) {
    double quota[2], period[2];
    int count = read_numbers(directory, name, quota);
    if (count == 1 && read_numbers(directory, "cpu.cfs_period_us", period))
        quota[count++] = period[0];
    return count == 2 && quota[0] > 0 && quota[1] > 0 ? quota[0] / quota[1] : INFINITY;
}

static const struct limit memory = {"memory", {"memory.max", "memory.limit_in_bytes"}, read_memory};
static const struct limit cpus = {"cpu", {"cpu.max", "cpu.cfs_quota_us"}, read_cpus};

/* ---- Groups of a process ---- */

/* The lowest limit of a group and its ancestors. In a container the path may be that of the
   host: then only the root group is found. */
static double least_limit(const char *root, const struct limit *limit, int version, char *group) {
    bool second = version == 2;
    double least = INFINITY;
    for (;;) {
        char path[PATH_MAX];
        int size = snprintf(path, sizeof path, "%s" MOUNTED "%s%s%s", root, second ? "" : "/",
                            second ? "" : limit->controller, group);
        if (size < (int)sizeof path)
            least = fmin(least, limit->read(path, limit->names[second ? 0 : 1]));
        char *last = strrchr(group, '/');
        if (!last)
            return least;
        *last = '\0';
    }
}

/* Whether "memory" is among "cpu,memory". */
static bool names(const char *controllers, const char *controller) {
    size_t size = strlen(controller);
    for (const char *c = controllers; *c; c += strcspn(c, ","), c += *c == ',')
        if (strcspn(c, ",") == size && memcmp(c, controller, size) == 0)
            return true;
    return false;
}

/* A line is NUMBER:CONTROLLERS:/PATH, without controllers in version 2. */
static double limit_of_line(const char *root, const struct limit *limit, char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return INFINITY;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0')
        return least_limit(root, limit, 2, group);
    return names(controllers + 1, limit->controller) ? least_limit(root, limit, 1, group)
                                                     : INFINITY;
}

static double limit_of_process(const char *root, const struct limit *limit) {
    double least = INFINITY;
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s" GROUPS, root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        least = fmin(least, limit_of_line(root, limit, line));
    if (file)
        fclose(file);
    return least;
}

double machine_memory(const char *root) {
    double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double least = fmin(pages > 0 ? pages : INFINITY, limit_of_process(root, &memory));
    return isfinite(least) ? least : 0;
}

double machine_cpus(const char *root) {
    return limit_of_process(root, &cpus);
}

const char *machine_root(void) {
    const char *root = getenv("RUNNEL_MACHINE");
    return root ? root : "";
}
