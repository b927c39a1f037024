#!/usr/bin/env bats
# Random programs on the stand-in: the two oracles can fail, and they do not, whatever stands between program and NCCL.

setup() {
    BUILD=$(cd "$BATS_TEST_DIRNAME/../.." && cd "${BUILD:-build}" && pwd)
    unset RANK WORLD_SIZE LOCAL_RANK LD_PRELOAD "${!REPRISE_@}" "${!FAKE_@}"
    export TMPDIR=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR" || return 1
    # A sanitizer makes a program several times slower.
    sanitized=
    if nm -D "$BUILD/chaos_run" | grep -qE '__(asan|tsan)_init'; then sanitized=1; fi
}

# programs MANY FEW OPTION...: so many of them, or a few under a sanitizer.
programs() {
    local count=$1
    if [ -n "$sanitized" ]; then count=$2; fi
    shift 2
    "$BUILD/chaos_run" --programs "$count" "$@"
}

@test "a flipped bit that a program was not told of is reported, in every program" {
    run programs 30 10 --mode plain --untold
    [ "$status" = 1 ]
    grep -E '^chaos: ([0-9]+) programs, .*; ([0-9]+) wrong, 0 hangs, 0 failed$' <<< "$output" > last
    [ "$(sed -E 's/^chaos: ([0-9]+) .*/\1/' last)" = "$(sed -E 's/.*; ([0-9]+) wrong.*/\1/' last)" ]
    [[ $output == *"all-gather of unit"*"byte"*"part of rank 0"* ]]
    [[ $output == *"again: $BUILD/chaos_run --mode plain"*"--seed 1 "* ]]
}

@test "a rank that stops is a hang, in every program" {
    run "$BUILD/chaos_run" --programs 4 --jobs 4 --bound 2 --mode plain --stopped
    [ "$status" = 1 ]
    [[ $output == *"; 0 wrong, 4 hangs, 0 failed"* ]]
}

@test "alone: every byte is right and every program ends" {
    programs 100 20 --mode plain
}

@test "behind the library, off" {
    programs 100 20 --mode off
}

@test "behind the library, recording" {
    programs 200 30 --mode record
}

@test "behind the library, replaying: 1,000 programs, every feature among them" {
    if [ -n "$sanitized" ]; then
        programs 1000 100 --seed 1001
    else
        programs 1000 100 --seed 1001 --covering
    fi
}
