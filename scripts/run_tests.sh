#!/bin/bash
# Runs test programs (cmocka) and *.bats files and counts their single tests: what run_test.sh says of each as it ends,
# then a last line "N passed, N failed[, N skipped]".
# As many run side by side as there are processors (TEST_JOBS), since most wait more than they work. A bats file with a
# line "# runs alone" looks at the whole machine: it runs when all others have ended.
set -u
cd "$(dirname "$0")/.." || exit

# What was exported for a run by hand is not meant for the tests.
unset "${!FAKE_@}" "${!REPRISE_@}"
export BUILD=${BUILD:-build} CMOCKA_MESSAGE_OUTPUT=TAP
# Programs that are not ours run with the library too: there the sanitizer is not first, and their leaks are theirs.
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1
COUNTS=$(mktemp)
export COUNTS
trap 'rm -f "$COUNTS"' EXIT

# run JOBS TEST...
run() {
    local jobs=$1
    shift
    printf '%s\0' "$@" | xargs -0 -r -n 1 -P "$jobs" scripts/run_test.sh
}

together=() alone=()
for test in "$@"; do
    if [[ $test == *.bats ]] && grep -q '^# runs alone$' "$test"; then
        alone+=("$test")
    else
        together+=("$test")
    fi
done
[ ${#together[@]} = 0 ] || run "${TEST_JOBS:-$(nproc)}" "${together[@]}"
[ ${#alone[@]} = 0 ] || run 1 "${alone[@]}"

read -r passed failed skipped ran < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0, NR }' "$COUNTS")
# Whatever befell run_test.sh itself.
failed=$((failed + $# - ran))
printf '%s passed, %s failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %s skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ]
