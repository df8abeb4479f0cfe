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

# room DIRECTORY ALLOWED...: its sources include, of other rooms, only headers that fit one of the
# patterns. A header of the same directory stands without a path, one of another room with its room.
room() {
    directory=$1
    shift
    [ -n "$(find "$directory" -name '*.c' -o -name '*.cu')" ] || echo "$directory: there is nothing in it"
    find "$directory" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | while read -r file; do
        included "$file"
    done | grep '"' | while read -r file header; do
        name=$(printf '%s' "$header" | tr -d '"')
        [ "$name" != build-config.h ] && [ ! -f "$(dirname "$file")/$name" ] || continue
        fits=
        for pattern; do
            # shellcheck disable=SC2254 # patterns
            case $name in
            $pattern) fits=yes ;;
            esac
        done
        [ -n "$fits" ] || echo "$file includes $header"
    done
}

# sources: everything that is compiled, but for tests.
sources() {
    find src kernels streams tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'
}

# From the ground up: no room includes one that stands above it. src/learner/engine.h is the one
# header that a room further down includes: the kernels implement that interface, and
# src/learner/engines.c alone names them (by the symbol cpu_engine and the module's).
wrong 'not in its room' "$({
    room src/common
    room src/model 'common/*' kernels/kinds.h
    room src/forecast 'common/*'
    room src/anomaly 'common/*' 'forecast/vectors.h'
    room src/config 'common/*' 'model/*' 'forecast/*' 'anomaly/*' kernels/kinds.def
    room kernels 'common/error.h' 'common/log.h' 'common/denormals.h' 'common/threads.h' 'forecast/least_squares.h' 'model/*' 'learner/engine.h' 'learner/cuda_module.h' \
        formulas.h kinds.h kinds.def unit.h cells.h 'cells/*' normalization.h 'norms/*' losses.h 'losses/*' \
        optimizers.h 'optimizers/*' 'rules/*' updates.h
    room src/learner 'common/*' 'model/*' 'forecast/*' 'anomaly/*' 'config/*'
    room src/checkpoint 'common/*' 'model/*' 'config/*' 'learner/*'
    room src/journal 'common/*' 'config/*' 'learner/*'
    room src/sockets 'common/*' 'model/*' 'config/*' 'learner/*'
    room src/consume 'common/*' 'model/*' 'config/*' 'learner/*' 'sockets/*' 'brokers/*'
    room src/daemon 'common/*' 'model/*' 'config/*' 'learner/*' 'checkpoint/*' 'journal/*' 'fleet/*' 'sockets/*' 'consume/*' 'brokers/url.h' 'brokers/kafka_options.h'
    room src/bench 'common/*' 'anomaly/*' 'model/*' 'config/*' 'learner/*' 'checkpoint/*' 'journal/*' 'fleet/*' 'cpu/*'
    room src/experiment 'common/*' 'model/*' 'config/*' 'learner/*' 'journal/*' 'sockets/*' 'daemon/*'
    room src/client 'common/*'
    room src/brokers 'common/*'
    room src/fleet 'common/*' 'brokers/*' 'model/*' 'config/*' 'learner/*' 'checkpoint/*' 'journal/*'
    room streams 'common/*' 'brokers/*' runnel.h 'streams/*' 'journal/journal_block.h'
    room tools 'common/*' 'brokers/*' 'fleet/*' runnel.h 'tools/shared/*' 'tools/history/*' 'experiment/experiment_store.h'
})"

# Calls likewise: what a room's library leaves undefined, no library of a room above it defines.
rooms='common model forecast anomaly config cpu learner journal checkpoint carry sockets brokers fleet consume daemon'
wrong 'calls what is above it' "$(for room in $rooms; do
    [ ! -f "${builddir:-.}/libdaemon.a" ] || nm -g "${builddir:-.}/lib$room.a" | sed "s/^/$room /"
done | awk -v order="$rooms" '
    BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) level[names[i]] = i }
    NF == 3 && $2 == "U" { needed[$1 " " $3] = 1 }
    NF == 4 && $3 ~ /^[TDBRVW]$/ && !($4 in home) { home[$4] = $1 }
    END {
        for (pair in needed) {
            split(pair, part, " ")
            if (part[2] in home && level[home[part[2]]] > level[part[1]])
                print part[1] " calls " part[2] " of " home[part[2]]
        }
    }')"

# The daemon's room: parts that stand one above the other (src/daemon/parts.h), each of which uses
# only those before it. What a part has is declared in its own .c: no other can write it. What all
# share is written by the file that opens it.
parts='announce run observe journalling checkpoints settings learning feedback moving left_out replay rollback abnormal consuming fleet take status export commands daemon'
below=
for part in $parts; do
    wrong 'uses a part above it' "$(included "src/daemon/$part.c" | while read -r file header; do
        name=$(basename "$(printf '%s' "$header" | tr -d '"<>')" .h)
        case " $parts " in
        *" $name "*) case " $below $part " in *" $name "*) ;; *) echo "$file includes $header" ;; esac ;;
        esac
    done)"
    below="$below $part"
done
owner() {
    case $1 in
    config) echo settings ;;
    engine | learner) echo learning ;;
    journal) echo journalling ;;
    announcer) echo announce ;;
    figures) echo observe ;;
    run | labels | consuming | fleet | journalling | checkpoints | resolved | settings | moving) echo "$1" ;;
    *) echo daemon ;;
    esac
}
wrong 'declared where others can write it' "$(
    grep -nE '^struct (announcer|run|labels|consuming|figures|journalling|checkpoints|resolved|settings|moving) \{' src/daemon/*.h)"
wrong 'writes what another file owns' "$(grep -noE \
    'daemon->[a-z_]+ (=|[-+|&]=) |&daemon->[a-z_]+|(\+\+|--)daemon->[a-z_]+|daemon->[a-z_]+(\+\+|--)' \
    src/daemon/*.c | while IFS=: read -r file line what; do
    field=$(printf '%s' "$what" | sed 's/.*daemon->\([a-z_]*\).*/\1/')
    [ "$field" = model ] && case $what in '&'*) continue ;; esac # read by all, const
    [ "$(basename "$file" .c)" = "$(owner "$field")" ] || echo "$file:$line: $what"
done)"

# Of the tests, only the runtime that stands for CUDA's own (tests/hostcuda), and its tests.
wrong 'a CUDA header outside of kernels/cuda' "$({
    sources
    find tests -name '*.[ch]' -o -name '*.cpp'
} | grep -vE '^(kernels/cuda/|tests/hostcuda)' |
    xargs grep -nE '#[[:space:]]*include[[:space:]]*[<"](cuda|cublas|curand|nvml|nvrtc|cooperative_groups)' |
    grep -vF 'cuda_module.h"')"

# A kernel without it is compiled for 1,024 threads, and spills registers, or gets more than its block fits in.
wrong 'a kernel without __launch_bounds__' "$(grep -n '__global__ ' kernels/cuda/*.cu kernels/cuda/*.cuh |
    grep -vF '__launch_bounds__(')"

# automake finds these by name alone.
wrong 'not in Makefile.am' "$(find kernels/cuda tests/hostcuda -name '*.cu' -o -name '*.cuh' \
    -o -name '*.cpp' -o -name '*.h' | while read -r file; do
    grep -qF "$file" Makefile.am || echo "$file"
done)"

# What a kind is stands in its own file: everybody else asks its description (kernels/kinds.h).
wrong 'decides by the name of a kind' "$(find src kernels streams tools -type f |
    grep -vE '^kernels/(cells/|norms/|losses/|optimizers/|kinds\.)' |
    xargs grep -InE '\b(CELL|ACTIVATION|NORM|LOSS|OPTIMIZER)_[a-z]+\b')"

# A main returns its status. A child that failed to start a program has only _exit.
wrong 'ends the process' "$(sources | grep -vE '^(src/(main|bench/bench)|streams/feed|tools/(watch/watch|ctl/ctl))\.c$' |
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

[ -e .git ] && wrong 'a copy that an editor or autoheader left' "$(git ls-files | grep '~$')"

[ "$failures" -eq 0 ] || echo "$failures failures"
[ "$failures" -eq 0 ]
