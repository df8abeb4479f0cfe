/* CURVE keys in files: what the daemon, its feeders and its tools share, and what runnel-keygen
   writes. A key is 40 characters of Z85 (ZeroMQ RFC 32).

   A key file holds one key on a line of its own; a list of keys holds any number, each at the start
   of a line, followed by nothing or by a space and whatever says whose it is. Empty lines and lines
   that begin with '#' are skipped; a '#' that begins a whole key is part of that key. Of what
   follows a key in a list, two words mean something: the first is its client's name, and one that
   begins with "streams=" names the streams that this client may send, with commas between: each a
   stream, or with a '*' at its end all that begin so.

   Functions that can fail return 0, or -1 with EX_USAGE and one sentence that names the file and
   the way out. */
#ifndef RUNNEL_KEYS_H
#define RUNNEL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "options.h"

enum {
    KEYS_BYTES = 32,      /* of a key as libzmq computes with it */
    KEYS_TEXT = 40,       /* of its text */
    KEYS_LIST_MAX = 4096, /* keys in one list */
    KEYS_NAME_SIZE = 32,
};

typedef char key_text[KEYS_TEXT + 1];

struct key_pair {
    key_text secret, public;
};

struct key_entry {
    key_text key;
    char name[KEYS_NAME_SIZE]; /* of its client, cut; "" = none */
    char *streams;             /* what follows "streams="; NULL = it may send every stream */
    size_t line;
};

struct key_list {
    struct key_entry *entries; /* (count,), by key */
    size_t count;
    bool limited; /* one of them may not send every stream */
};

/* Read a secret key and work out its public one. A file that group or others may read is refused:
   then the key is no secret. */
int keys_read_pair(const char *path, struct key_pair *pair, struct error *error);

/* Read a list of public keys, to be cleared; an empty one is a list too. A file that group or
   others may write, or replace since they may write to its directory, is refused: they could admit
   anybody. A directory with the sticky bit, as /tmp, is one of these. */
int keys_read_list(const char *path, struct key_list *list, struct error *error);

/* The key's line, NULL when it is not there. A key that stands on several lines, none of them with
   streams, has one of them. */
const struct key_entry *key_find(const struct key_list *list, const char *key);

/* Whether its client may send the stream. */
bool key_may_send(const struct key_entry *entry, const char *stream, size_t size);
void keys_clear(struct key_list *list);

/* What a client needs to speak CURVE. */
struct key_client {
    bool on; /* false: it speaks without keys */
    key_text server;
    struct key_pair own;
};

/* From the options --key FILE and --server-key FILE-OR-KEY, either NULL when not given. Without
   both, the client is off. --server-key alone generates a pair that is used once, which a daemon
   takes where it has no list of keys; --key alone is an error. */
int keys_client(struct key_client *client, const char *key, const char *server_key,
                struct error *error);

/* For a program that is going to hold a secret key: from here on no core dump has its memory, and
   no debugger of the same user gets in. The library does not call it: a process that others wrote
   is theirs to debug. */
void keys_conceal_process(void);

/* These options as rows of a table: `field` of `type` is a struct key_options. key_options_check:
   whether they can be used, as keys_client says; it conceals a process that has a key of its own.
   key_options_ready: the same; false after a complaint. */
struct key_options {
    const char *own, *server; /* as given; NULL = not */
};
#define KEY_OPTIONS(type, field)                                                                   \
    {"key", 0, "FILE", "your secret key, where the daemon wants to know who you are",              \
     OPTION_FILE(type, field.own)},                                                                \
    {                                                                                              \
        "server-key", 0, "KEY", "the daemon's public key, or the file that has it",                \
            OPTION_FILE(type, field.server)                                                        \
    }
int key_options_check(const struct key_options *options, struct error *error);
bool key_options_ready(const struct key_options *options);

/* Make the socket, not yet connected or bound, that client; 0, or -1 with errno. */
int keys_apply(const struct key_client *client, void *socket);

#endif
