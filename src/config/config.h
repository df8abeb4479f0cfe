/* The daemon's configuration: plain data, read from YAML. Every key is documented in
   conf/reference.yaml and runnel.yaml(5). */
#ifndef RUNNEL_CONFIG_H
#define RUNNEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "anomaly/alarm.h"
#include "forecast/mixture.h"
#include "model/model.h"

struct error;

enum {
    CONFIG_NAME_SIZE = 65,
    CONFIG_DEVICE_SIZE = 16,
    CONFIG_PATH_SIZE = 4096,
    CONFIG_ADDRESS_SIZE = 256, /* size of a broker's address and other texts */
    CONFIG_ENDPOINT_SIZE = 256,
    CONFIG_DIGEST_SIZE = 17, /* 16 hexadecimal digits */
    CONFIG_MEMBERS_MAX = 64,
    CONFIG_TOP_MAX = 1000,
    CONFIG_MEMBER_NAME_SIZE = 33,
    CONFIG_SETS_MAX = 48, /* keys set by a member, each a text "KEY=VALUE" */
    CONFIG_SET_SIZE = 192,
    /* bytes of the texts of all members */
    CONFIG_SETS_SIZE = 8 * CONFIG_SETS_MAX * CONFIG_SET_SIZE,
    CONFIG_PARTITIONS_MAX = 4096, /* largest number of partitions of a broker's stream */
    CONFIG_SHARES_MAX = 64,
    CONFIG_SHARE_SIZE = 128,
    CONFIG_TAGS_MAX = 32,
    CONFIG_PIN_SIZE = 256,
    CONFIG_TAG_SIZE = 128,
};

/* The three sockets as indices. */
enum socket_role { SOCKET_EXAMPLES, SOCKET_STATISTICS, SOCKET_CONTROL, SOCKET_ROLES };

enum examples_socket { EXAMPLES_PULL, EXAMPLES_SUB, EXAMPLES_ROUTER };

/* The partitioners of Kafka's producers. */
enum kafka_partitioner { KAFKA_MURMUR2, KAFKA_CRC32, KAFKA_FNV1A };

/* Published predictions. */
enum predictions { PREDICTIONS_NONE, PREDICTIONS_TRUE, PREDICTIONS_ALL };

/* Failures that an acknowledged example survives: a loss of power, a kill, a kill (see
   journal.h). */
enum journal_sync { JOURNAL_FULL, JOURNAL_NORMAL, JOURNAL_OFF };

/* A rate of alarms, as in anomaly.rate: `alarms` in `every` examples, or seconds of data time. */
enum { CONFIG_RATE_SIZE = 64 };
struct alarm_rate {
    double alarms, every;
    bool time;
};
bool config_alarm_rate(const char *text, struct alarm_rate *rate); /* false: not a rate */

#define JOURNAL_KEEP_CHECKPOINT 0   /* a checkpoint removes the entries that it contains */
#define JOURNAL_KEEP_ALL UINT64_MAX /* no entry is ever removed */

enum {
    CHECKPOINT_KEEP_MIN = 2, /* checkpoints */
    CHECKPOINT_KEEP_MAX = 100,
    /* more than a transaction contains, and than wait for answers */
    JOURNAL_PRODUCERS_MIN = 10000,
};

struct socket_config {
    char endpoint[CONFIG_ENDPOINT_SIZE];
    bool connect; /* connect instead of bind */
};

/* Limits of one key over all its connections; 0 = no limit. */
struct security_quota {
    uint64_t connections;   /* simultaneous, to all sockets */
    uint64_t bytes;         /* per second, over tcp */
    uint64_t waiting;       /* bytes of waiting messages, over tcp */
    uint64_t subscriptions; /* simultaneous */
    uint64_t requests;      /* per second, to the control socket */
};

struct learning {
    enum rule rule;
    size_t window, stride; /* both are the stride with a rule without a window */
    struct optimizer optimizer;
    double clip;
    size_t max_streams;
};

/* One of several networks that learn the same streams. It has the values of the configuration,
   except those that it sets. It cannot set other values, such as its input: see
   config_member_network. */
#define CONFIG_NETWORK "network" /* default name of a single network without members */

struct member_config {
    char name[CONFIG_MEMBER_NAME_SIZE];
    size_t sets; /* offset of its texts in config.sets */
    uint64_t seed;
    struct layer layers[MODEL_LAYERS_MAX];
    size_t layer_count;
    struct output output;
    struct learning learning;
};

/* Prefixes of the keys of streams, or other texts. */
struct share_config {
    size_t count;
    char prefixes[CONFIG_SHARES_MAX][CONFIG_SHARE_SIZE]; /* zero-padded */
};

/* The tags of a run. */
struct tags_config {
    size_t count;
    struct tag_config {
        char name[CONFIG_MEMBER_NAME_SIZE], text[CONFIG_TAG_SIZE]; /* zero-padded */
    } list[CONFIG_TAGS_MAX];
};

/* Settings of runnel-relay, which the daemon only checks. */
struct publish_config {
    char mqtt[CONFIG_ADDRESS_SIZE], redis[CONFIG_ADDRESS_SIZE], kafka[CONFIG_ADDRESS_SIZE],
        nats[CONFIG_ADDRESS_SIZE];   /* one of them is set; "" = not this one */
    char topic[CONFIG_ADDRESS_SIZE]; /* "" = the broker's default */
    struct share_config messages;    /* empty: predictions */
    char user[CONFIG_ADDRESS_SIZE];
    char password_file[CONFIG_PATH_SIZE], credentials[CONFIG_PATH_SIZE], cafile[CONFIG_PATH_SIZE];
    struct share_config settings;
    uint64_t keep, buffer;
};

/* The broker from which the daemon reads its examples. */
struct consume_config {
    struct {
        /* stream "": not this broker */
        char url[CONFIG_ADDRESS_SIZE], stream[CONFIG_ADDRESS_SIZE], group[CONFIG_ADDRESS_SIZE],
            user[CONFIG_ADDRESS_SIZE];
        char password_file[CONFIG_PATH_SIZE];
        uint64_t partitions; /* number of streams STREAM.0, STREAM.1, ..; 0: only STREAM */
        bool latest;         /* a new group begins with the next message */
    } redis;
    struct {
        /* topic "": not this broker */
        char brokers[CONFIG_ADDRESS_SIZE], topic[CONFIG_ADDRESS_SIZE], group[CONFIG_ADDRESS_SIZE],
            user[CONFIG_ADDRESS_SIZE];
        char password_file[CONFIG_PATH_SIZE];
        struct share_config settings;
        bool by_key, latest;
        enum kafka_partitioner partitioner;
    } kafka;
    struct {
        struct share_config field;                                            /* COLUMN=PATH */
        char key_field[CONFIG_ADDRESS_SIZE], time_field[CONFIG_ADDRESS_SIZE], /* "" = not set */
            time_format[CONFIG_ADDRESS_SIZE];
        bool strict;
    } json;
};

enum preset { PRESET_NONE, PRESET_FORECAST, PRESET_SYMBOLS };

/* How the loss of preset: symbols is chosen; COMBINE_NETWORK + m: that of member m. */
enum symbols_combine { COMBINE_LOGISTIC, COMBINE_EXPERTS, COMBINE_NETWORK };

struct config {
    char name[CONFIG_NAME_SIZE];
    unsigned preset; /* enum preset */
    uint64_t seed;
    char device[CONFIG_DEVICE_SIZE]; /* "auto", "cpu", "cuda", "cuda:N" */
    unsigned device_scope;           /* enum scope of engine.h */
    struct tags_config tags;

    struct architecture architecture;
    char initial[CONFIG_PATH_SIZE]; /* model.initial, as opened by the daemon; "" = not set */

    /* Settings of the parts (common/parts.def). */
    struct {
        bool none; /* a struct needs a member */
#define PART_VALUE_real double
#define PART_VALUE_count uint64_t
#define PART_VALUE_boolean bool
#define PART_KEY(name, type, ...) PART_VALUE_##type name;
#include "common/parts.def"
    } parts;

    /* distribution: of forecasts, with scale: forecast. */
    struct {
        bool enabled;
        struct levels levels;
    } distribution;

    struct learning learning;
    struct {
        size_t count;              /* 0 = auto: engine_threads.h chooses the number */
        char pin[CONFIG_PIN_SIZE]; /* "false", "true", or CPUs as in "0,2-5" */
    } threads;                     /* does not affect any bit */

    struct {
        size_t memory;
        bool own, others; /* a table for each stream; not bytes */
    } symbols;            /* preset: symbols */

    /* Settings for scale: forecast, and preset: symbols. */
    unsigned experts;    /* a set as in forecast.h; << EXPERTS as in symbols.h */
    bool members_given;  /* else one network without a name, as above */
    size_t member_count; /* number of given members */
    struct member_config members[CONFIG_MEMBERS_MAX];
    size_t sets_size; /* bytes in use */
    /* The texts "KEY=VALUE", each with a terminating zero; "" after a member's last. */
    char sets[CONFIG_SETS_SIZE + CONFIG_MEMBERS_MAX];
    char combine[CONFIG_MEMBER_NAME_SIZE]; /* the configured name */
    unsigned combined; /* index as in mixture.h: experts, then members; enum symbols_combine */

    struct {
        bool enabled;
        bool by_preset; /* enabled by the preset alone: disabled if it needs too much memory */
        size_t memory;  /* contexts of a column */
        struct alarm_rule rule;
        bool surprise; /* enable alarms of surprise, without fatigue */
        double surprise_threshold, surprise_rest;
        bool level;
        double accept;
        double shape;                /* share of shape in novelty; 0: no shape */
        char rate[CONFIG_RATE_SIZE]; /* "1 per month"; "": thresholds */
        bool thresholds;             /* one of them was given */
        struct share_config share, group;
    } anomaly;

    struct socket_config examples, statistics, control;
    enum examples_socket examples_socket;
    bool many_steps;               /* an example may have several steps without a header */
    struct consume_config consume; /* replaces the examples socket */
    struct {
        double lease;           /* seconds; 0 = not in a fleet */
        uint64_t average_every; /* examples; 0 = never */
    } fleet;                    /* daemons that share the broker's partitions */
    /* largest difference of two consecutive numbers of a stream; 0 = no limit */
    uint64_t max_jump;
    uint64_t statistics_every; /* examples between two `loss` messages */
    double statistics_seconds; /* limit while examples are learned; 0 = no limit */
    enum predictions predictions;
    bool vectors;                   /* publish h of every step */
    uint64_t statistics_plasticity; /* updates between two checks; 0 = none */
    uint64_t statistics_top;        /* words in a prediction of classes */
    struct publish_config publish;

    struct {
        char secret[CONFIG_PATH_SIZE];              /* file of the daemon's key; "" = no CURVE */
        char allow[SOCKET_ROLES][CONFIG_PATH_SIZE]; /* files of clients' keys; "" = all clients */
        bool insecure; /* allow sockets without CURVE that other machines can reach */
        struct security_quota quota;
    } security;

    char state_directory[CONFIG_PATH_SIZE]; /* resolved and absolute: see config_load */
    struct {
        uint64_t examples; /* 0 = not by count */
        double seconds;    /* 0 = not by time */
        uint64_t keep;     /* number of checkpoints: CHECKPOINT_KEEP_MIN..CHECKPOINT_KEEP_MAX */
    } checkpoint;
    struct {
        bool enabled;
        enum journal_sync sync;
        /* JOURNAL_KEEP_*, or bytes: the oldest entries of a larger file are removed */
        uint64_t keep;
        struct {
            uint64_t keep; /* streams with numbers: JOURNAL_PRODUCERS_MIN.. */
            uint64_t days; /* since their last example; 0 = no limit */
        } producers;
        bool accept_short; /* not a key, but the option --accept-short-journal */
    } journal;

    uint64_t initial_digest; /* digest of model.initial's file at the start */

    /* The digest of all values that affect learning: see config_digest. */
    char digest[CONFIG_DIGEST_SIZE];
    /* The digest of all values that cannot change while the daemon learns (seed, model, learning
       without rate and clip). Configurations with the same one can continue each other's
       checkpoints and journals. */
    char compatible[CONFIG_DIGEST_SIZE];
    /* `lasting` leaves out window, stride, rule and optimizer, which a restart can change.
       `optimizer` is the digest of the optimizers without their rates. */
    char lasting[CONFIG_DIGEST_SIZE], optimizer[CONFIG_DIGEST_SIZE];
    /* The same with the defaults of earlier versions, and whether these are in use: see
       config_load_earlier. */
    struct {
        char compatible[CONFIG_DIGEST_SIZE], optimizer[CONFIG_DIGEST_SIZE];
        bool used;
    } earlier;
};

/* The longest prefix of the key; SIZE_MAX: none. */
size_t config_prefix(const struct share_config *prefixes, const char *key, size_t key_size);

/* Whether the configuration has a broker to read from. */
static inline bool config_consumes(const struct config *config) {
    return *config->consume.redis.stream || *config->consume.kafka.topic;
}

/* The conversion of the broker's messages; `fields` is room for its list. */
struct mapping_options;
void config_mapping(const struct config *config, const char *fields[CONFIG_SHARES_MAX],
                    struct mapping_options *options);

/* Read the file, then apply `overrides` ("learning.optimizer.rate=0.01", count of them), check
   every key, fill in defaults and the values of `preset`, and compute the digests. runneld(8)
   describes overrides, runnel.yaml(5) how paths are completed. Each of `members` is checked as its
   own configuration with its own values.

   Errors (EX_CONFIG; EX_NOINPUT for an unreadable file, EX_USAGE for an override without '=')
   name file, line, column, key, the value and the expected values; or the override instead of
   file and line. On error `config` is unchanged. */
int config_load(struct config *config, const char *path, const char *const *overrides,
                size_t override_count, struct error *error);

/* The same with the defaults of earlier versions (struct kind_key), to continue what an earlier
   program has learned. config_earlier names those defaults: "learning.optimizer.beta1: 0.9".
   config_hint ends a refusal of state with the digest `theirs`: "", or that they would accept it.
 */
int config_load_earlier(struct config *config, const char *path, const char *const *overrides,
                        size_t override_count, struct error *error);
const char *config_earlier(void);
const char *config_hint(const struct config *config, const char *theirs);

/* A member's network: the input of the configuration with the layers and output of the member. */
void config_member_network(const struct config *config, size_t member,
                           struct architecture *architecture);

/* Apply one member's values to `own`, which already contains the common values. */
void config_member(const struct config *config, size_t member, struct config *own);

enum { CONFIG_NETWORKS_SIZE = 2048 };

/* Describe the networks in one line, as model_summary. For several, the first one and those with
   other descriptions, with the names of their members. A long line is truncated. */
void config_networks(const struct config *config, char text[CONFIG_NETWORKS_SIZE]);

/* Whether the optimizer supports the rate: RATE_AUTO for one without a rate, else a number. If
   not, `why` contains the actual and the expected value. */
enum { CONFIG_WHY_SIZE = 160 };
bool config_rate_fits(const struct optimizer *optimizer, double rate, char why[CONFIG_WHY_SIZE]);

/* Set a key that may change while the daemon runs: parse and check `value` as in the file,
   except whether a rate fits the optimizer. On error (EX_CONFIG: unknown or fixed key, or
   invalid value) `config` is unchanged. */
int config_set(struct config *config, const char *key, const char *value, struct error *error);

/* Compute the digest of the current values: a value set while running counts as one in the file.
   With members, only their own rates and clips count. */
void config_digest(struct config *config);

/* Write the resolved configuration: every key that applies, with defaults, preset values and
   absolute paths. config_print writes YAML, which gives the same digests and the same text when
   read again. A value that differs from `configured` (may be NULL), because it was set while
   running, gets a comment. config_print_json writes an object from paths to values; `members`
   and `model.input.columns` are lists of objects. -1 (EX_SOFTWARE, EX_IOERR): out of memory, or
   `out` has failed. */
int config_print(FILE *out, const struct config *config, const struct config *configured,
                 struct error *error);
int config_print_json(FILE *out, const struct config *config, struct error *error);

/* Write the tags as an object of JSON, "{}" without tags. */
int config_print_tags(FILE *out, const struct config *config, struct error *error);

/* Write the description of a key to `out`: meaning, type, expected values, default, an example.
   For a section ("" for all) list the keys below it, one a line. A layer's number may also be N.
   -1 (EX_USAGE): unknown key. */
int config_explain(FILE *out, const char *path, struct error *error);

/* The path of a key or section from its last parts: "rate" is learning.optimizer.rate,
   "output.size" model.output.size. Keys of layers precede others with the same ending, and
   without a number apply to all layers: "norm" is model.layers.N.norm, "0.norm"
   model.layers.0.norm. -1 (EX_CONFIG): unknown, or ambiguous with a list of candidates. */
enum { CONFIG_KEY_NAME_SIZE = 128 };
int config_key_meant(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error);

/* The names of all keys, each followed by a blank, with N for a layer's number: for completion
   in a shell. */
enum { CONFIG_NAMES_SIZE = 16384 };
void config_names(char names[CONFIG_NAMES_SIZE]);

/* The source of a configuration, to read it again. */
struct config_source {
    const char *path;
    const char *const *overrides; /* (override_count,) */
    size_t override_count;
};

/* The way in which a changed key of the file comes into effect. */
enum config_way {
    CONFIG_APPLIED, /* now */
    CONFIG_RESTART, /* after a restart, which keeps the learned state */
    CONFIG_REFUSED, /* not with the learned state: a restart would reject it */
    CONFIG_FRESH,   /* only before learning: a restart does not read it */
    CONFIG_WAYS,
};

/* Called for each changed key with its path and the new value in the configuration's syntax (""
   = removed). */
typedef void config_changed(void *context, enum config_way way, const char *key, const char *value);

/* The file was read again. Copy the differences between `before` and `after` that can change
   while the daemon runs into `current`, which may contain other values set while running. Apply
   them to `before` to get `configured`. Each difference is reported. Rate and clip wait for
   changed members, and all of security waits for security.secret, if those cannot change. */
void config_reload(struct config *current, struct config *configured, const struct config *before,
                   const struct config *after, config_changed *changed, void *context);

#endif
