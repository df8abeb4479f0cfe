/* The section `publish` of a daemon's configuration, as options of runnel-relay: a key is the
   option of its name. The daemon checks the section; what is wrong with it is said here, too. */
#ifndef RUNNEL_RELAY_CONFIG_H
#define RUNNEL_RELAY_CONFIG_H

struct error;
struct options;
struct relay_config;

/* Put what the file says into the options, the daemon's statistics socket included. The options
   point into what has been read, which must outlive them. EX_NOINPUT, EX_CONFIG. */
int relay_config_open(struct relay_config **config, const char *path, struct options *options,
                      struct error *error);
void relay_config_close(struct relay_config **config);

#endif
