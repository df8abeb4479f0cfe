#include "faulty_disk.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static sqlite3_vfs vfs, *real;
enum { STALL_US = 1000 }; /* between two checks */
/* A copy for every set of methods of the real VFS: files with locks, and without. */
enum { KINDS_MAX = 4 };
static struct kind {
    /* the file's methods: first, so that a pointer to them leads here */
    sqlite3_io_methods methods;
    const sqlite3_io_methods *real;
} kinds[KINDS_MAX];
static _Atomic enum disk_fault fault;
static _Atomic int left;

static bool faulted(bool sync) {
    if (fault == DISK_WELL || fault == DISK_STALL)
        return false;
    bool syncs = fault == DISK_SYNC || fault == DISK_KILL_SYNC;
    bool concerned = fault == DISK_KILL || fault == DISK_KILL_TORN || syncs == sync;
    return concerned && atomic_fetch_sub(&left, 1) <= 0;
}

static const sqlite3_io_methods *real_of(const sqlite3_file *file) {
    return ((const struct kind *)(const void *)file->pMethods)->real;
}

static int write_half(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at) {
    return real_of(file)->xWrite(file, bytes, size / 2, at);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at) {
    if (!faulted(false))
        return real_of(file)->xWrite(file, bytes, size, at);
    if (fault == DISK_SHORT || fault == DISK_KILL_TORN)
        write_half(file, bytes, size, at);
    if (fault >= DISK_KILL)
        kill(getpid(), SIGKILL);
    return fault == DISK_BROKEN ? SQLITE_IOERR_WRITE : SQLITE_FULL;
}

static int faulty_sync(sqlite3_file *file, int flags) {
    while (fault == DISK_STALL)
        usleep(STALL_US);
    if (!faulted(true))
        return real_of(file)->xSync(file, flags);
    if (fault >= DISK_KILL)
        kill(getpid(), SIGKILL);
    return SQLITE_IOERR_FSYNC;
}

static int faulty_open(sqlite3_vfs *unused, const char *name, sqlite3_file *file, int flags,
                       int *out) {
    (void)unused;
    int status = real->xOpen(real, name, file, flags, out), n = 0;
    if (status != SQLITE_OK || !file->pMethods)
        return status;
    while (kinds[n].real && kinds[n].real != file->pMethods)
        if (++n == KINDS_MAX)
            abort();
    kinds[n].real = file->pMethods;
    kinds[n].methods = *file->pMethods;
    kinds[n].methods.xWrite = faulty_write;
    kinds[n].methods.xSync = faulty_sync;
    file->pMethods = &kinds[n].methods;
    return SQLITE_OK;
}

void faulty_disk_install(void) {
    real = sqlite3_vfs_find(NULL);
    vfs = *real;
    vfs.zName = "faulty";
    vfs.xOpen = faulty_open;
    sqlite3_vfs_register(&vfs, 1);
}

void faulty_disk(enum disk_fault new_fault, int after) {
    fault = DISK_WELL;
    left = after;
    fault = new_fault;
}
