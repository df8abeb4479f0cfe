/* Common parts of the tests of the configuration: a small configuration, and a file in a
   temporary directory. */
#ifndef RUNNEL_CONFIG_TESTING_H
#define RUNNEL_CONFIG_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "config/config.h"
#include "config/config_keys.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define MODEL                                                                                      \
    "model:\n"                                                                                     \
    "  input: {kind: real, size: 2}\n"                                                             \
    "  layers: [{cell: lstm, size: 4}]\n"                                                          \
    "  output: {loss: squared, size: 2}\n"

/* Five lines of a valid configuration. */
#define BASE "name: a\n" MODEL

/* A configuration whose targets are the next inputs; the input is in line 4, the output in line
   5. */
#define NEXT(input, output)                                                                        \
    "name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n"                                          \
    "  input: {" input "}\n  output: {" output ", target: next}\n"

static char directory[] = "/tmp/test-config-XXXXXX";
static char path[sizeof directory + sizeof "/c.yaml"];

/* The setup of a group; the environment contains only a home directory. */
static inline int setup(void **state) {
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/c.yaml", directory);
    setenv("HOME", "/home/user", 1);
    unsetenv("STATE_DIRECTORY");
    unsetenv("XDG_STATE_HOME");
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* Write the text to `path` and load it; `override` may be NULL. */
static inline int load(struct config *config, const char *text, size_t size, const char *override,
                       struct error *error) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return config_load(config, path, &override, override != NULL, error);
}

/* Load a valid configuration. */
static inline struct config good(const char *text, const char *override) {
    struct config config = {0};
    struct error error = {0};
    if (load(&config, text, strlen(text), override, &error) != 0)
        fail_msg("%s%s\n%s", text, override ? override : "", error.text);
    return config;
}

#endif
