#!/bin/bash
# Records three runs of minitrain on two ranks, looks at them and compares: twice the same program, then one that skips
# a layer in one step. Then replays a longer one, which must print what it prints alone, with gathers from memory. Ends with
# 0 only if all came out so. On two GPUs if there are two, else on the stand-in runtime. The traces stay in $BUILD/demo.
set -u
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
out=$build/demo
layers=4 step=3
skipped=layers.$((layers / 2))
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
unset RANK WORLD_SIZE LOCAL_RANK

fail() {
    echo "demo: $*" >&2
    exit 1
}

heading() {
    printf '\n== %s\n' "$*"
}

gpus() {
    if command -v nvidia-smi > /dev/null; then
        nvidia-smi -L 2> /dev/null | grep -c '^GPU '
    else
        find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l
    fi
}

use_runtime() {
    local toolkit
    if [ "$(gpus)" -ge 2 ]; then
        toolkit=$(sed -n 's/^CUDA_LIB := //p' "$build/config.mk")
        LD_LIBRARY_PATH=$LD_LIBRARY_PATH${LD_LIBRARY_PATH:+:}$toolkit
        echo "two GPUs"
    else
        LD_LIBRARY_PATH=$PWD/$build/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        echo "no two GPUs here: the stand-in runtime of tests/fake"
    fi
}

record() {
    local name=$1
    shift
    local command=("$build/reprise" run --record "$out/$name" -- "$build/minitrain" --ranks 2 --layers "$layers" --steps 6 "$@")
    printf '\n$ %s\n' "${command[*]}"
    "${command[@]}" || fail "the run of $name ended with exit code $?"
}

show() {
    printf '\n$ %s\n' "$build/reprise show $*"
    "$build/reprise" show "$@" || fail "show ended with exit code $?"
}

# Compares $2 and $3; expects the exit code $1, and a first line that begins with $4, a regular expression.
compare() {
    local text status
    printf '\n$ %s\n' "$build/reprise diff $2 $3"
    text=$("$build/reprise" diff "$2" "$3")
    status=$?
    echo "$text"
    [ $status = "$1" ] || fail "diff of $2 and $3 ended with exit code $status, expected $1"
    [[ $text =~ ^$4 ]] || fail "diff of $2 and $3 does not begin with '$4'"
}

# The program alone, then replayed: equal losses, weights and deliveries. Where the stand-in runs, a link that takes real time.
replay() {
    local program=("$build/minitrain" --ranks 2 --layers "$layers" --steps 16 --checksums)
    local command=("$build/reprise" run --replay "$out/replayed" -- "${program[@]}")
    export FAKE_REALTIME=1 FAKE_LINK_LATENCY_US=2000
    printf '\n$ %s\n$ %s\n' "${program[*]}" "${command[*]}"
    "${program[@]}" | sed 's/, "step_ms_median.*//' > "$out/alone.txt" || fail "the program alone ended with exit code $?"
    "${command[@]}" 2> "$out/replayed.err" > "$out/replayed.all" || fail "the replayed run ended with exit code $?"
    unset FAKE_REALTIME FAKE_LINK_LATENCY_US
    sed 's/, "step_ms_median.*//' "$out/replayed.all" > "$out/replayed.txt"
    cat "$out/replayed.err"
    cmp "$out/alone.txt" "$out/replayed.txt" || fail "replay changed what the program delivers or prints"
    grep -q ' [1-9][0-9]* hits' "$out/replayed.err" || fail "no gather came from memory"
    echo "every delivered buffer, loss and weight as alone: $(grep -c 'op all-gather' "$out/replayed.txt") gathers compared"
}

rm -rf "$out"
mkdir -p "$out" || exit

heading "Runtime"
use_runtime
heading "Record: a run, the same run again, and one that skips $skipped in step $step"
record a
record a-again
record b --skip-layer "$step"
heading "One step"
show "$out/a"
heading "The order of the step that skips $skipped"
show --order --step "$step" "$out/b"
heading "Compare the two equal runs"
compare 0 "$out/a" "$out/a-again" '(same|the same, but retimed): '
heading "Compare with the run that skips a layer"
compare 1 "$out/a" "$out/b" "different: step $step, $skipped "

heading "Replay: gathers that repeat come from memory"
replay
show --plan "$out/replayed"

printf '\ndemo: equal runs compare as equal, the skipped %s was found, and replay changed nothing; traces in %s\n' "$skipped" "$out"
