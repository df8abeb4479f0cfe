/* One sentence about what went wrong, in a buffer that the caller owns.

   Functions that can fail return 0 or -1 and fill a struct error. The sentence names the file, key
   or socket and the way out; `status` is the exit code of sysexits.h that main ends with when
   no caller handles the error before. */
#ifndef RUNNEL_ERROR_H
#define RUNNEL_ERROR_H

enum { ERROR_TEXT_SIZE = 1024 };

struct error {
    int status;                 /* EX_CONFIG, EX_IOERR, EX_UNAVAILABLE, EX_SOFTWARE, EX_USAGE */
    char text[ERROR_TEXT_SIZE]; /* one sentence of printable UTF-8 */
};

/* Fill `error` (may be NULL) and return -1, so that `return error_set(...)` is all a caller writes.
   What is quoted may be any bytes: those that do not print become '?'. */
int error_set(struct error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "out of memory", EX_OSERR. */
int error_no_memory(struct error *error);

/* Put "CONTEXT: " before the sentence that is there; returns -1. */
int error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
