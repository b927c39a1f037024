#!/usr/bin/env bats
# The hooks on the stand-in: every interposed function returns what the real one returns, in every mode, and the trace
# has exactly the ops that were issued; processes and communicators with unusual lives; two vendors in one process.

load place

setup() {
    place
    export REPRISE_TRACE=$PWD/trace REPRISE_LOG=warn
}

# with MODE COMMAND...: behind the library.
with() {
    local mode=$1
    shift
    env LD_PRELOAD="$PWD/libreprise.so" REPRISE_MODE="$mode" "$@"
}

# The same output, on both channels, and success, alone and in every mode. Of replay errors alone are heard: it says why
# communicators of one process are not replayed.
same_in_every_mode() {
    local mode variables
    "$@" > plain.out 2> plain.err
    for mode in off record replay; do
        variables=()
        [ $mode != replay ] || variables=(REPRISE_TRACE="$PWD/trace.replay" REPRISE_LOG=error)
        with $mode "${variables[@]}" "$@" > $mode.out 2> $mode.err
        diff plain.out $mode.out
        diff plain.err $mode.err
    done
}

# Ops of the trace: position, kind, bytes, type, reduction, root, communicator, group, flags, launches, whether it has
# a fingerprint.
ops() {
    "$BUILD/reprise" show --csv --step all "$@" trace |
        awk -F, -v OFS=, 'NR > 1 { print $4, $7, $8, $9, $10, $11, $12, $15, $16, $19, $22 != "" }'
}

@test "every interposed function: the same results and bytes in every mode" {
    same_in_every_mode "$BUILD/tests/hooks_all"
}

@test "no interposed function is left out of that" {
    "$BUILD/tests/hooks_all" > plain.out
    grep -oE '^[A-Za-z_0-9]+( =|$)' plain.out | tr -d ' =' | grep -v '^cudaGetLastError$' | LC_ALL=C sort -u > called
    sed -n 's/^ *\([A-Za-z_0-9]*\);$/\1/p' "$BUILD/exports.map" | grep -v '^InitializeInjection' | LC_ALL=C sort \
        > interposed
    [ -s interposed ]
    diff interposed called
}

@test "every interposed function: the trace has these ops and no other" {
    with record "$BUILD/tests/hooks_all" > /dev/null
    ops --all-ops > seen
    # Launches: those of all names, and one that failed; one without a configuration says nothing to record.
    diff - seen << 'END'
,malloc,512,uint8,-,,,0,0x0,0,0
,malloc,512,uint8,-,,,0,0x0,0,0
,malloc,512,uint8,-,,,0,0x0,0,0
,malloc,512,uint8,-,,,0,0x0,0,0
,graph-launch,0,uint8,-,,,0,0x0,0,0
,graph-launch,0,uint8,-,,,0,0x0,0,0
,graph-launch,0,uint8,-,,,0,0x8,0,0
,malloc,1000,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1001,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1002,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,200,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,6000,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1003,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1004,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1005,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1006,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,1000,uint8,-,,,0,0x8,0,0
,malloc,9223372036854775807,uint8,-,,,0,0x8,0,0
,free,0,uint8,-,,,0,0x8,0,0
,malloc,0,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,0,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,0,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
,malloc,0,uint8,-,,,0,0x8,0,0
0,all-gather,256,int32,-,,0,1,0x22,0,1
0,all-gather,256,int32,-,,1,1,0x22,0,1
1,reduce-scatter,256,int32,sum,,0,2,0x22,0,1
1,reduce-scatter,256,int32,sum,,1,2,0x22,0,1
2,reduce-scatter,256,int32,max,,0,3,0x23,0,1
2,reduce-scatter,256,int32,max,,1,3,0x23,0,1
3,all-reduce,256,int32,min,,0,4,0x22,0,1
3,all-reduce,256,int32,min,,1,4,0x22,0,1
4,broadcast,256,int32,-,1,0,5,0x2,0,0
4,broadcast,256,int32,-,1,1,5,0x2,0,0
5,broadcast,256,int32,-,0,0,6,0x3,0,0
5,broadcast,256,int32,-,0,1,6,0x3,0,0
6,reduce,256,int32,prod,1,0,7,0x2,0,0
6,reduce,256,int32,prod,1,1,7,0x2,0,0
7,all-to-all,256,int32,-,,0,8,0x2,0,0
7,all-to-all,256,int32,-,,1,8,0x2,0,0
8,gather,256,int32,-,0,0,9,0x2,0,0
8,gather,256,int32,-,0,1,9,0x2,0,0
9,scatter,256,int32,-,1,0,10,0x2,0,0
9,scatter,256,int32,-,1,1,10,0x2,0,0
,all-reduce,0,int32,sum,,0,11,0x2,0,0
,all-reduce,0,int32,sum,,1,11,0x2,0,0
,send,256,int32,-,1,0,12,0x2,0,0
,recv,256,int32,-,0,1,12,0x2,9,0
,all-gather,256,int32,-,,0,13,0x12,0,0
,all-gather,256,int32,-,,1,13,0x12,0,0
10,all-reduce,4,int32,sum,,0,14,0x22,0,1
10,all-reduce,4,int32,sum,,1,14,0x22,0,1
,all-gather,256,int32,-,,,0,0x8,0,0
,all-gather,256,int32,-,,0,0,0x8,0,0
,all-reduce,64,?,sum,,0,0,0x8,0,0
,all-reduce,18446744073709551612,int32,sum,,0,0,0x8,0,0
,broadcast,256,int32,-,7,0,0,0x8,0,0
,send,256,int32,-,,0,0,0x8,0,0
,all-reduce,256,int32,sum,,0,15,0xa,0,0
,reduce,256,int32,sum,9,1,15,0xa,0,0
,malloc,65536,uint8,-,,,0,0x0,0,0
,free,0,uint8,-,,,0,0x0,0,0
END
}

@test "ncclCommInitAll in a group is complete at the group's end" {
    same_in_every_mode "$BUILD/tests/hooks_life" all-in-group
    ops > seen
    [ "$(grep -c ',1$' seen)" = 6 ]
}

@test "ncclCommInitAll: a second run is another job, and leaves the first one's trace alone" {
    with record "$BUILD/tests/hooks_life" all-in-group
    find trace -type f -exec sha256sum {} + | sort > before
    with record "$BUILD/tests/hooks_life" all-in-group 2> second.err
    grep -q 'exists' second.err
    find trace -type f -exec sha256sum {} + | sort | diff before -
}

@test "nonblocking: what a reduction delivers is not read before it is there" {
    same_in_every_mode "$BUILD/tests/hooks_life" nonblocking
    ops > seen
    [ "$(grep -c "all-gather.*,1$" seen)" = 2 ]
    [ "$(grep -c "reduce.*,0$" seen)" = 4 ]
}

@test "many threads enter the first hook at once: every communicator is known" {
    same_in_every_mode "$BUILD/tests/hooks_life" first-together
    ops | cut -d, -f7 | sort -n | tr '\n' ' ' > seen
    [ "$(cat seen)" = "0 1 2 3 4 5 6 7 " ]
}

@test "a child that no fork handler knows of ends as it would" {
    same_in_every_mode "$BUILD/tests/hooks_life" silent-fork
    [ "$(ops | wc -l)" = 12 ]
}

@test "the process ends while threads are in hooks, and calls some more" {
    same_in_every_mode "$BUILD/tests/hooks_life" exit-in-use
    [ "$(ops | wc -l)" = 6 ]
}

# large CASE FINGERPRINT: the flags of its two ops, recorded so into CASE.FINGERPRINT.
large() {
    with record REPRISE_FINGERPRINT="$2" REPRISE_TRACE="$PWD/$1.$2" "$BUILD/tests/hooks_life" "$1" 2>&1 &&
        "$BUILD/reprise" show --csv --step all "$1.$2" | awk -F, 'NR > 1 { print $16, ($22 != "") }'
}

@test "fingerprints: of large buffers a sample, all of them, or none" {
    [ "$(large large sample)" = "0x421 1
0x21 1" ]
    [ "$(large large full)" = "0x21 1
0x21 1" ]
    [ "$(large large off)" = "0x1 0
0x1 0" ]
    "$BUILD/reprise" show large.off > shown
    grep -q '^states: .*no fingerprints for this communicator' shown
    with replay REPRISE_FINGERPRINT=off REPRISE_TRACE="$PWD/replayed" REPRISE_LOG=error "$BUILD/tests/hooks_life" large
    "$BUILD/reprise" show replayed > shown
    [ "$(grep -c 'no fingerprints for' shown)" = 0 ]
}

@test "fingerprints: what a sample does not read is no difference, all of it is" {
    large large sample
    large large-other sample
    large large full
    large large-other full
    "$BUILD/reprise" show --csv --step all large.sample | cut -d, -f22 > one
    "$BUILD/reprise" show --csv --step all large-other.sample | cut -d, -f22 > other
    [ "$(sed -n 2p one)" = "$(sed -n 2p other)" ]
    [ "$(sed -n 3p one)" != "$(sed -n 3p other)" ]
    "$BUILD/reprise" diff large.full large-other.full > out || true
    grep -A1 '^first difference of bytes' out | grep -q 'step 1, .*, rank 0: other bytes (communicator 0, position 0)'
    "$BUILD/reprise" diff large.sample large.full > out
    grep -qx 'same: 1 rank, 2 ops, bytes compared for 1 of 2 .*; 1 not comparable: one run hashed all bytes, .*' out
}

@test "two CUDA runtimes and two NCCLs, loaded, unloaded and loaded again: each plugin reaches its own" {
    unset LD_LIBRARY_PATH
    REPRISE_LOG=error same_in_every_mode "$BUILD/tests/hooks_two" "$BUILD"/tests/libhooks_plugin{1,2}.so
}
