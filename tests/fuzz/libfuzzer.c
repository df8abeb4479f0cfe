/* The entry point of libFuzzer: the harness in $FUZZ_HARNESS. (Not an argument, since a fuzzer
   that starts others passes only known arguments on.) At the end it prints the number of
   accepted inputs like a statistic of libFuzzer: they reach code after the first checks. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *count, char ***arguments);

static const struct fuzz_harness *harness;
static size_t accepted;

static void print_accepted(void) {
    fprintf(stderr, "stat::accepted_units: %zu\n", accepted);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *name = getenv("FUZZ_HARNESS");
    (void)count, (void)arguments;
    harness = fuzz_harness(name ? name : "");
    REQUIRE(harness, "$FUZZ_HARNESS names no harness of fuzz.h: \"%s\"", name ? name : "");
    REQUIRE(atexit(print_accepted) == 0, "no memory");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    accepted += harness->play(bytes, size);
    return 0;
}
