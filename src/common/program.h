/* Starts other programs of runnel. */
#ifndef RUNNEL_PROGRAM_H
#define RUNNEL_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* The path of a program: beside this one, else its name, for PATH. */
void program_find(char path[PATH_MAX], const char *name);

/* Start it with `arguments`, which begins with its name and ends with NULL, and these three
   streams (-1: that of this process). Returns its process id; -1 with errno. */
pid_t program_start(const char *const *arguments, int input, int output, int errors);

/* Wait for its end. Returns its exit status, or -1 if a signal ended it. */
int program_wait(pid_t child);

#endif
