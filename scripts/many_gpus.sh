#!/usr/bin/env bash
# All that is to be known of Reprise on GPUS GPUs of one host, exactness first: PARTS of it, in this order,
#
#   exact     tests/frameworks/check_replay.py, every variant over the link as it is; without peer access, and as two nodes over
#             TCP, those that have most to do with the number of ranks
#   bench     scripts/bench_gpu.sh: W1 to W5, plain and replaying
#   verdict   W1 and W2, going on where replay does not gain: what the calls of served gathers cost
#
#   GPUS (4)   PARTS ("exact bench verdict")   ROUNDS (1) of bench and verdict   JOBS (4) runs of exact at a time
#   OUT        where all of it goes (a new temporary folder). With the OUT of an earlier call exact runs only what is missing, and
#              the others add rounds: so a call that is cut off loses one run.
#
# Exit code 1 if anything failed. The tables with other numbers of GPUs beside it: scripts/bench_table.py --side OUT/bench ...
set -u
cd "$(dirname "$0")/.." || exit
gpus=${GPUS:-4} rounds=${ROUNDS:-1} jobs=${JOBS:-4} build=${BUILD:-build}
read -ra parts <<< "${PARTS:-exact bench verdict}"
out=${OUT:-$(mktemp -d)}
failed=0

exact() {
    local link=$1
    shift
    python3 tests/frameworks/check_replay.py --build "$build" --gpus "$gpus" --jobs "$jobs" --link "$link" --out "$out/exact-$link" "$@" ||
        failed=1
}

bench() {
    GPUS=$gpus BUILD=$build ROUNDS=$rounds OUT=$1 scripts/bench_gpu.sh || failed=1
}

for part in "${parts[@]}"; do
    echo "== $part, $gpus GPUs"
    case $part in
    exact)
        exact nvlink
        exact shm --only fsdp2 fsdp1 edit-one-rank gather hybrid pipeline pipeline-interleaved killed
        exact tcp --only fsdp2 edit-one-rank gather hybrid pipeline
        ;;
    bench) MODES="plain replay" bench "$out/bench" ;;
    verdict) WORKLOADS="W1 W2" MODES="plain replay" TRIAL=0 bench "$out/verdict" ;;
    *)
        echo "many_gpus: no part $part" >&2
        exit 2
        ;;
    esac
done
echo "all of it is in $out"
exit $failed
