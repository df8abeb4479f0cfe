#!/bin/sh
# The rooms of the house (docs/design.md): who includes what, who ends the process, and that every
# manual and every page that a page leads to is there.
set -u
cd "${srcdir:-.}" || exit 99
failures=0
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

# wrong WHAT LINES: one failure for every line.
wrong() {
    [ -n "$2" ] || return 0
    printf '%s\n' "$2" | sed "s|^|$1: |"
    failures=$((failures + $(printf '%s\n' "$2" | wc -l)))
}

# sources: everything that is compiled, except tests.
find src kernels streams tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort >"$scratch/sources"
sources() {
    cat "$scratch/sources"
}
find src kernels streams tools -type f >"$scratch/there"

# "FILE HEADER" for each #include, HEADER with its quotes or brackets.
sources | xargs grep -oE '^[[:space:]]*#[[:space:]]*include[[:space:]]*(<[^>]*>|"[^"]*")' /dev/null |
    sed 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*/ /' >"$scratch/includes"

# From the ground up: no room includes one that stands above it. A line is a room, then the patterns of
# the headers of other rooms that it may include. A header of the same directory stands without a path,
# one of another room with its room. src/learner/engine.h is the one header that a room further down
# includes: the kernels implement that interface, and src/learner/engines.c alone names them (by the
# symbol cpu_engine and the module's).
cat >"$scratch/rooms" <<'END'
src/common
src/model common/* kernels/kinds.h
src/forecast common/*
src/anomaly common/* forecast/vectors.h
src/config common/* model/* forecast/* anomaly/* kernels/kinds.def
kernels common/error.h common/log.h common/denormals.h common/threads.h common/quantile.h forecast/least_squares.h model/* learner/engine.h learner/cuda_module.h formulas.h kinds.h kinds.def unit.h cells.h cells/* normalization.h norms/* losses.h losses/* optimizers.h optimizers/* rules/* updates.h
src/learner common/* model/* forecast/* anomaly/* config/*
src/checkpoint common/* model/* config/* learner/*
src/journal common/* config/* learner/*
src/sockets common/* model/* config/* learner/*
src/consume common/* model/* config/* learner/* sockets/* brokers/* fleet/*
src/daemon common/* model/* config/* learner/* checkpoint/* journal/* fleet/* sockets/* consume/*
src/bench common/* anomaly/* model/* config/* learner/* checkpoint/* journal/* fleet/* cpu/*
src/experiment common/* model/* config/* learner/* journal/* sockets/* daemon/*
src/client common/*
src/brokers common/*
src/fleet common/* brokers/* model/* config/* learner/* checkpoint/* journal/*
streams common/* brokers/* runnel.h streams/* journal/journal_block.h
tools/figures common/* runnel.h anomaly/* model/* config/* learner/* checkpoint/* journal/* fleet/*
tools common/* brokers/* fleet/* runnel.h tools/shared/* tools/history/* experiment/experiment_store.h
END
wrong 'not in its room' "$(awk '
    FILENAME ~ /rooms$/ {
        room[++rooms] = $1
        for (i = 2; i <= NF; i++) {
            gsub(/\./, "\\.", $i)
            gsub(/\*/, ".*", $i)
            allowed[$1] = allowed[$1] "|" $i
        }
        next
    }
    FILENAME ~ /there$/ { there[$1] = 1; next }
    $2 ~ /^"/ {
        header = substr($2, 2, length($2) - 2)
        directory = $1
        sub(/[^\/]*$/, "", directory)
        if (header == "build-config.h" || (directory header) in there)
            next
        for (i = 1; i <= rooms; i++) # the first room that holds it
            if (index($1, room[i] "/") == 1) {
                if (header !~ ("^(" substr(allowed[room[i]], 2) ")$"))
                    print $1 " includes " $2
                next
            }
    }
    END {
        for (file in there)
            for (i = 1; i <= rooms; i++)
                lived_in[i] += index(file, room[i] "/") == 1
        for (i = 1; i <= rooms; i++)
            if (!lived_in[i])
                print room[i] ": there is nothing in it"
    }' "$scratch/rooms" "$scratch/there" "$scratch/includes")"

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
wrong 'uses a part above it' "$(awk -v order='announce run observe journalling checkpoints settings learning feedback moving left_out replay rollback abnormal consuming shares fleet take commands daemon' '
    BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) level[names[i]] = i }
    {
        part = $1
        if (sub(/^src\/daemon\//, "", part) && sub(/\.c$/, "", part) && part in level) {
            header = $2
            gsub(/["<>]|\.h|.*\//, "", header)
            if (header in level && level[header] > level[part])
                print $1 " includes " $2
        }
    }' "$scratch/includes")"
wrong 'declared where others can write it' "$(
    grep -nE '^struct (announcer|alarms|run|consuming|figures|journalling|checkpoints|settings|moving) \{' src/daemon/*.h)"
wrong 'writes what another file owns' "$(grep -noE \
    'daemon->[a-z_]+ (=|[-+|&]=) |&daemon->[a-z_]+|(\+\+|--)daemon->[a-z_]+|daemon->[a-z_]+(\+\+|--)' \
    src/daemon/*.c | awk '
    BEGIN {
        split("config settings engine learning learner learning journal journalling announcer announce figures observe consume consuming acknowledge source shares fleet", owners, " ")
        for (i = 1; i in owners; i += 2)
            owner[owners[i]] = owners[i + 1]
        split("alarms run consuming fleet journalling checkpoints settings moving", own, " ")
        for (i in own)
            owner[own[i]] = own[i]
    }
    {
        file = field = $0
        sub(/:.*/, "", file)
        sub(/.*\//, "", file)
        sub(/\.c$/, "", file)
        sub(/.*daemon->/, "", field)
        sub(/[^a-z_].*/, "", field)
        if (field == "model" && /:&/) # read by all, const
            next
        if (file != (field in owner ? owner[field] : "daemon"))
            print
    }')"

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

# The tests' runtime knows no shared memory but what a launch asks for.
wrong 'a static __shared__ variable' "$(grep -n '__shared__' kernels/cuda/*.cu kernels/cuda/*.cuh |
    grep -vF 'extern __shared__')"

# automake finds these by name alone.
find kernels/cuda tests/hostcuda -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.h' >"$scratch/cuda"
wrong 'not in Makefile.am' "$(tr -s ' \t' '\n\n' <Makefile.am | grep -vxFf - "$scratch/cuda")"

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

# Programs that tests start belong to listed packages (tools/setup.sh), to what those depend on, or to every
# Debian. NVIDIA's are in no package of Debian; tests skip what needs them.
if command -v dpkg-query >/dev/null; then
    listed=$(sh tools/check --packages)
    # shellcheck disable=SC2086 # a list of words
    known=" $({
        echo $listed
        dpkg-query -W -f '${Depends}, ${Pre-Depends}\n' $listed 2>/dev/null | sed 's/([^)]*)//g; s/:any//g; s/[,|]/ /g'
        dpkg-query -W -f '${Priority} ${Package}\n' | sed -n 's/^required //p'
    } | tr -s ' \n' ' ') "
    wrong 'a program of no listed package' "$(find tests tools/figures -type f | grep -v '/__pycache__/' |
        xargs grep -ohE "(which|program|run|Popen|check_output|check_call|call)\(\[?[\"'][a-z][a-z0-9_+.-]*[\"']|command -v [a-z][a-z0-9_+.-]*" |
        sed "s/[\"']\$//; s/.*[\"' ]//" | sort -u |
        grep -vE '^(runnel.*|nvcc|nvidia-smi|cuobjdump|compute-sanitizer)$' | while read -r program; do
        path=$(PATH=/usr/bin:/usr/sbin:/bin:/sbin command -v "$program") || continue
        real=$(readlink -f "$path")
        for owner in $(dpkg-query -S "$path" "${path#/usr}" "$real" "${real#/usr}" 2>/dev/null | sed 's/[:,].*//') none; do
            case $known in
            *" $owner "*) break ;;
            esac
            [ "$owner" != none ] || echo "$program; see tools/setup.sh"
        done
    done)"
fi

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

# Outside of code, a link is [text](target).
wrong 'a link that leads nowhere' "$(grep -o '](\([^)]*\))' README.md docs/*.md | sed 's/^\([^:]*\):](/\1 /; s/)$//; s/#.*//' |
    sort -u | while read -r page link; do
    case $page in
    */*) link=${page%/*}/$link ;;
    esac
    case $link in
    *http://* | *https://* | *mailto:*) continue ;;
    esac
    [ -e "${link:-.}" ] || echo "$page: $link"
done)"

for page in README.md docs/*.md; do
    grep -qF "$page" Makefile.am || wrong 'a page not distributed' "$page"
done
for page in docs/*.md; do
    grep -qF "]($page)" README.md || wrong 'a page that the README does not lead to' "$page"
done

[ -e .git ] && wrong 'a copy that an editor or autoheader left' "$(git ls-files | grep '~$')"

# clang-format takes these names for C++: `new &&new->states`. Words of comments, strings and options do not count.
found=$(find src streams tools kernels tests -path tests/hostcuda -prune -o -name '*.[ch]' -print0 | xargs -0 awk '
    FNR == 1 { comment = 0 }
    {
        line = $0
        gsub(/"(\\.|[^"\\])*"/, "", line)
        gsub(/\/\*[^*]*(\*+[^*\/][^*]*)*\*+\//, "", line)
        if (comment && !sub(/^.*\*\//, "", line)) next
        comment = sub(/\/\*.*/, "", line)
        if (match(line, /(^|[^[:alnum:]_])(new|class|delete)($|[^[:alnum:]_])/)) print FILENAME ":" FNR
    }')
wrong 'a name that is a word of C++: new, class or delete' "$found"

[ "$failures" -eq 0 ] || echo "$failures failures"
[ "$failures" -eq 0 ]
