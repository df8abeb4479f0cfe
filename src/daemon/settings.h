/* The current configuration (struct daemon's `config`) and all changes of it while the daemon
   runs: `set`, `reset`, SIGHUP, and at a start the changes of the file since the checkpoint. */
#ifndef RUNNEL_SETTINGS_H
#define RUNNEL_SETTINGS_H

#include <stdbool.h>

struct config;
struct config_source;
struct daemon;
struct error;

/* `source` names the file to read the configuration from again; it must outlive the daemon. */
int settings_open(struct daemon *daemon, const struct config *config,
                  const struct config_source *source, struct error *error);
void settings_close(struct daemon *daemon);

/* Takes rate and clip from the learner, which has loaded them from a checkpoint. */
void settings_update_rates(struct daemon *daemon);

const struct config_source *settings_source(const struct daemon *daemon);

/* The current configuration as text. JSON objects of all values and of the tags, valid until the
   next change; and as YAML for a daemon, to be freed, with comments for its source and the values
   set in flight. NULL: out of memory. */
const char *settings_json(const struct daemon *daemon);
const char *settings_tags(const struct daemon *daemon);
char *settings_yaml(const struct daemon *daemon);

/* Returns whether learning depends on the key. */
bool settings_is_learned_with(const char *key);

/* Sets a key to a value, written as in the file. */
int settings_set(struct daemon *daemon, const char *key, const char *value, struct error *error);

/* Sets a key again, from the journal. Keys that do not affect learning keep the values of the
   configuration. `configured`: the configuration file had changed. */
int settings_replay(struct daemon *daemon, const char *key, const char *value, bool configured,
                    struct error *error);

/* Starts learning again, for all members or one (NULL = all). Returns the same as learner_reset;
   also 1 for an unknown member. */
int settings_reset(struct daemon *daemon, const char *member, struct error *error);

/* Replaces the configured rate and clip of the loaded and replayed state by those of the file. */
int settings_configure(struct daemon *daemon, struct error *error);

/* Reads the configuration again, applies the keys that can change while the daemon runs, and
   reports those and the keys that wait for a restart. Applies nothing of an invalid file. -1: the
   daemon cannot continue. */
int settings_reload(struct daemon *daemon, struct error *error);

#endif
