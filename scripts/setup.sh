#!/bin/bash
# Brings what building and testing need, from the distribution's packages, and only what is missing: as root or
# through `sudo -n`; otherwise it says what to install. Linters are optional. Then builds the static libunwind. Needs
# no network when everything is there. Make runs it once.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build-deps
exec 9> build-deps/lock
flock 9

# what is looked for | Debian, Ubuntu | Fedora | openSUSE
required='
    tool:gcc            gcc             gcc             gcc
    tool:g++            g++             gcc-c++         gcc-c++
    header:stdio.h      libc6-dev       glibc-devel     glibc-devel
    tool:make           make            make            make
    tool:git            git             git             git
    header:uthash.h     uthash-dev      uthash-devel    uthash-devel
    header:xxhash.h     libxxhash-dev   xxhash-devel    xxhash-devel
    header:ini.h        libinih-dev     inih-devel      libinih-devel
    header:cmocka.h     libcmocka-dev   libcmocka-devel libcmocka-devel
    tool:bats           bats            bats            bats
    tool:pgrep          procps          procps-ng       procps'
optional='
    tool:clang-format   clang-format    clang-tools-extra   clang-tools
    tool:clang-tidy     clang-tidy      clang-tools-extra   clang-tools
    tool:cppcheck       cppcheck        cppcheck            cppcheck
    tool:shellcheck     shellcheck      ShellCheck          ShellCheck
    tool:python3        python3         python3             python3
    library:python3.*   libpython3-dev  python3-libs        libpython3
    library:jemalloc    libjemalloc2    jemalloc            libjemalloc2'
# Only where libunwind is built from source.
libunwind='
    tool:dpkg-source    dpkg-dev        -   -
    tool:xz             xz-utils        -   -'

there() {
    case $1 in
    tool:*) command -v "${1#tool:}" > /dev/null ;;
    header:*) echo "#include <${1#header:}>" | ${CC:-cc} -include stdarg.h -include stddef.h -include stdint.h \
        -include setjmp.h -E -x c - > /dev/null 2>&1 ;;
    library:*) compgen -G "/usr/lib*/lib${1#library:}.so.*" > /dev/null ||
        compgen -G "/usr/lib/*/lib${1#library:}.so.*" > /dev/null ;;
    esac
}

# The packages of the table $1 that are not there, for this distribution's column.
missing() {
    local thing names
    while read -r thing names; do
        [ -z "$thing" ] || there "$thing" || echo "$names"
    done <<< "$1" | awk -v column="$column" '$column != "-" { print $column }' | sort -u | tr '\n' ' '
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

apt_install() {
    as_root apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

can_install() {
    [ "$column" = 1 ] && { [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; }
}

# apt's lists are fetched only if they turn out too old or empty.
install_packages() {
    apt_install "$@" || { as_root apt-get update -q && apt_install "$@"; }
}

if command -v apt-get > /dev/null; then
    column=1 command="apt-get install"
elif command -v dnf > /dev/null; then
    column=2 command="dnf install"
else
    column=3 command="zypper install"
fi

wanted=$(missing "$required$optional$libunwind")
if [ -n "$wanted" ] && can_install; then
    echo "reprise: installing $wanted(log: build-deps/setup.log)"
    # shellcheck disable=SC2086 # a list of packages
    install_packages $wanted > build-deps/setup.log 2>&1 || true
fi
wanted=$(missing "$required")
if [ -n "$wanted" ]; then
    echo "reprise: missing for the build; as root: $command $wanted" >&2
    exit 1
fi
wanted=$(missing "$optional")
if [ -n "$wanted" ]; then
    echo "reprise: missing for some checks (the build goes on); as root: $command $wanted" >&2
fi

scripts/build_libunwind.sh || true
touch build-deps/setup.stamp
