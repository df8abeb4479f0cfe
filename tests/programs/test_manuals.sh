#!/bin/sh
# The manuals are well formed, have the options of their program's --help, and contain valid JSON.
set -u
srcdir=${srcdir:-.}
builddir=${builddir:-.}
failures=0

if ! command -v mandoc >/dev/null; then
    echo 'needs mandoc'
    exit 77
fi

# options: the long options in a text, one per line.
options() {
    grep -oE '(^|[^[:alnum:]-])--[a-z][a-z-]*' | sed 's/^[^-]*//' | sort -u
}

# left_out PROGRAM: whether it was not built because its library is missing.
left_out() {
    [ ! -e "$builddir/$1" ] && grep -q "^bin_PROGRAMS += .*$1" "$srcdir/Makefile.am"
}

# page FILE: the formatted manual without overstrikes, in lines so wide that no option is broken.
page() {
    mandoc -T ascii -O width=500 "$1" | sed "s/.$(printf '\b')//g"
}

# help_of PROGRAM: its --help; for the feeder also that of each source.
help_of() {
    "$builddir/$1" --help
    [ "$1" = runnel-feed ] || return 0
    for source in $("$builddir/$1" --help | sed -n '/^Sources:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        "$builddir/$1" "$source" --help
    done
}

for manual in "$srcdir"/docs/man/*.[1-8]; do
    complaints=$(mandoc -T lint -W warning "$manual")
    [ -z "$complaints" ] && continue
    printf '%s\n' "$complaints"
    failures=$((failures + 1))
done

for program in runneld runnel-feed runnel-replay runnel-watch runnel-web runnel-ctl runnel-bench runnel-experiment runnel-top runnel-alert runnel-record runnel-relay runnel-evaluate; do
    left_out "$program" && continue
    manual=$(find "$srcdir/docs/man" -name "$program.[18]")
    # --help reports a function that was not built because its library is missing.
    [ "$program" = runnel-feed ] && "$builddir/$program" --help | grep -q '(not in this' && continue
    listed=$(help_of "$program" | options)
    written=$(page "$manual" | options)
    [ -n "$listed" ] && [ "$listed" = "$written" ] && continue
    printf "%s\n" "$program: --help and manual differ:" "$listed" -- "$written"
    failures=$((failures + 1))
done

# A formatted line with an object must be valid JSON: mdoc removes quotes in lines of macros.
objects=$(for manual in "$srcdir"/docs/man/*.[1-8]; do
    page "$manual" | grep -E '^ *\{'
done)
printf '%s\n' "$objects" | /usr/bin/python3 -c 'import json, sys
for line in sys.stdin: json.loads(line)' || failures=$((failures + 1))

echo "$failures failures"
[ "$failures" -eq 0 ]
