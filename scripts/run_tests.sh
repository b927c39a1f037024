#!/bin/bash
# Runs test programs (cmocka) and *.bats files, each under a time limit, and counts their single tests.
# One line a program, the whole output of one that failed, a last line "N passed, N failed[, N skipped]".
# A program that dies, hangs, or runs fewer tests than it announced counts as a failure of its own. A tsan_* program
# announces none: it is one test.
set -u
cd "$(dirname "$0")/.." || exit

# What was exported for a run by hand is not meant for the tests.
unset "${!FAKE_@}" "${!REPRISE_@}"
limit=${TEST_TIMEOUT:-300}
export BUILD=${BUILD:-build} CMOCKA_MESSAGE_OUTPUT=TAP
# Programs that are not ours run with the library too: there the sanitizer is not first, and their leaks are theirs.
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
passed=0 failed=0 skipped=0

run_one() {
    local status
    case $1 in
    *.bats) timeout -k 10 "$limit" bats --tap "$1" ;;
    # Libraries that the stand-in loads by name: with a sanitizer the program's own search path is not looked at.
    *) ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=1 LD_LIBRARY_PATH=$BUILD/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        timeout -k 10 "$limit" "$1" ;;
    esac > "$output" 2>&1 < /dev/null
    status=$?
    case $(basename "$1") in
    tsan_*) printf '1..1\n%s 1 - %s\n' "$([ $status = 0 ] && echo ok || echo not ok)" "$(basename "$1")" >> "$output" ;;
    esac
    return $status
}

count() {
    grep -cE "$1" "$output"
}

for test in "$@"; do
    run_one "$test"
    status=$?
    skips=$(count '^(not )?ok .*# (skip|SKIP)')
    fails=$(($(count '^not ok ') - $(count '^not ok .*# (skip|SKIP)')))
    passes=$(($(count '^ok ') - $(count '^ok .*# (skip|SKIP)')))
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$output" | awk '{ sum += $1 } END { print sum + 0 }')
    ran=$((passes + fails + skips))
    note=
    if [ $status = 124 ] || [ $status = 137 ]; then
        note=" (stopped after $limit s)"
    elif [ "$planned" = 0 ] || [ $ran -lt "$planned" ] || { [ $status != 0 ] && [ $fails = 0 ]; }; then
        note=" (ended with status $status after $ran of $planned tests)"
    fi
    [ -n "$note" ] && fails=$((fails + 1))
    passed=$((passed + passes)) failed=$((failed + fails)) skipped=$((skipped + skips))
    printf '%-6s  %-28s %s passed' "$([ $fails = 0 ] && echo ok || echo FAILED)" "$(basename "$test")" "$passes"
    [ $fails = 0 ] || printf ', %s failed' "$fails"
    [ "$skips" = 0 ] || printf ', %s skipped' "$skips"
    printf '%s\n' "$note"
    grep -E '# (skip|SKIP)' "$output" | sed 's/^/        /'
    [ $fails = 0 ] || grep -v '^ok ' "$output" | sed 's/^/        | /'
done

printf '%s passed, %s failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %s skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ]
