/* What the parts of the configuration share: config_keys.c (the one table of keys), config_path.c
   (questions about paths), config_short.c (short names of keys), config_value.c (one value's text),
   config_value_print.c (out of the draft again), config_print.c and config_print_text.c (all of
   them), config_yaml.c (a text into a document of YAML), config_read.c (documents and overrides),
   config_read_list.c and config_read_columns.c (values that are lists), config_columns.c (rules of
   columns), config_time.c (of times), config_check.c (rules between keys), config_explain.c (what a
   key means). For config.c, the documents' generator and the tests; everybody else includes
   config.h. */
#ifndef RUNNEL_CONFIG_INTERNAL_H
#define RUNNEL_CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

enum {
    CONFIG_KEYS_MAX = 160,
    CONFIG_SECTIONS_MAX = 16 + MODEL_LAYERS_MAX,
    CONFIG_KEY_SIZE = CONFIG_KEY_NAME_SIZE, /* of a key's path with its terminating zero */
    CONFIG_TEXT_SIZE = 256,
    CONFIG_LIST_SIZE = 256 * COLUMNS_MAX, /* of a list of columns as one would write it */
    CONFIG_SUMMARY_SIZE = 1024,           /* of the description of a key */
    CONFIG_LINE_MAX = 100,                /* of a line of a document */
    CONFIG_IPC_PATH_MAX = 107,            /* of struct sockaddr_un, less its terminating zero */
    CONFIG_CUDA_DEVICES_MAX = 256,
    CONFIG_TRUTHS = 2, /* false and true, before the `words` of VALUE_TRUTH */
};

/* Bounds of inputs, for the short forms and for columns. */
#define VOCABULARY_MAX 1e5
#define INPUT_MAX 1e6
#define MEMORY_MAX 1e9
#define LIMIT_MAX 1e6
#define LAYER_SIZE_MAX 65536

#define CONFIG_RATE_WORD "auto"
#define CONFIG_THREADS_WORD CONFIG_RATE_WORD
#define CONFIG_EMPTY_SET "[]"
#define CONFIG_COUNT_MAX 9007199254740991.0 /* 2^53 - 1: exact as a JSON number too */

/* A configuration being read: the configuration itself comes first, so that one offset serves both,
   then what it does not keep. */
struct draft {
    struct config config;
    char examples_connect[CONFIG_ENDPOINT_SIZE];
    char statistics_connect[CONFIG_ENDPOINT_SIZE];
    char control_connect[CONFIG_ENDPOINT_SIZE];
    char output_columns[COLUMNS_MAX][COLUMN_NAME_SIZE]; /* "" after the last */
};

enum value_type {
    VALUE_WORD,         /* one of `words`, stored as an enum by its place among them */
    VALUE_CHOICE,       /* one of two `words`, stored as a bool: the second is true */
    VALUE_BOOLEAN,      /* true or false */
    VALUE_SIZE,         /* whole number in a size_t */
    VALUE_COUNT,        /* whole number in a uint64_t */
    VALUE_REAL,         /* number in a double */
    VALUE_FLOAT,        /* number in a float */
    VALUE_RATE,         /* number or `auto`, RATE_AUTO, in a double */
    VALUE_THREADS,      /* whole number or `auto`, which is 0, in a size_t */
    VALUE_TRUTH,        /* false, true or one of `words`, stored as an enum in this order */
    VALUE_AHEAD,        /* whole number or ascending list of them, in a struct ahead */
    VALUE_SET,          /* list of `words`, stored as a set of bits in an unsigned */
    VALUE_MEMBERS,      /* list of members, stored from config.members_given on: config_members.c */
    VALUE_COLUMNS,      /* list of columns, stored in a struct input: config_columns.c */
    VALUE_COLUMN_NAMES, /* list of their names, stored in the draft, and in a struct output once
                           they are known */
    VALUE_PREFIXES,     /* text or list of texts, in a struct share_config */
    VALUE_TAGS,         /* mapping of names to texts, in a struct tags_config */
    VALUE_KEEP,         /* "checkpoint", "all" or a size as in 10G, in a uint64_t: see journal.h */
    VALUE_NAME,         /* text of CONFIG_NAME_SIZE */
    VALUE_LABEL,        /* likewise, of CONFIG_MEMBER_NAME_SIZE */
    VALUE_ZONE,         /* likewise, of TIME_ZONE_NAME_SIZE */
    VALUE_PIN,          /* false, true, or CPUs as a text or a list of numbers, in a text of
                           CONFIG_PIN_SIZE */
    VALUE_DEVICE,       /* text of CONFIG_DEVICE_SIZE */
    VALUE_TEXT,         /* text of CONFIG_ADDRESS_SIZE */
    VALUE_PATH,         /* text of CONFIG_PATH_SIZE */
    VALUE_BIND,         /* text of CONFIG_ENDPOINT_SIZE, to be bound */
    VALUE_CONNECT,      /* likewise, to be connected to */
};

enum {
    KEY_REQUIRED = 1,  /* must be given (where `when` holds) */
    KEY_IN_FLIGHT = 2, /* may change while the daemon runs */
    KEY_DIGEST = 4,    /* part of the digest */
    KEY_BELOW = 8,     /* `maximum` itself is not allowed */
    KEY_RELOAD = 16,   /* may change when the file is read again, as those in flight may */
    KEY_LATER = 32,    /* of the digest only where the key counts: digests of configurations that
                          do without it are those from before there was this key */
    KEY_CHANGED = 64,  /* likewise only where its value is not the default */
    KEY_DECIDES = 128, /* part of the full digest, where it counts */
    KEY_FRESH = 256,   /* counts only where there is no checkpoint yet */
    KEY_WINDOW = 512,  /* of the digest, but a restart can change it: windows begin anew, */
    KEY_MOMENT = 1024, /* and moments of the optimizer too */
};

struct config_key {
    const char *path; /* "model.layers.*.size": '*' is any number in a list */
    enum value_type type;
    size_t offset;           /* in struct draft; of the first layer for those of a layer */
    double minimum, maximum; /* of a number */
    const char *words;       /* "real|symbol" */
    const char *meanings;    /* of the words, likewise with '|' between them; NULL = none */
    const char *fallback;    /* the default as one would write it; NULL = none, or worked out */
    const char *left_out;    /* a default that is worked out, or depends on a kind, in words; else
                                NULL */
    const char *when, *is;   /* the key counts only where key `when` is one of the words `is` */
    unsigned flags;
    const char *what;    /* its meaning, in a few words */
    const char *more;    /* the rest of it, in whole sentences; NULL = none */
    const char *unit;    /* of a number; NULL = none */
    const char *example; /* a value as one would write it */
};

extern const struct config_key *const config_keys; /* complete before main begins */
extern const size_t config_key_count;

/* Put into the rows what the kinds say of themselves: the words that name them, and all but path,
   place and flags of their own keys. */
void config_describe_kinds(struct config_key *rows);

/* The losses that fit, as "a, b or c" with " or " as `last`. Returns `text`. */
const char *config_losses(bool (*fits)(const struct loss_kind *kind), const char *last,
                          char text[CONFIG_TEXT_SIZE]);

/* Defaults and rules of the keys of the optimizer that is configured. */
struct reading;
int config_check_optimizer(struct reading *reading);

/* What the learning rule that is configured can do. */
int config_check_rule(struct reading *reading);

/* What a path names. */
enum path_kind { PATH_UNKNOWN, PATH_MAPPING, PATH_LIST, PATH_KEY };

/* `path` with numbers in the place of '*', e.g. "model.layers.0.size"; "" is the whole file. For
   PATH_KEY, `key` (may be NULL) is its row; `layer` (may be NULL) the number, 0 without one. */
enum path_kind config_path_kind(const char *path, const struct config_key **key, size_t *layer);

/* Whether the key lies at or below `path`; `*any_layer` says that `path` names no layer, else
   `*layer` does. */
bool config_key_below(const struct config_key *key, const char *path, size_t *layer,
                      bool *any_layer);

/* Whether every layer has the key. */
bool config_key_layered(const struct config_key *key);

/* The key's path with the layer's number: "model.layers.2.size". */
void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]);

/* The names right below `path`, as "a, b, c". */
void config_path_children(const char *path, char *text, size_t size);

/* The known path that an unknown one was probably meant to be: a sibling in similar spelling, or
   the same last word elsewhere. False when there is none. */
bool config_path_suggest(const char *path, char suggestion[CONFIG_KEY_SIZE]);

/* The word of "a|b|c" in similar spelling. False when there is none. */
bool config_word_suggest(const char *words, const char *text, char *suggestion, size_t size);

/* Whether `word` is one of "a|b|c"; `place` (may be NULL) is its number. */
bool config_words_contain(const char *words, const char *word, size_t *place);

/* Word `place` of "a|b|c", `*length` bytes long. */
const char *config_word(const char *words, size_t place, size_t *length);
size_t config_words_count(const char *words);

/* "a|b|c" as "a, b or c". */
void config_words_list(const char *words, char *text, size_t size);

/* Append a number to a list in the draft; `first`: the list begins anew. -1: the text is no number
   that the key allows, it is not greater than the one before, or the list is full; with `first`
   nothing is in the list then. */
int config_value_add(const struct config_key *key, const char *text, bool first,
                     struct draft *draft);

/* Likewise of CPUs: as text "0,2". */
int config_value_add_cpu(const char *text, bool first, char pin[CONFIG_PIN_SIZE]);

/* Parse a value's text into the draft. `quoted`: it stood in quotes, and so is no number. Returns
   -1, the draft untouched, when the text is not what config_value_expected says. */
int config_value_store(const struct config_key *key, size_t layer, const char *text, bool quoted,
                       struct draft *draft);

/* Whether a text can be a member's name: part of names of tensors and of keys. */
bool config_label_good(const char *text);

/* Whether it can be a tag's. */
bool config_tag_good(const char *text);

/* The default into the draft; where there is none, an empty text or 0. */
void config_value_default(const struct config_key *key, size_t layer, struct draft *draft);

/* Whether two have the same value there; that of a bound or connected socket is all of it. */
bool config_value_same(const struct config_key *key, size_t layer, const struct draft *a,
                       const struct draft *b);
void config_value_copy(const struct config_key *key, size_t layer, const struct draft *from,
                       struct draft *to);

/* What is allowed: "a whole number from 1 to 65536". */
void config_value_expected(const struct config_key *key, char *text, size_t size);

/* The key's path as documents have it: "model.layers.N.size". */
void config_key_title(const struct config_key *key, char path[CONFIG_KEY_SIZE]);

/* The description of the key in one sentence and a few words: its meaning, what is allowed, when it
   counts, its default, whether it may change. Keys and values are in `backquotes`. */
void config_key_summary(const struct config_key *key, char text[CONFIG_SUMMARY_SIZE]);

/* Bytes of the text's first word, or of its first `quoted text` with the punctuation after it. */
size_t config_token(const char *text);

/* Write the text in lines of at most CONFIG_LINE_MAX bytes, broken between tokens, which begin with
   `first`, then with `next`. */
void config_wrap(FILE *out, const char *first, const char *next, const char *text);

/* Where in the draft the key's value is. */
void *config_value_home(const struct config_key *key, size_t layer, const struct draft *draft);

/* The value as text that gives the same value again. */
void config_value_print(const struct config_key *key, size_t layer, const struct draft *draft,
                        char *text, size_t size);

/* Where something stood. */
struct place {
    bool given;
    bool all;             /* by an override of all layers */
    const char *override; /* "learning.clip=1", or NULL: in the file, at */
    size_t line, column;  /* counted from 1 */
};

struct reading {
    struct draft draft;
    const char *path; /* of the file */
    const char *verb; /* what an override is called in errors: "--set" */
    struct place places[CONFIG_KEYS_MAX][MODEL_LAYERS_MAX];
    struct {
        char path[CONFIG_KEY_SIZE];
        struct place place;
    } sections[CONFIG_SECTIONS_MAX]; /* mappings and lists that were given */
    size_t section_count;
    bool preset_layer; /* the preset gives the one layer */
    bool member;       /* of one member: what members share is checked elsewhere */
    struct error *error;
};

/* Read the file's text, then overrides one by one, into `reading`; each value is checked by itself.
   What an override names replaces what was there, a mapping or list as a whole; an empty value
   takes the key out. The override's text must outlive the reading. */
int config_read_text(struct reading *reading, const char *text, size_t size);
int config_read_override(struct reading *reading, const char *override);

/* Where the key was given (its row and layer), or NULL when `path` is none. */
const struct place *config_place(const struct reading *reading, const char *path);

/* Fail with "FILE:LINE:COLUMN: PATH: SENTENCE": the place of the key or section, else that of the
   nearest section around it. */
int config_fail(const struct reading *reading, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the key counts, by the value of the key `when`. */
bool config_key_counts(const struct config_key *key, size_t layer, const struct draft *draft);

/* Fill in defaults and check the rules between keys. */
int config_check(struct reading *reading);

/* ---- Targets ---- */

/* The value of the key at that path, as the configuration would say it. Returns `text`. */
const char *config_word_of(const struct reading *reading, const char *path,
                           char text[CONFIG_TEXT_SIZE]);

/* What a key of targets that is not given takes from another one into `text`; false: its default.
 */
bool config_target_value(const struct reading *reading, const struct config_key *key,
                         char text[CONFIG_TEXT_SIZE]);

/* Rules of targets, whatever is predicted. */
int config_check_targets(struct reading *reading);

/* ---- Columns ---- */

/* What the configuration may say of one; the offset of a row is in struct column. Bit n of `given`:
   it has said row n. */
enum column_key {
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_SCALE,
    COLUMN_MEMORY,
    COLUMN_LIMIT,
    COLUMN_MISSING,
    COLUMN_MASK,
    COLUMN_SIZE,
    COLUMN_EMBEDDING,
    COLUMN_CAPACITY,
    COLUMN_UNKNOWN,
    COLUMN_FORGET,
    COLUMN_HASH,
    COLUMN_PERIOD,
    COLUMN_HARMONICS,
    COLUMN_KEYS,
};
extern const struct config_key config_column_keys[COLUMN_KEYS];

/* A value into a column, or out of it. */
static inline struct draft *config_column_draft(const struct column *column) {
    return (struct draft *)(void *)column;
}

/* As one would write it. */
void config_print_columns(const struct input *input, char *text, size_t size);
void config_print_column_names(const struct draft *draft, char *text, size_t size);

/* Before the other keys are looked at: input.kind and input.size follow from columns. Whether the
   key of that path does. */
int config_begin_columns(struct reading *reading);
bool config_columns_say(const struct reading *reading, const char *path);

/* After that: what a column does not say it has from model.input; targets of `next`. */
int config_check_columns(struct reading *reading);

/* ---- Words (config_words.c) ---- */

/* The size of the alphabet that a vocabulary or a hash brings, where it is not given; and so many
   classes: 0 where nothing does. */
bool config_words_value(const struct reading *reading, const struct config_key *key,
                        char text[CONFIG_TEXT_SIZE]);
size_t config_words_classes(const struct reading *reading);

/* Rules of vocabularies. */
int config_check_words(struct reading *reading);

/* ---- Time (config_time.c) ---- */

/* Whether model.input.time appends anything, before other keys are looked at too. */
bool config_has_time(const struct reading *reading);

/* Rules of times: what they stand beside, and that the zone is one. */
int config_check_time(struct reading *reading);

/* ---- What runnel-relay publishes (config_publish.c) ---- */

int config_check_publish(struct reading *reading);

/* Of any broker: settings of librdkafka's without a secret; an address without a user, with one of
   the schemes (NULL: HOST:PORT,HOST:PORT). */
int config_check_settings(struct reading *reading, const char *key,
                          const struct share_config *settings);
int config_check_address(struct reading *reading, const char *key, const char *schemes,
                         const char *text);

/* ---- The broker that the daemon reads (config_consume.c) ---- */

int config_check_consume(struct reading *reading);

/* ---- Presets and members ---- */

/* The layer of the preset, where none are given: from then on it can be named. */
void config_preset_layers(struct reading *reading);

/* Whether a key has a value of its own: given, or the preset's. */
bool config_has(const struct reading *reading, const char *path);

/* Whether it is a network that learns: where members are listed, only they are. */
bool config_is_network(const struct reading *reading);

/* What the preset says of a key that is not given; NULL = nothing. */
const char *config_preset_value(const struct reading *reading, const struct config_key *key);

/* Rules of scale: forecast. */
int config_check_forecast(struct reading *reading);

/* Make the members' configurations: `read` is what was read, before defaults; `reading` has been
   checked. */
int config_check_members(struct reading *reading, const struct reading *read);

/* The hash over every key that has one of the flags KEY_DIGEST, KEY_DECIDES and KEY_MOMENT, and
   none of `without`. */
uint64_t config_digest_of(const struct draft *draft, unsigned flags, unsigned without);

#endif
