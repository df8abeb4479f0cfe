/* What libFuzzer's main calls: the harness that $FUZZ_HARNESS names. (No argument names it, since a
   fuzzer that starts others hands on only those that it knows.) At the end it says, as one more of
   libFuzzer's statistics, how many inputs were accepted: whether they reach code after the
   refusals. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *count, char ***arguments);

static const struct fuzz_harness *harness;
static size_t accepted;

static void say_accepted(void) {
    fprintf(stderr, "stat::accepted_units: %zu\n", accepted);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *name = getenv("FUZZ_HARNESS");
    (void)count, (void)arguments;
    harness = fuzz_harness(name ? name : "");
    REQUIRE(harness, "$FUZZ_HARNESS names no harness of fuzz.h: \"%s\"", name ? name : "");
    REQUIRE(atexit(say_accepted) == 0, "no memory");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    accepted += harness->play(bytes, size);
    return 0;
}
