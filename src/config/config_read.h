/* A configuration while it is read: first YAML with the table of keys, then the rules between
   them. */
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
    } sections[CONFIG_SECTIONS_MAX]; /* given mappings and lists */
    size_t section_count;
    char to[CONFIG_TEXT_SIZE]; /* origin.to */
    bool preset_layer;         /* the preset provides the single layer */
    size_t output;             /* number of the output of model.outputs that this is about */
    bool earlier;              /* fill in the defaults of earlier versions */
};

/* Read the file's text, then overrides one by one, into `reading`; each value is checked alone.
   An override replaces a value, also a whole mapping or list; an empty value removes the key.
   The text of an override must outlive the reading. */
int config_read_text(struct reading *reading, const char *text, size_t size);
int config_read_override(struct reading *reading, const char *override);

/* Read a node at the path of a section or key. */
int config_read_node(struct reading *reading, const struct walk *walk, const yaml_node_t *node,
                     const char *path);

/* The position of the given key (row and layer), or NULL for other paths. */
const struct place *config_place(const struct reading *reading, const char *path);

/* Whether the key of that path was given. */
bool config_given(const struct reading *reading, const char *path);

/* A given key of the section, or NULL. */
const char *config_given_below(const struct reading *reading, const char *section);

/* The position of the given mapping or list, or NULL; and store it, for errors about missing keys.
 */
const struct place *config_section_place(const struct reading *reading, const char *path);
void config_note_section(struct reading *reading, const char *path, struct place place);

/* Fail with "FILE:LINE:COLUMN: PATH: SENTENCE": the position of the key or section, else of the
   nearest section around it. */
int config_fail(const struct reading *reading, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fail with "expected WHAT, got VALUE: WHY", with the key's value, if it is not good. `why` may be
   NULL. */
int config_expect(const struct reading *reading, bool good, const char *path, const char *why,
                  const char *what, ...) __attribute__((format(printf, 5, 6)));

/* A path, until the end of the block. */
#define CONFIG_PATH(...) config_path_format((char[CONFIG_KEY_SIZE]){""}, __VA_ARGS__)
const char *config_path_format(char path[CONFIG_KEY_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Rules (config_check.c) ---- */

/* Add the preset's layer if no layers are given, so that overrides can name it. */
void config_preset_layers(struct reading *reading);

/* Whether the reading describes a network: with members, only they are networks. */
static inline bool config_is_network(const struct reading *reading) {
    return reading->origin.member || !(reading->draft.config.members_given ||
                                       reading->draft.config.preset == PRESET_FORECAST);
}

/* Fill in defaults and check the rules between keys. */
int config_check(struct reading *reading);

/* The same for the keys below the section alone; and the rules between the keys of layers. */
int config_check_section(struct reading *reading, const char *section);
int config_check_layers(struct reading *reading);

/* Make the reading's output of model.outputs its output. Then check the others: `read` is the state
   before defaults. */
int config_begin_outputs(struct reading *reading);
int config_check_outputs(struct reading *reading, const struct reading *read);
int config_check_size(struct reading *reading);

/* The matching losses, as "a, b or c". Returns `text`. */
const char *config_losses(bool (*fits)(const struct loss_kind *kind), char text[CONFIG_TEXT_SIZE]);

/* What cannot be combined with messages, several outputs and rankings. */
int config_check_messages(struct reading *reading);

/* The rules for rule, optimizer and learning rate (config_check_learning.c). */
int config_check_learning(struct reading *reading);

/* The rules for sockets, brokers, security and state (config_check_daemon.c). */
int config_check_daemon(struct reading *reading);

/* Create the configurations of members. `read` is the state before defaults; `reading` has been
   checked (config_members.c). */
int config_check_members(struct reading *reading, const struct reading *read);

#endif
