/* A configuration being read: YAML along the table of keys, then the rules between them. */
#ifndef RUNNEL_CONFIG_READ_H
#define RUNNEL_CONFIG_READ_H

#include "config_keys.h"

enum { CONFIG_SECTIONS_MAX = 16 + MODEL_LAYERS_MAX };

struct reading {
    struct draft draft;
    struct config_origin origin;
    struct place places[CONFIG_KEYS_MAX][MODEL_LAYERS_MAX];
    struct {
        char path[CONFIG_KEY_SIZE];
        struct place place;
    } sections[CONFIG_SECTIONS_MAX]; /* mappings and lists that were given */
    size_t section_count;
    bool preset_layer; /* the preset gives the one layer */
};

/* Read the file's text, then overrides one by one, into `reading`; each value is checked by itself.
   What an override names replaces what was there, a mapping or list as a whole; an empty value
   takes the key out. The override's text must outlive the reading. */
int config_read_text(struct reading *reading, const char *text, size_t size);
int config_read_override(struct reading *reading, const char *override);

/* Where the key was given (its row and layer), or NULL when `path` is none. */
const struct place *config_place(const struct reading *reading, const char *path);

/* Whether the key of that path was given. */
bool config_given(const struct reading *reading, const char *path);

/* Fail with "FILE:LINE:COLUMN: PATH: SENTENCE": the place of the key or section, else that of the
   nearest section around it. */
int config_fail(const struct reading *reading, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Rules (config_check.c) ---- */

/* The layer of the preset, where none are given: from then on it can be named. */
void config_preset_layers(struct reading *reading);

/* Fill in defaults and check the rules between keys. */
int config_check(struct reading *reading);

/* The rules of what is not learned: sockets, brokers, security, the state (config_check_daemon.c).
 */
int config_check_daemon(struct reading *reading);

/* Make the members' configurations: `read` is what was read, before defaults; `reading` has been
   checked (config_members.c). */
int config_check_members(struct reading *reading, const struct reading *read);

#endif
