#!/bin/bash
# Builds the static, position-independent libunwind that libreprise.so hides inside itself, into build-deps/libunwind.
# Distributions ship a libunwind.a that does not link into a shared object, so theirs is built from their own source
# package, fetched with apt. The system's apt configuration is read, never changed: lists and downloads stay in a
# private folder. Needs no root. Output: one line on failure.
set -eu
cd "$(dirname "$0")/.."

target=$PWD/build-deps/libunwind

# The system's sources of packages as sources of source packages: one-line and deb822 files.
write_apt_sources() {
    local file
    mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    : > "$work/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] || continue
        sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file" >> "$work/apt/sources.list"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        sed 's/^Types:.*/Types: deb-src/' "$file" > "$work/apt/parts/$(basename "$file")"
    done
}

apt_private() {
    apt-get -q -o "Dir::Etc::SourceList=$work/apt/sources.list" -o "Dir::Etc::SourceParts=$work/apt/parts" \
        -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User= \
        -o Acquire::Retries=2 -o Acquire::Languages=none "$@"
}

fetch() {
    command -v apt-get && command -v dpkg-source || return 1
    write_apt_sources
    # Repositories without source packages fail here; what counts is whether libunwind is found afterwards.
    apt_private update || true
    (cd "$work" && apt_private source libunwind)
}

build() {
    cd "$work"/libunwind-*/
    [ -x configure ] || autoreconf -i
    ./configure --prefix="$work/out" --libdir="$work/out/lib" --disable-shared --enable-static --with-pic --disable-tests \
        --disable-minidebuginfo --disable-zlibdebuginfo --disable-documentation --disable-cxx-exceptions \
        CFLAGS="-O2 -fPIC -ftls-model=initial-exec"
    make -j"$(nproc)"
    make install
    rm "$work/out/include/unwind.h" # would hide the compiler's own
    mkdir -p "$target/lib"
    cp -r "$work/out/include" "$target/"
    cp "$work/out/lib/libunwind.a" "$target/lib/"
}

recipe=$(cat "$0" <("${CC:-cc}" -dumpmachine) | sha256sum)
if [ -e "$target/lib/libunwind.a" ] && [ "$(cat "$target/recipe" 2>/dev/null)" = "$recipe" ]; then
    exit 0
fi
# Not below this folder: configure refuses names with spaces.
work=$(mktemp -d "${TMPDIR:-/tmp}/reprise-libunwind-XXXXXX")
trap 'rm -rf "$work"' EXIT
rm -rf "$target"
log=build-deps/libunwind.log
echo "reprise: building libunwind from the distribution's source package (log: $log)"
# Each step in a shell of its own: `set -e` does not hold in a function whose result is tested.
export -f fetch build write_apt_sources apt_private
export work target
unset MAKEFLAGS MFLAGS MAKELEVEL # variables of our own make are not for libunwind's
if ! bash -euc fetch > "$log" 2>&1; then
    echo "reprise: no source package of libunwind (see $log); the library will look for libunwind.so.8 when it runs" >&2
    exit 1
fi
if ! bash -euc build >> "$log" 2>&1; then
    echo "reprise: libunwind does not build (see $log); the library will look for libunwind.so.8 when it runs" >&2
    rm -rf "$target"
    exit 1
fi
echo "$recipe" > "$target/recipe"
