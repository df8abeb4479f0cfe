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
    CONFIG_ADDRESS_SIZE = 256, /* of a broker; and of other texts for it */
    CONFIG_ENDPOINT_SIZE = 256,
    CONFIG_DIGEST_SIZE = 17, /* 16 hexadecimal digits */
    CONFIG_MEMBERS_MAX = 64,
    CONFIG_MEMBER_NAME_SIZE = 33,
    CONFIG_SETS_MAX = 48, /* of a member, each a text "KEY=VALUE" of */
    CONFIG_SET_SIZE = 192,
    CONFIG_SETS_SIZE = 8 * CONFIG_SETS_MAX * CONFIG_SET_SIZE, /* bytes of those of all members */
    CONFIG_PARTITIONS_MAX = 4096,                             /* of a broker's stream */
    CONFIG_SHARES_MAX = 64,
    CONFIG_SHARE_SIZE = 128,
    CONFIG_TAGS_MAX = 32,
    CONFIG_PIN_SIZE = 256,
    CONFIG_TAG_SIZE = 128,
};

/* The three sockets, as indices. */
enum socket_role { SOCKET_EXAMPLES, SOCKET_STATISTICS, SOCKET_CONTROL, SOCKET_ROLES };

enum examples_socket { EXAMPLES_PULL, EXAMPLES_SUB, EXAMPLES_ROUTER };

/* How whoever writes to Kafka chooses a partition by the key. */
enum kafka_partitioner { KAFKA_MURMUR2, KAFKA_CRC32, KAFKA_FNV1A };

/* What of predictions is published. */
enum predictions { PREDICTIONS_NONE, PREDICTIONS_TRUE, PREDICTIONS_ALL };

/* What an acknowledged example outlives: a loss of power, a kill, a kill: see journal.h. */
enum journal_sync { JOURNAL_FULL, JOURNAL_NORMAL, JOURNAL_OFF };

#define JOURNAL_KEEP_CHECKPOINT 0   /* entries are deleted once a checkpoint has them */
#define JOURNAL_KEEP_ALL UINT64_MAX /* none ever goes */

enum {
    CHECKPOINT_KEEP_MIN = 2, /* checkpoints; */
    CHECKPOINT_KEEP_MAX = 100,
    JOURNAL_PRODUCERS_MIN = 10000, /* more than one transaction has, and than wait for answers */
};

struct socket_config {
    char endpoint[CONFIG_ENDPOINT_SIZE];
    bool connect; /* connect instead of bind */
};

/* What one key may take, over all its connections; 0 = as much as it likes. */
struct security_quota {
    uint64_t connections;   /* at once, to all sockets */
    uint64_t bytes;         /* a second, that come over tcp */
    uint64_t waiting;       /* bytes of messages that wait, over tcp */
    uint64_t subscriptions; /* at once */
    uint64_t requests;      /* a second, to the control socket */
};

struct learning {
    enum rule rule;
    size_t window, stride; /* with a rule that has no window both are the stride */
    struct optimizer optimizer;
    double clip;
    size_t max_streams;
};

/* One of several networks that learn the same streams: what the configuration says, but for what
   the member sets. What it cannot set, as its input, is the configuration's alone: see
   config_member_network. */
#define CONFIG_NETWORK "network" /* the name of the one network where no members are given */

struct member_config {
    char name[CONFIG_MEMBER_NAME_SIZE];
    size_t sets; /* where in config.sets its own begin */
    uint64_t seed;
    struct layer layers[MODEL_LAYERS_MAX];
    size_t layer_count;
    struct output output;
    struct learning learning;
};

/* Streams whose keys begin alike share what they remember. */
struct share_config {
    size_t count;
    char prefixes[CONFIG_SHARES_MAX][CONFIG_SHARE_SIZE]; /* the bytes after each are zero */
};

/* What people call a run by. */
struct tags_config {
    size_t count;
    struct tag_config {
        char name[CONFIG_MEMBER_NAME_SIZE],
            text[CONFIG_TAG_SIZE]; /* the bytes after each are zero */
    } list[CONFIG_TAGS_MAX];
};

/* What runnel-relay is to do; the daemon itself does nothing with it. */
struct publish_config {
    char mqtt[CONFIG_ADDRESS_SIZE], redis[CONFIG_ADDRESS_SIZE], kafka[CONFIG_ADDRESS_SIZE],
        nats[CONFIG_ADDRESS_SIZE];   /* one of them, "" = not this one */
    char topic[CONFIG_ADDRESS_SIZE]; /* "" = the broker's usual one */
    struct share_config messages;    /* none: predictions */
    char user[CONFIG_ADDRESS_SIZE];
    char password_file[CONFIG_PATH_SIZE], credentials[CONFIG_PATH_SIZE], cafile[CONFIG_PATH_SIZE];
    struct share_config settings;
    uint64_t keep, buffer;
};

/* The broker that the daemon reads its examples from itself. */
struct consume_config {
    struct {
        char url[CONFIG_ADDRESS_SIZE], stream[CONFIG_ADDRESS_SIZE], /* stream "": not this one */
            group[CONFIG_ADDRESS_SIZE], user[CONFIG_ADDRESS_SIZE];
        char password_file[CONFIG_PATH_SIZE];
        uint64_t partitions; /* streams STREAM.0, STREAM.1, ..; 0: the one, STREAM */
        bool latest;         /* a group that is new begins with what comes then */
    } redis;
    struct {
        char brokers[CONFIG_ADDRESS_SIZE], topic[CONFIG_ADDRESS_SIZE], /* topic "": not this one */
            group[CONFIG_ADDRESS_SIZE], user[CONFIG_ADDRESS_SIZE];
        char password_file[CONFIG_PATH_SIZE];
        struct share_config settings;
        bool by_key, latest;
        enum kafka_partitioner partitioner;
    } kafka;
    struct {
        struct share_config field;                                            /* COLUMN=PATH */
        char key_field[CONFIG_ADDRESS_SIZE], time_field[CONFIG_ADDRESS_SIZE], /* "" = none */
            time_format[CONFIG_ADDRESS_SIZE];
        bool strict;
    } json;
};

struct config {
    char name[CONFIG_NAME_SIZE];
    unsigned preset;
    uint64_t seed;
    char device[CONFIG_DEVICE_SIZE]; /* "auto", "cpu", "cuda", "cuda:N" */
    struct tags_config tags;

    struct architecture architecture;
    char initial[CONFIG_PATH_SIZE]; /* model.initial, as opened by the daemon; "" = none */

    /* What parts have of their own (common/parts.def). */
    struct {
        bool none; /* a struct has a member */
#define PART_VALUE_real double
#define PART_VALUE_count uint64_t
#define PART_VALUE_boolean bool
#define PART_KEY(name, type, ...) PART_VALUE_##type name;
#include "common/parts.def"
    } parts;

    struct learning learning;
    struct {
        size_t count;              /* 0 = auto: engine_threads.h says how many */
        char pin[CONFIG_PIN_SIZE]; /* "false", "true", or CPUs as in "0,2-5" */
    } threads;                     /* no bit depends on it */

    /* With scale: forecast. */
    unsigned experts;    /* a set, as in forecast.h */
    bool members_given;  /* else one network without a name, as above */
    size_t member_count; /* of those given */
    struct member_config members[CONFIG_MEMBERS_MAX];
    size_t sets_size;                                 /* bytes used of */
    char sets[CONFIG_SETS_SIZE + CONFIG_MEMBERS_MAX]; /* texts as written, "KEY=VALUE", each with
                                                         its zero; "" after a member's last */
    char combine[CONFIG_MEMBER_NAME_SIZE];            /* as written, */
    unsigned combined; /* and as mixture.h has it: experts, then members */

    struct {
        bool enabled;
        bool by_preset; /* that alone: off where it takes too much of the machine */
        size_t memory;  /* contexts of a column */
        struct alarm_rule rule;
        bool surprise; /* alarms of it, too, with no fatigue: */
        double surprise_threshold, surprise_rest;
        struct share_config share;
    } anomaly;

    struct socket_config examples, statistics, control;
    enum examples_socket examples_socket;
    bool many_steps;               /* several steps without a header are an example */
    struct consume_config consume; /* in place of the examples socket */
    struct {
        double lease;           /* seconds; 0 = it is in no fleet */
        uint64_t average_every; /* examples; 0 = never */
    } fleet;                    /* daemons that share the broker's partitions out */
    uint64_t max_jump;          /* from one number of a stream to the next; 0 = no limit */
    uint64_t statistics_every;  /* examples between two `loss` messages */
    double statistics_seconds;  /* at most, while anything is learned; 0 = not by time */
    enum predictions predictions;
    uint64_t statistics_top; /* words that a prediction of classes tells */
    struct publish_config publish;

    struct {
        char secret[CONFIG_PATH_SIZE];              /* file of the daemon's key; "" = no CURVE */
        char allow[SOCKET_ROLES][CONFIG_PATH_SIZE]; /* files of clients' keys; "" = every client */
        bool insecure;                              /* bind beyond this machine without CURVE */
        struct security_quota quota;
    } security;

    char state_directory[CONFIG_PATH_SIZE]; /* resolved and absolute: see config_load */
    struct {
        uint64_t examples; /* 0 = not by count */
        double seconds;    /* 0 = not by time */
        uint64_t keep;     /* the newest so many: CHECKPOINT_KEEP_MIN..CHECKPOINT_KEEP_MAX */
    } checkpoint;
    struct {
        bool enabled;
        enum journal_sync sync;
        uint64_t keep; /* JOURNAL_KEEP_*, or bytes: the oldest go when the file holds more */
        struct {
            uint64_t keep; /* streams whose numbers are kept: JOURNAL_PRODUCERS_MIN.. */
            uint64_t days; /* since their last example; 0 = not by age */
        } producers;
        bool accept_short; /* no key, but --accept-short-journal */
    } journal;

    uint64_t initial_digest; /* of the bytes of model.initial's file when it was loaded */

    /* Of everything that decides what is computed: see config_digest. */
    char digest[CONFIG_DIGEST_SIZE];
    /* Of what cannot change while something is learned (seed, model, learning without rate and
       clip): two configurations that have the same can continue each other's checkpoints and
       journals. */
    char compatible[CONFIG_DIGEST_SIZE];
    /* Of the same without window, stride, rule and optimizer, which a restart can change; and of
       the optimizers without their rates. */
    char lasting[CONFIG_DIGEST_SIZE], optimizer[CONFIG_DIGEST_SIZE];
};

/* Whether the configuration names a broker to read. */
static inline bool config_consumes(const struct config *config) {
    return *config->consume.redis.stream || *config->consume.kafka.topic;
}

/* What makes examples of the broker's messages; `fields` is room for its list. */
struct mapping_options;
void config_mapping(const struct config *config, const char *fields[CONFIG_SHARES_MAX],
                    struct mapping_options *options);

/* Read the file, then apply `overrides` ("learning.optimizer.rate=0.01", count of them), check
   every key, fill in defaults, and compute the digests.

   An override's value is YAML; it replaces what the file has there, a mapping or list as a whole,
   and takes the key out when it is empty. Elements of a list are named by their number:
   "model.layers.0.size=64"; "model.layers.N.size=64" is that of all layers that are there, of a key
   that does not count in each of them those where it does. bind and connect replace each other;
   "tags.site=osaka" is one of the tags.

   Paths: "~/" is $HOME; a relative model.initial or state.directory is taken from the file's own
   directory, that of an override from the working directory. state.directory defaults to
   $STATE_DIRECTORY (the first, when there are several), else $XDG_STATE_HOME/runnel/NAME, else
   ~/.local/state/runnel/NAME.

   `preset` fills in what is not given, and each of `members` is checked as a configuration of its
   own, with what it sets.

   Errors (EX_CONFIG; EX_NOINPUT when the file cannot be read, EX_USAGE for an override without
   '=') name file, line, column, key, what was found and what is allowed; those of an override name
   it instead of file and line. On error `config` is untouched. */
int config_load(struct config *config, const char *path, const char *const *overrides,
                size_t override_count, struct error *error);

/* A member's network: the configuration's input with the member's layers and output. */
void config_member_network(const struct config *config, size_t member,
                           struct architecture *architecture);

/* One member's configuration into `own`, which has all that members share already. */
void config_member(const struct config *config, size_t member, struct config *own);

enum { CONFIG_NETWORKS_SIZE = 2048 };

/* The networks in one line, as model_summary: of several the first one's, then those that are
   described otherwise, with the names of their members. What is too long is cut off. */
void config_networks(const struct config *config, char text[CONFIG_NETWORKS_SIZE]);

/* Whether the optimizer can have that rate: RATE_AUTO where it has none, else a number. If not,
   `why` says what was found and what is allowed. */
enum { CONFIG_WHY_SIZE = 160 };
bool config_rate_fits(const struct optimizer *optimizer, double rate, char why[CONFIG_WHY_SIZE]);

/* A key that may change in flight: parse and check `value` as the file's would be; whether
   a rate fits the optimizer is another question. On success
   `config` has it; on error (EX_CONFIG, unknown or fixed key or bad value) it is untouched. */
int config_set(struct config *config, const char *key, const char *value, struct error *error);

/* The digest anew, of the values that the configuration has now: what was set in flight has that of
   a file that says it. Where members are listed, the rate and clip of each count, and none else. */
void config_digest(struct config *config);

/* Write the resolved configuration: every key that counts, with its default or what the preset says
   where it was not given; paths absolute. config_print writes YAML, which read again gives the same
   digests and the same text; a value that was set in flight, and so is another than `configured`
   (or NULL) has, gets a comment that tells that one. config_print_json writes an object from paths
   to values; `members` and `model.input.columns` are lists of objects. -1 (EX_SOFTWARE, EX_IOERR):
   out of memory, or `out` has failed. */
int config_print(FILE *out, const struct config *config, const struct config *configured,
                 struct error *error);
int config_print_json(FILE *out, const struct config *config, struct error *error);

/* Its tags, an object of JSON; "{}": there are none. */
int config_print_tags(FILE *out, const struct config *config, struct error *error);

/* Write to `out` what is known of the key: meaning, type, what is allowed, default, an example. Of
   a section, "" for all of it, the keys below it, a line each. A layer's number may be N as well.
   -1 (EX_USAGE) when there is no such key. */
int config_explain(FILE *out, const char *path, struct error *error);

/* The path of a key, or of a section, that `name` means, its last parts: "rate" is
   learning.optimizer.rate, "output.size" model.output.size. A key of layers comes before others
   that end alike, and means all of them unless a number is said: "norm" is model.layers.N.norm,
   "0.norm" model.layers.0.norm. -1 (EX_CONFIG): there is none, or several, which the sentence
   lists. */
enum { CONFIG_KEY_NAME_SIZE = 128 };
int config_key_meant(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error);

/* The names of all keys with a blank after each, a layer's number as N: what a shell offers. */
enum { CONFIG_NAMES_SIZE = 16384 };
void config_names(char names[CONFIG_NAMES_SIZE]);

/* Where a configuration comes from, to be read again. */
struct config_source {
    const char *path;
    const char *const *overrides; /* (override_count,) */
    size_t override_count;
};

/* How a key that has changed in the file comes into effect. */
enum config_way {
    CONFIG_APPLIED, /* it is in effect */
    CONFIG_RESTART, /* by a restart, which keeps what was learned */
    CONFIG_REFUSED, /* not with what was learned: a restart would refuse that */
    CONFIG_FRESH,   /* where nothing was learned: a restart does not read it */
    CONFIG_WAYS,
};

/* A key whose value has changed: its path, and the new value as one would write it ("" = none). */
typedef void config_changed(void *context, enum config_way way, const char *key, const char *value);

/* The file has been read again: what `after` has different from `before` and can change while the
   daemon runs is put into `current`, which may have other values, set in flight; `configured`
   becomes `before` with the same changes. Each difference is reported. Rate and clip wait for
   members, and all of security for security.secret, where those cannot change. */
void config_reload(struct config *current, struct config *configured, const struct config *before,
                   const struct config *after, config_changed *changed, void *context);

#endif
