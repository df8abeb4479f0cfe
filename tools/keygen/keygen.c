/* runnel-keygen: generates a pair of CURVE keys. See runnel-keygen(1). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/complain.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"

enum { PATH_SIZE = 4096, TEXT_SIZE = 512 };

struct options {
    const char *public;
};

static const struct option_row rows[] = {
    {"public", 'p', "FILE", "print the public key that belongs to the secret key in FILE",
     OPTION_FILE(struct options, public)},
    OPTIONS_LAST,
};

/* Creates and syncs a file that must not exist; prints an error. */
static int write_new(const char *path, mode_t mode, const char *text) {
    size_t size = strlen(text);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST)
        return complain(EX_IOERR, "%s already exists: remove it or use another name", path);
    if (file < 0)
        return complain(EX_IOERR, "cannot create %s: %s", path, strerror(errno));
    errno = ENOSPC; /* for a short write */
    bool written =
        fchmod(file, mode) == 0 && write(file, text, size) == (ssize_t)size && fsync(file) == 0;
    int reason = errno;
    written &= close(file) == 0;
    if (written)
        return EX_OK;
    unlink(path);
    return complain(EX_IOERR, "cannot write %s: %s", path, strerror(reason));
}

/* A key that begins with '#' looks like a comment, one with '-' like an option. */
static int generate_pair(struct key_pair *pair) {
    do {
        if (zmq_curve_keypair(pair->public, pair->secret))
            return complain(EX_UNAVAILABLE, "cannot generate keys with this libzmq: %s",
                            zmq_strerror(errno));
    } while (strchr("#-", *pair->public) || strchr("#-", *pair->secret));
    return EX_OK;
}

static int generate(const char *name) {
    char secret[PATH_SIZE], public[PATH_SIZE], text[TEXT_SIZE];
    struct key_pair pair;
    if (snprintf(secret, sizeof secret, "%s.secret", name) >= (int)sizeof secret ||
        snprintf(public, sizeof public, "%s.public", name) >= (int)sizeof public)
        return complain(EX_USAGE, "NAME is too long for a file name");
    if (access(public, F_OK) == 0)
        return complain(EX_IOERR, "%s already exists: remove it or use another name", public);
    int status = generate_pair(&pair);
    if (status != EX_OK)
        return status;
    snprintf(text, sizeof text, "# secret key of runnel: keep it private\n%s\n", pair.secret);
    status = write_new(secret, S_IRUSR | S_IWUSR, text);
    explicit_bzero(text, sizeof text);
    explicit_bzero(pair.secret, sizeof pair.secret);
    if (status != EX_OK)
        return status;
    const char *base = strrchr(name, '/');
    char clean[TEXT_SIZE / 2];
    snprintf(text, sizeof text, "# public key of runnel\n%s %s\n", pair.public,
             text_copy(clean, sizeof clean, base ? base + 1 : name));
    status = write_new(public, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, text);
    if (status != EX_OK) {
        unlink(secret);
        return status;
    }
    printf("%s: secret, keep it on this machine\n%s: %s\n", secret, public, pair.public);
    return complain_output();
}

static int print_public(const char *path) {
    struct error error;
    struct key_pair pair;
    if (keys_read_pair(path, &pair, &error))
        return complain_error(&error);
    explicit_bzero(pair.secret, sizeof pair.secret);
    printf("%s\n", pair.public);
    return complain_output();
}

int main(int argc, char **argv) {
    struct options options = {0};
    const struct command_line line = {
        .name = "runnel-keygen",
        .operands = "[NAME]",
        .summary = "Generate a key pair for runneld or one of its clients: NAME.secret stays on "
                   "this machine, NAME.public is copied to the others. Existing files are not "
                   "overwritten. With --public, no NAME is given and no key is generated.",
        .ending = "Exit status: 0 success, 64 usage error, 69 cannot generate keys, 74 cannot "
                  "write a file, or it already exists.",
        .groups = {{NULL, rows, &options}},
        .complete = COMPLETE_FILE,
    };
    char **operands;
    keys_conceal_process();
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    if (options.public && *operands)
        return options_complain(&line, "unexpected argument '%s'", *operands);
    if (options.public)
        return print_public(options.public);
    if (!*operands)
        return options_complain(&line, "missing NAME");
    return generate(*operands);
}
