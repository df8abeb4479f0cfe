/* Modules: parts of the daemon in shared objects of their own, loaded when a configuration needs
   their libraries. One that is loaded stays. */
#ifndef RUNNEL_MODULE_H
#define RUNNEL_MODULE_H

#include <stdbool.h>

enum { MODULE_PATH_SIZE = 4096 };

/* Where `make install` puts them. */
extern const char module_directory[];

/* Find the module: what the environment's `variable` names, else `file` beside the running program
   (as in a build tree), else in module_directory; false: this installation has none. A path that
   the environment names is not looked at: loading it reports what is wrong with it. */
bool module_find(char path[MODULE_PATH_SIZE], const char *file, const char *variable);

#endif
