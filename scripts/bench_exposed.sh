#!/usr/bin/env bash
# How long minitrain's compute waits for all-gathers, on the stand-in runtime: plain, and replayed with several budgets.
# Times are modelled ones, the same on every machine; it takes some seconds and no GPU.
#
# Balanced: a gather of a block takes GATHER_US on the link, and a reduction twice that, since it is of floats; they go one
# after the other, as NCCL's of one communicator do: four times GATHER_US for a block and microbatch. So does compute: its
# forward takes COMPUTE_US, its backward twice that. The root is two blocks in all of this. Two communicators do not slow
# each other on the stand-in: what is gathered ahead on one of its own costs the program's transfers nothing, where a real
# link is shared.
#
#   step ms        of a step on the device
#   exposed ms, %  what the compute stream stood still for gathers: from where it had nothing to do but wait, to the delivery.
#                  Time in which the host was held up inside a gather's call counts (`late ms` is that part of it), where
#                  it waited by calls of the runtime: what it polls for in memory takes no modelled time
#   first gap ms   the part of it at the first gather of a step: new weights, which no plan can have earlier
#   later gaps ms  the same at the starts of the other microbatches, summed
#   reduction ms   what it stood still for reduce-scatters
#   compute ms     the rest of the step: what is computed. More than plain's is a host held up in other calls
#
# All are medians over the last half of the steps on rank 0 (minitrain --times). A budget of N units is N times what a
# gathered block takes, in whole 4 KiB, as slots do here (FAKE_GRANULE_KB); "all" is REPRISE_BUDGET=auto. Replay never ends by its trial, which
# compares real time. Hits are those of rank 0 in the whole run, which begins with learning.
#
#   BUDGETS ("all 8 4 3")   LAYERS (16)   MICROBATCHES (4)   RANKS (2)   STAGES (1)   STEPS (14)   DIM (64)
#   GATHER_US (1000)   COMPUTE_US (four thirds of GATHER_US; more leaves the link idle)
#   PREFETCH (1)   REPRISE_PREFETCH; 0: only what is kept
#   LOG (info)   REPRISE_LOG; debug says what was planned with
#   EXTRA   more arguments of minitrain, as "--gather persistent"
#   LIMIT   seconds that a run may take (120)
#   OUT     where each run's output goes (a temporary folder that is removed if all went well)
#
# Exit code 1 if a run failed, or one replayed did not deliver the losses and weights of the plain one.
set -u
cd "$(dirname "$0")/.." || exit
build=$(realpath "${BUILD:-build}")
layers=${LAYERS:-16} ranks=${RANKS:-2} stages=${STAGES:-1} dim=${DIM:-64}
gather_us=${GATHER_US:-1000} limit=${LIMIT:-120}
granule=$((4 << 10))
read -ra budgets <<< "${BUDGETS:-all 8 4 3}"
read -ra extra <<< "${EXTRA:-}"
out=${OUT:-$(mktemp -d)}
mkdir -p "$out" || exit
failed=0

unset RANK WORLD_SIZE LOCAL_RANK LD_PRELOAD "${!REPRISE_@}" "${!FAKE_@}"
export LD_LIBRARY_PATH=$build/fake REPRISE_TRIAL=0 REPRISE_PREFETCH=${PREFETCH:-1} REPRISE_LOG=${LOG:-info}

# A rank receives the others' shards of a block, in bfloat16. The latency is small, so that the root, twice as large, takes
# twice as long.
block=$((2 * dim * dim)) replicas=$((ranks / stages))
latency_us=$((gather_us / 100))
FAKE_LINK_GBPS=$(awk -v b=$((block * (replicas - 1))) -v n="$replicas" -v us=$((gather_us - latency_us)) \
    'BEGIN { printf "%.9f", b / n / us / 1000 }')
export FAKE_LINK_LATENCY_US=$latency_us FAKE_LINK_GBPS FAKE_GRANULE_KB=4
program=("$build/minitrain" --ranks "$ranks" --stages "$stages" --layers "$layers" --microbatches "${MICROBATCHES:-4}"
    --dim "$dim" --steps "${STEPS:-14}" --compute-us "${COMPUTE_US:-$((gather_us * 4 / 3))}" --times "${extra[@]}")

# value NAME FILE: from the last line of the table.
value() {
    sed -n "s/^times of rank 0.* $1 \([-0-9.]*\).*/\1/p" "$2"
}

# run NAME COMMAND...: a row of the table. Its files: NAME.out, NAME.err, and NAME.result, what must be equal.
run() {
    local stem=$out/$1 hits
    printf '| %s ' "$1"
    shift
    if ! timeout --kill-after=5 "$limit" "$@" > "$stem.out" 2> "$stem.err"; then
        echo "| failed, see $stem.err |"
        failed=1
        return
    fi
    for name in step_ms exposed_ms exposed_percent late_ms first_gap_ms later_gaps_ms reduction_ms compute_ms; do
        printf '| %s ' "$(value $name "$stem.out")"
    done
    hits=$(sed -n 's/.*replay: rank 0: \([0-9]*\) hits.*/\1/p' "$stem.err")
    echo "| ${hits:--} |"
    sed -n '/^{/s/, "step_ms_median.*//p' "$stem.out" > "$stem.result"
    if ! cmp -s "$stem.result" "$out/plain.result"; then
        echo "bench_exposed: $stem.out: not the losses and weights of the plain run" >&2
        failed=1
    fi
}

replay() {
    local budget=$1 bytes=auto
    [ "$budget" = all ] || bytes=$((budget * ((block + granule - 1) / granule) * granule))
    rm -rf "$out/trace"
    REPRISE_BUDGET=$bytes run "replay, $budget units" "$build/reprise" run --replay "$out/trace" -- "${program[@]}"
}

echo "| run | step ms | exposed ms | exposed % | late ms | first gap ms | later gaps ms | reduction ms | compute ms | hits |"
echo "|---|---|---|---|---|---|---|---|---|---|"
run plain "${program[@]}"
for budget in "${budgets[@]}"; do
    replay "$budget"
done
if [ -n "${OUT:-}" ] || [ $failed != 0 ]; then
    echo "results are in $out"
else
    rm -rf "$out"
fi
exit $failed
