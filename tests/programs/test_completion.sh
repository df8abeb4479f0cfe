#!/bin/sh
# Tests completions in bash and fish with the shells themselves. zsh must parse its functions. Every
# option of --help is completed.
set -u
srcdir=${srcdir:-.}
cd "${builddir:-.}" || exit 99
failures=0

wrong() {
    echo "$*"
    failures=$((failures + 1))
}

if [ ! -d completions/bash ]; then
    echo 'not written: the programs of this build run on another machine'
    exit 77
fi
directory=$(mktemp -d) || exit 99
trap 'rm -rf "$directory"' EXIT
trap 'exit 99' HUP INT TERM
mkdir "$directory/a directory"
: >"$directory/a file"

# offered PROGRAM WORD...: the completions of the last word in bash, one per line.
offered() {
    program=$1
    shift
    bash -c '
        source "completions/bash/$1" || exit
        program=$1
        cd "$2" || exit
        shift 2
        COMP_WORDS=("$program" "$@") COMP_CWORD=$# COMPREPLY=()
        function=$(complete -p "$program" | sed "s/.*-F \([^ ]*\) .*/\1/")
        "$function" "$program" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' - "$program" "$directory" "$@"
}

# offers EXPECTED PROGRAM WORD...
offers() {
    expected=$1
    program=$2
    shift 2
    got=$(offered "$program" "$@" | sort | tr '\n' '|')
    [ "$got" = "$expected" ] || wrong "$program $*: offered is '$got', expected '$expected'"
}

# Commands and their arguments: words, files or nothing, also after options.
offers 'abnormal|adopt|backup|checkpoint|config|export|forget|import|normal|pause|reset|restore|resume|rollback|set|shutdown|silence|status|' runnel-ctl ''
offers 'reset|restore|resume|' runnel-ctl re
offers 'reset|restore|resume|' runnel-ctl -j --timeout 3 --connect = tcp://localhost re
offers 'learning.clip|learning.optimizer.rate|' runnel-ctl set learning.
offers 'a directory|a file|' runnel-ctl export ''
offers '|' runnel-ctl pause ''
offers 'copy|' runnel-feed synth co
offers 'csv|' runnel-feed c
offers 'a directory|a file|' runnel-feed csv --rate 3 ''
# Options, including those of the source, and their values, with and without =.
offers '--timeout|' runnel-ctl --ti
offers '--columns|--connect|--count|' runnel-feed csv --co
offers '--connect|--count|' runnel-feed host --co
offers 'a directory|' runnel-feed host --proc ''
offers 'router|' runnel-feed csv --socket r
offers 'router|' runnel-feed csv --socket = r
offers 'push|router|' runnel-feed csv --socket =
offers 'a directory|a file|' runneld --config ''
offers 'a directory|a file|' runneld -f a
offers 'learning.clip|' runneld --set learning.cl
offers 'learning.clip|' runneld --set = learning.cl
offers 'model.layers.N.cell|' runneld --explain model.layers.N.ce
offers 'learning.clip|' runnel-bench --set learning.cl
offers 'loss|' runnel-watch -t l
offers '|' runnel-watch --count ''
offers 'steps|' runnel-plot -x s
offers 'snarimax|' runnel-evaluate --rivals = sn
offers 'csv|' runnel-evaluate conf/host.yaml c
# `runnel TASK` has the completions of the task's program, and is started by the typed path.
door=$PWD/runnel
offers_door() {
    expected=$1
    shift
    got=$(bash -c '
        source completions/bash/runnel
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _runnel
        printf "%s\n" "${COMPREPLY[@]}"' - "$door" "$@" | sort | tr '\n' '|')
    [ "$got" = "$expected" ] || wrong "runnel $*: offered is '$got', expected '$expected'"
}
offers_door 'watch|web|' w
offers_door 'watch|web|' help w
offers_door '--timeout|' backup --ti
offers_door 'reset|restore|resume|' ctl -j re
offers_door '--columns|--connect|--count|' feed csv --co
offers_door '|' nothing w


for file in completions/bash/*; do
    program=${file##*/}
    bash -n "$file" || wrong "$file: invalid bash script"
    listed=$("./$program" --help | grep -oE '(^|[ ,])--[a-z][a-z-]*' | tr -d ' ,' | sort -u)
    for option in $listed; do
        [ "$(offered "$program" "$option" | grep -cxF -e "$option")" = 1 ] ||
            wrong "$program: $option is not offered"
        grep -qE -e "$option(=|[^a-z-])" "completions/zsh/_$program" ||
            wrong "$program: $option is not offered by zsh"
        grep -qE -e "-l ${option#--}( |$)" "completions/fish/$program.fish" ||
            wrong "$program: $option is not offered by fish"
    done
    [ "$(head -n 1 "completions/zsh/_$program")" = "#compdef $program" ] ||
        wrong "completions/zsh/_$program is of another program"
done

if command -v zsh >/dev/null; then
    for file in completions/zsh/*; do
        zsh -n "$file" || wrong "$file: invalid zsh script"
    done
else
    echo 'zsh not found: its functions are only compared with --help'
fi

# in_fish EXPECTED LINE: checks the completions of the line in fish.
in_fish() {
    got=$(PATH=$PWD:$PATH HOME=$directory fish --no-config -c '
        for file in completions/fish/*.fish; source $file; end
        complete -C "$argv[1]"' -- "$2" | cut -f 1 | sort | tr '\n' '|')
    [ "$got" = "$1" ] || wrong "fish: $2: offered is '$got', expected '$1'"
}
if command -v fish >/dev/null; then
    for file in completions/fish/*; do
        fish --no-execute "$file" || wrong "$file: not a script of fish"
    done
    in_fish 'watch|web|' 'runnel w'
    in_fish '--timeout|' 'runnel backup --ti'
    in_fish 'reset|restore|resume|' 'runnel ctl -j re'
    in_fish '--columns|--connect|--count|' 'runnel-feed csv --co'
    in_fish 'learning.clip|' 'runnel-ctl --connect tcp://x set learning.cl'
    in_fish 'router|' 'runnel-feed csv --socket r'
else
    echo 'fish not found: its scripts are only compared with --help'
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
