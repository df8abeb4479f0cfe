/* runnel-keygen: draw a pair of CURVE keys. See runnel-keygen(1). */
#include "build-config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/keys.h"
#include "tools/shared/tool.h"

enum { GO_ON = -1, PATH_SIZE = 4096, TEXT_SIZE = 512 };

static const char help[] =
    "Usage: runnel-keygen NAME\n"
    "       runnel-keygen --public FILE\n"
    "Draw a pair of keys for runneld or for one of its clients: NAME.secret, which stays\n"
    "where it is, and NAME.public, for those who are to know it. Nothing is overwritten.\n"
    "\n"
    "  -p, --public=FILE   print the public key of a secret one\n"
    "  -h, --help          print this and end\n"
    "  -V, --version       print the version and end\n"
    "\n"
    "Exit status: 0 it worked, 64 usage, 69 no keys to be had, 74 a file could not be\n"
    "written, or is there already.\n";

/* Write a file that is not there yet, all of it on the disk; complains. */
static int write_new(const char *path, mode_t mode, const char *text) {
    size_t size = strlen(text);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST)
        return tool_fail(EX_IOERR, "%s is there already: keys are not overwritten", path);
    if (file < 0)
        return tool_fail(EX_IOERR, "cannot create %s: %s", path, strerror(errno));
    errno = ENOSPC; /* of a write that is cut short */
    bool written =
        fchmod(file, mode) == 0 && write(file, text, size) == (ssize_t)size && fsync(file) == 0;
    int reason = errno;
    written &= close(file) == 0;
    if (written)
        return EX_OK;
    unlink(path);
    return tool_fail(EX_IOERR, "cannot write %s: %s", path, strerror(reason));
}

/* A key that begins with '#' looks like a comment to people, one with '-' like an option. */
static int draw(struct key_pair *pair) {
    do {
        if (zmq_curve_keypair(pair->public, pair->secret))
            return tool_fail(EX_UNAVAILABLE, "this libzmq cannot draw keys: %s",
                             zmq_strerror(errno));
    } while (strchr("#-", *pair->public) || strchr("#-", *pair->secret));
    return EX_OK;
}

static int generate(const char *name) {
    char secret[PATH_SIZE], public[PATH_SIZE], text[TEXT_SIZE];
    struct key_pair pair;
    if (snprintf(secret, sizeof secret, "%s.secret", name) >= (int)sizeof secret ||
        snprintf(public, sizeof public, "%s.public", name) >= (int)sizeof public)
        return tool_usage("the name is too long for a file");
    if (access(public, F_OK) == 0)
        return tool_fail(EX_IOERR, "%s is there already: keys are not overwritten", public);
    int status = draw(&pair);
    if (status != EX_OK)
        return status;
    snprintf(text, sizeof text, "# secret key of runnel: for nobody else to read\n%s\n",
             pair.secret);
    status = write_new(secret, S_IRUSR | S_IWUSR, text);
    explicit_bzero(text, sizeof text);
    explicit_bzero(pair.secret, sizeof pair.secret);
    if (status != EX_OK)
        return status;
    const char *base = strrchr(name, '/');
    char clean[TEXT_SIZE / 2];
    snprintf(text, sizeof text, "# public key of runnel\n%s %s\n", pair.public,
             tool_clean(clean, sizeof clean, base ? base + 1 : name));
    status = write_new(public, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, text);
    if (status != EX_OK) {
        unlink(secret);
        return status;
    }
    printf("%s: keep it here\n%s: %s\n", secret, public, pair.public);
    return tool_finish_output();
}

static int print_public(const char *path) {
    char why[KEYS_WHY_SIZE];
    struct key_pair pair;
    if (keys_read_pair(path, &pair, why))
        return tool_fail(EX_USAGE, "%s", why);
    explicit_bzero(pair.secret, sizeof pair.secret);
    printf("%s\n", pair.public);
    return tool_finish_output();
}

int main(int argc, char **argv) {
    static const struct option names[] = {{"public", required_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    const char *file = NULL;
    for (int option; (option = getopt_long(argc, argv, "p:hV", names, NULL)) != -1;) {
        if (option != 'p')
            return tool_common_option(option, help);
        file = optarg;
    }
    if (file && optind == argc)
        return print_public(file);
    if (optind == argc)
        return tool_usage("a name is missing");
    if (file || optind + 1 != argc)
        return tool_usage("'%s' is one word too many", argv[argc - 1]);
    return generate(argv[optind]);
}
