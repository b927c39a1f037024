#!/bin/bash
# Runs one test program (cmocka) or *.bats file for run_tests.sh, under a time limit: prints one line, and the whole
# output if it failed; adds a line "passed failed skipped" to the file $COUNTS.
# A program that dies, hangs, or runs fewer tests than it announced counts as a failure of its own. A tsan_* program
# announces none: it is one test.
set -u

test=$1
name=$(basename "$test")
limit=${TEST_TIMEOUT:-300}
output=$(mktemp)
trap 'rm -f "$output"' EXIT

run() {
    local status
    case $test in
    *.bats) timeout -k 10 "$limit" bats --tap "$test" ;;
    # Libraries that the stand-in loads by name: with a sanitizer the program's own search path is not looked at.
    *) ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=1 LD_LIBRARY_PATH=$BUILD/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        timeout -k 10 "$limit" "$test" ;;
    esac > "$output" 2>&1 < /dev/null
    status=$?
    case $name in
    tsan_*) printf '1..1\n%s 1 - %s\n' "$([ $status = 0 ] && echo ok || echo not ok)" "$name" >> "$output" ;;
    esac
    return $status
}

count() {
    grep -cE "$1" "$output"
}

say() {
    printf '%-6s  %-28s %s passed' "$([ $fails = 0 ] && echo ok || echo FAILED)" "$name" "$passes"
    [ $fails = 0 ] || printf ', %s failed' "$fails"
    [ "$skips" = 0 ] || printf ', %s skipped' "$skips"
    printf ' in %s s%s\n' "$SECONDS" "$note"
    grep -E '# (skip|SKIP)' "$output" | sed 's/^/        /'
    [ $fails = 0 ] || grep -v '^ok ' "$output" | sed 's/^/        | /'
}

run
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

# One speaks at a time.
exec 9>> "$COUNTS"
flock 9
say
echo "$passes $fails $skips" >&9
