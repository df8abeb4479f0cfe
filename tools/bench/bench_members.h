/* --members: several networks of a configuration, with seeds of their own, on the same stream. */
#ifndef RUNNEL_BENCH_MEMBERS_H
#define RUNNEL_BENCH_MEMBERS_H

#include <stddef.h>

struct config;
struct error;

enum { BENCH_MEMBERS_SIZE = 4096 };

/* The override that makes them: "members=[{name: m1, set: {seed: 7}}, ...]", of which the first has
   the configuration's seed, and each further one the next. -1 (EX_CONFIG): it lists members itself
   (those of preset: forecast give way), or a daemon has none with it. */
int bench_members(const struct config *config, const char *path, size_t count,
                  char text[BENCH_MEMBERS_SIZE], struct error *error);

#endif
