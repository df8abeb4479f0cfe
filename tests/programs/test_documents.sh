#!/bin/sh
# The documents generated from the table of keys are up to date, and runneld --explain prints the
# same texts.
set -u
srcdir=${srcdir:-.}
builddir=${builddir:-.}
failures=0
directory=$(mktemp -d) || exit 99
trap 'rm -rf "$directory"' EXIT

# same FORMAT FILE: FILE equals the output for its template and the table.
same() {
    "$builddir/src/documents" "$1" <"$srcdir/$2.in" >"$directory/made" &&
        diff -u "$srcdir/$2" "$directory/made" && return
    echo "$2 is out of date: run make documents, and commit it"
    failures=$((failures + 1))
}

# refused TEMPLATE SENTENCE: the template is rejected with this error.
refused() {
    if printf '%s' "$1" | "$builddir/src/documents" yaml >/dev/null 2>"$directory/error" ||
        ! grep -qF "$2" "$directory/error"; then
        echo "instead of \"$2\":"
        cat "$directory/error"
        failures=$((failures + 1))
    fi
}

same yaml conf/reference.yaml
same mdoc docs/man/runnel.yaml.5
refused '@nothing' 'unknown key @nothing in the template'
refused '@name' '@preset occurs 0 times in the template; expected once'
refused "$(cat "$srcdir/conf/reference.yaml.in")
@seed" '@seed occurs 2 times in the template; expected once'

# The lines of a part in docs/explanation/design.md add a key and a number of the configuration.
mkdir "$directory/common"
awk -v lines="$directory/lines" '
    /^\*\*A part of a stream\*\*/ { here = 1 }
    here && /^```/ { if (inside) exit; inside = 1; next }
    inside { print >lines }' "$srcdir/docs/explanation/design.md"
sed "/^PART(range)/{
r $directory/lines
N
}" "$srcdir/src/common/parts.def" >"$directory/common/parts.def"
grep -qF 'PART_KEY(gain,' "$directory/common/parts.def" &&
    ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I"$directory" -I"$builddir" -I"$srcdir/src" -I"$srcdir" \
        "$srcdir/src/config/config_keys.c" || {
    echo "the lines of a part in docs/explanation/design.md do not compile"
    failures=$((failures + 1))
}

# explained STATUS TEXT ARGUMENT...: runneld exits with this status, and its output has the text.
explained() {
    status=$1 text=$2
    shift 2
    output=$("$builddir/runneld" "$@" 2>&1)
    if [ $? -ne "$status" ] || ! printf '%s\n' "$output" | grep -qF -e "$text"; then
        echo "runneld $*: instead of $status and \"$text\":"
        printf '%s\n' "$output"
        failures=$((failures + 1))
    fi
}

explained 0 '  allowed   a number from 0 to 1000000000' --explain learning.clip
explained 0 '  example   --set model.layers.0.size=128' --explain model.layers.N.size
explained 0 'model.layers.N.cell  ' --explain model.layers
explained 0 'state.journal.keep  ' --explain
explained 64 '(did you mean "learning.optimizer.rate"?)' --explain learning.rate
explained 64 "unexpected argument 'name'" --explain seed name
explained 64 "unexpected argument 'name'" --config "$srcdir/conf/reference.yaml" name
explained 64 'missing option --config=FILE' --set seed=1
missing=$("$builddir/runneld" --explain | cut -d' ' -f1 | while read -r key; do
    grep -qxF ".It Ic $key" "$srcdir/docs/man/runnel.yaml.5" || echo "$key"
done)
if [ -n "$missing" ] || [ "$("$builddir/runneld" --explain | wc -l)" -lt 50 ]; then
    echo "runnel.yaml(5) lacks $missing"
    failures=$((failures + 1))
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
