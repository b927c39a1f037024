#!/usr/bin/env bats
# minitrain in pipeline stages on the stand-in: alone it computes what it computes without stages; recorded and replayed
# it delivers the same bytes. Each stage has a communicator of its own for its gathers, so each learns its own cycle: all
# microbatches of a step, in the order in which the schedule interleaves them.
#
# Four ranks are two stages of two replicas; four layers and four microbatches, so that each stage has three modules: two
# layers, and the embedding or the head. A microbatch gathers each module once in forward and once in backward.
#
# In replayed runs collectives take two milliseconds of real time. Replay pauses once to compare itself with plain cycles, and
# goes off where it is not faster: on a busy machine at any time after four cycles, so tests count what is served in whole
# cycles, not how many they are.

load place

setup() {
    place
    train=("$BUILD/minitrain" --timeout 60 --checksums --microbatches 4)
    stages=(--ranks 4 --stages 2)
    STEPS=12
}

# ---------------------------------------------------------------- running

# lines NAME COMMAND...: what it delivers and results in go to NAME, but for the measured time; NAME.err: its errors.
lines() {
    local name=$1 status=0
    shift
    "$@" > "$name.raw" 2> "$name.err" 3>&- || status=$?
    sed 's/, "step_ms_median.*//' "$name.raw" > "$name"
    [ $status = 0 ] && grep -q '"weights"' "$name"
}

# behind record|replay NAME COMMAND...: the same behind the library; the trace goes to NAME.trace.
behind() {
    local mode=$1 name=$2 slow=()
    shift 2
    [ "$mode" = record ] || slow=(FAKE_REALTIME=1 FAKE_LINK_LATENCY_US=2000)
    rm -rf "$name.trace"
    lines "$name" env "${slow[@]}" "$BUILD/reprise" run "--$mode" "$name.trace" -- "$@"
}

# ---------------------------------------------------------------- alone

# What a run results in, whatever its ranks.
result() {
    sed -n 's/^{.*"losses"/"losses"/p' "$1"
}

# Gathers and reductions of layers as replicas see them: in any order, by replica instead of rank.
layers() {
    grep -E ' op (all-gather|reduce-scatter) module layers' "$1" |
        awk -v replicas="$2" '{ $2 = $2 % replicas; print }' | sort -u
}

# as_without STAGES ARGUMENTS...: with so many stages of two replicas, the losses, the weights and every gather and reduction
# of a layer are those of two ranks without stages.
as_without() {
    local count=$1
    shift
    lines flat "${train[@]}" --ranks 2 --layers 12 "${flat[@]}"
    lines piped "${train[@]}" --ranks $((2 * count)) --stages "$count" --layers 12 "${flat[@]}" "$@"
    [ -n "$(result flat)" ]
    diff <(result flat) <(result piped)
    layers flat 2 > flat.layers
    layers piped 2 > piped.layers
    [ -s flat.layers ]
    cmp flat.layers piped.layers
}

@test "1F1B computes what a run without stages does" {
    flat=(--eval-every 2 --log-every 1)
    as_without 2
    as_without 3
    as_without 4 --threads --group --two-comms --gather=persistent
    # One microbatch: nothing but warm-up and cool-down.
    flat=(--microbatches 1)
    as_without 4
}

@test "the interleaved schedule computes what a run without stages does" {
    flat=(--eval-every 2 --log-every 1 --microbatches 6)
    as_without 2 --schedule interleaved
    as_without 2 --schedule interleaved --chunks 3 --threads --group --two-comms --gather=persistent --nonblocking
    as_without 3 --schedule interleaved --chunks 2 --recompute=fsdp2
    # As many microbatches as stages: nothing but warm-up and cool-down.
    flat=(--microbatches 2)
    as_without 2 --schedule interleaved --chunks 3
}

@test "a shared block, a skipped layer, a ring and no learning, in stages" {
    flat=(--shared-block --skip-layer 2 --sendrecv --eval-every 1 --zero-lr-steps 2)
    as_without 2 --host-wait
    as_without 2 --schedule interleaved --chunks 3 --lag 3:500
}

# tasks RANK: forward (F) and backward (B) of the rank's microbatches in step 1, each with its layer, where a chunk has one.
tasks() {
    awk -v rank="$1" '$2 == rank && $4 == 1 && $10 == "all-gather" && sub(/layers/, "", $12) {
        printf "%s%s%s ", $8 == "forward" ? "F" : "B", $6, $12
    }' run
}

@test "the order of both schedules" {
    lines run "${train[@]}" --ranks 3 --stages 3 --layers 3 --steps 1
    [ "$(tasks 0)" = "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0 " ]
    [ "$(tasks 1)" = "F0.1 F1.1 B0.1 F2.1 B1.1 F3.1 B2.1 B3.1 " ]
    [ "$(tasks 2)" = "F0.2 B0.2 F1.2 B1.2 F2.2 B2.2 F3.2 B3.2 " ]
    lines run "${train[@]}" --ranks 2 --stages 2 --schedule interleaved --steps 1
    [ "$(tasks 0)" = "F0.0 F1.0 F0.2 F1.2 F2.0 B0.2 F3.0 B1.2 F2.2 B0.0 F3.2 B1.0 B2.2 B3.2 B2.0 B3.0 " ]
    [ "$(tasks 1)" = "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 F2.1 B0.1 F3.1 B1.1 F2.3 B2.3 F3.3 B3.3 B2.1 B3.1 " ]
}

@test "received activations and gradients are delivered and checked" {
    lines run "${train[@]}" "${stages[@]}" --schedule interleaved --steps 1
    # Between four chunks there are three borders, crossed twice by each microbatch of each replica.
    [ "$(grep -c ' op recv module chunk' run)" = $((3 * 2 * 4 * 2)) ]
    [ "$(grep ' op recv module chunk' run | sed 's/.* sum //' | sort -u | wc -l)" = $((3 * 2 * 4 * 2)) ]
}

@test "what does not go with stages is named in one line" {
    for wrong in "--stages 3" "--stages 2 --chunks 2" "--schedule interleaved" "--stages 2 --recv-first" \
        "--stages 2 --schedule interleaved --microbatches 3" "--stages 2 --schedule interleaved --chunks 1" \
        "--stages 2 --edit-rank 1" "--stages 2 --layers 3"; do
        read -ra words <<< "$wrong"
        run "$BUILD/minitrain" "${words[@]}"
        [ "$status" = 2 ]
        [ "${#lines[@]}" = 1 ]
        [[ $output == "minitrain: error: --"* ]]
    done
}

# ---------------------------------------------------------------- recorded and replayed

# sources TRACE RANK: where the bytes of each gather came from, as one word.
sources() {
    "$BUILD/reprise" show "$1" --csv --step all --rank "$2" |
        awk -F, '{ sub(/"network, kept"$/, "kept") } $7 == "all-gather" { print $NF }'
}

# cycles TRACE RANK GATHERS: of each step of so many gathers one line: those that were kept, came from memory, were repaired.
cycles() {
    sources "$1" "$2" | awk -v gathers="$3" '
        { count[$1]++ }
        NR % gathers == 0 { printf "%d %d %d\n", count["kept"], count["memory"], count["repaired"]; delete count }'
}

# as_plain COMMAND...: a replayed run delivers what a plain one does.
as_plain() {
    behind replay replayed "$@"
    cat replayed.err
    cmp plain replayed
}

# replayed SCHEDULE GATHERS ARGUMENTS...: a recorded and a replayed run deliver what a plain one does; both stages learn one
# cycle of so many gathers, all but the first of each of their three modules from memory; no rank waits in vain.
replayed() {
    local schedule=$1 gathers=$2 rank
    shift 2
    local run=("${train[@]}" "${stages[@]}" --steps "$STEPS" --schedule "$schedule" "$@")
    lines plain "${run[@]}"
    behind record recorded "${run[@]}"
    cmp plain recorded
    uninterrupted replayed.err as_plain "${run[@]}" # all else is judged by counting
    for rank in 0 2; do
        grep -q "^reprise: \[rank $rank\] info replay: .* armed: $gathers gathers a cycle, $((gathers - 3)) kept in 3 slots" \
            replayed.err
    done
    for rank in 0 1 2 3; do
        [ "$(sources recorded.trace $rank | grep -c '^network$')" = $((STEPS * gathers)) ]
        [ "$(sources replayed.trace $rank | wc -l)" = $((STEPS * gathers)) ]
        [ "$(sources replayed.trace $rank | grep -c withdrawn)" = 0 ]
    done
}

# served SCHEDULE GATHERS ARGUMENTS...: in every whole cycle between the beginning and the end of an arming a module's first
# gather comes from the network, since the optimizer has changed it, and is kept; all others come from memory. At least four
# cycles are such, which is how long replay goes on before it compares.
served() {
    local rank armed plain full
    replayed "$@"
    for rank in 0 1 2 3; do
        armed=$(grep -c "\[rank $((rank / 2 * 2))\] info replay: .* armed: " replayed.err)
        cycles replayed.trace $rank "$2" > found
        cat found
        full=$(grep -cx "3 $(($2 - 3)) 0" found)
        plain=$(grep -cx "0 0 0" found) || true
        [ "$full" -ge 4 ]
        # The one in which an arming begins, and the one in which it ends.
        [ $((STEPS - full - plain)) -le $((2 * armed)) ]
    done
}

# 4 microbatches x 3 modules x 2 phases; with FSDP1's recompute both layers once more in each microbatch.
@test "1F1B: all but the first gather of a module in a step come from memory" { served 1f1b 24; }
@test "interleaved: all but the first gather of a module in a step come from memory" { served interleaved 24; }
@test "1F1B, recomputed" {
    served 1f1b 32 --recompute=fsdp1
    served 1f1b 24 --recompute=fsdp2 --threads
}
@test "interleaved, recomputed" {
    served interleaved 32 --recompute=fsdp1 --threads
    served interleaved 24 --recompute=fsdp2
}
@test "interleaved, from persistent shards, with reductions elsewhere" {
    served interleaved 24 --gather=persistent --two-comms
}
# Without checksums nothing waits for the device within a step. How many gathers come from memory depends then on the load
# of the machine: cycles are timed on the host, and replay that does not look faster goes off.
@test "hosts that run two steps ahead of their devices" {
    train=("$BUILD/minitrain" --timeout 60 --microbatches 4)
    for schedule in 1f1b interleaved; do
        replayed "$schedule" 24
        for rank in 0 1 2 3; do
            [ "$(sources replayed.trace $rank | grep -c '^memory$')" -ge 42 ]
        done
    done
}

# Two microbatches a step leave a stage little to do while the other one is behind, and waits.
@test "stages whose hosts catch up with their devices one after the other go on being served" {
    local short=("$BUILD/minitrain" --timeout 60 --microbatches 2 --steps 24)
    lines plain "${short[@]}" "${stages[@]}"
    REPRISE_TRIAL=0 behind replay replayed "${short[@]}" "${stages[@]}"
    cat replayed.err
    cmp plain replayed
    if grep -q 'interrupted three times' replayed.err; then return 1; fi
    for rank in 0 2; do
        sources replayed.trace $rank | tail -n 144 | grep -q '^memory$'
    done
}

# edited SCHEDULE RANK: RANK (-1: all) changes layers.0 in step 8, which is served. On the first stage, where that layer is, one
# gather less comes from memory: the first one behind the edit is repaired.
edited() {
    local rank
    replayed "$1" 24 --edit-weights 8 --edit-rank "$2"
    for rank in 0 1 2 3; do
        cycles replayed.trace $rank 24 > found
        cat found
        [ "$(sed -n 8p found)" = "3 $((rank < 2 ? 20 : 21)) $((rank < 2 ? 1 : 0))" ]
    done
}

@test "1F1B: weights edited inside a step are repaired" { edited 1f1b -1; }
@test "interleaved: weights that one rank edits inside a step are repaired" { edited interleaved 1; }

@test "a rank of the first stage that waits on the host for another's gather" {
    lines plain "${train[@]}" "${stages[@]}" --steps 40 --host-wait
    behind replay replayed "${train[@]}" "${stages[@]}" --steps 40 --host-wait
    cat replayed.err
    cmp plain replayed
    # Rank 0 is the one that waited in vain.
    [ "$(sources replayed.trace 0 | grep -c withdrawn)" = 3 ]
    for rank in 0 1; do
        [ "$(sources replayed.trace $rank | tail -n 96 | uniq -c | xargs)" = "96 network" ]
    done
}
