/* CURVE keys in files, for the daemon, its feeders and its tools; runnel-keygen writes them, and
   runnel-keygen(1) describes them. Empty lines and lines that begin with '#' are skipped; a '#'
   that begins a whole key is part of that key.

   Functions that can fail return 0, or -1 with EX_USAGE and one sentence that names the file and
   a way out. */
#ifndef RUNNEL_KEYS_H
#define RUNNEL_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "options.h"

enum {
    KEYS_BYTES = 32,      /* size of a binary key in libzmq */
    KEYS_TEXT = 40,       /* size of its text */
    KEYS_LIST_MAX = 4096, /* keys in one list */
    KEYS_NAME_SIZE = 32,
};

typedef char key_text[KEYS_TEXT + 1];

struct key_pair {
    key_text secret, public;
};

struct key_entry {
    key_text key;
    char name[KEYS_NAME_SIZE]; /* name of its client, truncated; "" = none */
    char *streams;             /* text after "streams="; NULL = all streams */
    size_t line;
};

struct key_list {
    struct key_entry *entries; /* (count,), sorted by key */
    size_t count;
    bool limited; /* at least one entry restricts the streams */
};

/* Read a secret key and compute its public one. A file that group or others may read is
   rejected: its key is not secret. */
int keys_read_pair(const char *path, struct key_pair *pair, struct error *error);

/* Read a list of public keys; call keys_clear afterwards. The list may be empty. A file that
   group or others may write or, through its directory, replace is rejected: they could allow any
   key. This includes directories with the sticky bit, such as /tmp. */
int keys_read_list(const char *path, struct key_list *list, struct error *error);

/* The entry of the key, or NULL. For a key on several lines without streams, one of its entries. */
const struct key_entry *key_find(const struct key_list *list, const char *key);

/* Whether the client may send the stream. */
bool key_may_send(const struct key_entry *entry, const char *stream, size_t size);
void keys_clear(struct key_list *list);

/* Keys of a CURVE client. */
struct key_client {
    bool on; /* false: without keys */
    key_text server;
    struct key_pair own;
};

/* From the options --key FILE and --server-key FILE-OR-KEY; NULL if not given. Without both, the
   client is off. --server-key alone generates a key pair for one use, for daemons without a list
   of keys; --key alone is an error. */
int keys_client(struct key_client *client, const char *key, const char *server_key,
                struct error *error);

/* For a program that will hold a secret key: disable core dumps, and debuggers of the same user.
   The library does not call it, because it runs in programs of others. */
void keys_conceal_process(void);

/* These options as rows of a table: `field` of `type` is a struct key_options. key_options_check
   reads the keys with keys_client, and calls keys_conceal_process if there is a secret one.
   key_options_ready does the same, and returns false after a complaint. */
struct key_options {
    const char *own, *server; /* given values, or NULL */
};
#define KEY_OPTIONS(type, field)                                                                   \
    {"key", 0, "FILE", "your secret key, for a daemon with a list of keys",                        \
     OPTION_FILE(type, field.own)},                                                                \
    {                                                                                              \
        "server-key", 0, "KEY", "the daemon's public key, or its file",                            \
            OPTION_FILE(type, field.server)                                                        \
    }
int key_options_check(const struct key_options *options, struct error *error);
bool key_options_ready(const struct key_options *options);

/* Set the client's keys on a socket that is not connected or bound yet; 0, or -1 with errno. */
int keys_apply(const struct key_client *client, void *socket);

#endif
