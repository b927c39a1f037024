#!/usr/bin/env bats
# A preset order, end to end: minitrain on the stand-in begins with the order that an earlier run recorded. Every
# delivered byte, the losses and the exit code are those of the program alone, whatever the trace is.
#
# Ranks wait for one another where they log a loss, so none is more than a step ahead. When an arming begins depends on
# how busy the machine is all the same: that it is the second step where all can, test_replay_preset shows. Here there are
# so many steps that some arming comes.

bats_require_minimum_version 1.5.0
load place

STEPS=20

# Most tests begin with this recording.
setup_file() {
    BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
    setup
    record
}

setup() {
    place
    export REPRISE_TRIAL=0
    train=("$BUILD/minitrain" --ranks 2 --steps "$STEPS" --log-every 1 --timeout 60 --checksums)
    [ "$BATS_TEST_TMPDIR" = "$BATS_FILE_TMPDIR" ] || cp -r "$BATS_FILE_TMPDIR"/{order,plain.*} .
}

record() {
    rm -rf "${order:=order}"
    result plain "$BUILD/reprise" run --record "$order" -- "${train[@]}" "$@"
}
replay() { result run "$BUILD/reprise" run --replay trace --order order -- "${train[@]}" "$@"; }

# The run is as "plain".
same() {
    cmp plain.out run.out
    diff plain.err run.err
    diff plain.status run.status
    [ "$(cat run.status)" = 0 ]
}

# gathers RANK: the position, communicator, module and source of each.
gathers() {
    "$BUILD/reprise" show trace --csv --step all --rank "$1" | awk -F, '{ sub(/"network, kept"$/, "kept") }
        $7 == "all-gather" { print $4, $12, $5, $NF }'
}

# The step of the first gather from memory on communicator 0, whose calls are as many in each step; nothing: none is.
first_hit() {
    gathers 0 | awk -v steps=$STEPS '$2 == 0 { last = $1 }
        $2 == 0 && $4 == "memory" && first == "" { first = $1 }
        END { if (first != "") print int(first * steps / (last + 1)) + 1 }'
}

# preset: served as recorded, on all ranks alike.
preset() {
    same
    cat run.lines
    grep -q 'armed: .*, in a recorded order$' run.lines
    gathers 0 | grep ' memory$' | cut -d' ' -f1,2 > served.0
    gathers 1 | grep ' memory$' | cut -d' ' -f1,2 > served.1
    [ -s served.0 ] && cmp served.0 served.1
}

# learned WHY: one line says why the order is not used, and it is served all the same, in the end.
learned() {
    same
    cat run.lines
    [ "$(grep -c 'the recorded order is not used: ' run.lines)" = 1 ]
    grep -q "communicator 0: learning: the recorded order is not used: .*$1" run.lines
    [ "$(grep -c 'in a recorded order' run.lines)" = 0 ]
    [ "$(first_hit)" -gt 3 ] # a job that learns sees three steps first
}

# by_hand RANK=VALUE...: the program is started rank by rank, with REPRISE_ORDER as given for each; empty: not set.
by_hand() {
    local rank orders=("$@")
    export WORLD_SIZE=2 MINITRAIN_ID_FILE=$PWD/id REPRISE_MODE=replay REPRISE_TRACE=$PWD/trace
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank REPRISE_ORDER=${orders[rank]} LD_PRELOAD=$PWD/libreprise.so \
            timeout 60 "${train[@]}" > "out.$rank" 2> "err.$rank" 3>&- &
    done
    wait
    { grep -hv '^{' out.[01] && grep -h '^{' out.[01]; } > run.raw
    sed 's/, "step_ms_median.*//' run.raw > run.out
    cat err.[01] | grep '^reprise: ' > run.lines || true
    cat err.[01] | grep -v '^reprise: ' | sort > run.err || true
    echo 0 > run.status
    unset WORLD_SIZE MINITRAIN_ID_FILE REPRISE_MODE REPRISE_TRACE
}

# ---------------------------------------------------------------- it fits

@test "the order of an earlier run" {
    replay
    preset
}

@test "names are known in the first step, where the run has none" {
    replay --sites off
    preset
    [ "$(gathers 0 | sed -n 1p | cut -d' ' -f3)" = root ]
    [ "$(gathers 0 | sed -n 2p | cut -d' ' -f3)" = layers.0 ]
    [ "$(gathers 0 | grep -c ' - ')" = 0 ]
}

@test "weights of another run" {
    record --seed 1
    result plain "${train[@]}" --seed 2
    replay --seed 2
    preset
}

@test "the trace of a replayed run" {
    rm -r order
    "$BUILD/reprise" run --replay order -- "${train[@]}" > out 2>&1
    replay
    preset
}

@test "a run that was killed, and ranks that wrote differently far" {
    record --steps 300
    for rank in 0 1; do
        truncate -s $(($(stat -c %s order/rank-$rank.rpt) * (5 + rank) / 10)) order/rank-$rank.rpt
    done
    result plain "${train[@]}"
    replay
    preset
}

@test "two communicators" {
    record --two-comms
    replay --two-comms
    preset
}

@test "evaluation between steps" {
    record --eval-every 4
    replay --eval-every 4
    same
    grep -q 'armed: .*, in a recorded order$' run.lines
    [ -n "$(first_hit)" ]
}

@test "a run that leaves the order, and comes back" {
    result plain "${train[@]}" --skip-layer 13 --edit-weights 17
    replay --skip-layer 13 --edit-weights 17
    preset
    grep -qE ' [1-9][0-9]* repaired' run.lines
}

@test "with gathers ahead allowed" {
    REPRISE_PREFETCH=1 replay
    preset
}

@test "a rank that dies" {
    result run "$BUILD/reprise" run --replay trace --order order -- "${train[@]}" --timeout 4 --kill 1:17
    [ "$(cat run.status)" != 0 ]
    grep -q 'armed: .*, in a recorded order$' run.lines
}

# ---------------------------------------------------------------- it does not

@test "no such directory" {
    mv order away
    replay
    learned 'rank-0.rpt of REPRISE_ORDER (.*/order): cannot be opened: No such file or directory'
    rm -r trace
    by_hand nosuch nosuch
    learned 'rank-0.rpt of REPRISE_ORDER (nosuch): cannot be opened: No such file or directory'
}

@test "no trace of one rank" {
    rm order/rank-1.rpt
    replay
    learned 'a rank has no trace of its own in REPRISE_ORDER'
}

@test "a trace of another version" {
    for rank in 0 1; do
        printf '\x63' | dd of=order/rank-$rank.rpt bs=1 seek=8 conv=notrunc status=none
    done
    replay
    learned 'rank-0.rpt of REPRISE_ORDER (.*/order): byte 8: the trace has another version'
}

@test "a damaged trace" {
    for rank in 0 1; do
        printf 'damage' | dd of=order/rank-$rank.rpt bs=1 seek=5000 conv=notrunc status=none
    done
    replay
    learned 'rank-0.rpt of REPRISE_ORDER (.*/order): byte [0-9]*: '
}

@test "a trace that ends in its header" {
    truncate -s 40 order/rank-[01].rpt
    replay
    learned 'the file ends inside its header'
}

@test "a trace that is cut within the second step" {
    truncate -s 20000 order/rank-[01].rpt
    replay
    learned ''
}

@test "a trace of two steps" {
    record --steps 2
    result plain "${train[@]}"
    replay
    learned 'it shows no whole cycle'
}

@test "another number of ranks" {
    record --ranks 4
    result plain "${train[@]}"
    replay
    learned 'REPRISE_ORDER is of a run of 4 ranks, not 2'
}

@test "other sizes" {
    record --layers 3
    result plain "${train[@]}"
    replay
    learned 'at position [0-9]* it has .*, and the run '
}

@test "a trace without fingerprints" {
    REPRISE_FINGERPRINT=off record
    replay
    learned 'REPRISE_ORDER has no calls with fingerprints of it'
}

@test "a rank without the variable" {
    by_hand "$PWD/order" ""
    learned 'a rank has no REPRISE_ORDER'
}

@test "a rank without the variable, the first one" {
    by_hand "" "$PWD/order"
    learned 'a rank has no REPRISE_ORDER'
}

@test "a rank with the trace of another run" {
    order=other record
    by_hand "$PWD/order" "$PWD/other"
    learned 'ranks have traces of different runs'
}

@test "two communicators, one line" {
    record --two-comms
    mv order away
    replay --two-comms
    learned 'cannot be opened'
}

# ---------------------------------------------------------------- the command line

@test "--order is for replay, and a directory" {
    run -2 "$BUILD/reprise" run --record trace --order order -- true
    [[ $output == *'--order is for replay'* ]]
    run -2 "$BUILD/reprise" run --order order -- true
    run -2 "$BUILD/reprise" run --replay trace --order -- true
    [[ $output == *"--order wants a directory, not '--'"* ]]
    REPRISE_MODE=replay run -0 "$BUILD/reprise" run --order order -- printenv REPRISE_ORDER
    [ "$output" = "$PWD/order" ]
}
