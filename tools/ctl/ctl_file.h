/* A file that is there whole or not at all. */
#ifndef RUNNEL_CTL_FILE_H
#define RUNNEL_CTL_FILE_H

#include <stddef.h>

/* Write the bytes under a temporary name in the file's directory, fsync, and rename: a reader that
   opens `path` finds what was there before or all of the new. What is there and is no regular file,
   a device above all, is not replaced. "-" is standard output. Returns EX_OK, or complains and
   returns EX_IOERR; then `path` is as it was. */
int file_write(const char *path, const void *bytes, size_t size);

#endif
