#!/bin/sh
# Each harness is fuzzed for some seconds ($FUZZ_SECONDS) without a finding. Where there is no clang with
# libFuzzer, the seeds are played nevertheless, by tests/fuzz/replay.
set -u
: "${srcdir:=.}" "${builddir:=.}" "${CLANG:=clang}" "${FUZZ_SECONDS:=2}"
export srcdir builddir
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return (void)b, (void)n, 0; }' \
    >"$scratch/none.c"
"$CLANG" -fsanitize=fuzzer,address,undefined -o "$scratch/none" "$scratch/none.c" 2>/dev/null &&
    "$scratch/none" -runs=1 >/dev/null 2>&1 || {
    echo "there is no $CLANG with libFuzzer (on Debian: apt-get install clang libclang-rt-dev)"
    exit 77
}
# Not with the flags of the make that has started this test, whose jobs are its own.
env -u MAKEFLAGS -u MFLAGS make -C "$builddir" -j "$(nproc)" fuzz CLANG="$CLANG" \
    >"$scratch/make" 2>&1 || {
    cat "$scratch/make"
    exit 1
}
# The random numbers are the same every time: a failure comes from a change, and is reproducible.
FUZZ_FLAGS=-seed=1 sh "$srcdir/tests/fuzz/run.sh" "$FUZZ_SECONDS"
