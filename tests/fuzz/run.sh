#!/bin/sh
# Usage: sh tests/fuzz/run.sh SECONDS [HARNESS...]
#
# Fuzzes each harness for that many seconds, one after another, in a tree in which `make fuzz` has
# been run ($builddir, else here). Prints the number of executed inputs and of those that the module
# accepted. $FUZZ_CORPUS keeps new inputs for the next call, if set; $FUZZ_FLAGS are passed to the
# fuzzer. Exits with 1 after any finding, which is then in tests/fuzz/ as HARNESS-crash-...,
# -leak-..., -timeout-... or -oom-...
set -u
seconds=${1:?usage: run.sh SECONDS [HARNESS...]}
shift
[ $# -gt 0 ] || set -- decode json config safetensors checkpoint stream journal initial message pieces
here=$(dirname "$0")
fuzzers=${builddir:-.}/tests/fuzz
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
total=0
failed=
/usr/bin/python3 "$here/seeds.py" "$scratch/seeds" || exit 99

for name; do
    corpus=${FUZZ_CORPUS:-$scratch}/$name
    seeds=$scratch/seeds/$name
    dictionary=$here/$name.dict
    mkdir -p "$corpus" || exit 99
    [ -f "$dictionary" ] && dictionary=-dict=$dictionary || dictionary=
    # shellcheck disable=SC2086 # a list of words
    FUZZ_HARNESS=$name "$fuzzers/fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=60 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$fuzzers/$name-" \
        ${dictionary:+"$dictionary"} ${FUZZ_FLAGS:-} "$corpus" "$seeds" >"$scratch/log" 2>&1 || {
        failed="$failed $name"
        tail -n 60 "$scratch/log" >&2
    }
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log")
    accepted=$(sed -n 's/^stat::accepted_units: *//p' "$scratch/log")
    covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$scratch/log" | tail -n 1)
    echo "$name: ${count:-0} executions, ${accepted:-0} accepted, ${covered:-0} edges covered"
    # Even a short run executes all seeds.
    [ "${count:-0}" -ge "$(find "$seeds" -type f | wc -l)" ] || failed="$failed $name"
    total=$((total + ${count:-0}))
done

echo "all: $total executions"
[ -z "$failed" ] || echo "failed:$failed" >&2
[ -z "$failed" ]
