#include "sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sync_directory(const char *path) {
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return -1;
    int status = fsync(file) && errno != EINVAL ? -1 : 0, reason = errno;
    close(file);
    errno = reason;
    return status;
}

int sync_directory_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);
    if (!parent)
        return -1;
    int status = sync_directory(*parent ? parent : slash ? "/" : "."), reason = errno;
    free(parent);
    errno = reason;
    return status;
}
