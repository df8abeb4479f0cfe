/* Other programs of runnel, started from this one. */
#ifndef RUNNEL_PROGRAM_H
#define RUNNEL_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* The path of the program of that name: beside this one, else the name, for PATH. */
void program_find(char path[PATH_MAX], const char *name);

/* Start it with `arguments`, of which the first is its name and the last is NULL, and with these
   three streams (-1: that of this process). Its number; -1 with errno. */
pid_t program_start(const char *const *arguments, int input, int output, int errors);

/* Wait for its end: its exit status, or -1 when a signal ended it. */
int program_wait(pid_t child);

#endif
