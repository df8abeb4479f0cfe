/* What libFuzzer's main calls: the harness that $FUZZ_HARNESS names. (No argument names it, since a
   fuzzer that starts others hands on only those that it knows.) */
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const struct fuzz_harness *harness;
    const char *name = getenv("FUZZ_HARNESS");
    if (!harness)
        harness = fuzz_harness(name ? name : "");
    REQUIRE(harness, "$FUZZ_HARNESS names no harness of fuzz.h: \"%s\"", name ? name : "");
    harness->play(bytes, size);
    return 0;
}
