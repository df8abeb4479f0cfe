/* Modules: parts of the daemon in shared objects, loaded when a configuration needs their
   libraries. They are never unloaded. */
#ifndef RUNNEL_MODULE_H
#define RUNNEL_MODULE_H

#include <stdbool.h>

enum { MODULE_PATH_SIZE = 4096 };

/* The directory of `make install`. */
extern const char module_directory[];

/* Find the module: the path in the environment's `variable`, else `file` beside the running
   program (as in a build tree), else in module_directory. False: not installed. A path from the
   environment is not checked: loading it reports errors. */
bool module_find(char path[MODULE_PATH_SIZE], const char *file, const char *variable);

#endif
