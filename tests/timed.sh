#!/bin/sh
# Usage: sh tests/timed.sh LIMIT COMMAND... TEST
# Runs a test for at most LIMIT seconds and appends "WALL CPU TEST" (seconds) to tests/times in the build
# tree. tools/check orders the next run by it, the longest tests first.
limit=$1
shift
for test; do :; done
times=${builddir:-.}/tests/times
began=$(date +%s.%N)
timeout --kill-after=10 "$limit" "$@"
status=$?
times >"$times.$$" # not in a pipe: a subshell has no children yet; the second line is that of the children
awk -v began="$began" -v ended="$(date +%s.%N)" -v test="$test" '
    function seconds(time) { split(time, part, /[ms]/); return 60 * part[1] + part[2] }
    NR == 2 { printf "%.1f %.1f %s\n", ended - began, seconds($1) + seconds($2), test }' \
    "$times.$$" >>"$times"
rm -f "$times.$$"
exit "$status"
