/* The directory that results are kept in. */
#ifndef RUNNEL_EXPERIMENT_DIRECTORY_H
#define RUNNEL_EXPERIMENT_DIRECTORY_H

#include <stdbool.h>

struct error;
struct experiment_spec;

/* Make it where it is not, and lock it until the process ends or `lock`, a descriptor, is closed.
   -1: EX_CANTCREAT, also where it has files of somebody else that would be overwritten;
   EX_TEMPFAIL when another process has it. */
int directory_take(const char *path, const struct experiment_spec *spec, bool *made, int *lock,
                   struct error *error);

/* What never came to run leaves nothing. */
void directory_remove(const char *path, const struct experiment_spec *spec);

#endif
