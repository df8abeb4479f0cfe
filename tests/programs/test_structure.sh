#!/bin/sh
# The rooms of the sources (docs/explanation/design.md): their includes, and their ends of the process.
# Every manual and every linked page must exist.
set -u
cd "${srcdir:-.}" || exit 99
failures=0
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

# wrong WHAT LINES: reports each line as a failure.
wrong() {
    [ -n "$2" ] || return 0
    printf '%s\n' "$2" | sed "s|^|$1: |"
    failures=$((failures + $(printf '%s\n' "$2" | wc -l)))
}

# sources: all compiled files except tests.
find src kernels streams tools -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' | sort >"$scratch/sources"
sources() {
    cat "$scratch/sources"
}
find src kernels streams tools -type f >"$scratch/there"

# "FILE HEADER" for each #include, HEADER with its quotes or brackets.
sources | xargs grep -oE '^[[:space:]]*#[[:space:]]*include[[:space:]]*(<[^>]*>|"[^"]*")' /dev/null |
    sed 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*/ /' >"$scratch/includes"

# Each room includes only the rooms in its line of src/rooms, which are below it. An include of a
# higher room must be listed with a reason, and must exist. The last line of output has the numbers.
cat >"$scratch/arrows.awk" <<'END'
# The room of a file: the longest matching line. FOLDER/* matches each folder without its own line.
function room_of(file, best, i, folder) {
    for (i = 1; i <= rooms; i++) {
        folder = room[i]
        sub(/\*$/, "", folder)
        if (index(file, folder) == 1 && length(folder) > length(best))
            best = room[i]
    }
    return best
}
FILENAME ~ /rooms$/ {
    if (/^[^#^]/) {
        split($0, part, / \| */)
        room[++rooms] = part[1]
        level[part[1]] = rooms
        uses[part[1]] = " " part[2] " "
    } else if (/^\^/) {
        split(substr($0, 3), part, / \| */)
        for (n = split(part[2], names, " "); n > 0; n--)
            up[part[1] " " names[n]] = 1
    }
    next
}
FILENAME ~ /there$/ { there[$1] = 1; next }
$2 ~ /^"/ {
    header = substr($2, 2, length($2) - 2)
    directory = $1
    sub(/[^\/]*$/, "", directory)
    split(directory " src/ src/client/ kernels/", places, " ")
    places[5] = ""
    for (n = 1; n <= 5 && !((places[n] header) in there); n++)
        continue
    if (n > 5) # generated
        next
    path = places[n] header
    from = room_of($1)
    to = room_of(path)
    split(path, folders, "/")
    if (!from || (from == to && (from !~ /\*$/ || index($1, folders[1] "/" folders[2] "/") == 1)))
        next
    arrow[from " " to] = 1
    used[to] = used[from] = 1
    short = path
    sub(/^src\//, "", short)
    name = to
    sub(/^src\//, "", name)
    if ((from " " short) in up) {
        went[from " " short] = 1
        upward[from " " to] = 1
    } else if (!index(uses[from], " " name " ") && !index(uses[from], " " short " "))
        print $1 " includes " path
    else if (level[to] < level[from])
        print $1 " includes " path ", of a room above it"
}
END {
    for (i = 1; i <= rooms; i++) {
        if (!used[room[i]])
            print room[i] ": nothing in it includes or is included"
        in_src += room[i] ~ /^src\//
    }
    for (i in up)
        if (!(i in went))
            print i ": no such arrow"
    for (i in arrow)
        arrows++
    for (i in upward)
        ups++
    printf "%d rooms in src, %d arrows, %d of them upward\n", in_src, arrows, ups >"/dev/stderr"
}
END
wrong 'not in its room' "$(awk -f "$scratch/arrows.awk" src/rooms "$scratch/there" "$scratch/includes" 2>"$scratch/numbers")"
grep -q '^src/' src/rooms || wrong 'without rooms' src/rooms
awk -f tools/tables/rooms.awk src/rooms docs/explanation/design.md | cmp -s - docs/explanation/design.md ||
    wrong 'not as in src/rooms: run make documents' docs/explanation/design.md

# The same for calls: no library of a higher room defines an undefined symbol of a room's library.
libraries=$(sed -n 's/^kernels .*/cpu/p; s/^src\/\([a-z]*\) .*/\1/p' src/rooms |
    while read -r name; do
        [ ! -f "${builddir:-.}/lib$name.a" ] || echo "$name"
    done)
wrong 'calls a higher room' "$(for room in $libraries; do
    nm -g "${builddir:-.}/lib$room.a" | sed "s/^/$room /"
done | awk -v order="$(echo "$libraries" | tr '\n' ' ')" '
    BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) level[names[i]] = i }
    NF == 3 && $2 == "U" { needed[$1 " " $3] = 1 }
    NF == 4 && $3 ~ /^[TDBRVW]$/ && !($4 in home) { home[$4] = $1 }
    END {
        for (pair in needed) {
            split(pair, part, " ")
            if (part[2] in home && level[home[part[2]]] < level[part[1]])
                print part[1] " calls " part[2] " of " home[part[2]]
        }
    }')"

# The daemon's room consists of ordered parts (src/daemon/parts.h), and each uses only earlier ones. The
# data of a part is declared in its own .c, so that no other part can write it. Only the file that
# opens shared data writes it.
wrong 'uses a part above it' "$(awk -v order='announce run observe journalling checkpoints settings learning feedback moving left_out replay rollback abnormal take commands daemon' '
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
    grep -nE '^struct (announcer|alarms|run|figures|journalling|checkpoints|settings|moving) \{' src/daemon/*.h)"
wrong 'writes data of another file' "$(grep -noE \
    'daemon->[a-z_]+ (=|[-+|&]=) |&daemon->[a-z_]+|(\+\+|--)daemon->[a-z_]+|daemon->[a-z_]+(\+\+|--)' \
    src/daemon/*.c | awk '
    BEGIN {
        split("config settings engine learning learner learning journal journalling announcer announce figures observe acknowledge source", owners, " ")
        for (i = 1; i in owners; i += 2)
            owner[owners[i]] = owners[i + 1]
        split("alarms run journalling checkpoints settings moving", own, " ")
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

# Of the tests, only the replacement of CUDA's runtime (tests/hostcuda) and its tests.
wrong 'a CUDA header outside of the CUDA engine' "$({
    sources
    find tests -name '*.[ch]' -o -name '*.cpp'
} | grep -vE '^((kernels|tools/bench)/cuda/|tests/hostcuda)' |
    xargs grep -nE '#[[:space:]]*include[[:space:]]*[<"](cuda|cublas|curand|nvml|nvrtc|cooperative_groups)' |
    grep -vF 'cuda_module.h"')"

# Otherwise a kernel is compiled for 1,024 threads: it spills registers, or its block does not fit.
wrong 'a kernel without __launch_bounds__' "$(grep -n '__global__ ' kernels/cuda/*.cu kernels/cuda/*.cuh tools/bench/cuda/*.cu |
    grep -vF '__launch_bounds__(')"

# The tests' runtime supports only the shared memory that a launch requests.
wrong 'a static __shared__ variable' "$(grep -n '__shared__' kernels/cuda/*.cu kernels/cuda/*.cuh tools/bench/cuda/*.cu |
    grep -vF 'extern __shared__')"

# automake finds these headers only by their name.
find kernels/cuda tools/bench/cuda tests/hostcuda -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.h' >"$scratch/cuda"
wrong 'not in Makefile.am' "$(tr -s ' \t' '\n\n' <Makefile.am | grep -vxFf - "$scratch/cuda")"

# Only the file of a kind depends on the kind; all others use its description (kernels/kinds.h).
wrong 'decides by the name of a kind' "$(find src kernels streams tools -type f |
    grep -vE '^kernels/(cells/|norms/|losses/|optimizers/|kinds\.)' |
    xargs grep -InE '\b(CELL|ACTIVATION|NORM|LOSS|OPTIMIZER)_[a-z]+\b')"

# The kinds of inputs, targets and experts come from functions of the model, the configuration and the
# list of experts.
wrong 'decides by the name of a kind' "$(sources | grep -vE '^src/(model|config|forecast)/' |
    xargs grep -nE '\b(TARGET_(GIVEN|NEXT|LATER)|SCALE_(NONE|STANDARD|FORECAST)|INPUT_(REAL|SYMBOL)|COLUMN_(REAL|SYMBOL|CYCLE)|EXPERT_(last|ewma|lag|ar[0-9]+[a-z]*|abs[0-9]+))\b')"
wrong 'decides by the type of a value' "$(sources | grep -vE '^src/(config/|documents)' | xargs grep -nE '&value_[a-z]+' /dev/null)"

# main returns its status. Only a child that failed to start a program calls _exit.
wrong 'ends the process' "$(sources | grep -vE '^(src/(main|bench/bench)|streams/feed|tools/(watch/watch|ctl/ctl))\.c$' |
    xargs grep -nE '(^|[^_[:alnum:]])(exit|quick_exit|abort)[[:space:]]*\(')"

# written FILE...: those of the files and directories that are not built.
written() {
    find "$@" -type f | grep -vE '/__pycache__/|\.(o|a|log|trs|dirstamp)$|/\.deps/'
}

words='TO''DO|FIX''ME' # in two parts, so that this line has neither
wrong 'left for later' "$(written README.md Makefile.am configure.ac .ci src kernels streams tools tests \
    docs conf | xargs grep -InwE "$words")"

place='\.\./sha''red'
wrong 'depends on files outside of the project' "$(written src kernels streams tests conf |
    xargs grep -In "$place")"

# Programs that tests start belong to listed packages (tools/setup.sh), their dependencies, or every
# Debian system. NVIDIA's are not in Debian: tests that need them are skipped.
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

# Every installed manual exists, and every program has one.
wrong 'in Makefile.am, but not found' "$(grep -o 'docs/man/[a-z.-]*\.[1-8]' Makefile.am |
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

pages=$(find docs -name '*.md')
# Links outside of code have the form [text](target).
wrong 'a link that leads nowhere' "$(grep -o '](\([^)]*\))' README.md $pages | sed 's/^\([^:]*\):](/\1 /; s/)$//; s/#.*//' |
    sort -u | while read -r page link; do
    case $page in
    */*) link=${page%/*}/$link ;;
    esac
    case $link in
    *http://* | *https://* | *mailto:*) continue ;;
    esac
    [ -e "${link:-.}" ] || echo "$page: $link"
done)"

for page in README.md $pages; do
    grep -qF "$page" Makefile.am || wrong 'a page not distributed' "$page"
done
for page in $pages; do
    [ "$page" = docs/index.md ] || grep -qF "](${page#docs/})" docs/index.md ||
        wrong 'a page that docs/index.md does not lead to' "$page"
done

[ -e .git ] && wrong 'a copy that an editor or autoheader left' "$(git ls-files | grep '~$')"

# clang-format treats these names as C++: `new &&new->states`. Comments, strings and options do not
# count.
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

cat "$scratch/numbers"
[ "$failures" -eq 0 ] || echo "$failures failures"
[ "$failures" -eq 0 ]
