/* Values of the configuration: a key is a row that names its type, and a type is one constant with
   all that can be done with a value of it: in config_values.c, lists of more than words and numbers
   in config_lists.c. Readers call types, and types nobody above them. */
#ifndef RUNNEL_CONFIG_VALUES_H
#define RUNNEL_CONFIG_VALUES_H

#include <stdio.h>

#include "config.h"
#include "config_yaml.h"

enum {
    CONFIG_KEY_SIZE = CONFIG_KEY_NAME_SIZE, /* of a key's path with its terminating zero */
    CONFIG_LIST_SIZE = 256 * COLUMNS_MAX,   /* of a list of columns as one would write it */
    CONFIG_IPC_PATH_MAX = 107,              /* of struct sockaddr_un, less its terminating zero */
    CONFIG_CUDA_DEVICES_MAX = 256,
};

/* Bounds of inputs, for the short forms and for columns. */
#define VOCABULARY_MAX 1e5
#define INPUT_MAX 1e6
#define MEMORY_MAX 1e9
#define LIMIT_MAX 1e6
#define LAYER_SIZE_MAX 65536
#define CONFIG_COUNT_MAX 9007199254740991.0 /* 2^53 - 1: exact as a JSON number too */

#define CONFIG_EMPTY_SET "[]"

/* A configuration being read: the configuration itself comes first, so that one offset serves both,
   then what it does not keep. */
struct draft {
    struct config config;
    char examples_connect[CONFIG_ENDPOINT_SIZE];
    char statistics_connect[CONFIG_ENDPOINT_SIZE];
    char control_connect[CONFIG_ENDPOINT_SIZE];
    char output_columns[COLUMNS_MAX][COLUMN_NAME_SIZE]; /* "" after the last */
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
    const struct value_type *type;
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

/* A text that grows, cut where it is full; or with `out` a document in YAML or JSON. */
struct config_text {
    char *text;
    size_t size, used;
    FILE *out;
    bool json;             /* else YAML */
    const char *directory; /* that relative paths begin in; NULL: they stay */
};
void config_add(struct config_text *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A text; in YAML plain where every reader of YAML has it for a text, else in double quotes. */
void config_add_text(struct config_text *to, const char *text);

/* What is done with a value; `where` is its place in the draft. */
struct value_type {
    const char *name;     /* for --explain */
    const char *expected; /* what is allowed: $low and $high are the key's bounds, $words its words,
                             $truths these after false and true; $most and $bytes as below */
    size_t size;          /* in the draft */
    size_t most, bytes;   /* numbers for `expected`; bytes of 0: of a text without its zero */
    const double *automatic;        /* a number's value that is written `auto` */
    bool whole;                     /* a whole number */
    unsigned truths;                /* of words: how many come before them, false and true */
    bool is_text;                   /* of `size` bytes; "" = none */
    bool either;                    /* read as a text, or where it is a list by `read` */
    bool (*good)(const char *text); /* which texts are allowed */

    /* From a text; -1: not what `expected` says. `quoted`: it stood in quotes, and so is no number.
       `add` is one more of a list. */
    int (*store)(const struct config_key *key, const char *text, bool quoted, void *where);
    int (*add)(const struct config_key *key, const char *text, bool quoted, void *where);
    /* From a node, where that may be a list or a mapping. */
    int (*read)(const struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                const char *path, void *where);
    /* As a text, or in a document, that gives the same value again. */
    void (*print)(const struct config_key *key, const void *where, struct config_text *to);
    /* NULL: all bytes, or the texts, are the same. */
    bool (*same)(const struct config_key *key, const void *a, const void *b);
};

extern const struct value_type value_word, /* one of `words`, an enum by its place among them */
    value_choice,                          /* one of two `words`, a bool: the second is true */
    value_boolean,                         /* true or false */
    value_size,                            /* whole number in a size_t */
    value_count,                           /* whole number in a uint64_t */
    value_real,                            /* number in a double */
    value_float,                           /* number in a float */
    value_rate,                            /* number or `auto`, RATE_AUTO, in a double */
    value_threads,                         /* whole number or `auto`, which is 0, in a size_t */
    value_truth,        /* false, true or one of `words`, an enum in this order */
    value_ahead,        /* whole number or ascending list of them, in a struct ahead */
    value_set,          /* list of `words`, a set of bits in an unsigned */
    value_members,      /* list of members, from config.members_given on */
    value_columns,      /* list of columns, in a struct input */
    value_column_names, /* list of their names, in the draft, and in a struct output once known */
    value_prefixes,     /* text or list of texts, in a struct share_config */
    value_tags,         /* mapping of names to texts, in a struct tags_config */
    value_keep,         /* "checkpoint", "all" or a size as in 10G, in a uint64_t: see journal.h */
    value_pin,          /* false, true, or CPUs as a text or a list of numbers, in a text */
    value_name,         /* texts: what a daemon is called */
    value_label,        /* an expert, a member */
    value_zone,         /* a time zone */
    value_device, value_text, value_path, value_bind, /* an endpoint to be bound, */
    value_connect;                                    /* or connected to */

/* Keys of model.input.columns; the offset of a row is in struct column. Bit n of `given`: the
   column says row n. */
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
    COLUMN_KEYS
};
extern const struct config_key config_column_keys[COLUMN_KEYS];

/* ---- Words: "a|b|c" ---- */

/* Whether `word` is one of them; `place` (may be NULL) is its number. */
bool config_words_contain(const char *words, const char *word, size_t *place);

/* Word `place`, `*length` bytes long. */
const char *config_word(const char *words, size_t place, size_t *length);
size_t config_words_count(const char *words);

/* As "a, b or c". */
void config_words_list(const char *words, char *text, size_t size);

/* ` (did you mean "WORD"?)` with the one in similar spelling; "" when there is none, or it is that
   very one. Returns `meant`. */
const char *config_word_meant(const char *words, const char *text, char meant[CONFIG_TEXT_SIZE]);

/* Whether `word` is nearer to `text` than `*best`, and near enough to have been meant. */
bool config_word_nearer(const char *word, size_t length, const char *text, size_t *best);

/* ---- One value. `draft` is a struct draft or what begins it, a struct config ---- */

/* Whether the path is that of the section, or lies below it. */
static inline bool config_path_below(const char *path, const char *section) {
    size_t length = strlen(section);
    return !strncmp(path, section, length) && (!path[length] || path[length] == '.');
}

/* Whether every layer has the key. */
static inline bool config_key_layered(const struct config_key *key) {
    return strchr(key->path, '*') != NULL;
}

static inline void *config_value_home(const struct config_key *key, size_t layer,
                                      const void *draft) {
    size_t step = config_key_layered(key) ? layer * sizeof(struct layer) : 0;
    return (char *)draft + key->offset + step;
}

/* As struct value_type; -1: the draft is untouched. */
int config_value_store(const struct config_key *key, size_t layer, const char *text, bool quoted,
                       void *draft);

/* From a node; fails with a sentence about `path`. */
int config_value_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, size_t layer, const char *path, void *draft);

/* The default; where there is none, an empty text or 0. */
void config_value_default(const struct config_key *key, size_t layer, void *draft);

/* Whether two have the same value there; that of a bound or connected socket is all of it. */
bool config_value_same(const struct config_key *key, size_t layer, const void *a, const void *b);
void config_value_copy(const struct config_key *key, size_t layer, const void *from, void *to);

/* What is allowed: "a whole number from 1 to 65536". */
void config_value_expected(const struct config_key *key, char *text, size_t size);

void config_value_print(const struct config_key *key, size_t layer, const void *draft, char *text,
                        size_t size);
void config_value_write(struct config_text *to, const struct config_key *key, size_t layer,
                        const void *draft);

/* The node's value is not what the key allows. Returns -1. */
int config_fail_value(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path);

/* Whether a text can be a tag's name; a member's or a column's: part of names of tensors and of
   keys. */
bool config_name_good(const char *text);
bool config_label_good(const char *text);

/* Take a tag, in the place of one of that name; nothing takes that one out. */
int config_read_tag(const struct walk *walk, const yaml_node_t *node, const char *name,
                    const char *path, struct tags_config *tags);

/* The struct around one of its fields. */
#define AROUND(where, type, member) ((type *)(void *)((char *)(where)-offsetof(type, member)))

#endif
