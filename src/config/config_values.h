/* Values of the configuration: a key is a row with its type, and a type is one constant with all
   operations on its values. config_values.c contains the types, and config_lists.c lists of more
   than words and numbers. */
#ifndef RUNNEL_CONFIG_VALUES_H
#define RUNNEL_CONFIG_VALUES_H

#include <stdio.h>

#include "config.h"
#include "config_yaml.h"

enum {
    CONFIG_KEYS_MAX = 192,
    CONFIG_KEY_SIZE = CONFIG_KEY_NAME_SIZE, /* size of a key's path with its terminating zero */
    /* size of a list of columns in the configuration's syntax */
    CONFIG_LIST_SIZE = 256 * COLUMNS_MAX,
    /* length of sun_path in struct sockaddr_un without its terminating zero */
    CONFIG_IPC_PATH_MAX = 107,
    CONFIG_CUDA_DEVICES_MAX = 256,
};

/* Bounds of inputs, for the short forms and for columns. */
#define VOCABULARY_MAX 1e5
#define INPUT_MAX 1e6
#define MEMORY_MAX 1e9
#define LIMIT_MAX 1e6
#define LAYER_SIZE_MAX 65536
#define AHEAD_STEPS_MAX 4096
#define CONFIG_COUNT_MAX 9007199254740991.0 /* 2^53 - 1: exact as a JSON number */

#define CONFIG_EMPTY_SET "[]"

/* A configuration while it is read. The configuration itself comes first, so that offsets are
   valid for both. Then follow temporary values. */
struct draft {
    struct config config;
    char examples_connect[CONFIG_ENDPOINT_SIZE];
    char statistics_connect[CONFIG_ENDPOINT_SIZE];
    char control_connect[CONFIG_ENDPOINT_SIZE];
    char output_columns[COLUMNS_MAX][COLUMN_NAME_SIZE]; /* "" after the last */
    struct {
        struct output output;
        struct place place, places[CONFIG_KEYS_MAX]; /* of its mapping, and of its keys */
    } outputs[OUTPUTS_MAX];                          /* model.outputs */
    size_t output_count;
};

enum {
    KEY_REQUIRED = 1,  /* must be given (if `when` holds) */
    KEY_IN_FLIGHT = 2, /* may change while the daemon runs */
    KEY_DIGEST = 4,    /* part of the digest */
    KEY_BELOW = 8,     /* `maximum` itself is not allowed */
    KEY_RELOAD = 16,   /* may change on reload, as keys with KEY_IN_FLIGHT */
    /* Part of the digest only if the key applies: digests of configurations without it stay the
       same as before the key existed. */
    KEY_LATER = 32,
    KEY_CHANGED = 64,  /* part of the digest only if its value is not the default */
    KEY_DECIDES = 128, /* part of the full digest, if it applies */
    KEY_FRESH = 256,   /* only applies without a checkpoint */
    /* Part of the digest, but a restart can change it: windows are then empty. */
    KEY_WINDOW = 512,
    KEY_MOMENT = 1024, /* also resets the optimizer's moments */
    KEY_LONG = 2048,   /* its last word alone is another key's short name */
    /* Of a key that was added later: it keeps the digests of configurations without it. */
    KEY_ADDED = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
};

struct config_key {
    const char *path; /* "model.layers.*.size": '*' is any number in a list */
    const struct value_type *type;
    size_t offset;           /* offset in struct draft; for layers, that of the first layer */
    double minimum, maximum; /* bounds of a number */
    const char *words;       /* "real|symbol" */
    const char *meanings;    /* meanings of the words, separated by '|'; NULL = none */
    const char *fallback;    /* default in the configuration's syntax; NULL = none or computed */
    /* Default of earlier versions; a key that does not apply keeps it, and so its digest. */
    const char *earlier;
    /* Description of a computed default, or of one that depends on a kind; else NULL. */
    const char *left_out;
    const char *when, *is; /* the key applies only if key `when` has one of the words `is` */
    bool symbols;          /* ... or with preset: symbols */
    unsigned flags;
    const char *what;    /* its meaning, in a few words */
    const char *more;    /* further sentences; NULL = none */
    const char *unit;    /* unit of a number; NULL = none */
    const char *example; /* a value in the configuration's syntax */
};

/* A growing text, truncated when full; or with `out` a document in YAML or JSON. */
struct config_text {
    char *text;
    size_t size, used;
    FILE *out;
    bool json;             /* else YAML */
    const char *directory; /* directory of relative paths; NULL: they stay relative */
};
void config_add(struct config_text *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add a text; in YAML plain if every reader treats it as a text, else in double quotes. */
void config_add_text(struct config_text *to, const char *text);

/* The operations on a value; `where` is its address in the draft. */
struct value_type {
    const char *name; /* name of the type for --explain */
    /* Expected values: $low and $high are the key's bounds, $words its words, $truths false,
       true and these words; $most and $bytes as below. */
    const char *expected;
    size_t size;        /* size in the draft */
    size_t most, bytes; /* numbers for `expected`; bytes 0: size of the text without its zero */
    const double *automatic;        /* value of a number that is written `auto` */
    bool whole;                     /* a whole number */
    unsigned truths;                /* number of truth values before the words */
    bool is_text;                   /* text of `size` bytes; "" = not set */
    bool either;                    /* a text, or a list for `read` */
    bool empty;                     /* a list that may be empty */
    bool (*good)(const char *text); /* checks a text */

    /* Read from a text; -1: not an expected value. `quoted`: the text was in quotes, and is not
       a number. `add` appends to a list. */
    int (*store)(const struct config_key *key, const char *text, bool quoted, void *where);
    int (*add)(const struct config_key *key, const char *text, bool quoted, void *where);
    /* Read from a node, if it may be a list or a mapping. */
    int (*read)(const struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                const char *path, void *where);
    /* Write as a text, or in a document, so that it gives the same value again. */
    void (*print)(const struct config_key *key, const void *where, struct config_text *to);
    /* NULL: compare all bytes, or the texts. */
    bool (*same)(const struct config_key *key, const void *a, const void *b);
};

extern const struct value_type value_word, /* one of `words`, an enum by its index */
    value_choice,                          /* one of two `words`, a bool: true for the second */
    value_boolean,                         /* true or false */
    value_size,                            /* whole number in a size_t */
    value_count,                           /* whole number in a uint64_t */
    value_real,                            /* number in a double */
    value_float,                           /* number in a float */
    value_rate,                            /* number or `auto` (RATE_AUTO), in a double */
    value_threads,                         /* whole number or `auto` (0), in a size_t */
    value_truth,        /* false, true or one of `words`, an enum in this order */
    value_share,        /* false (0), true (0.5) or a number, in a double */
    value_alarm_rate,   /* texts: number of alarms in a time or number of examples */
    value_levels,       /* rising list of numbers, in a struct levels */
    value_radius,       /* two rising numbers, in a struct radius */
    value_shape,        /* three whole numbers, in a struct grid_shape */
    value_ahead,        /* whole number or ascending list, in a struct ahead */
    value_set,          /* list of `words`, a set of bits in an unsigned */
    value_members,      /* list of members, from config.members_given on */
    value_columns,      /* list of columns, in a struct input */
    value_layers,       /* list of mappings as model.layers, from a layer_count on */
    value_outputs,      /* list of mappings as model.output, in the draft */
    value_column_names, /* list of names of columns, in the draft, then in a struct output */
    value_prefixes,     /* text or list of texts, in a struct share_config */
    value_tags,         /* mapping of names to texts, in a struct tags_config */
    value_keep,         /* "checkpoint", "all" or a size as in 10G, in a uint64_t: see journal.h */
    value_pin,          /* false, true, or CPUs as a text or list of numbers, in a text */
    value_name,         /* texts: name of a daemon */
    value_output_name,  /* an output */
    value_label,        /* expert or member */
    value_zone,         /* time zone */
    value_device, value_text, value_path, value_bind, /* endpoint to bind */
    value_connect;                                    /* endpoint to connect to */

/* Keys of model.input.columns; the offset of a row is in struct column. Bit n of `given`: the
   column sets row n. */
enum column_key {
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_SCALE,
    COLUMN_MEMORY,
    COLUMN_LIMIT,
    COLUMN_MISSING,
    COLUMN_MASK,
    COLUMN_KNOWN,
    COLUMN_SIZE,
    COLUMN_EMBEDDING,
    COLUMN_CAPACITY,
    COLUMN_UNKNOWN,
    COLUMN_FORGET,
    COLUMN_HASH,
    COLUMN_PERIOD,
    COLUMN_HARMONICS,
    COLUMN_KEYS
};
extern const struct config_key config_column_keys[COLUMN_KEYS];

/* ---- Words: "a|b|c" ---- */

/* Whether `word` is one of `words`; `place` (may be NULL) is its index. */
bool config_words_contain(const char *words, const char *word, size_t *place);

/* The word with index `place`, `*length` bytes long. */
const char *config_word(const char *words, size_t place, size_t *length);
size_t config_words_count(const char *words);
void config_words_add(char words[CONFIG_TEXT_SIZE], const char *word);

/* Format as "a, b or c". Returns `text`. */
const char *config_words_list(const char *words, char *text, size_t size);

/* ` (did you mean "WORD"?)` with a word of similar spelling; "" without one, or if it is equal.
   Returns `meant`. */
const char *config_word_meant(const char *words, const char *text, char meant[CONFIG_TEXT_SIZE]);

/* Whether `word` is nearer to `text` than `*best`, and near enough for a suggestion. */
bool config_word_nearer(const char *word, size_t length, const char *text, size_t *best);

/* ---- One value. `draft` is a struct draft or a struct config at its beginning ---- */

/* Whether the path is the section or below it. */
static inline bool config_path_below(const char *path, const char *section) {
    size_t length = strlen(section);
    return !strncmp(path, section, length) && (!path[length] || path[length] == '.');
}

/* Whether the key belongs to layers. */
static inline bool config_key_layered(const struct config_key *key) {
    return strchr(key->path, '*') != NULL;
}

static inline void *config_value_home(const struct config_key *key, size_t layer,
                                      const void *draft) {
    size_t step = config_key_layered(key) ? layer * sizeof(struct layer) : 0;
    return (char *)draft + key->offset + step;
}

/* Store a value as struct value_type does; -1: the draft is unchanged. */
int config_value_store(const struct config_key *key, size_t layer, const char *text, bool quoted,
                       void *draft);

/* Read from a node; errors name `path`. */
int config_value_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, size_t layer, const char *path, void *draft);

/* The default; without one, an empty text or 0. */
void config_value_default(const struct config_key *key, size_t layer, void *draft);

/* Whether both drafts have the same value; for bind and connect, the same endpoint and kind. */
bool config_value_same(const struct config_key *key, size_t layer, const void *a, const void *b);
void config_value_copy(const struct config_key *key, size_t layer, const void *from, void *to);

/* The expected values: "a whole number from 1 to 65536". */
void config_value_expected(const struct config_key *key, char *text, size_t size);

void config_value_print(const struct config_key *key, size_t layer, const void *draft, char *text,
                        size_t size);
void config_value_write(struct config_text *to, const struct config_key *key, size_t layer,
                        const void *draft);

/* Fail because of an unexpected value of the node. Returns -1. */
int config_fail_value(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path);

/* Whether a text is valid as a tag's name, or as a member's or column's: those are part of the
   names of tensors and keys. */
bool config_name_good(const char *text);
bool config_label_good(const char *text);

/* Set a tag, replacing one with the same name; a null value removes it. */
int config_read_tag(const struct walk *walk, const yaml_node_t *node, const char *name,
                    const char *path, struct tags_config *tags);

/* The struct that contains the field. */
#define AROUND(where, type, member) ((type *)(void *)((char *)(where)-offsetof(type, member)))

#endif
