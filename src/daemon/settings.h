/* The configuration in force (struct daemon's `config`), and all that changes it while the daemon
   runs: `set`, `reset`, SIGHUP, and at a start what the file has changed since the checkpoint. */
#ifndef RUNNEL_SETTINGS_H
#define RUNNEL_SETTINGS_H

#include <stdbool.h>

struct config;
struct config_source;
struct daemon;
struct error;

/* `source` says where the configuration can be read again; it must outlive the daemon. */
int settings_open(struct daemon *daemon, const struct config *config,
                  const struct config_source *source, struct error *error);
void settings_close(struct daemon *daemon);

/* The learner's rate and clip are in force: it has loaded them from a checkpoint. */
void settings_take_rates(struct daemon *daemon);

/* Where the configuration was read. */
const struct config_source *settings_source(const struct daemon *daemon);

/* The configuration in force as texts: all of it, and its tags, as objects of JSON, until it is
   another; and as YAML that a daemon takes, to be freed: comments say where it comes from and which
   values were set in flight. NULL: there was no memory. */
const char *settings_json(const struct daemon *daemon);
const char *settings_tags(const struct daemon *daemon);
char *settings_yaml(const struct daemon *daemon);

/* Whether learning depends on the key. */
bool settings_is_learned_with(const char *key);

/* Set a key to a value as one would write it in the file. */
int settings_set(struct daemon *daemon, const char *key, const char *value, struct error *error);

/* The same again, from the journal. Keys that nothing is learned with are what the configuration
   says, as after any start. `configured`: the configuration itself had changed. */
int settings_replay(struct daemon *daemon, const char *key, const char *value, bool configured,
                    struct error *error);

/* Start learning again, all of it or one member (NULL = all). Returns as learner_reset; 1, too,
   when there is no such member. */
int settings_reset(struct daemon *daemon, const char *member, struct error *error);

/* Put the rate and clip of the file in place of those that were configured when what has been
   loaded and replayed was learned. */
int settings_configure(struct daemon *daemon, struct error *error);

/* Read the configuration again, take what can change while the daemon runs, and report that and
   what waits for a restart; nothing of a file that is wrong. -1 when the daemon cannot continue. */
int settings_reload(struct daemon *daemon, struct error *error);

#endif
