#!/usr/bin/env bats
# minitrain on the stand-in runtime: its numbers are reproducible, every wrong byte would show in them, every option
# runs, and it leaves nothing behind when a rank dies.

load place

setup() {
    place
}

# minitrain with checksums: $1 gets the lines, $1.json the result without its time.
train() {
    local file=$1
    shift
    "$BUILD/minitrain" --timeout 60 --checksums "$@" > "$file.all" || return
    grep '^rank ' "$file.all" > "$file"
    sed -n '/^{/s/, "step_ms_median.*//p' "$file.all" > "$file.json"
    [ -s "$file" ] && [ -s "$file.json" ]
}

same() {
    cmp "$1" "$2" && cmp "$1.json" "$2.json"
}

# What one line is about, without its checksum; and the checksums alone.
keys() {
    sed 's/ sum .*//' "$1"
}
sums() {
    sed 's/.* sum //' "$1"
}

# No line of file $1 is in file $2. (A plain "! command" would not fail a test.)
nothing_of() {
    if grep -qxFf "$1" "$2"; then return 1; fi
}
differ() {
    if cmp -s "$1" "$2"; then return 1; fi
}
none_with() {
    if grep -q -- "$1" "$2"; then return 1; fi
}

running() {
    pgrep -f -- "minitrain .*--seed $1( |\$)"
}
ended() {
    if running "$1"; then return 1; fi
}

# Waits for a condition, at most so many seconds.
eventually() {
    local tries=$(($1 * 10))
    shift
    while ! "$@"; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.1
    done
}

@test "two runs deliver the same bytes" {
    train a
    train b
    same a b
}

@test "the numbers are those of a run on two GPUs" {
    train a
    # Measured: 2x H200, NCCL 2.28.9.
    grep -q '"weights": "d104debf3adae11a"' a.json
    grep -q '^rank 1 step 3 microbatch 1 phase backward op reduce-scatter module root sum b6003308284e2f1a$' a
}

@test "a microbatch is issued as FSDP2 issues it" {
    train a --steps 1
    grep '^rank 0 step 1 microbatch 0 ' a | sed 's/.*phase \([a-z]*\) op \([a-z-]*\) module \([a-z.0-9]*\) .*/\1 \2 \3/' > order
    cat > expected <<'END'
forward all-gather root
forward all-gather layers.0
forward all-gather layers.1
forward all-gather layers.2
forward all-gather layers.3
backward all-gather root
backward all-gather layers.3
backward all-gather layers.2
backward reduce-scatter layers.3
backward all-gather layers.1
backward reduce-scatter layers.2
backward all-gather layers.0
backward reduce-scatter layers.1
backward reduce-scatter layers.0
backward reduce-scatter root
END
    diff order expected
}

@test "all ranks get the same bytes from a gather, and different ones from a reduce-scatter" {
    train a --ranks 4
    for rank in 0 1 2 3; do
        grep "^rank $rank .* op all-gather " a | sed "s/^rank $rank //" > "gathers.$rank"
        grep "^rank $rank .* op reduce-scatter " a | sed "s/^rank $rank //" > "reductions.$rank"
        [ -s "gathers.$rank" ]
        [ -s "reductions.$rank" ]
        cmp gathers.0 "gathers.$rank"
    done
    [ "$(sums reductions.1 | sort -u | wc -l)" -gt 1 ]
    nothing_of reductions.0 reductions.1
}

@test "the optimizer changes what every module gathers; within a step nothing does" {
    train a --steps 3 --microbatches 2
    grep '^rank 0 .* op all-gather ' a | sed 's/.* step \([0-9]*\) .* module \(.*\) sum \(.*\)/\2 \1 \3/' | sort -u > units
    # Five modules, three steps, one content in each.
    [ "$(wc -l < units)" = 15 ]
    [ "$(cut -d' ' -f3 units | sort -u | wc -l)" = 15 ]
}

@test "another seed changes every delivered buffer and all losses" {
    train a
    train b --seed 1
    diff <(keys a) <(keys b)
    nothing_of <(sums a) <(sums b)
    differ a.json b.json
}

@test "weights edited inside a step change what is gathered from there on, and nothing before" {
    train a --steps 3
    train b --steps 3 --edit-weights 2
    diff <(grep -E ' step 1 | step 2 microbatch 0 ' a) <(grep -E ' step 1 | step 2 microbatch 0 ' b)
    edited='step 2 microbatch 1 phase forward op all-gather module layers.0 '
    [ "$(grep -c "$edited" a)" = 2 ]
    nothing_of <(grep "$edited" a) b
    # All of the next step.
    nothing_of <(grep ' step 3 ' a) b
}

@test "one rank's edit reaches every rank" {
    train a --steps 2
    train b --steps 2 --edit-weights 1 --edit-rank 1
    train c --steps 2 --edit-weights 1
    edited='step 1 microbatch 1 phase forward op all-gather module layers.0 '
    for rank in 0 1; do
        [ "$(grep -h "^rank $rank $edited" a b c | sort -u | wc -l)" = 3 ]
    done
}

@test "the first wrong byte of a gather spreads to all gradients of its microbatch" {
    train a --steps 1 --microbatches 2
    train b --steps 1 --microbatches 2 --edit-weights 1 --edit-rank 0
    reductions='microbatch 1 phase backward op reduce-scatter '
    [ "$(grep -c "$reductions" a)" = 10 ]
    nothing_of <(grep "$reductions" a) b
}

@test "a learning rate of 0 changes nothing" {
    train a --steps 3 --zero-lr-steps 2
    gathers() { grep "^rank 0 step $1 .* op all-gather " a | sed 's/.* microbatch //'; }
    diff <(gathers 1) <(gathers 2)
    diff <(gathers 1) <(gathers 3)
    train b --steps 2 --zero-lr-steps 1
    second=$(grep '^rank 0 step 2 microbatch 0 phase forward op all-gather module root ' b)
    grep -qF "${second##* sum }" a
}

@test "the checksum of all weights does not depend on the number of ranks" {
    for ranks in 1 2 4; do
        train "w$ranks" --ranks "$ranks" --dim 30 --zero-lr-steps 3
        sed 's/.*"weights"/"weights"/' "w$ranks.json" > "w$ranks.sum"
    done
    cmp w1.sum w2.sum
    cmp w1.sum w4.sum
}

@test "how work is issued does not change what is delivered" {
    train plain --eval-every 2
    sort plain > plain.sorted
    for how in --gather=persistent --recompute=fsdp2 --two-comms --nonblocking --threads --default-stream --sites=off \
        --host-wait --lag=1:2000 --group --late-gathers; do
        echo "$how"
        train other --eval-every 2 "$how"
        sort other | diff plain.sorted -
        cmp plain.json other.json
    done
}

@test "FSDP1's recompute gathers every block once more and changes no number" {
    train plain
    train other --recompute=fsdp1
    cmp plain.json other.json
    [ "$(grep -c ' phase recompute op all-gather ' other)" = 48 ]
    diff <(sort plain) <(grep -v ' phase recompute ' other | sort)
}

@test "a shared block is gathered and reduced twice" {
    train a --steps 1 --microbatches 1 --shared-block
    for what in 'phase forward op all-gather' 'phase backward op all-gather' 'phase backward op reduce-scatter'; do
        [ "$(grep -c "^rank 0 .* $what module layers.3 " a)" = 2 ]
        [ "$(grep -c "^rank 0 .* $what module layers.2 " a)" = 1 ]
    done
}

@test "an evaluation between steps gathers and leaves the training as it was" {
    train plain --steps 4
    train other --steps 4 --eval-every 2
    diff plain <(grep -v ' phase eval ' other)
    [ "$(grep -c ' phase eval op all-gather ' other)" = 20 ]
    grep -q '"eval_losses": \["0x[^,]*", "0x[^,]*"\]' other.json
}

@test "a skipped layer is missing in its step only" {
    train a --steps 3 --skip-layer 2
    none_with ' step 2 .* module layers.2 ' a
    [ "$(grep -c ' step 1 .* module layers.2 ' a)" = 12 ]
    [ "$(grep -c ' step 3 .* module layers.2 ' a)" = 12 ]
}

@test "the logged loss is the sum over the ranks" {
    train a --steps 4 --log-every 2
    [ "$(grep -c ' op all-reduce module loss ' a)" = 4 ]
    [ "$(grep ' op all-reduce ' a | sed 's/^rank [0-9]* //' | sort -u | wc -l)" = 2 ]
    grep -q '"mean_losses": \["0x[^,]*", "0x[^,]*"\]' a.json
}

@test "a ring of sends and receives enters the numbers" {
    train plain
    train a --sendrecv --ranks 2
    train b --sendrecv --ranks 2
    same a b
    [ "$(grep -c ' op recv module ring ' a)" = 12 ]
    differ plain.json a.json
}

@test "copies of the model compute what all ranks do that share one" {
    for ranks in 4 8; do
        train flat --ranks $ranks --eval-every 2 --log-every 1
        train copies --ranks $ranks --copies 2 --eval-every 2 --log-every 1
        cmp flat.json copies.json
        # Every gather delivers the same in both copies, and each shard's gradients are summed over them.
        of_copy() { awk -v from=$(($1 * ranks / 2)) -v size=$((ranks / 2)) '/ op (all-gather|all-reduce) / && $2 >= from && $2 < from + size {
            $2 -= from; print }' copies; }
        of_copy 0 > first
        of_copy 1 > second
        cmp first second
        [ "$(grep -c ' op all-reduce module layers' first)" = $((3 * 2 * 4 * ranks / 2)) ]
    done
}

@test "what the first rank collects enters the numbers" {
    for ranks in 4 8; do
        train plain --ranks $ranks --steps 1
        train a --collect --ranks $ranks --steps 1
        train b --collect --ranks $ranks --steps 1 --two-comms --threads
        same a b
        [ "$(grep -c '^rank 0 .* op recv module collect ' a)" = $((2 * (ranks - 1))) ]
        none_with '^rank [1-9] .* op recv ' a
        differ plain.json a.json
    done
}

@test "a receive before a gather that its peer answers after it" {
    train plain
    train a --recv-first
    train b --recv-first --threads --two-comms
    same a b
    [ "$(grep -c '^rank 1 .* op recv module peer ' a)" = 4 ]
    none_with '^rank 0 .* op recv ' a
    differ plain.json a.json
}

@test "four ranks with everything at once" {
    all=(--ranks 4 --eval-every 1 --log-every 1 --shared-block --recompute=fsdp2 --sendrecv --host-wait --recv-first
        --group --two-comms --threads --edit-weights 2 --edit-rank 3 --skip-layer 3 --zero-lr-steps 1)
    train a "${all[@]}"
    train b "${all[@]}" --gather=persistent --nonblocking --default-stream
    same a b
}

@test "odd sizes: three ranks, padded shards, one layer" {
    train a --ranks 3 --dim 7 --tokens 1 --layers 1 --microbatches 1
    train b --ranks 3 --dim 7 --tokens 1 --layers 1 --microbatches 1 --gather=persistent
    same a b
}

@test "without checksums the result is the same" {
    train a
    "$BUILD/minitrain" > plain
    [ "$(wc -l < plain)" = 1 ]
    diff a.json <(sed 's/, "step_ms_median.*//' plain)
    grep -q '"step_ms_median": [0-9]' plain
}

# minitrain whose compute and link are balanced, with nothing else that takes time: a block of 8 KiB is gathered in a
# millisecond, the root in two, gradients in twice that; forward of a block takes one, backward two, embedding and head
# the same. What it prints goes to "table".
balanced() {
    FAKE_KERNEL_US=0 FAKE_LINK_LATENCY_US=0 FAKE_LINK_GBPS=0.004096 "$BUILD/minitrain" --compute-us 1000 --times "$@" \
        > table
}

# says STEP EXPOSED PERCENT LATE FIRST_GAP LATER_GAPS REDUCTION COMPUTE: each step of the table, and its last line.
says() {
    local said
    said=$(awk 'NF == 9 && $1 + 0 { $1 = ""; print }' table | sort -u)
    diff <(echo " $*") <(echo "$said")
    said="step_ms $1 exposed_ms $2 exposed_percent $3 late_ms $4"
    said="$said first_gap_ms $5 later_gaps_ms $6 reduction_ms $7 compute_ms $8"
    grep -qx "times of rank 0, medians of steps [0-9]* to [0-9]*: $said" table
}

@test "times: exposed is what the schedule leaves, to the microsecond" {
    # Of L = 4 blocks and 2 microbatches, in ms. Compute of a microbatch: embedding 1, blocks L, head 1, and twice that: 18.
    # It waits for the root, 2; embedding and forward cover the other gathers. In backward a gather follows the reduction of
    # two blocks before, 2 + 1 while a block takes 2: 1 more for each block but the last two, L - 2. The second microbatch
    # also waits for the root's reduction, which goes before its gather on the same communicator: 4 + 2. The optimizer
    # waits for the last one, 4.
    for how in --gather=in-place --gather=persistent --threads --default-stream; do
        echo "$how"
        balanced "$how"
        says 52.000 12.000 23.077 0.000 2.000 6.000 4.000 36.000
    done
    # 2 + 3 * 6 + 4 * 14 of 4 * 54 + that + 4.
    balanced --layers 16 --microbatches 4
    says 296.000 76.000 25.676 0.000 2.000 18.000 4.000 216.000
    # Reductions are in nobody's way.
    balanced --two-comms
    says 44.000 4.000 9.091 0.000 2.000 2.000 4.000 36.000
    # An evaluation is no part of a step.
    balanced --eval-every 1 --log-every 1 2> log
    says 52.000 12.000 23.077 0.000 2.000 6.000 4.000 36.000
}

@test "times: a host that is held up in a gather's call is exposed, and late" {
    # No gather overlaps with what is issued after it. In each microbatch: the root as before; in backward 1 at the root,
    # since the next gather is called before it is waited for, and reduction and gather, 2 + 1, for each of L - 2 blocks.
    LD_PRELOAD=$BUILD/tests/libminitrain_held.so balanced
    says 62.000 22.000 35.484 22.000 2.000 6.000 4.000 36.000
}

@test "times: the parts are within the step, and the link's time is what is exposed" {
    "$BUILD/minitrain" --times --steps 5 > table
    [ "$(awk 'NF == 9 && $1 + 0' table | wc -l)" = 5 ]
    awk 'NF == 9 && $1 + 0 {
        sum = $3 + $8 + $9 - $2
        if (sum < -0.003 || sum > 0.003 || $5 > $3 || $6 + $7 > $3 + 0.002 || $6 <= 0 || $9 <= 0) { print; exit 1 }
    }' table
    exposed() { sed -n 's/^times .* exposed_ms \([0-9.]*\) .*/\1/p' "$1"; }
    FAKE_LINK_LATENCY_US=1000 "$BUILD/minitrain" --times --steps 5 > slow
    awk -v fast="$(exposed table)" -v slow="$(exposed slow)" 'BEGIN { exit !(fast > 0 && slow > 10 * fast) }'
}

@test "times change nothing that is delivered" {
    for how in --threads --group --recompute=fsdp1 --eval-every=1 --default-stream --skip-layer=2 --stages=2 --copies=2; do
        echo "$how"
        train plain --ranks 4 --steps 5 "$how"
        train other --ranks 4 --steps 5 "$how" --times
        same plain other
        grep -q '^times of rank 0, medians of steps 3 to 5: ' other.all
    done
}

@test "a recorded run delivers what a plain one does" {
    local n=0 how
    for how in --threads --nonblocking --sendrecv --recv-first --host-wait --group --gather=persistent --eval-every=1 \
        --ranks=4; do
        echo "$how"
        train plain "$how" --two-comms
        "$BUILD/reprise" run --record "trace.$((n += 1))" -- "$BUILD/minitrain" --timeout 60 --checksums --two-comms "$how" > all
        diff <(sed 's/, "step_ms_median.*//' all) <(sed 's/, "step_ms_median.*//' plain.all)
        [ -s "trace.$n/rank-1.rpt" ]
    done
}

@test "one rank of a launcher is the same as one of its own" {
    train a
    export WORLD_SIZE=2 MINITRAIN_ID_FILE=$BATS_TEST_TMPDIR/id
    RANK=1 LOCAL_RANK=1 "$BUILD/minitrain" > one &
    RANK=0 LOCAL_RANK=0 "$BUILD/minitrain" > zero
    wait $!
    [ ! -s one ]
    diff a.json <(sed 's/, "step_ms_median.*//' zero)
}

@test "a rank that is killed ends the others by their watchdog" {
    mkdir messages
    TMPDIR=$PWD/messages run "$BUILD/minitrain" --ranks 3 --seed 410001 --kill 1:2 --timeout 2
    [ "$status" = 3 ]
    [ "$(grep -c 'no step ended for 2 s; communicators aborted' <<< "$output")" = 2 ]
    ended 410001
    # Nothing of the job's messages is left.
    [ -z "$(ls messages)" ]
}

@test "ranks do not outlive their parent" {
    "$BUILD/minitrain" --seed 410002 --kill 1:2 --timeout 300 3>&- &
    parent=$!
    eventually 20 running 410002
    kill -KILL $parent
    wait $parent || true
    eventually 20 ended 410002
}

@test "a wrong command line is named in one line" {
    for wrong in --no-such-option --layers=0 --dim=x --gather=both --kill=1 --copies=3 --threads=1 --lr=2; do
        run "$BUILD/minitrain" "$wrong"
        [ "$status" = 2 ]
        [ "${#lines[@]}" = 1 ]
        [[ $output == "minitrain: error: "* ]]
    done
    run "$BUILD/minitrain" --steps
    [ "$status" = 2 ]
}
