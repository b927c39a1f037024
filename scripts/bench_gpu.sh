#!/usr/bin/env bash
# What Reprise costs on real GPUs: the training program of tests/frameworks, plain, loaded but off, and recording, in
# turn, so that drift of the machine hits all alike. Needs PyTorch and as many GPUs as RANKS.
#   RANKS (2)  ROUNDS (3)  MODES ("plain record off")  OUT (a new temporary folder)
#   WORKLOAD   arguments of fsdp_train.py (default: --ga 4 --steps 17)
set -u
cd "$(dirname "$0")/.." || exit
build=$PWD/${BUILD:-build}
ranks=${RANKS:-2} rounds=${ROUNDS:-3}
read -ra modes <<< "${MODES:-plain record off}"
read -ra workload <<< "${WORKLOAD:---ga 4 --steps 17}"
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"

train() {
    timeout 300 python3 -m torch.distributed.run --nproc_per_node="$ranks" --master_port=$((29700 + RANDOM % 200)) \
        tests/frameworks/fsdp_train.py "${workload[@]}"
}

# run MODE ROUND: the JSON line of one run.
run() {
    local mode=$1 round=$2
    case $mode in
    plain) train ;;
    off) LD_PRELOAD=$build/libreprise.so train ;;
    record) LD_PRELOAD=$build/libreprise.so REPRISE_MODE=record REPRISE_TRACE=$out/trace-$round train ;;
    esac > "$out/$mode-$round.json" 2> "$out/$mode-$round.err" || echo "$mode, round $round: failed, see $out/$mode-$round.err" >&2
}

for ((round = 1; round <= rounds; round++)); do
    for mode in "${modes[@]}"; do
        run "$mode" "$round"
    done
done

python3 - "$out" "$rounds" "${modes[@]}" << 'END'
import json, pathlib, statistics, sys

out, rounds, modes = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


def medians(mode):
    found = []
    for i in range(1, rounds + 1):
        lines = [x for x in (out / f"{mode}-{i}.json").read_text().splitlines() if x.startswith("{")]
        if lines:
            found.append(json.loads(lines[-1])["step_ms_median"])
    return found


plain = medians(modes[0])
print(f"{'mode':8} {'step ms (median of each run)':40} {'median':>8} {'ratio':>7}")
for mode in modes:
    steps = medians(mode)
    if steps and plain:
        middle = statistics.median(steps)
        print(f"{mode:8} {', '.join(f'{x:.1f}' for x in steps):40} {middle:8.1f} {middle / statistics.median(plain):7.3f}")
END
