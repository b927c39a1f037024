#!/usr/bin/env bats
# Replay under attack: communicators, groups and processes with unusual lives, on the stand-in. The programs check every
# byte that they are delivered, and what each call returns is what it returns without the library.
#
# Collectives take a millisecond of real time: replay gives up where it is not faster than the plain run.

load place

setup() {
    place
}

# behind PROGRAM CASE: all is well for the program behind the library.
behind() {
    FAKE_REALTIME=1 FAKE_LINK_LATENCY_US=1000 LD_PRELOAD="$PWD/libreprise.so" REPRISE_MODE=replay \
        REPRISE_TRACE="$PWD/trace" REPRISE_LOG=info timeout 60 "$BUILD/tests/$1" "$2" > run.out 2> run.err || {
        cat run.err
        return 1
    }
}

# replayed PROGRAM CASE: as alone.
replayed() {
    timeout 60 "$BUILD/tests/$1" "$2" > plain.out
    behind "$@"
    diff plain.out run.out
}

# At least so many gathers came from memory, as the line at the exit says.
hits_at_least() {
    cat run.err
    hits=$(sed -n 's/^reprise: \[rank 0\] info replay: rank 0: \([0-9]*\) hits.*/\1/p' run.err)
    [ "$hits" -ge "$1" ]
}

served() {
    replayed "$@"
    hits_at_least 4
}

# ---------------------------------------------------------------- groups

@test "several gathers in a group" { served replay_groups several; }
@test "gathers, sends and receives in a group" { served replay_groups send-receive; }
@test "groups inside groups" { served replay_groups nested; }
@test "a reduction of the user's that is destroyed inside the group" { replayed replay_groups user-reductions; }
@test "a group that goes on in the background delivers later, and is not kept before" { served replay_groups background; }
@test "a group with a wrong call: each call returns what it would alone" { replayed replay_groups errors; }

too_early() {
    rm -rf trace
    passed=yes
    behind replay_groups strict || passed=no
}
@test "strict: a group with a call that comes too early fails" {
    export REPRISE_STRICT=1
    uninterrupted run.err too_early
    [ "$passed" = yes ]
}
@test "groups that are simulated" { served replay_groups simulated; }
@test "a thread that ends inside a group" { served replay_groups thread-ends; }
@test "groups over several streams and communicators" { served replay_groups spread; }

# ---------------------------------------------------------------- communicators

@test "communicators made and ended twenty times" { served replay_life remade; }
@test "communicators of different sizes over the same ranks, on two threads" { served replay_life two-sizes; }
@test "split, revoked, shrunk" { served replay_life children; }
@test "aborted by another thread while a call waits for a vote" { served replay_life aborted; }
@test "a thread that is cancelled while its call waits for a vote" { served replay_life cancelled; }

# ---------------------------------------------------------------- processes

@test "a rank that is stopped for a while" { served replay_life stopped; }
@test "communicators that are not destroyed" { served replay_life not-destroyed; }
@test "exit() while another thread is inside a call" { served replay_life exit-at-work; }
@test "children that exit, run another program, or that no fork handler knows of: one line at the end" {
    served replay_life forked
    [ "$(grep -c 'rank 0: .* hits' run.err)" = 1 ]
}
@test "a child of a fork that trains itself" { replayed replay_life fork-trains; }
@test "few descriptors" { served replay_life few-files; }
@test "no memory may be locked" { replayed replay_life no-locked-memory; }

# ---------------------------------------------------------------- data

@test "odd sizes at odd addresses, gathers of nothing between" { served replay_data unaligned; }
@test "a gather that sends what the one before delivered" { served replay_data chained; }
@test "a shard that another stream writes right behind the call" { served replay_data rewritten; }
@test "a stream made anew for each step, and the default ones" { served replay_data streams; }
@test "gathers captured into a graph" { served replay_data captured; }
# Room for three of the four units as they are, for all four packed.
@test "bfloat16 where memory is short: kept packed" {
    FAKE_GRANULE_KB=4 REPRISE_BUDGET=370K served replay_data halves
    "$BUILD/reprise" show trace --plan | grep -q 'kept in 4 slots, .*, packed$'
    rm -r trace
    FAKE_GRANULE_KB=4 REPRISE_BUDGET=370K REPRISE_PACK=0 served replay_data halves
    "$BUILD/reprise" show trace --plan | grep -q 'kept in 3 slots, [^,]*$'
}

@test "bfloat16 that has no packed form: kept as it is from then on" {
    FAKE_GRANULE_KB=4 REPRISE_BUDGET=250K REPRISE_TRIAL=0 served replay_data halves-of-any-bits
    "$BUILD/reprise" show trace --plan > plan
    grep -q 'kept in 4 slots, .*, packed$' plan
    grep -q 'resting: bytes that were to be packed did not fit$' plan
    [ "$(sed -n '/armed: /p' plan | tail -1 | grep -c 'kept in 3 slots, [^,]*$')" = 1 ]
}

@test "another thread takes all memory of the device, again and again" {
    FAKE_MEMORY_MB=40 REPRISE_BUDGET=16M served replay_data starved
}
@test "no memory where gathers would be kept for the first time" {
    FAKE_MEMORY_MB=40 REPRISE_BUDGET=16M replayed replay_data none-left
}
