/* runneld with fault injection: linked with the daemon's main before libc.

   SIGUSR1: the journal's disk gets the fault $HURT_DISK (a number of enum disk_fault) after
   $HURT_AFTER more calls; the next SIGUSR1 ends it. SIGUSR2: the wall clock jumps, alternately a
   year forward and two back. $HURT_PARAMETERS: the daemon is killed while it writes a file of
   parameters, at this step (enum). */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "faulty_disk.h"

#define YEAR (365L * 24 * 60 * 60)

static enum disk_fault fault;
static int after;
static _Atomic int faulted; /* SIGUSR1 was received an odd number of times */
static _Atomic long offset; /* offset of the wall clock, seconds */

static int variable(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static void hurt_disk(int unused) {
    (void)unused;
    faulted = !faulted;
    faulty_disk(faulted ? fault : DISK_WELL, after);
}

static void hurt_clock(int unused) {
    (void)unused;
    offset += offset > 0 ? -2 * YEAR : offset < 0 ? 2 * YEAR : YEAR;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction disk = {.sa_handler = hurt_disk, .sa_flags = SA_RESTART};
    struct sigaction clock = {.sa_handler = hurt_clock, .sa_flags = SA_RESTART};
    fault = (enum disk_fault)variable("HURT_DISK");
    after = variable("HURT_AFTER");
    faulty_disk_install();
    sigaction(SIGUSR1, &disk, NULL);
    sigaction(SIGUSR2, &clock, NULL);
}

/* Libraries find these before libc's. */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict unused) {
    (void)unused;
    struct timespec time;
    int status = clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return status;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}

/* ---- A file of parameters ---- */

enum parameters_step {
    STEP_TORN = 1, /* half of it is in the temporary file */
    STEP_UNSYNCED, /* all of it is */
    STEP_SYNCED,   /* all of it is on disk */
    STEP_NAMED,    /* it has its name */
};

static void die_at(enum parameters_step step) {
    if (variable("HURT_PARAMETERS") == (int)step)
        kill(getpid(), SIGKILL);
}

int fsync(int file) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    struct stat status;
    if (size > 0 && strstr(path, "/parameters.") && fstat(file, &status) == 0) {
        if (variable("HURT_PARAMETERS") == STEP_TORN && ftruncate(file, status.st_size / 2) == 0)
            die_at(STEP_TORN);
        die_at(STEP_UNSYNCED);
    }
    return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to) {
    bool parameters = strstr(to, "/parameters.") != NULL;
    if (parameters)
        die_at(STEP_SYNCED);
    int status = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (parameters && status == 0)
        die_at(STEP_NAMED);
    return status;
}
