#!/bin/sh
# shellcheck disable=SC2015 # A && B || C: each A that succeeds leaves nothing for C
# debian/ agrees with the project: version, build dependencies, and the package of each program and
# manual. tools/package builds the packages and checks their contents.
set -u
cd "${srcdir:-.}" || exit 99
failures=0

wrong() {
    echo "$*"
    failures=$((failures + 1))
}

version=$(sed -n 's/^AC_INIT(\[runnel\], \[\(.*\)\])$/\1/p' configure.ac)
packaged=$(sed -n '1s/^runnel (\(.*\)-[^-]*) .*/\1/p' debian/changelog)
[ -n "$version" ] && [ "$version" = "$packaged" ] ||
    wrong "version '$version' in configure.ac, '$packaged' in debian/changelog"

# The Debian packages that configure mentions are build dependencies.
needed=$(sed -n 's/^RUNNEL_LIBRARY(.*, \[\([a-z0-9.+-]*\)\])$/\1/p' configure.ac)
[ "$(echo "$needed" | wc -l)" -ge 4 ] || wrong "too few libraries found in configure.ac: $needed"
built_with=$(sed -n '/^Build-Depends:/,/^[A-Z][a-z-]*Version/p' debian/control)
for library in $needed libsystemd-dev libcmocka-dev; do
    echo "$built_with" | grep -qE "[ ]$library( |,|\$)" ||
        wrong "debian/control does not build with $library"
done

# dpkg rejects files in which a package has a duplicate field.
twice=$(awk '/^$/ { split("", seen) } /^[A-Z][A-Za-z-]*:/ && seen[$1]++ { print FNR ": " $1 }' debian/control)
[ -z "$twice" ] || wrong "debian/control has a field twice: $twice"

# dpkg reads no file with other lines than fields, their continuation and comments.
other=$(grep -nvE '^([A-Z][A-Za-z-]*:|[ #]|$)' debian/control)
[ -z "$other" ] || wrong "debian/control has a line that is neither a field nor its continuation: $other"

# in_packages PATH: the number of packages with it. Install files have one pattern per line.
in_packages() {
    count=0
    for list in debian/*.install; do
        while read -r pattern; do
            # shellcheck disable=SC2254 # patterns
            case $1 in
            $pattern | $pattern/*) count=$((count + 1)) ;;
            esac
        done <"$list"
    done
    echo "$count"
}

programs=$(sed -n 's/^bin_[A-Z]* +*= //p' Makefile.am)
[ -n "$programs" ] || wrong 'no programs'
for program in $programs; do
    for file in "usr/bin/$program" "usr/share/bash-completion/completions/$program" \
        "usr/share/zsh/site-functions/_$program"; do
        [ "$(in_packages "$file")" = 1 ] || wrong "not in exactly one package: $file"
    done
done
manuals=$(grep -o 'docs/man/[a-z.-]*\.[1-8]' Makefile.am | sort -u)
[ -n "$manuals" ] || wrong 'no manuals'
for manual in $manuals; do
    file=usr/share/man/man${manual##*.}/${manual##*/}
    [ "$(in_packages "$file")" = 1 ] || wrong "not in exactly one package: $file"
done

# The library has a package for programs that use it, and one for their development.
soname=$(sed -n 's/^RUNNEL_SONAME = //p' Makefile.am)
for file in usr/include/runnel.h usr/lib/x/librunnel.so usr/lib/x/librunnel.a \
    usr/lib/x/pkgconfig/runnel.pc "usr/lib/x/$soname" "usr/lib/x/$soname.0.0"; do
    [ "$(in_packages "$file")" = 1 ] || wrong "not in exactly one package: $file"
done
grep -q "^$soname librunnel${soname##*.} " "debian/librunnel${soname##*.}.symbols" ||
    wrong "debian has no symbols of $soname"

# The Python package and its dependencies.
grep -qx 'streams/python/runnel usr/lib/python3/dist-packages' debian/python3-runnel.install ||
    wrong 'debian does not install streams/python/runnel'
needed=$(sed -n 's/^dependencies = \[\(.*\)\]$/\1/p' streams/python/pyproject.toml)
[ "$needed" = '"numpy>=1.21", "pyzmq>=22"' ] || wrong "debian/control knows other dependencies than $needed"
sed -n '/^Package: python3-runnel$/,/^$/p' debian/control | grep -q 'python3-numpy, python3-zmq' ||
    wrong 'python3-runnel does not depend on python3-numpy and python3-zmq'

# shellcheck disable=SC2044 # names without blanks
for file in $(find debian -type f); do
    [ "$(git ls-files -- "$file" 2>/dev/null)" = "$file" ] || [ ! -e .git ] || continue
    grep -qF "$file" Makefile.am || wrong "not in Makefile.am: $file"
done
for script in debian/*.postinst debian/*.prerm debian/*.postrm tools/package; do
    sh -n "$script" || wrong "$script: invalid shell script"
    grep -qE '^#DEBHELPER#$|^source=' "$script" || wrong "$script: missing #DEBHELPER#"
done
[ -x debian/rules ] || wrong 'debian/rules cannot be run'

# The licence is the project's.
words() {
    sed 's/^ \.$//' "$1" | tr -s ' ' '\n' | sed '/^$/d'
}
words LICENSE | sed -n '/^Permission$/,$p' >"${TMPDIR:-/tmp}/licence.$$"
words debian/copyright | sed -n '/^Permission$/,$p' | cmp -s - "${TMPDIR:-/tmp}/licence.$$" ||
    wrong 'debian/copyright and LICENSE differ'
rm -f "${TMPDIR:-/tmp}/licence.$$"

echo "$failures failures"
[ "$failures" -eq 0 ]
