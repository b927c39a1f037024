#!/bin/bash
# Everything that can be judged without running: formatting, static analysis, layers, exports, documents. One line a
# check, what it found below, then "N passed, N failed". LINT_FLAGS are the compiler's flags (from the Makefile).
set -u
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
passed=0 failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
read -ra flags <<< "${LINT_FLAGS:-}"

# tracked PATTERN...: also what is not committed yet, but nothing that git ignores or that was removed.
tracked() {
    git ls-files -co --exclude-standard "$@" | while read -r file; do
        [ ! -e "$file" ] || echo "$file"
    done
}

mapfile -t sources < <(tracked '*.c')
mapfile -t c_files < <(tracked '*.[ch]' '*.cu' '*.cuh')
mapfile -t scripts < <(tracked '*.sh' .ci/run)
mapfile -t bats < <(tracked '*.bats' '*.bash')

formatting() {
    clang-format --dry-run -Werror "${c_files[@]}"
}

# The analyzer follows fewer paths through a function of a test than through one of the product, where it stops at 225,000
# nodes of its graph: tests took half of its time, and they run under the sanitizers themselves.
tidy() {
    local status=0 less=(-Xclang -analyzer-config -Xclang max-nodes=20000)
    mapfile -t product < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')
    mapfile -t tests < <(printf '%s\n' "${sources[@]}" | grep '^tests/')
    tidy_each "${product[@]}" || status=1
    tidy_each "${less[@]/#/--extra-arg=}" "${tests[@]}" || status=1
    return $status
}

# tidy_each [--OPTION...] FILE...: as many at a time as there are processors.
tidy_each() {
    local options=()
    while [[ $1 == --* ]]; do
        options+=("$1")
        shift
    done
    printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I{} clang-tidy --quiet "${options[@]}" {} -- "${flags[@]}" \
        2> >(grep -v 'warnings\? generated' >&2)
}

# Not what needs ownership followed through structs or calls: the sanitizers do that.
second_opinion() {
    local off=(missingIncludeSystem preprocessorErrorDirective unknownMacro memleak ctuuninitvar)
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
        "${off[@]/#/--suppress=}" -I. core config shim
}

shell_scripts() {
    shellcheck "${scripts[@]}" && shellcheck -s bats -e SC2030,SC2031 "${bats[@]}"
}

# A test goes on behind a false `A` of `A && B`, unless that is its last line: each assertion has a line of its own.
assertions() {
    awk '/^[[:space:]]*(#|$)/ { next }
        held != "" && !/^[[:space:]]*}/ { print held; found = 1 }
        { held = "" }
        /^[[:space:]]+(\[.* \]|(cmp|diff|grep|has) .*) && / && !/ \|\| / && !/ && (break|continue|return)/ {
            held = FILENAME ":" FNR ": " $0
        }
        END { exit found }' "${bats[@]}"
}

# README's table is the one that the options print.
options_table() {
    local printed
    printed=$("$build/reprise" help --markdown | grep '^| `REPRISE_') &&
        diff <(echo "$printed") <(grep '^| `REPRISE_' README.md)
}

unfinished() {
    ! git grep -nwE "TO""DO|FIX""ME|X""XX|HA""CK" -- .
}

check() {
    if "$1" > "$output" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2"
        sed 's/^/        | /' "$output"
    fi
}

check formatting "clang-format"
check tidy "clang-tidy"
check second_opinion "cppcheck"
check shell_scripts "shellcheck"
check assertions "assertions on a line of their own"
check scripts/check_layers.sh "layers"
check scripts/check_exports.sh "exports"
check options_table "README's table of options"
check unfinished "nothing marked unfinished"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
