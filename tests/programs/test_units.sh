#!/bin/sh
# shellcheck disable=SC2015 # A && B || C: each A that succeeds leaves nothing for C
# The service: systemd accepts the unit and its drop-ins, the unit restricts the daemon to the access
# that it needs, and the daemon runs with the allowed system calls.
set -u
srcdir=${srcdir:-.}
builddir=${builddir:-.}
exposure=15 # tenths: systemd-analyze security must rate the unit no worse than that

if ! command -v systemd-analyze >/dev/null; then
    echo 'needs systemd-analyze'
    exit 77
fi

directory=$(mktemp -d) || exit 99
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$directory"' EXIT
units=$directory/units
mkdir "$units" || exit 99
failures=0

wrong() {
    echo "$*"
    failures=$((failures + 1))
}

# The installed unit, except for the path of the program, which is not installed yet.
template=$srcdir/systemd/runneld@.service.in
grep -q '^ExecStart=@bindir@/runneld ' "$template" || wrong "$template starts no @bindir@/runneld"
sed "s|@bindir@|$(cd "$builddir" && pwd)|" "$template" >"$units/runneld@.service"

# verify WHAT: systemd reports no error or warning.
verify() {
    complaints=$(systemd-analyze verify --man=no "$units/runneld@test.service" 2>&1) &&
        [ -z "$complaints" ] || wrong "systemd-analyze verify, $1: $complaints"
}

# The limits of the unit apply during floods of the daemon, too.
for bound in LimitCORE=0 LimitNOFILE= TasksMax= MemoryMax=; do
    grep -q "^$bound" "$template" || wrong "$template has no $bound"
done

verify 'the unit alone'
systemd-analyze security --offline=true --no-pager --threshold="$exposure" \
    "$units/runneld@.service" >"$directory/security" 2>&1 ||
    wrong "the unit is more exposed than $exposure tenths: $(grep -v '✓' "$directory/security")"
grep -q 'Overall exposure' "$directory/security" || wrong "nothing rated: $(cat "$directory/security")"

mkdir "$units/runneld@test.service.d"
for drop_in in cuda network; do
    cp "$srcdir/systemd/$drop_in.conf" "$units/runneld@test.service.d/"
    verify "with $drop_in.conf"
done

# The drop-in of the page: the block that begins with its path.
page=docs/how-to/systemd.md
sed -n '/^# \/etc\/systemd\/.*memory\.conf$/,/^```$/p' "$srcdir/$page" | grep -v '^```' \
    >"$units/runneld@test.service.d/memory.conf"
grep -q '^MemoryMax=' "$units/runneld@test.service.d/memory.conf" || wrong "$page has no MemoryMax"
verify "with memory.conf of $page"

for file in sysusers tmpfiles; do
    [ -s "$srcdir/systemd/runnel.$file" ] || wrong "no systemd/runnel.$file"
done
if command -v systemd-sysusers >/dev/null; then
    root=$directory/root
    mkdir -p "$root/etc"
    systemd-sysusers --root="$root" "$(realpath "$srcdir/systemd/runnel.sysusers")" >"$directory/log" 2>&1 &&
        grep -q '^runnel:' "$root/etc/passwd" ||
        wrong "systemd-sysusers made no user runnel: $(cat "$directory/log")"
fi

# allowed: the allowed system calls, one per line; systemd expands groups.
expand() {
    for word; do
        case $word in
        @*)
            # shellcheck disable=SC2046 # a list of words
            expand $(systemd-analyze syscall-filter --no-pager "$word" |
                sed -n 's/^    \([@a-z_0-9-]*\)$/\1/p')
            ;;
        *) echo "$word" ;;
        esac
    done
}
# The lines add and remove calls in their order. systemd always adds @default.
allowed() {
    expand @default | sort -u >"$directory/allowed"
    sed -n 's/^SystemCallFilter=//p' "$units/runneld@.service" | while read -r line; do
        # shellcheck disable=SC2086 # a list of words
        expand ${line#\~} | sort -u >"$directory/line"
        case $line in
        \~*) comm -23 "$directory/allowed" "$directory/line" ;;
        *) sort -u "$directory/allowed" "$directory/line" ;;
        esac >"$directory/next"
        mv "$directory/next" "$directory/allowed"
    done
}

if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
    echo 'strace does not work here: the system calls of the daemon are not checked'
else
    cat >"$directory/test.yaml" <<'END'
name: test
device: cpu
model:
  input: {kind: real, size: 2}
  layers: [{cell: gru, size: 4}]
  output: {loss: squared, size: 2, target: next}
END
    for socket in examples statistics control; do
        echo "$socket: {bind: \"tcp://127.0.0.1:*\"}"
    done >>"$directory/test.yaml"
    STATE_DIRECTORY=$directory/state strace -f -qq -o "$directory/calls" \
        "$builddir/runneld" --config "$directory/test.yaml" 2>"$directory/log" &
    pid=$!
    tries=0
    until control=$(sed -n 's/.*control \(tcp:[^ ]*\)$/\1/p' "$directory/log") && [ -n "$control" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] && kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    examples=$(sed -n 's/.*examples \(tcp:[^ ,]*\).*/\1/p' "$directory/log")
    {
        printf '1,2\n2,3\n3,4\n4,5\n' >"$directory/data.csv"
        "$builddir/runnel-feed" csv --connect "$examples" "$directory/data.csv" &&
            "$builddir/runnel-ctl" --timeout 60 --connect "$control" checkpoint &&
            "$builddir/runnel-ctl" --timeout 60 --connect "$control" shutdown
    } >"$directory/used" 2>&1 || wrong "feeding and asking failed: $(cat "$directory/used" "$directory/log")"
    wait "$pid"
    pid=
    sed -n 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p' "$directory/calls" | sort -u >"$directory/called"
    # As root, SQLite sets the owner of its files to that of the database.
    [ "$(id -u)" -ne 0 ] || sed -i '/^fchown$/d' "$directory/called"
    [ "$(wc -l <"$directory/called")" -gt 20 ] || wrong "too few calls: $(cat "$directory/called")"
    allowed
    [ "$(wc -l <"$directory/allowed")" -gt 100 ] || wrong "too few allowed: $(cat "$directory/allowed")"
    for call in $(comm -23 "$directory/called" "$directory/allowed"); do
        wrong "the daemon uses $call, which the unit does not allow"
    done
    sed -n 's/.*socket(\(AF_[A-Z0-9]*\).*/\1/p' "$directory/calls" | sort -u | while read -r family; do
        grep -q "^RestrictAddressFamilies=.*\<$family\>" "$units/runneld@.service" || echo "$family"
    done >"$directory/families"
    [ -s "$directory/families" ] &&
        wrong "the daemon uses addresses that the unit does not allow: $(cat "$directory/families")"
    grep -q 'PROT_WRITE|PROT_EXEC\|mprotect(.*PROT_EXEC' "$directory/calls" &&
        wrong 'the daemon maps memory that it may both write and run'
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
