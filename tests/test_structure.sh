#!/bin/sh
# The rooms of the house (docs/design.md): who includes what, who ends the process, and that every
# manual and every page that a page leads to is there.
set -u
cd "${srcdir:-.}" || exit 99
failures=0

# wrong WHAT LINES: one failure for every line.
wrong() {
    [ -n "$2" ] || return 0
    printf '%s\n' "$2" | sed "s|^|$1: |"
    failures=$((failures + $(printf '%s\n' "$2" | wc -l)))
}

# included FILE...: "FILE HEADER" for each #include, with the header's quotes or brackets.
included() {
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\(["<][^">]*[">]\).*/\1/p' "$1" |
        sed "s|^|$1 |"
}

# room DIRECTORY ALLOWED...: its sources include none of src/ and kernels/ but those allowed. A
# header of the room's own may bear the name of one of the daemon's.
room() {
    directory=$1
    shift
    find "$directory" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | while read -r file; do
        included "$file"
    done | while read -r file header; do
        name=$(printf '%s' "$header" | tr -d '"<>')
        case $name in
        ../*) echo "$file includes $header" ;;
        esac
        [ -f "$(dirname "$file")/$name" ] && continue
        [ -f "src/$name" ] || [ -f "kernels/$name" ] || [ -f "kernels/cpu/$name" ] || continue
        case " $* " in
        *" $name "*) ;;
        *) echo "$file includes $header" ;;
        esac
    done
}

# sources: everything that is compiled, but for tests.
sources() {
    find src kernels streams tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'
}

# The checks below have something to look at.
for directory in src kernels streams tools; do
    [ -n "$(find "$directory" -name '*.c')" ] || wrong "no sources" "$directory"
done

wrong 'not in its room' "$(room streams wire.h keys.h journal_block.h)"
wrong 'not in its room' "$(room tools wire.h keys.h)"
wrong 'not in its room' "$(room kernels engine.h model.h error.h cuda_module.h formulas.h losses.h gates.h \
    updates.h)"

# Of the tests, only the runtime that stands for CUDA's own (tests/hostcuda), and its tests.
wrong 'a CUDA header outside of kernels/cuda' "$({
    sources
    find tests -name '*.[ch]' -o -name '*.cpp'
} | grep -vE '^(kernels/cuda/|tests/(test_)?hostcuda)' |
    xargs grep -nE '#[[:space:]]*include[[:space:]]*[<"](cuda|cublas|curand|nvml|nvrtc|cooperative_groups)' |
    grep -vF '"cuda_module.h"')"

# automake finds these by name alone.
wrong 'not in Makefile.am' "$(find kernels/cuda tests/hostcuda -name '*.cu' -o -name '*.cuh' \
    -o -name '*.cpp' -o -name '*.h' | while read -r file; do
    grep -qF "$file" Makefile.am || echo "$file"
done)"

# A main returns its status. A child that failed to start a program has only _exit.
wrong 'ends the process' "$(sources | grep -vE '^(src/(main|bench/bench)|streams/feed|tools/(watch|ctl))\.c$' |
    xargs grep -nE '(^|[^_[:alnum:]])(exit|quick_exit|abort)[[:space:]]*\(')"

# written FILE...: what people have written among those files and directories, not what was built.
written() {
    find "$@" -type f | grep -vE '/__pycache__/|\.(o|a|log|trs|dirstamp)$|/\.deps/'
}

words='TO''DO|FIX''ME' # in two parts, so that this line has neither
wrong 'left for later' "$(written README.md Makefile.am configure.ac .ci src kernels streams tools tests \
    docs conf | xargs grep -InwE "$words")"

place='\.\./sha''red'
wrong 'depends on what is no part of the project' "$(written src kernels streams tests conf |
    xargs grep -In "$place")"

# Manuals: each that is installed exists, and each program has one.
wrong 'in Makefile.am, but not there' "$(grep -o 'docs/man/[a-z.-]*\.[1-8]' Makefile.am |
    while read -r page; do [ -f "$page" ] || echo "$page"; done)"
programs=$(sed -n 's/^bin_[A-Z]* +\{0,1\}= //p' Makefile.am)
[ -n "$programs" ] || wrong 'no programs' Makefile.am
for program in $programs; do
    page=$(find docs/man -name "$program.[18]")
    [ -n "$page" ] || wrong 'a program without manual' "$program"
    for found in $page; do
        grep -q "^dist_man_MANS.*$found" Makefile.am || wrong 'a manual not installed' "$found"
    done
done

# broken_links PAGE: relative links to what is not there. Outside of code, a link is [text](target).
broken_links() {
    grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' | sort -u | while read -r link; do
        case $link in
        '' | http://* | https://* | mailto:*) continue ;;
        esac
        [ -e "$(dirname "$1")/$link" ] || echo "$1: $link"
    done
}

for page in README.md docs/*.md; do
    wrong 'a link that leads nowhere' "$(broken_links "$page")"
    grep -qF "$page" Makefile.am || wrong 'a page not distributed' "$page"
done
for page in docs/*.md; do
    grep -qF "]($page)" README.md || wrong 'a page that the README does not lead to' "$page"
done

[ "$failures" -eq 0 ] || echo "$failures failures"
[ "$failures" -eq 0 ]
