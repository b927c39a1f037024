#!/usr/bin/env bats
# Gathers ahead, end to end: minitrain on the stand-in behind the library, with memory for a few units only, a link on
# which a gather takes as long as most of a block's compute, and 4 KiB granules, so that what this rank sends takes less
# than a unit. Every delivered byte, the losses and the exit code are those of the program alone.

load place

setup() {
    place
    # A gather of a block takes 1 ms: 3 of 4 parts of 16 KiB.
    export FAKE_GRANULE_KB=4 FAKE_LINK_LATENCY_US=10 FAKE_LINK_GBPS=0.0123 REPRISE_TRIAL=0
    train=("$BUILD/minitrain" --ranks 4 --layers 8 --dim 90 --tokens 1 --microbatches 4 --steps 24 --compute-us 1500
        --timeout 60 --checksums)
}

# prefetched NAME: hits of rank 0 that gathers ahead had filled.
prefetched() {
    sed -n 's/^reprise: \[rank 0\] info replay: rank 0: .* \([0-9]*\) of the hits prefetched.*/\1/p' "$1.lines"
}

# The run "ahead" is as "plain", and gathers ahead were served.
as_alone() {
    cmp plain.out ahead.out
    diff plain.err ahead.err
    diff plain.status ahead.status
    [ "$(cat plain.status)" = 0 ]
    grep -q ' gathered ahead$' ahead.lines
    [ "$(prefetched ahead)" -gt 20 ]
}

# ahead BUDGET ARGUMENTS...: as alone, and gathers ahead were served.
ahead() {
    local budget=$1
    shift
    result plain "${train[@]}" "$@"
    REPRISE_PREFETCH=1 REPRISE_BUDGET=$budget result ahead "$BUILD/reprise" run --replay trace -- "${train[@]}" "$@"
    as_alone
}

# fresh STEP: so many of the step's first nine gathers, of new weights, rank 0 had gathered ahead.
fresh() {
    "$BUILD/reprise" show trace --csv --step "$1" --rank 0 | grep ',all-gather,' | head -9 | grep -c ',prefetch$'
}

@test "gathers ahead are served, and ranks alike; of new weights, from a copy, none" {
    ahead 128K
    run fresh 20
    [ "$output" = 0 ]
    for rank in 0 1 2 3; do
        "$BUILD/reprise" show trace --csv --step all --rank $rank > rows.$rank
        sed 's/.*,//' rows.$rank > sources.$rank
    done
    grep -q '^prefetch$' sources.0
    cmp sources.0 sources.1 && cmp sources.0 sources.2 && cmp sources.0 sources.3
}

@test "gathers that begin late" { ahead 128K --late-gathers; }

@test "from a persistent shard: new weights, too" {
    ahead 128K --gather persistent
    [ "$(fresh 20)" -ge 4 ]
}

@test "from a persistent shard, edited inside a step" {
    ahead 128K --gather persistent --edit-weights 15
    grep -qE 'hits, [1-9][0-9]* repaired' ahead.lines
    [ "$(fresh 20)" -ge 4 ]
}

@test "from a persistent shard, edited on one rank" { ahead 128K --gather persistent --edit-weights 15 --edit-rank 2; }
@test "from a persistent shard, on a pipeline" {
    train=("$BUILD/minitrain" --ranks 4 --stages 2 --schedule interleaved --layers 8 --dim 90 --tokens 1
        --microbatches 4 --steps 24 --compute-us 1500 --timeout 60 --checksums)
    ahead 64K --gather persistent
}
@test "recompute, gathered once more" { ahead 128K --recompute fsdp1; }
@test "two gathers in a group" { ahead 128K --group; }
# The child communicator is joined behind such a group, never as a part of it.
@test "every call in a group of its own" {
    preload="$BUILD/tests/libminitrain_grouped.so"
    result plain env LD_PRELOAD="$preload" "${train[@]}"
    REPRISE_PREFETCH=1 REPRISE_BUDGET=128K REPRISE_MODE=replay REPRISE_TRACE=$PWD/trace REPRISE_LOG=info \
        result ahead env LD_PRELOAD="$preload $PWD/libreprise.so" "${train[@]}"
    as_alone
}

@test "backward on another thread" { ahead 128K --threads; }
@test "reductions on a communicator of their own" { ahead 128K --two-comms; }
@test "an activation sent round" { ahead 128K --sendrecv; }
@test "loss logging" { ahead 128K --log-every 3; }

@test "weights edited inside a step are repaired" {
    ahead 128K --edit-weights 15
    grep -qE 'hits, [1-9][0-9]* repaired' ahead.lines
}

@test "weights edited on one rank" { ahead 128K --edit-weights 15 --edit-rank 2; }
@test "a layer left out" { ahead 128K --skip-layer 15; }
@test "a host that waits for another" {
    result plain "${train[@]}" --host-wait
    REPRISE_PREFETCH=1 REPRISE_BUDGET=128K result ahead "$BUILD/reprise" run --replay trace -- "${train[@]}" --host-wait
    cmp plain.out ahead.out
    diff plain.err ahead.err
    diff plain.status ahead.status
    grep -q ' gathered ahead$' ahead.lines
}

@test "a rank that dies: the others end as without us" {
    result ahead env REPRISE_PREFETCH=1 REPRISE_BUDGET=128K "$BUILD/reprise" run --replay trace -- \
        "${train[@]}" --timeout 4 --kill 1:18
    result plain "${train[@]}" --timeout 4 --kill 1:18
    diff plain.status ahead.status
    [ "$(cat ahead.status)" != 0 ]
    grep -q ' gathered ahead$' ahead.lines
}

@test "off unless asked for" {
    REPRISE_BUDGET=128K result ahead "$BUILD/reprise" run --replay trace -- "${train[@]}"
    [ "$(prefetched ahead)" = 0 ]
    run grep -c 'gathered ahead' ahead.lines
    [ "$output" = 0 ]
}
