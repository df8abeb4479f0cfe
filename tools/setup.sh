# shellcheck shell=sh disable=SC2015,SC2034 # sourced; A && B || C dies in C
# Functions for tools/demo and tools/check, to be sourced with $source set to the project's directory.
# POSIX sh. Builds a read-only checkout from a copy.

say() {
    printf '%s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 69
}

# Debian packages for the build, for tools/demo with a table, for tools/docs, and for tools/check.
# `sh tools/demo --packages` and `sh tools/check --packages` print them. tests/programs/test_structure.sh
# refuses a test that needs a program of any other package.
BUILD_PACKAGES='gcc libc6-dev make autoconf automake pkg-config libzmq3-dev libyaml-dev
    libjansson-dev zlib1g-dev libdeflate-dev libsqlite3-dev
    libncurses-dev libmicrohttpd-dev libjs-chart.js libcurl4-openssl-dev
    libmosquitto-dev libhiredis-dev librdkafka-dev libnats-dev'
TABLE_PACKAGES='python3 python3-matplotlib python3-numpy python3-yaml python3-zmq'
DOCS_PACKAGES='mandoc mkdocs'
CHECK_PACKAGES="$TABLE_PACKAGES $DOCS_PACKAGES binutils ccache g++ git libcmocka-dev libsystemd-dev xz-utils
    clang libclang-rt-dev openssl procps strace systemd systemd-journal-remote tmux tzdata zsh fish
    curl jq mosquitto mosquitto-clients nats-server prometheus redis-server sqlite3
    chromium chromium-driver python3-selenium
    mypy python3-pandas python3-pip python3-prometheus-client python3-setuptools python3-venv python3-wheel"

# print_packages LIST...: prints the names on one line.
print_packages() {
    # shellcheck disable=SC2086 # lists of words
    echo $*
}

# Installs missing Debian packages among the arguments, with sudo unless root. A temporary policy-rc.d
# prevents servers among them from starting.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "Not a Debian system: the contents of these packages are required: $*"
        return 0
    fi
    missing=
    for package; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *' installed') ;;
        *) missing="$missing $package" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    say "Installing Debian packages:$missing"
    root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            say "sudo not found; as root run: apt-get install$missing"
            return 1
        }
        root=sudo
    fi
    # shellcheck disable=SC2016 # the inner shell expands
    $root sh -c '
        policy=/usr/sbin/policy-rc.d
        [ -e "$policy" ] || {
            trap "rm -f $policy" EXIT
            trap "exit 130" HUP INT TERM
            printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy" || exit 1
        }
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q >/dev/null && apt-get install -q -y --no-install-recommends "$@" >/dev/null' \
        install $missing || {
        say "apt-get failed to install$missing"
        return 1
    }
}

# Chooses $build, the directory of all builds: build/ in the checkout, or $RUNNEL_BUILD. For a read-only
# checkout it is below the temporary directory, and $source becomes a copy there. autoconf's configure
# refuses a path that contains a blank.
choose_build() {
    build=${RUNNEL_BUILD:-$source/build}
    if [ ! -w "$source" ]; then
        build=${RUNNEL_BUILD:-${TMPDIR:-/tmp}/runnel-build-$(id -u)}
        mkdir -p "$build" || die "cannot create $build: set RUNNEL_BUILD to a writable directory"
        [ -n "$(find "$build" -prune -user "$(id -u)")" ] ||
            die "$build belongs to another user: set RUNNEL_BUILD to another directory"
        rm -rf "$build/source"
        cp -Rp "$source" "$build/source" && chmod -R u+w "$build/source" ||
            die "cannot copy $source to $build/source"
        source=$build/source
    fi
    case $source in
    *[[:space:]]*) die "autoconf cannot build in '$source': move the checkout to a path without blanks" ;;
    esac
    mkdir -p "$build" || die "cannot create $build: set RUNNEL_BUILD to a writable directory"
}

# run_logged LOG COMMAND...: runs it quietly; prints the end of its output if it fails.
run_logged() {
    log=$1
    shift
    "$@" >"$log" 2>&1 && return 0
    say "failed: $* (full output: $log)" >&2
    tail -n 30 "$log" >&2
    return 1
}

# configured_with TREE CONFIGURE-ARGUMENT...: whether the tree was configured with these arguments.
configured_with() {
    given=$("$1/config.status" --config 2>/dev/null)
    shift
    for argument; do
        case $given in
        *"$argument"*) ;;
        *) return 1 ;;
        esac
    done
}

# build_tree NAME TARGETS [CONFIGURE-ARGUMENT...]: builds the make targets in $build/NAME. $lower may be a
# command that runs make.
build_tree() {
    tree=$build/$1 targets=$2
    shift 2
    mkdir -p "$tree" || return 1
    if [ ! -x "$source/configure" ] || [ ! -f "$source/Makefile.in" ] ||
        [ -n "$(find "$source/configure.ac" "$source/Makefile.am" -newer "$source/configure")" ]; then
        (cd "$source" && run_logged "$tree/autoreconf.log" autoreconf -i) || return 1
    fi
    if [ ! -f "$tree/Makefile" ] || ! configured_with "$tree" "$@" ||
        [ -n "$(find "$source/configure" -newer "$tree/config.status")" ]; then
        (cd "$tree" && run_logged "$tree/configure.log" "$source/configure" "$@") || return 1
    fi
    # shellcheck disable=SC2086 # a list of words
    run_logged "$tree/build.log" ${lower:-} make -C "$tree" -j "$(nproc 2>/dev/null || echo 1)" $targets
}
