/* What a program says on stderr when something is wrong: "PROGRAM: SENTENCE". Each function returns
   the exit status (sysexits.h), so that `return complain(...)` is all a caller writes. What is
   quoted may be any bytes: those that do not print become '?'. */
#ifndef RUNNEL_COMPLAIN_H
#define RUNNEL_COMPLAIN_H

struct error;

int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int complain_error(const struct error *error);

/* Points to --help; returns EX_USAGE. */
int complain_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether everything written to stdout has arrived: EX_OK, else complains and returns EX_IOERR. */
int complain_output(void);

#endif
