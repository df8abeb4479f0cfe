#include "build-config.h"

#include "ctl_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/sync.h"

#define TEMPORARY ".XXXXXX"

static int write_all(int file, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t written = write(file, (const char *)bytes + done, size - done);
        if (written < 0 && errno != EINTR)
            return -1;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* mkostemp makes files that only the user may read; an export gets what open would have given it.
 */
static mode_t usual_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int fill(int file, const void *bytes, size_t size) {
    int failed = write_all(file, bytes, size) || fchmod(file, usual_mode()) || fsync(file);
    int saved = errno;
    if (close(file) && !failed)
        return -1;
    errno = saved;
    return failed ? -1 : 0;
}

int file_write(const char *path, const void *bytes, size_t size) {
    if (strcmp(path, "-") == 0) {
        if (write_all(STDOUT_FILENO, bytes, size))
            return complain(EX_IOERR, "cannot write to standard output: %s", strerror(errno));
        return EX_OK;
    }
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return complain(EX_IOERR, "cannot write %s: it is there and is no regular file", path);
    char *temporary = malloc(strlen(path) + sizeof TEMPORARY);
    if (!temporary)
        return complain(EX_IOERR, "out of memory");
    strcat(strcpy(temporary, path), TEMPORARY);
    int file = mkostemp(temporary, O_CLOEXEC), status = EX_OK;
    if (file < 0) {
        status = complain(EX_IOERR, "cannot write beside %s: %s", path, strerror(errno));
    } else if (fill(file, bytes, size) || rename(temporary, path)) {
        status = complain(EX_IOERR, "cannot write %s: %s", path, strerror(errno));
        unlink(temporary);
    } else if (sync_directory_of(path)) { /* the rename itself */
        status = complain(EX_IOERR, "%s is written, but its directory cannot be synced: %s", path,
                          strerror(errno));
    }
    free(temporary);
    return status;
}
