#!/usr/bin/env bats
# Module and phase of every op of minitrain, from each source of sites alone, by the rules that ship and those in
# tests/apps/minitrain.ini. What is right minitrain says itself (--calls), which knows nothing of Reprise.

load place

setup() {
    place
    rules=$BATS_TEST_DIRNAME/../apps/minitrain.ini
    export REPRISE_ANNOTATIONS=$rules
}

# record ARGUMENT...: the trace and the calls.
record() {
    local status=0
    rm -rf trace calls.*
    REPRISE_TRACE=$PWD/trace REPRISE_MODE=record LD_PRELOAD=$PWD/libreprise.so timeout 100 "$BUILD/minitrain" \
        --timeout 80 --dim 16 --steps 3 --calls calls "$@" > /dev/null 2> err || status=$?
    cat err
    [ $status = 0 ]
}

# seen RANK: "<module> <phase> <op>" of all its ops, in order.
seen() {
    "$BUILD/reprise" show trace --csv --step all --rank "$1" | awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { print $column["module"], $column["phase"], $column["kind"] }'
}

# told RANKS: every op of every rank is what minitrain says that it is. An evaluation is told as "other".
told() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        [ -s "calls.$rank" ]
        diff <(sed 's/ eval / other /' "calls.$rank") <(seen "$rank")
    done
}

# A block that is recomputed and runs twice, evaluations, logging, sends and receives; then the same with backward on
# another thread, in groups, and in pipelines.
told_everywhere() {
    local all=("$@" --recompute=fsdp1 --shared-block --eval-every 2 --log-every 2)
    record "${all[@]}" --sendrecv
    told 2
    [ "$(grep -cx 'layers.3 recompute all-gather' calls.0)" = 12 ]
    [ "$(grep -cx 'layers.3 forward all-gather' calls.0)" = 12 ]
    [ "$(grep -cx 'layers.3 eval all-gather' calls.0)" = 2 ]
    record "${all[@]}" --recv-first --threads --two-comms
    told 2
    record "${all[@]}" --group --recompute=fsdp2
    told 2
    record "${all[@]}" --ranks 4 --stages 2
    told 4
    record "${all[@]}" --ranks 4 --stages 2 --schedule interleaved
    told 4
}

@test "NVTX ranges alone" {
    told_everywhere --sites nvtx
}

@test "launches behind a gather ahead belong to the layer whose backward issues it" {
    record --sites nvtx
    mv trace once
    record --sites nvtx --recompute=fsdp2
    told 2
    run "$BUILD/reprise" diff once trace
    [ "$status" = 1 ]
    [[ ${lines[0]} =~ ^"different: step 1, layers.3 backward, launches behind all-gather "[^,]*" of layers.2 backward, rank 0: other kernel launches, "[0-9]+" in A, "[0-9]+" in B " ]]
}

# Names of replayed gathers are those that were learned, without a look at the stack.
@test "launches behind a gather that is served belong where they did when it was learned" {
    REPRISE_TRACE=$PWD/trace REPRISE_MODE=replay REPRISE_DETAIL=launches LD_PRELOAD=$PWD/libreprise.so timeout 100 \
        "$BUILD/minitrain" --timeout 80 --dim 16 --steps 24 > /dev/null 2>&1
    "$BUILD/reprise" show trace --csv --step all | grep -q ',layers.1,backward,all-gather,.*,memory$'
    "$BUILD/reprise" show trace --step all --launches | awk '
        / all-gather | reduce-scatter / { ahead = $2 == "layers.1" && $3 == "backward" && $4 == "all-gather" }
        / thread [0-9]+ / && ahead { launches++; wrong += !/ [(]layers.2 backward[)]$/ }
        END { exit launches == 0 || wrong > 0 }'
}

@test "names of functions alone" {
    told_everywhere --sites native
}

@test "Python frames alone" {
    local python
    shared_python
    told_everywhere --sites python --python "$python"
}

@test "no source, no names" {
    record --sites off --recompute=fsdp1 --eval-every 2
    [ "$(seen 0 | cut -d ' ' -f 1,2 | sort -u)" = "- -" ]
    [ "$(seen 0 | wc -l)" = "$(wc -l < calls.0)" ]
}
