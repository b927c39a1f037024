#!/usr/bin/env bats
# Replay with four and eight ranks on the stand-in, where ranks are not all alike: copies of the model (hybrid sharding), two
# and four stages, a rank that receives as often as there are others, one that edits, one that is killed. As in replay.bats: what
# is delivered is what the program alone is delivered, and gathers that repeat come from memory, alike on the ranks that share
# a communicator.
#
# Collectives take a millisecond of real time. How many gathers come from memory depends on how busy the machine is: tests
# ask for some, and for what must hold of each.

load place
load sources

setup() {
    place
    export REPRISE_TRIAL=0
    train=("$BUILD/minitrain" --timeout 60 --steps 14 --checksums)
}

# ---------------------------------------------------------------- running

# as_alone NAME ARGUMENTS...: replayed, the program delivers and ends as alone.
as_alone() {
    local name=$1 what
    shift
    result "$name.plain" slow "${train[@]}" "$@"
    result "$name" slow "$BUILD/reprise" run --replay "$name.trace" -- "${train[@]}" "$@"
    cat "$name.lines"
    for what in out err status; do
        diff "$name.plain.$what" "$name.$what" > differences || {
            head differences
            return 1
        }
    done
}

# alike TRACE FIRST LAST: these ranks, which share a communicator, served the same gathers, and some.
alike() {
    local rank
    for ((rank = $2; rank <= $3; rank++)); do
        sources "$1" $rank | awk '{ print $2, $4 == "memory" ? "served" : "plain" }' | sort -n > "$1.$rank"
        grep -q served "$1.$rank"
        cmp "$1.$2" "$1.$rank"
    done
}

# served NAME RANKS PARTS ARGUMENTS...: the ranks, in equal parts of one communicator each, are served, each part alike.
served() {
    local name=$1 size=$(($2 / $3)) ranks=$2 first
    as_alone "$name" --ranks "$2" "${@:4}"
    [ "$(cat "$name.status")" = 0 ]
    for ((first = 0; first < ranks; first += size)); do
        alike "$name.trace" $first $((first + size - 1))
    done
}

# ---------------------------------------------------------------- tests

@test "copies of the model: each is served by itself" {
    served four 4 2 --copies 2
    if sanitized; then return; fi
    served eight 8 2 --copies 2 --two-comms
    served quarters 8 4 --copies 4 --gather=persistent
}

@test "a rank that receives from all others, on the gathers' communicator" {
    served four 4 1 --collect
    if sanitized; then return; fi
    served eight 8 1 --collect --group --log-every 3
    served copies 8 2 --collect --copies 2
}

@test "a rank that edits: repaired on all, and served again" {
    served run 8 1 --steps 24 --edit-weights 21 --edit-rank 6
    for rank in 0 6; do
        [ "$(count run.trace $rank repaired)" -gt 0 ]
        sources run.trace $rank | awk '/repaired$/ { repaired = 1; module = $3 } / memory$/ && repaired && $3 == module { after = 1 }
            END { exit !(module == "layers.0" && after) }'
    done
}

@test "a rank that edits: repaired in its copy of the model, and in no other" {
    served run 4 2 --steps 24 --copies 2 --edit-weights 21 --edit-rank 3
    [ "$(count run.trace 0 repaired)" = 0 ]
    [ "$(count run.trace 2 repaired)" -gt 0 ]
    [ "$(count run.trace 2 repaired)" = "$(count run.trace 3 repaired)" ]
}

@test "a rank that is killed: the others end as without us" {
    train+=(--steps 24 --kill 5:21 --timeout 2)
    for arguments in "--ranks 8" "--ranks 8 --copies 2"; do
        read -ra words <<< "$arguments"
        rm -rf run.trace
        as_alone run "${words[@]}"
        [ "$(cat run.status)" = 3 ]
        [ "$(count run.trace 0 memory)" -gt 0 ]
        [ "$(count run.trace 7 memory)" -gt 0 ]
    done
}

@test "four stages of two ranks: each is served by itself" {
    for schedule in "1f1b" "interleaved"; do
        served $schedule 8 4 --stages 4 --schedule $schedule --layers 8 --microbatches 4
    done
}
