#!/bin/bash
# What the built library shows and asks for: exactly the symbols of shim/symbols.def, only libc, no glibc newer than
# 2.34, no text relocations, no executable stack. Builds under a sanitizer are not checked: they need its runtime.
set -u
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
library=$build/libreprise.so
newest_glibc=2.34
failed=0

fail() {
    echo "exports: $*" >&2
    failed=1
}

wanted=$(sed -n 's/^    \([A-Za-z0-9_]*\);$/\1/p' "$build/exports.map" | LC_ALL=C sort)
shown=$(nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort)
[ -n "$shown" ] || fail "$library cannot be read"
differences=$(diff <(echo "$wanted") <(echo "$shown") | grep '^[<>]')
[ -z "$differences" ] || fail "listed (<) and exported (>) symbols differ:"$'\n'"$differences"

needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|ld-linux.*)$')
[ -z "$needed" ] || fail "depends on more than libc:" "$needed"

glibc=$(readelf -VW "$library" | grep -o 'GLIBC_2\.[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
[ "$(printf '%s\n' "$glibc" "$newest_glibc" | sort -V | tail -1)" = "$newest_glibc" ] ||
    fail "needs glibc $glibc; $newest_glibc is the newest allowed (build on an older distribution, or avoid:" \
        "$(nm -D "$library" | grep "GLIBC_$glibc" | awk '{ print $NF }' | tr '\n' ' '))"

readelf -dW "$library" | grep -q TEXTREL && fail "has text relocations"
readelf -lW "$library" | grep GNU_STACK | grep -q RWE && fail "asks for an executable stack"
exit $failed
