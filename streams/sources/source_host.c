/* Load of this machine from /proc, eight numbers per step:

   0 CPU busy share: 1 - (idle + iowait) / all, over all CPUs
   1 CPU system share: (system + irq + softirq) / all
   2 memory used share: 1 - MemAvailable / MemTotal
   3 load per CPU: load average of one minute / number of CPUs online
   4 context switches: log1p(switches per second)
   5 network in: log1p(bytes per second), all interfaces but lo
   6 network out: log1p(bytes per second), all interfaces but lo
   7 disk: log1p(bytes per second read and written), whole disks only

   0, 1 and 4..7 cover the time since the previous sample. log1p is the natural logarithm of 1 +
   rate, between 0 and about 23: rates span many powers of ten and are often zero. A number that
   this machine does not report is NaN. Files stay open; a sample is one pread of each. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "streams/feed.h"

enum { NUMBERS = 8, TEXT_SIZE = 256 << 10, SECTOR_SIZE = 512, DEVICE_NAME_SIZE = 64 };
#define RATE_DEFAULT 20

enum file { FILE_STAT, FILE_MEMORY, FILE_LOAD, FILE_NETWORK, FILE_DISK, FILES };
static const char *const PATHS[FILES] = {"stat", "meminfo", "loadavg", "net/dev", "diskstats"};
static const char *const MEANING[FILES] = {"CPU shares and context switches", "memory used",
                                           "load average", "network bytes", "disk bytes"};

/* Counters since boot; NAN if not reported. */
struct counters {
    double time; /* CLOCK_MONOTONIC */
    double cpu_all, cpu_idle, cpu_system;
    double switches;
    double received, sent, interfaces;
    double disk, disks;
};

struct host {
    struct source source;
    const char *proc;
    int files[FILES]; /* -1 = missing */
    char *text;       /* (TEXT_SIZE,) text of the current file */
    double cpus;
    struct counters before;
    float x[NUMBERS];
};

static void set_defaults(struct source *source) {
    struct host *host = (struct host *)source;
    host->proc = "/proc";
    for (int i = 0; i < FILES; i++)
        host->files[i] = -1;
}

static const struct option_row OPTIONS[] = {
    {"proc", 0, "DIRECTORY", "read this directory instead of /proc",
     OPTION_DIRECTORY(struct host, proc)},
    OPTIONS_END,
};

/* Returns the current text of the file, or "" if it is missing. */
static char *read_text(struct host *host, enum file file) {
    ssize_t size =
        host->files[file] < 0 ? 0 : pread(host->files[file], host->text, TEXT_SIZE - 1, 0);
    host->text[size > 0 ? size : 0] = '\0';
    return host->text;
}

/* Returns the text after `name` at the beginning of a line, or NULL. */
static const char *find_line(const char *text, const char *name) {
    size_t size = strlen(name);
    while (text && strncmp(text, name, size) != 0) {
        text = strchr(text, '\n');
        text += text != NULL;
    }
    return text ? text + size : NULL;
}

static double find_number(const char *text, const char *name) {
    const char *found = find_line(text, name);
    return found ? strtod(found, NULL) : NAN;
}

/* Parses "cpu user nice system idle iowait irq softirq steal ..." in ticks; user includes guest
   time. */
static void read_cpu(struct host *host, struct counters *now) {
    enum { SYSTEM = 2, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };
    double ticks[COLUMNS] = {0};
    const char *text = read_text(host, FILE_STAT), *line = find_line(text, "cpu ");
    now->cpu_all = now->cpu_idle = now->cpu_system = NAN;
    now->switches = find_number(text, "ctxt ");
    if (!line)
        return;
    now->cpu_all = 0;
    for (int i = 0; i < COLUMNS; i++) {
        char *end;
        ticks[i] = strtod(line, &end);
        now->cpu_all += ticks[i];
        line = end;
    }
    now->cpu_idle = ticks[IDLE] + ticks[IOWAIT];
    now->cpu_system = ticks[SYSTEM] + ticks[IRQ] + ticks[SOFTIRQ];
}

/* Parses " eth0: received-bytes packets errs drop fifo frame compressed multicast sent-bytes
   ...". */
static void read_network(struct host *host, struct counters *now) {
    enum { BETWEEN = 7 };
    now->received = now->sent = now->interfaces = 0;
    for (char *line = read_text(host, FILE_NETWORK), *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        char *colon = memchr(line, ':', (size_t)(end - line));
        line += strspn(line, " ");
        if (!colon || (colon - line == 2 && memcmp(line, "lo", 2) == 0))
            continue;
        char *next = colon + 1;
        now->received += strtod(next, &next);
        for (int i = 0; i < BETWEEN; i++)
            strtoull(next, &next, 10);
        now->sent += strtod(next, &next);
        now->interfaces++;
    }
    if (now->interfaces == 0)
        now->received = now->sent = NAN;
}

/* Partitions follow their disk: "sda" then "sda1", "nvme0n1" then "nvme0n1p1". */
static bool is_partition(const char *name, const char *disk) {
    size_t size = strlen(disk);
    if (size == 0 || strncmp(name, disk, size) != 0)
        return false;
    const char *rest = name + size;
    if (disk[size - 1] >= '0' && disk[size - 1] <= '9' && *rest++ != 'p')
        return false;
    return *rest >= '0' && *rest <= '9';
}

/* Whether it is a layer over other devices, whose bytes are counted there, or memory. */
static bool is_virtual(const char *name) {
    static const char *const VIRTUAL[] = {"loop", "ram", "zram", "dm-", "md", "fd", "sr"};
    for (size_t i = 0; i < sizeof VIRTUAL / sizeof VIRTUAL[0]; i++)
        if (strncmp(name, VIRTUAL[i], strlen(VIRTUAL[i])) == 0)
            return true;
    return false;
}

/* Parses "major minor name reads merged sectors ms writes merged sectors ...". */
static void read_disks(struct host *host, struct counters *now) {
    char disk[DEVICE_NAME_SIZE] = "", name[DEVICE_NAME_SIZE];
    now->disk = now->disks = 0;
    for (char *line = read_text(host, FILE_DISK); line && *line;) {
        unsigned long long in, out;
        if (sscanf(line, "%*u %*u %63s %*u %*u %llu %*u %*u %*u %llu", name, &in, &out) == 3 &&
            !is_virtual(name) && !is_partition(name, disk)) {
            memcpy(disk, name, sizeof disk);
            now->disk += (double)(in + out) * SECTOR_SIZE;
            now->disks++;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    if (now->disks == 0)
        now->disk = NAN;
}

static void read_counters(struct host *host, struct counters *now) {
    now->time = clock_seconds();
    read_cpu(host, now);
    read_network(host, now);
    read_disks(host, now);
}

/* Returns `before` if no time has passed or a counter was reset. */
static float share(double part, double all, float before) {
    if (isnan(all))
        return NAN;
    return all > 0 && part >= 0 ? (float)fmin(part / all, 1) : before;
}

static float rate(double counted, double seconds, float before) {
    if (isnan(counted))
        return NAN;
    return seconds > 0 && counted >= 0 ? (float)log1p(counted / seconds) : before;
}

static void sample(struct host *host) {
    struct counters now, *b = &host->before;
    float *x = host->x;
    read_counters(host, &now);
    double all = now.cpu_all - b->cpu_all, seconds = now.time - b->time;
    x[0] = share(all - (now.cpu_idle - b->cpu_idle), all, x[0]);
    x[1] = share(now.cpu_system - b->cpu_system, all, x[1]);
    x[4] = rate(now.switches - b->switches, seconds, x[4]);
    if (now.interfaces == b->interfaces || isnan(now.sent)) {
        x[5] = rate(now.received - b->received, seconds, x[5]);
        x[6] = rate(now.sent - b->sent, seconds, x[6]);
    }
    if (now.disks == b->disks || isnan(now.disk))
        x[7] = rate(now.disk - b->disk, seconds, x[7]);
    const char *memory = read_text(host, FILE_MEMORY);
    double total = find_number(memory, "MemTotal:");
    x[2] = (float)(1 - find_number(memory, "MemAvailable:") / total);
    const char *load = read_text(host, FILE_LOAD);
    x[3] = *load ? (float)(strtod(load, NULL) / host->cpus) : NAN;
    host->before = now;
}

static void open_files(struct host *host) {
    for (int i = 0; i < FILES; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", host->proc, PATHS[i]);
        host->files[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (host->files[i] < 0)
            feed_print("%s: %s; %s will be missing (NaN)", path, strerror(errno), MEANING[i]);
    }
}

static int open_host(struct source *source, char **operands, struct error *error) {
    struct host *host = (struct host *)source;
    (void)operands;
    source->x = (struct shape){VALUE_REAL, NUMBERS};
    host->text = malloc(TEXT_SIZE);
    if (!host->text)
        return error_no_memory(error);
    open_files(host);
    host->cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    read_counters(host, &host->before);
    if (host->files[FILE_NETWORK] >= 0 && isnan(host->before.sent))
        feed_print("no network interface except lo; network bytes will be missing (NaN)");
    if (host->files[FILE_DISK] >= 0 && isnan(host->before.disk))
        feed_print("no disk found; disk bytes will be missing (NaN)");
    return 0;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct host *host = (struct host *)source;
    (void)error;
    sample(host);
    step->x = host->x;
    step->time = clock_unix();
    return 1;
}

static void close_host(struct source *source) {
    struct host *host = (struct host *)source;
    for (int i = 0; i < FILES; i++)
        if (host->files[i] >= 0)
            close(host->files[i]);
    free(host->text);
}

static const char *column(const struct source *source, bool y, size_t k) {
    static const char *const names[NUMBERS] = {"cpu_busy",        "cpu_system",   "memory_used",
                                               "load_per_cpu",    "log_switches", "log_network_in",
                                               "log_network_out", "log_disk"};
    (void)source;
    (void)y;
    return names[k];
}

const struct source_type source_host = {
    .command = {"host", "", "load of this machine, 8 numbers", .rows = OPTIONS},
    .notes = "CPU busy, CPU system, memory used (shares), load per CPU; and as log(1 + per "
             "second) context switches, network bytes in, network bytes out, disk bytes.",
    .rate = RATE_DEFAULT,
    .live = true,
    .spans = true,
    .endless = true,
    .size = sizeof(struct host),
    .set_defaults = set_defaults,
    .open = open_host,
    .next = next,
    .column = column,
    .close = close_host,
};
