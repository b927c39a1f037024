#!/usr/bin/env bash
# What Reprise costs and gains on real GPUs: the training program of tests/frameworks, plain, loaded but off, recording
# and replaying, in turn, so that drift of the machine hits all alike. Needs PyTorch and as many GPUs as GPUS.
#
#   W1  fast link        W2  no peer access: shared memory of the host        W3  two nodes of half the GPUs each: TCP between
#   W4  short samples: the host is what takes time
#   W5  as W1, deterministic kernels, plain and replay only: losses must be equal in every bit, else exit code 1
#
#   WORKLOADS ("W1 W2 W3 W4 W5")   MODES ("plain off record replay")   ROUNDS (3)   GPUS (2)
#   BUDGET    REPRISE_BUDGET of replay (rows of their own in the table)
#   AHEAD     1: replay also gathers ahead (REPRISE_PREFETCH; rows of their own)
#   TRIAL     0: replay goes on also where it does not gain, so that what a verdict costs shows (REPRISE_TRIAL; rows of their own)
#   EXTRA     more arguments of fsdp_train.py
#   LIMIT     seconds that a run may take (300)
#   OUT       where results go (a new temporary folder). With the OUT of an earlier call this one adds rounds, and the table
#             is over all; ROUNDS=0 prints the table alone. `scripts/bench_table.py --side OUT...` puts numbers of GPUs side by side.
#
# A line for each run when it has ended, and last the table for README: the time of a step behind the first five, that as a
# ratio to plain, and the same ratio for the second to the fifth, from which replay learns; then, of gathers from memory, how long
# their calls took (bench_table.py). Exit code 1 if a run failed.
set -u
cd "$(dirname "$0")/.." || exit
build=$(realpath "${BUILD:-build}")
ranks=${GPUS:-2} rounds=${ROUNDS:-3} limit=${LIMIT:-300}
read -ra workloads <<< "${WORKLOADS:-W1 W2 W3 W4 W5}"
read -ra modes <<< "${MODES:-plain off record replay}"
read -ra extra <<< "${EXTRA:-}"
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
failed=0

# The workload's arguments into `arguments`, its variables into `variables`.
describe() {
    variables=(NOTHING=)
    case $1 in
    W1) arguments=(--ga 4 --steps 17) ;;
    W2) arguments=(--ga 4 --steps 10) variables=(NCCL_P2P_DISABLE=1) ;;
    W3) arguments=(--ga 4 --steps 12 --dim 2048 --layers 4 --seq 1024 --fakenodes 2) ;;
    W4) arguments=(--ga 4 --steps 17 --seq 1024) ;;
    W5) arguments=(--ga 4 --steps 12 --det) variables=(CUBLAS_WORKSPACE_CONFIG=:4096:8) ;;
    *)
        echo "bench_gpu: no workload $1" >&2
        exit 2
        ;;
    esac
    arguments+=("${extra[@]}")
}

# behind MODE TRACE COMMAND...: the command in that mode.
behind() {
    local mode=$1 trace=$2
    shift 2
    case $mode in
    plain) "$@" ;;
    off) REPRISE_MODE=off LD_PRELOAD=$build/libreprise.so "$@" ;;
    record) "$build/reprise" run --record "$trace" -- "$@" ;;
    replay)
        REPRISE_PREFETCH=${AHEAD:-0} REPRISE_BUDGET=${BUDGET:-auto} REPRISE_TRIAL=${TRIAL:-1} \
            "$build/reprise" run --replay "$trace" -- "$@"
        ;;
    *)
        echo "bench_gpu: no mode $mode" >&2
        exit 2
        ;;
    esac
}

# ops TRACE RANK: its ops of all steps, as comma-separated values.
ops() {
    "$build/reprise" show "$1" --csv --step all --rank "$2"
}

# calls TRACE: of each gather that came from memory a line, how long each rank was in its call, in ns.
calls() {
    local rank columns=()
    for ((rank = 0; rank < ranks; rank++)); do
        ops "$1" "$rank" | awk -F, '$NF == "memory" { print $18 - $17 }' > "$1/calls.$rank"
        columns+=("$1/calls.$rank")
    done
    paste -d, "${columns[@]}"
}

# kept MODE STEM: what stays of a trace. STEM.sources: where replay's gathers on rank 0 came from, as "HITS REPAIRED
# WITHDRAWN"; STEM.calls: what calls() prints; STEM.plan: what became of replay.
kept() {
    [ "$1" = replay ] || return 0
    "$build/reprise" show "$2.trace" --plan > "$2.plan" 2>> "$2.err" && calls "$2.trace" > "$2.calls" && ops "$2.trace" 0 |
        awk -F, '{ count[$NF]++ } END { print count["memory"] + count["prefetch"], count["repaired"] + 0, count["withdrawn"] + 0 }' \
            > "$2.sources"
}

# run WORKLOAD MODE: one more run of it. Its files: <workload>.<ranks>.<mode>.<number>.json, .err, of replay .sources, .calls, .plan.
run() {
    local workload=$1 mode=$2 number=1 stem label note=
    describe "$workload"
    label=$mode
    [ "$mode" != replay ] || label+=${BUDGET:+-$BUDGET}$([ "${AHEAD:-0}" = 0 ] || echo -ahead)$([ "${TRIAL:-1}" = 1 ] || echo -always)
    while [ -e "$out/$workload.$ranks.$label.$number.json" ]; do number=$((number + 1)); done
    stem=$out/$workload.$ranks.$label.$number
    rm -rf "$stem".* # of a call that was cut off
    if ! behind "$mode" "$stem.trace" env "${variables[@]}" timeout --kill-after=20 "$limit" python3 -m torch.distributed.run \
        --nproc_per_node="$ranks" --master_port=$((29700 + RANDOM % 200)) tests/frameworks/fsdp_train.py "${arguments[@]}" \
        > "$stem.new" 2> "$stem.err" || ! grep '^{' "$stem.new" > "$stem.line" || ! kept "$mode" "$stem"; then
        echo "$workload $label, run $number: failed, see $stem.err"
        rm -rf "$stem.trace" "$stem.new" "$stem.line"
        failed=1
        return
    fi
    [ "$mode" != replay ] || note=$(awk '{ printf ", %d hits, %d repaired, %d withdrawn", $1, $2, $3 }' "$stem.sources")
    mv "$stem.line" "$stem.json"
    rm -rf "$stem.new" "$stem.trace"
    echo "$workload $label, run $number: $(sed -n 's/.*"step_ms_median": \([0-9.]*\).*/\1/p' "$stem.json") ms$note"
}

for workload in "${workloads[@]}"; do
    describe "$workload"
    for ((round = 0; round < rounds; round++)); do
        for mode in "${modes[@]}"; do
            [[ $workload = W5 && $mode =~ ^(off|record)$ ]] || run "$workload" "$mode"
        done
    done
done

echo
python3 scripts/bench_table.py "$out" || failed=1
echo "results are in $out"
exit $failed
