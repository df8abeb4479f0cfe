#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "complain.h"

static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               ".-:+=^!/*?&<>()[]{}@%$#";
static const char blank[] = " \t\r\n";

enum { LINE_SIZE = 1024 };

/* Whether the whole text is a key. */
static bool is_key(const char *text) {
    unsigned char bytes[KEYS_BYTES];
    bool valid = strlen(text) == KEYS_TEXT && strspn(text, alphabet) == KEYS_TEXT &&
                 zmq_z85_decode(bytes, text);
    explicit_bzero(bytes, sizeof bytes);
    return valid;
}

/* Check that others cannot replace a list in `directory` (absolute; the function shortens it),
   because its own mode would not protect it then. The sticky bit of a parent directory prevents
   the replacement of this one. */
static int check_directory(const char *path, char *directory, struct error *error) {
    for (bool above = false;; above = true) {
        const char *name = *directory ? directory : "/";
        struct stat status;
        if (stat(name, &status))
            return error_set(error, EX_USAGE, "%s: cannot read its directory %s: %s", path, name,
                             strerror(errno));
        if (status.st_mode & (S_IWGRP | S_IWOTH) && !(above && status.st_mode & S_ISVTX))
            return error_set(
                error, EX_USAGE,
                "%s: group or others can write to the directory %s (mode %04o) and replace the "
                "list; use 'chmod go-w %s', or another directory",
                path, name, (unsigned)(status.st_mode & 07777), name);
        char *slash = strrchr(directory, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
}

/* Check the directory of the file and, for a link, the directory of its target. */
static int check_directories(const char *path, struct error *error) {
    char *copy = strdup(path), *file = realpath(path, NULL);
    char *directory = copy ? realpath(dirname(copy), NULL) : NULL;
    int result = -1;
    if (!file || !directory) {
        error_set(error, EX_USAGE, "%s: cannot find its directory: %s", path, strerror(errno));
    } else {
        *strrchr(file, '/') = '\0';
        result =
            check_directory(path, directory, error) || check_directory(path, file, error) ? -1 : 0;
    }
    free(copy);
    free(file);
    free(directory);
    return result;
}

/* Open a file whose mode has none of the bits `forbidden`; NULL with `error` filled. */
static FILE *open_file(const char *path, mode_t forbidden, struct error *error) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    FILE *stream = NULL;
    if (file < 0 || fstat(file, &status))
        error_set(error, EX_USAGE, "%s: cannot read the file: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        error_set(error, EX_USAGE, "%s: not a regular file", path);
    else if (status.st_mode & forbidden)
        error_set(error, EX_USAGE, "%s: group or others can %s it (mode %04o); %s %s'", path,
                  forbidden & S_IROTH ? "read" : "change", (unsigned)(status.st_mode & 07777),
                  forbidden & S_IROTH
                      ? "generate a new key if other users had access to this machine, else use "
                        "'chmod 600"
                      : "they could allow other keys; use 'chmod go-w",
                  path);
    else if (!(stream = fdopen(file, "r")))
        error_set(error, EX_USAGE, "%s: cannot read the file: %s", path, strerror(errno));
    if (!stream && file >= 0)
        close(file);
    return stream;
}

/* The next key of a file: 1 with `key` and `line` filled, where `*after` points behind the key;
   0 at the end, -1 with `error` filled. */
static int next_line(FILE *stream, const char *path, size_t *number, key_text key,
                     char line[LINE_SIZE], const char **after, struct error *error) {
    int result = 0;
    while (result == 0 && fgets(line, LINE_SIZE, stream)) {
        char *text = line + strspn(line, blank);
        size_t length = strcspn(text, blank);
        bool whole = strchr(line, '\n') || feof(stream);
        (*number)++;
        if (!whole) {
            error_set(error, EX_USAGE, "%s:%zu: line too long for a key", path, *number);
            result = -1;
        } else if (length == KEYS_TEXT) {
            memcpy(key, text, KEYS_TEXT);
            key[KEYS_TEXT] = '\0';
            *after = text + length;
            result = is_key(key) ? 1 : 0;
        }
        if (result == 0 && *text && *text != '#') {
            error_set(error, EX_USAGE,
                      "%s:%zu: invalid key; expected %d characters of Z85 as written by "
                      "runnel-keygen, or a comment with '#'",
                      path, *number, KEYS_TEXT);
            result = -1;
        }
    }
    if (result == 0 && ferror(stream)) {
        error_set(error, EX_USAGE, "%s: cannot read the file: %s", path, strerror(errno));
        result = -1;
    }
    return result;
}

static int next_key(FILE *stream, const char *path, size_t *number, key_text key,
                    struct error *error) {
    char line[LINE_SIZE];
    const char *after;
    int result = next_line(stream, path, number, key, line, &after, error);
    explicit_bzero(line, sizeof line);
    return result;
}

/* The only key of a file. */
static int read_key(const char *path, mode_t forbidden, key_text key, struct error *error) {
    size_t number = 0;
    key_text second;
    FILE *stream = open_file(path, forbidden, error);
    if (!stream)
        return -1;
    int got = next_key(stream, path, &number, key, error);
    if (got == 0)
        error_set(error, EX_USAGE, "%s: no key found; use runnel-keygen to generate one", path);
    int more = got == 1 ? next_key(stream, path, &number, second, error) : 0;
    if (more == 1)
        error_set(error, EX_USAGE, "%s:%zu: expected one key, got a second one", path, number);
    explicit_bzero(second, sizeof second);
    fclose(stream);
    return got == 1 && more == 0 ? 0 : -1;
}

int keys_read_pair(const char *path, struct key_pair *pair, struct error *error) {
    static const char public[] = ".public";
    size_t size = strlen(path), end = strlen(public);
    if (size > end && !strcmp(path + size - end, public)) {
        error_set(error, EX_USAGE, "%s: expected a secret key, got a public one; use %.*s.secret",
                  path, (int)(size - end), path);
        return -1;
    }
    if (read_key(path, S_IRWXG | S_IRWXO, pair->secret, error))
        return -1;
    if (zmq_curve_public(pair->public, pair->secret) == 0)
        return 0;
    error_set(error, EX_USAGE, "%s: this libzmq does not support keys: %s", path,
              zmq_strerror(errno));
    return -1;
}

/* Read a public key: `text` is a file name or the key itself. */
static int read_public(const char *text, key_text key, struct error *error) {
    if (access(text, F_OK) == 0 || !is_key(text))
        return read_key(text, 0, key, error);
    memcpy(key, text, KEYS_TEXT + 1);
    return 0;
}

/* ---- Lists ---- */

/* Whether each is a stream name, or a prefix with '*'. */
static bool streams_valid(const char *streams) {
    for (;; streams++) {
        size_t length = strcspn(streams, ","), star = strcspn(streams, "*");
        if (length == 0 || star + 1 < length)
            return false;
        streams += length;
        if (!*streams)
            return true;
    }
}

/* Parse the words after the key: the name of the client, and the streams. */
static int read_words(struct key_entry *entry, const char *text, const char *path,
                      struct error *error) {
    static const char streams[] = "streams=", mistaken[] = "stream=";
    for (bool first = true; *(text += strspn(text, blank)); first = false) {
        int length = (int)strcspn(text, blank);
        if (!strncmp(text, mistaken, strlen(mistaken)) ||
            (entry->streams && !strncmp(text, streams, strlen(streams))))
            return error_set(error, EX_USAGE,
                             "%s:%zu: expected one streams=NAME[,NAME]..., got \"%.*s\"", path,
                             entry->line, length, text);
        if (!strncmp(text, streams, strlen(streams))) {
            entry->streams = strndup(text + strlen(streams), (size_t)length - strlen(streams));
            if (!entry->streams)
                return error_set(error, EX_USAGE, "%s: out of memory for its keys", path);
            if (!streams_valid(entry->streams))
                return error_set(error, EX_USAGE,
                                 "%s:%zu: expected stream names separated by commas, with '*' "
                                 "only at the end of a name, got \"%.*s\"",
                                 path, entry->line, length, text);
        } else if (first) {
            snprintf(entry->name, sizeof entry->name, "%.*s", length, text);
        }
        text += length;
    }
    return 0;
}

static int read_entries(FILE *stream, const char *path, struct key_list *list,
                        struct error *error) {
    char line[LINE_SIZE];
    const char *after;
    struct key_entry next = {0};
    int got;
    while ((got = next_line(stream, path, &next.line, next.key, line, &after, error)) == 1) {
        if (list->count == KEYS_LIST_MAX)
            return error_set(error, EX_USAGE, "%s:%zu: more than %d keys", path, next.line,
                             KEYS_LIST_MAX);
        struct key_entry *entry = &list->entries[list->count++];
        *entry = next;
        if (read_words(entry, after, path, error))
            return -1;
        list->limited |= entry->streams != NULL;
    }
    return got;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct key_entry *)a)->key, ((const struct key_entry *)b)->key);
}

/* Reject duplicate keys with streams: it would be unclear which line counts. */
static int check_twice(const struct key_list *list, const char *path, struct error *error) {
    for (size_t i = 1; i < list->count; i++) {
        const struct key_entry *a = &list->entries[i - 1], *b = &list->entries[i];
        if (!strcmp(a->key, b->key) && (a->streams || b->streams))
            return error_set(error, EX_USAGE,
                             "%s:%zu: duplicate key (first in line %zu); list all streams of a "
                             "client on one line",
                             path, a->line > b->line ? a->line : b->line,
                             a->line > b->line ? b->line : a->line);
    }
    return 0;
}

int keys_read_list(const char *path, struct key_list *list, struct error *error) {
    *list = (struct key_list){0};
    FILE *stream = open_file(path, S_IWGRP | S_IWOTH, error);
    if (!stream)
        return -1;
    if (check_directories(path, error)) {
        fclose(stream);
        return -1;
    }
    list->entries = malloc(KEYS_LIST_MAX * sizeof *list->entries);
    int result = -1;
    if (!list->entries)
        error_set(error, EX_USAGE, "%s: out of memory for its keys", path);
    else
        result = read_entries(stream, path, list, error);
    fclose(stream);
    if (result == 0) {
        qsort(list->entries, list->count, sizeof *list->entries, by_key);
        result = check_twice(list, path, error);
    }
    if (result)
        keys_clear(list);
    return result;
}

const struct key_entry *key_find(const struct key_list *list, const char *key) {
    struct key_entry wanted;
    if (!list->count)
        return NULL;
    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    return bsearch(&wanted, list->entries, list->count, sizeof wanted, by_key);
}

bool key_may_send(const struct key_entry *entry, const char *stream, size_t size) {
    for (const char *name = entry->streams; name; name = strchr(name, ',')) {
        name += *name == ',';
        size_t length = strcspn(name, ",");
        bool begins = name[length - 1] == '*';
        length -= begins;
        if ((begins ? size >= length : size == length) && !memcmp(stream, name, length))
            return true;
    }
    return !entry->streams;
}

void keys_clear(struct key_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].streams);
    free(list->entries);
    *list = (struct key_list){0};
}

/* ---- Clients ---- */

int keys_client(struct key_client *client, const char *key, const char *server_key,
                struct error *error) {
    *client = (struct key_client){.on = server_key != NULL};
    if (key && !server_key) {
        error_set(
            error, EX_USAGE,
            "--key requires --server-key with the daemon's public key (a file or the key itself)");
        return -1;
    }
    if (!server_key)
        return 0;
    if (read_public(server_key, client->server, error))
        return -1;
    if (key)
        return keys_read_pair(key, &client->own, error);
    if (zmq_curve_keypair(client->own.public, client->own.secret) == 0)
        return 0;
    error_set(error, EX_USAGE, "--server-key: this libzmq does not support keys: %s",
              zmq_strerror(errno));
    return -1;
}

void keys_conceal_process(void) {
    prctl(PR_SET_DUMPABLE, 0);
}

int key_options_check(const struct key_options *options, struct error *error) {
    struct key_client client;
    if (options->own)
        keys_conceal_process();
    int status = keys_client(&client, options->own, options->server, error);
    explicit_bzero(&client, sizeof client);
    return status;
}

bool key_options_ready(const struct key_options *options) {
    struct error error;
    bool ready = key_options_check(options, &error) == 0;
    if (!ready)
        complain_error(&error);
    return ready;
}

int keys_apply(const struct key_client *client, void *socket) {
    if (!client->on)
        return 0;
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, client->server, sizeof client->server) ||
                   zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, client->own.public,
                                  sizeof client->own.public) ||
                   zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, client->own.secret,
                                  sizeof client->own.secret)
               ? -1
               : 0;
}
