#!/usr/bin/env bats
# Replay, end to end: minitrain on the stand-in behind the library. Whatever happens, every delivered byte, the losses
# and the exit code are those of the program alone; gathers that repeat come from memory, on all ranks alike.
#
# Replay gives up where it is not faster than the plain run, by real time: here every collective takes a millisecond of
# it, so that one that is not made shows.

load place
load sources

setup() {
    place
    train=("$BUILD/minitrain" --timeout 60 --steps 12 --checksums)
}

# For what is done to a program that is served: so late that it is, also on a busy machine, and stays so.
LATE=20
long() {
    export REPRISE_TRIAL=0
    train+=(--steps $((LATE + 4)))
}

# ---------------------------------------------------------------- running

# replay NAME COMMAND...: the same behind the library; the trace goes to NAME.trace.
replay() {
    local name=$1
    shift
    result "$name" slow "$BUILD/reprise" run --replay "$name.trace" -- "$@"
}

same() {
    cmp "$1.out" "$2.out" && diff "$1.err" "$2.err" && diff "$1.status" "$2.status"
}

# ---------------------------------------------------------------- what a trace says

# alike TRACE RANKS: no rank served a gather while another did the plain thing. Names are local, and so is why it did.
alike() {
    local rank
    for ((rank = 0; rank < $2; rank++)); do
        sources "$1" $rank | awk '{ print $1, $2, $NF == "memory" ? "served" : "plain" }' | sort -n -k1,1 -k2,2 > "$1.$rank"
        [ -s "$1.$rank" ]
        diff "$1.0" "$1.$rank"
    done
}

became() {
    "$BUILD/reprise" show "$1" --plan
}
# Before its end.
passive() {
    became "$1" | grep '  passive: ' | grep -qv 'the communicator ends'
}

# The lines NAME.lines say once that, and why, a communicator is not replayed.
said_once() {
    [ "$(grep -cE '^reprise: \[rank [0-9]+\] warn replay: .*not replayed: .' "$1.lines")" = 1 ]
}

# ---------------------------------------------------------------- checks of a run

# served NAME RANKS ARGUMENTS...: behind the library the run delivers the same, and gathers come from memory.
served() {
    local name=$1 ranks=$2
    shift 2
    result "$name.plain" "${train[@]}" --ranks "$ranks" "$@"
    replay "$name" "${train[@]}" --ranks "$ranks" "$@"
    same "$name.plain" "$name"
    [ "$(cat "$name.status")" = 0 ]
    alike "$name.trace" "$ranks"
    [ "$(count "$name.trace" 0 memory)" -gt 0 ]
}

# not_served NAME RANKS ARGUMENTS...: it delivers the same, nothing comes from memory, and one line says so.
not_served() {
    local name=$1 ranks=$2
    shift 2
    result "$name.plain" "${train[@]}" --ranks "$ranks" "$@"
    replay "$name" "${train[@]}" --ranks "$ranks" "$@"
    cat "$name.lines"
    same "$name.plain" "$name"
    [ "$(count "$name.trace" 0 memory)" = 0 ]
    said_once "$name"
}

# The same on two and on four ranks, at the same time; only on four under a sanitizer.
served_everywhere() {
    if sanitized; then
        served four 4 "$@"
        return
    fi
    served two 2 "$@" > two.log 2>&1 &
    local two=$!
    served four 4 "$@" > four.log 2>&1 &
    local four=$! failed=
    wait $two || failed+=" two"
    wait $four || failed+=" four"
    if [ -n "$failed" ]; then
        tail -n 40 two.log four.log ./*.lines
        echo "failed:$failed"
        return 1
    fi
}

# ---------------------------------------------------------------- every option alone

@test "no option" { served_everywhere; }
@test "gathers from a persistent shard" { served_everywhere --gather=persistent; }
@test "recompute as FSDP2" { served_everywhere --recompute=fsdp2; }
@test "recompute as FSDP1" { served_everywhere --recompute=fsdp1; }
@test "a shared block" { served_everywhere --shared-block; }
@test "an evaluation after every step" { served_everywhere --eval-every 1 --steps 24; }
@test "an evaluation after every second step" { served_everywhere --eval-every 2 --steps 32; }
@test "a skipped layer" { served_everywhere --skip-layer 10 --steps 14; }
@test "logging" { served_everywhere --log-every 3; }
@test "sends and receives on the gathers' communicator" { served_everywhere --sendrecv; }
@test "groups" { served_everywhere --group; }
@test "reductions on another communicator" { served_everywhere --two-comms; }
@test "backward on a second thread" { served_everywhere --threads; }
@test "the legacy default stream" { served_everywhere --default-stream; }
@test "no NVTX ranges" { served_everywhere --sites=off; }
@test "a rank that lags" { served_everywhere --lag 1:1000; }
@test "another learning rate, seed and size" { served_everywhere --lr 0.5 --seed 7 --dim 30 --tokens 3 --layers 3 --microbatches 3; }
@test "one microbatch" { served_everywhere --microbatches 1 --steps 16; }
@test "a host that runs two steps ahead of the device" {
    # Checksums make the host wait for each step. Without them its first vote waits for all that is queued.
    train=("$BUILD/minitrain" --timeout 60 --steps 20)
    served_everywhere
}
@test "forks" { served_everywhere --fork-every 1; }

# ---------------------------------------------------------------- in pairs

@test "groups from persistent shards, reductions elsewhere" { served_everywhere --group --gather=persistent --two-comms; }
@test "a shared block, recomputed as FSDP1, logged" { served_everywhere --shared-block --recompute=fsdp1 --log-every 2; }
@test "sends and receives beside groups, on two threads" { served_everywhere --sendrecv --group --threads; }
@test "a skipped layer and an edit, evaluations between" {
    served_everywhere --skip-layer 16 --edit-weights 19 --eval-every 1 --steps 24
}
@test "three ranks, odd sizes" { served three 3 --dim 7 --tokens 1 --layers 1 --gather=persistent --default-stream; }

# ---------------------------------------------------------------- bytes that change

# Gathers of layers.0 after the edit: what the edit makes wrong is repaired, and the repaired bytes serve again.
@test "edited weights are repaired, on all ranks or one" {
    long
    for rank in -1 1; do
        served "edit$rank" 2 --edit-weights $LATE --edit-rank $rank
        [ "$(count "edit$rank.trace" 0 repaired)" -gt 0 ]
        sources "edit$rank.trace" 0 | awk '/repaired$/ { repaired = 1; module = $3 } /memory$/ && repaired { after[$3]++ }
            END { print module; exit !(module == "layers.0" && after[module] > 0) }'
    done
    served four 4 --edit-weights $LATE --edit-rank 2
    [ "$(count four.trace 0 repaired)" -gt 0 ]
}

@test "a learning rate of 0 in the first steps makes no false unit" {
    served_everywhere --zero-lr-steps 6 --steps 20
    # Also not after it: an edit, and equal bytes before it.
    served both 2 --zero-lr-steps 6 --edit-weights 16 --steps 20
}

@test "a learning rate of 0 throughout: everything repeats" {
    served_everywhere --zero-lr-steps 28 --steps 28
}

# ---------------------------------------------------------------- ranks that wait for one another elsewhere

# withdraws NAME RANKS ARGUMENTS...: no hang, the same bytes; after three withdrawals the lane is passive.
withdraws() {
    local name=$1 ranks=$2
    shift 2
    result "$name.plain" "${train[@]}" --ranks "$ranks" --steps 40 "$@"
    replay "$name" "${train[@]}" --ranks "$ranks" --steps 40 "$@"
    same "$name.plain" "$name"
    alike "$name.trace" "$ranks"
    [ "$(count "$name.trace" 0 withdrawn)" = 3 ]
    passive "$name.trace"
    # Passive means so: the last steps are plain.
    sources "$name.trace" 0 | tail -n 20 > "$name.last"
    [ "$(grep -c ' network$' "$name.last")" = 20 ]
}

@test "a rank that waits on the host for another's gather" {
    withdraws two 2 --host-wait &
    withdraws four 4 --host-wait
    wait $!
}

@test "a receive before a gather that its peer answers after it" {
    withdraws two 2 --recv-first &
    withdraws four 4 --recv-first --threads
    wait $!
}

@test "a rank that lags more than the bound" {
    REPRISE_TIMEOUT=3ms withdraws two 2 --lag 1:8000
}

# ---------------------------------------------------------------- ranks that are not alike

# by_rank NAME VARIABLES...: two ranks started by hand, so that they may differ: rank 0 and then rank 1 get these
# variables; "-" for none, "plain" for no library.
by_rank() {
    local name=$1 rank pids=() failed=0
    shift
    for rank in 0 1; do
        local variables=(REPRISE_MODE=replay REPRISE_TRACE="$PWD/$name.trace" LD_PRELOAD="$PWD/libreprise.so")
        case $1 in
        plain) variables=(NOTHING=1) ;;
        -) ;;
        *) variables+=("$1") ;;
        esac
        slow "${variables[@]}" MINITRAIN_ID_FILE="$PWD/$name.id" WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank "${train[@]}" &
        pids+=($!)
        shift
    done
    wait "${pids[0]}" || failed=$?
    wait "${pids[1]}" || failed=$?
    return $failed
}

# unlike VARIABLES...: the run is as without us, nobody serves, and one line says why: of rank 0, which speaks for the job.
unlike() {
    result plain "${train[@]}"
    result with by_rank with "$@"
    cat with.all
    same plain with
    for rank in 0 1; do
        [ ! -e with.trace/rank-$rank.rpt ] || [ "$(count with.trace $rank memory)" = 0 ]
    done
    [ "$1" = plain ] || said_once with
}

@test "by hand: alike ranks are served" {
    result plain "${train[@]}"
    result with by_rank with - -
    same plain with
    alike with.trace 2
    [ "$(count with.trace 0 memory)" -gt 0 ]
}

@test "a rank without the library" {
    unlike - plain
    passive with.trace
}
@test "rank 0 without the library" { unlike plain -; }
@test "a rank that is off" { unlike - REPRISE_MODE=off; }
@test "a rank that only records" { unlike - REPRISE_MODE=record; }
@test "a rank with another rule of strictness" { unlike REPRISE_STRICT=1 -; }
@test "a rank with another rule of trial" { unlike REPRISE_TRIAL=0 -; }

# The name of the terms, with their version, is in the library as text: a copy gets another one.
@test "a rank of another version" {
    terms=$(sed -n 's/^#define TERMS "\([^"]*\)".*/\1/p' "$BATS_TEST_DIRNAME/../../shim/gather_life.c")
    [ -n "$terms" ]
    sed "s/$terms/${terms%?}X/g" libreprise.so > other.so
    [ "$(cmp -l libreprise.so other.so | wc -l)" = 1 ]
    unlike - LD_PRELOAD="$PWD/other.so"
}

# ---------------------------------------------------------------- where replay stays out

@test "nonblocking communicators" {
    not_served run 2 --nonblocking
    passive run.trace
}
@test "launches that block" { CUDA_LAUNCH_BLOCKING=1 not_served run 2; }
@test "communicators that share an id" { NCCL_COMM_ID=127.0.0.1:29999 not_served run 2; }

# ---------------------------------------------------------------- strictness

skips_a_layer() {
    rm -rf run.trace
    replay run "${train[@]}" --skip-layer $LATE --ranks 4
    cat run.all
}

@test "strict: a call outside the order fails, with what was expected and what came" {
    long
    export REPRISE_STRICT=1
    uninterrupted run.lines skips_a_layer
    [ "$(cat run.status)" = 1 ]
    # All ranks, since they diverge alike. A layer less: the root's gather comes where the last layer's is due.
    for rank in 0 1 2 3; do
        grep -qE "^minitrain: \[rank $rank\] error: ncclAllGather: invalid usage.*expected .*all-gather.*(observed|but|got).*all-gather" run.err
    done
    grep -q 'layers.3 forward' run.err
}

@test "strict: what is inside the order, or foreign to it, passes" {
    long
    REPRISE_STRICT=1 served run 2 --log-every 3 --sendrecv --edit-weights $LATE
}

# ---------------------------------------------------------------- memory

# A root of 2 MiB, which is what a slot takes at least of the device, and one block of half of it.
@test "a budget that not all units fit into" {
    REPRISE_BUDGET=2560K served run 2 --dim 724 --tokens 1 --layers 1 --steps 10
    [ "$(sources run.trace 0 | awk '$NF == "memory" { print $3 }' | sort -u | wc -l)" = 1 ]
}

@test "a budget that nothing fits into" {
    REPRISE_BUDGET=1K replay run "${train[@]}"
    result plain "${train[@]}"
    same plain run
    [ "$(count run.trace 0 memory)" = 0 ]
}

@test "a program that needs the memory gets it" {
    long
    # Slots of replay take more than the 4 MiB that the program leaves free.
    export FAKE_MEMORY_MB=64 REPRISE_BUDGET=32M
    served run 2 --allocate 1:$LATE
}

@test "a failed allocation of the program is tried again without the slots" {
    long
    export FAKE_MEMORY_MB=64 REPRISE_BUDGET=32M
    "$BUILD/reprise" run --record calls -- "${train[@]}" --allocate 1:$LATE > /dev/null
    last=$("$BUILD/reprise" show calls --csv --all-ops --step all --rank 1 | awk -F, '$7 == "malloc"' | wc -l)
    # The end of the run allocates once more, for the checksum of the weights.
    export FAKE_FAULT=malloc:rank=1,n=$((last - 1))
    result alone "${train[@]}" --allocate 1:$LATE --timeout 2
    [ "$(cat alone.status)" != 0 ]
    grep -q 'rank 1. error: cudaMalloc(&memory' alone.err
    replay run "${train[@]}" --allocate 1:$LATE --timeout 5
    unset FAKE_FAULT
    result plain "${train[@]}" --allocate 1:$LATE
    same plain run
    [ "$(count run.trace 0 memory)" -gt 0 ]
}

# ---------------------------------------------------------------- ends

@test "a rank that is killed: the others' watchdogs abort, as without us" {
    long
    kill=(--kill "1:$LATE" --timeout 2)
    for ranks in 2 4; do
        result plain$ranks slow "${train[@]}" --ranks $ranks "${kill[@]}" &
        replay run$ranks "${train[@]}" --ranks $ranks "${kill[@]}" &
    done
    wait
    for ranks in 2 4; do
        cat run$ranks.all
        [ "$(cat plain$ranks.status)" = 3 ]
        same plain$ranks run$ranks
        [ "$(count run$ranks.trace 0 memory)" -gt 0 ]
    done
}

@test "one line at the end of the job, and the plan's view of the trace" {
    served run 4
    cat run.lines
    [ "$(grep -cE '^reprise: \[rank [0-3]\] info replay: .*[0-9] hits' run.lines)" = 1 ]
    became run.trace > plan
    cat plan
    grep -q 'all-gather .* network, kept$' plan
    hits=$(count run.trace 0 memory)
    awk -v hits="$hits" '/whole run$/ { found = $4 == hits } END { exit !found }' plan
    grep -q '  armed: ' plan
    grep -q '  figures: [0-9]* hits, ' plan
}
