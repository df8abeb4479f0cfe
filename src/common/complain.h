/* Error messages of a program on stderr: "PROGRAM: SENTENCE". Each function returns the exit
   status (sysexits.h), so that callers can write `return complain(...)`. Unprintable bytes in
   arguments become '?'. */
#ifndef RUNNEL_COMPLAIN_H
#define RUNNEL_COMPLAIN_H

struct error;

int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int complain_error(const struct error *error);

/* Also mentions --help; returns EX_USAGE. */
int complain_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Check that everything written to stdout was delivered. Returns EX_OK, else complains and
   returns EX_IOERR. */
int complain_output(void);

#endif
