/* An error: one sentence in a buffer of the caller.

   Functions that can fail return 0 or -1 and fill a struct error. The sentence names the file,
   key or socket, and a way out. `status` is the exit code (sysexits.h) that main returns unless
   a caller handles the error. */
#ifndef RUNNEL_ERROR_H
#define RUNNEL_ERROR_H

enum { ERROR_TEXT_SIZE = 1024 };

struct error {
    int status;                 /* EX_CONFIG, EX_IOERR, EX_UNAVAILABLE, EX_SOFTWARE, EX_USAGE */
    char text[ERROR_TEXT_SIZE]; /* one sentence of printable UTF-8 */
};

/* Fill `error` (may be NULL) and return -1, so that callers can write `return error_set(...)`.
   Unprintable bytes in arguments become '?'. */
int error_set(struct error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "out of memory", EX_OSERR. */
int error_no_memory(struct error *error);

/* strerror of the errno of an open or stat, or "file not found". */
const char *error_of_file(int number);

/* Insert "CONTEXT: " before the sentence; returns -1. */
int error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
