/* The one table of keys, and functions for it. Reading, checks, overrides, the digest and
   reloading use it, and so do `runneld --explain`, the comments of conf/reference.yaml and the
   keys of runnel.yaml(5). Paths are those of keys with numbers in place of '*':
   "model.layers.0.size"; "" is the whole file. */
#ifndef RUNNEL_CONFIG_KEYS_H
#define RUNNEL_CONFIG_KEYS_H

#include "config_values.h"

enum {
    CONFIG_SUMMARY_SIZE = 1024, /* size of a key's description */
    CONFIG_LINE_MAX = 100,      /* size of a line in a document */
};

extern const struct config_key *const config_keys; /* complete before main begins */
extern const size_t config_key_count;

/* Fill in the rows that kinds describe (config_kinds.c). */
void config_describe_kinds(struct config_key *table);

/* ---- Paths, and descriptions of keys (config_paths.c) ---- */

enum path_kind { PATH_UNKNOWN, PATH_MAPPING, PATH_LIST, PATH_KEY };

/* The last part of a path. */
const char *config_path_last(const char *path);

/* The kind of a path. For PATH_KEY, `key` (may be NULL) is its row, else NULL; `layer` (may be
   NULL) is its number, or 0. */
enum path_kind config_path_kind(const char *path, const struct config_key **key, size_t *layer);

/* Whether the key is at or below `path`, in which N may stand for a number. */
bool config_key_below(const struct config_key *key, const char *path);

/* Whether the path is a layer, and its number. */
bool config_path_layer(const char *path, size_t *layer);

/* The path for the configuration: the connect key for a socket that connects, else
   config_key_path. */
void config_key_written(const struct config_key *key, size_t layer, const struct config *config,
                        char path[CONFIG_KEY_SIZE]);

/* The path in documents: "model.layers.N.size". */
void config_key_title(const struct config_key *key, char path[CONFIG_KEY_SIZE]);

/* The names directly below `path`, as "a, b, c". */
void config_path_children(const char *path, char *text, size_t size);

/* ` (did you mean "PATH"?)` for an unknown path, with a sibling of similar spelling or the same
   last word elsewhere; "" without one. Returns `text`. */
enum { CONFIG_MEANT_SIZE = CONFIG_KEY_SIZE + 20 };
const char *config_path_meant(const char *path, char text[CONFIG_MEANT_SIZE]);

/* ---- Keys and their values in a draft ---- */

/* The key's path with the layer's number: "model.layers.2.size". */
void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]);

/* The value of the key at that path, in the configuration's syntax. Returns `text`. */
const char *config_word_at(const void *draft, const char *path, size_t layer,
                           char text[CONFIG_TEXT_SIZE]);

/* Whether the key applies, according to the value of the key `when`. */
bool config_key_counts(const struct config_key *key, size_t layer, const void *draft);

/* Write the values of all layers that differ from their defaults, "[{cell: gru, size: 8}]". */
void config_write_layers(struct config_text *to, const struct config *config);

/* The hash of all keys with one of `flags` (KEY_DIGEST, KEY_DECIDES, KEY_MOMENT) and none of
   `without`: "KEY=VALUE\ " for each, including defaults, in the table's order. */
uint64_t config_digest_of(const void *draft, unsigned flags, unsigned without);

/* ---- Descriptions ---- */

/* The description of a key: its meaning, expected values, condition, default, and whether it may
   change. Keys and values are in `backquotes`. */
void config_key_summary(const struct config_key *key, char text[CONFIG_SUMMARY_SIZE]);

/* Bytes of the text's first word, or of its first `quoted text` with the following punctuation. */
size_t config_token(const char *text);

/* Write the text in lines of at most CONFIG_LINE_MAX bytes, broken between tokens. The first
   line begins with `first`, the others with `next`. */
void config_wrap(FILE *out, const char *first, const char *next, const char *text);

#endif
