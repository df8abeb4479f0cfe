#!/bin/sh
# The documents that are generated from the table of keys are what the table gives today.
set -u
srcdir=${srcdir:-.}
builddir=${builddir:-.}
failures=0
directory=$(mktemp -d) || exit 99
trap 'rm -rf "$directory"' EXIT

# same FORMAT FILE: FILE is what its template and the table give.
same() {
    "$builddir/src/documents" "$1" <"$srcdir/$2.in" >"$directory/made" &&
        diff -u "$srcdir/$2" "$directory/made" && return
    echo "$2 differs from what is generated: run make documents, and commit it"
    failures=$((failures + 1))
}

# refused TEMPLATE SENTENCE: it is refused with this sentence.
refused() {
    if printf '%s' "$1" | "$builddir/src/documents" yaml >/dev/null 2>"$directory/said" ||
        ! grep -qF "$2" "$directory/said"; then
        echo "instead of \"$2\":"
        cat "$directory/said"
        failures=$((failures + 1))
    fi
}

same yaml conf/reference.yaml
same mdoc docs/man/runnel.yaml.5
refused '@nothing' 'the template has @nothing, which is no key'
refused '@name' 'the template has @seed 0 times; once is needed'
refused "$(cat "$srcdir/conf/reference.yaml.in")
@seed" 'the template has @seed 2 times; once is needed'

echo "$failures failures"
[ "$failures" -eq 0 ]
