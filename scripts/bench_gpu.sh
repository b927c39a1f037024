#!/usr/bin/env bash
# What Reprise costs and gains on real GPUs: the training program of tests/frameworks, plain, loaded but off, recording
# and replaying, in turn, so that drift of the machine hits all alike. Needs PyTorch and as many GPUs as RANKS.
#
#   W1  fast link                W2  no peer access: shared memory of the host      W3  each rank a node of its own: TCP
#   W4  short samples: the host is what takes time
#   W5  as W1, deterministic kernels, plain and replay only: losses must be equal in every bit, else exit code 1
#
#   WORKLOADS ("W1 W2 W3 W4 W5")   MODES ("plain off record replay")   ROUNDS (3)   RANKS (2)
#   BUDGET    REPRISE_BUDGET of replay (rows of their own in the table)
#   AHEAD     1: replay also gathers ahead (REPRISE_PREFETCH; rows of their own)
#   EXTRA     more arguments of fsdp_train.py
#   LIMIT     seconds that a run may take (300)
#   OUT       where results go (a new temporary folder). With the OUT of an earlier call this one adds rounds, and the table
#             is over all; ROUNDS=0 prints the table alone.
#
# A line for each run when it has ended, and last the table for README: the time of a step behind the first five, that as a
# ratio to plain, and the same ratio for the second to the fifth, from which replay learns. Exit code 1 if a run failed.
set -u
cd "$(dirname "$0")/.." || exit
build=$(realpath "${BUILD:-build}")
ranks=${RANKS:-2} rounds=${ROUNDS:-3} limit=${LIMIT:-300}
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
    W3) arguments=(--ga 4 --steps 12 --dim 2048 --layers 4 --seq 1024 --fakenodes) ;;
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
    replay) REPRISE_PREFETCH=${AHEAD:-0} REPRISE_BUDGET=${BUDGET:-auto} "$build/reprise" run --replay "$trace" -- "$@" ;;
    *)
        echo "bench_gpu: no mode $mode" >&2
        exit 2
        ;;
    esac
}

# kept MODE STEM: what stays of a trace. STEM.sources: where replay's gathers on rank 0 came from, as "HITS REPAIRED
# WITHDRAWN"; STEM.plan: what became of replay.
kept() {
    [ "$1" = replay ] || return 0
    "$build/reprise" show "$2.trace" --plan > "$2.plan" 2>> "$2.err" &&
        "$build/reprise" show "$2.trace" --csv --step all --rank 0 |
        awk -F, '{ count[$NF]++ } END { print count["memory"] + count["prefetch"], count["repaired"] + 0, count["withdrawn"] + 0 }' \
            > "$2.sources"
}

# run WORKLOAD MODE: one more run of it. Its files: <workload>.<ranks>.<mode>.<number>.json, .err, of replay .sources, .plan.
run() {
    local workload=$1 mode=$2 number=1 stem label note=
    describe "$workload"
    label=$mode
    [ "$mode" != replay ] || label+=${BUDGET:+-$BUDGET}$([ "${AHEAD:-0}" = 0 ] || echo -ahead)
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
python3 - "$out" << 'END' || failed=1
import json, pathlib, statistics, sys

ORDER = ["plain", "off", "record", "replay"]
runs = {}  # (workload, ranks, mode): [(the run's line, its sources)]
for path in sorted(pathlib.Path(sys.argv[1]).glob("W*.json")):
    workload, ranks, mode, _ = path.name.removesuffix(".json").split(".")
    sources = path.with_suffix(".sources")
    counts = [int(x) for x in sources.read_text().split()] if sources.exists() else None
    runs.setdefault((workload, int(ranks), mode), []).append((json.loads(path.read_text()), counts))


def step_ms(key):
    return statistics.median(line["step_ms_median"] for line, _ in runs[key])


def early_ms(key):
    """Of the steps that are left out above, but for the very first."""
    return statistics.median(statistics.median(line["step_ms"][1 : line["settings"]["warmup"]]) for line, _ in runs[key])


def place(key):
    workload, ranks, mode = key
    return workload, ranks, ORDER.index(mode.split("-")[0]), mode


def row(key):
    workload, ranks, mode = key
    plain = (workload, ranks, "plain")
    ratio = f"{step_ms(key) / step_ms(plain):.3f}" if plain in runs else "-"
    early = f"{early_ms(key) / early_ms(plain):.3f}" if plain in runs else "-"
    counts = [c for _, c in runs[key] if c]
    served = " / ".join(f"{statistics.median(c[i] for c in counts):.0f}" for i in range(3)) if counts else "-"
    return f"| {workload} | {ranks} | {mode} | {len(runs[key])} | {step_ms(key):.1f} | {ratio} | {early} | {served} |"


print("| workload | GPUs | mode | runs | step ms | of plain | steps 2 to 5 | hits / repaired / withdrawn |")
print("|---|---|---|---|---|---|---|---|")
for key in sorted(runs, key=place):
    print(row(key))

unlike = 0
for ranks in sorted({r for w, r, _ in runs if w == "W5"}):
    losses = {k[2]: [line["losses"] for line, _ in runs[k]] for k in runs if k[:2] == ("W5", ranks)}
    every = [x for lists in losses.values() for x in lists]
    equal = all(x == every[0] for x in every)
    unlike += not equal
    verdict = "losses differ" if not equal else "losses are equal in every bit" if len(losses) > 1 else "nothing to compare"
    print(f"W5, {ranks} GPUs: {len(every)} runs ({', '.join(losses)}): {verdict}")
sys.exit(unlike != 0)
END
echo "results are in $out"
exit $failed
