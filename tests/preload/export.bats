#!/usr/bin/env bats
# reprise export: what it writes, read and checked by export_check.py, on traces that mktrace makes up.

load place

setup() {
    place
    check=$BATS_TEST_DIRNAME/export_check.py
}

# export FORMAT TRACE [OPTION...]: into the file FORMAT; nothing is printed.
export_as() {
    run "$BUILD/reprise" export "$2" --format "$1" --output "$1" "${@:3}"
    echo "$output"
    [ "$status" = 0 ] && [ -z "$output" ]
}

# Both kinds of tracks hold the same, which is in the file checked.
both_hold_the_same() {
    export_as chrome "$@"
    export_as perfetto "$@"
    python3 "$check" chrome chrome > checked
    python3 "$check" perfetto perfetto > checked.too
    diff checked checked.too
}

has() {
    grep -qxF -- "$1" checked
}

# refused MESSAGE ARGUMENT...: exit code 2, nothing on standard output, the first line on standard error.
refused() {
    local expected=$1 status=0
    shift
    "$BUILD/reprise" export "$@" > out 2> err || status=$?
    cat out err
    [ "$status" = 2 ] && [ ! -s out ] && [ "$(head -1 err)" = "reprise export: $expected" ]
}

@test "export: steps, events and calls in host time, rank by rank" {
    "$BUILD/tests/mktrace" a
    both_hold_the_same a
    has "process 1 rank 0: train.py on node-a, process 4000"
    has "process 2 rank 1: train.py on node-a, process 4001"
    has "slice (2, 'thread 0') 49000000 to 61000000 step step 5 [('whole', 1)]"
    has "slice (2, 'thread 0') 52000000 to 54000000 event layers.2 backward []"
    has "slice (2, 'thread 0') 52000000 to 52400000 call all-gather 2.0 MiB bfloat16 [('bytes', 2097152), \
('communicator', 0), ('fingerprint', '$("$BUILD/reprise" show a --rank 1 --csv --step 5 | awk -F , '$4 == 39 { print $22 }')'), \
('flags', 33), ('launches', 7), ('op', 51), ('position', 39), ('source', 'network')]"
    [ "$(grep -c '^slice .* step step ' checked)" = 12 ]
    [ "$(grep -c '^slice .* call ' checked)" = 144 ]
}

@test "export: what replay did, launches and states" {
    "$BUILD/tests/mktrace" a ranks=1 replay=2 ahead=1 microbatches=2 single=1 adam=2 early=1 sampled=1
    both_hold_the_same a
    grep -q "call all-gather 2.0 MiB bfloat16 .*('source', 'prefetch')" checked
    grep -q "^slice .* event layers.0 optimizer" checked
    grep -q "^instant (1, 'stream 0x5500 (put on it by the host; no device times)') .* gemm(float const\*, .*('grid', '1x2x1')" checked
    grep -q "^instant (1, 'state changes') .* state armed: from position " checked
    # Steps add up to what calls say.
    [ "$(awk '/^count .*gathers from memory/ { sum += $NF } END { print sum }' checked)" = \
        "$(grep -cE "\('source', '(memory|prefetch)'\)" checked)" ]
    [ "$(awk '/^count .*gathered from the network/ { sum += $NF } END { print sum }' checked)" = \
        "$((2097152 * $(grep -cE "\('source', 'network(, kept)?'\)" checked)))" ]
}

@test "export: one rank, some steps" {
    "$BUILD/tests/mktrace" a
    both_hold_the_same a --rank 1 --steps 2:3
    [ "$(grep -c '^process ' checked)" = 1 ]
    [ "$(grep -o 'step step [0-9]*' checked | tr '\n' ' ')" = "step step 2 step step 3 " ]
    both_hold_the_same a/rank-1.rpt --steps 5:
    [ "$(grep -o 'step step [0-9]*' checked | tr '\n' ' ')" = "step step 5 step step 6 " ]
    both_hold_the_same a --rank 0 --steps :1
    [ "$(grep -c '^slice .* call ' checked)" = 12 ]
    both_hold_the_same a --rank 0 --steps 3
    [ "$(grep -o 'step step [0-9]*' checked)" = "step step 3" ]
}

@test "export: a cut trace, one without ops, one without steps" {
    "$BUILD/tests/mktrace" a finish=0 lost=4
    truncate -s -100 a/rank-0.rpt
    both_hold_the_same a
    "$BUILD/tests/mktrace" none steps=0
    both_hold_the_same none
    [ "$(grep -c '^process ' checked)" = 2 ]
    [ "$(grep -vc '^process ' checked)" = 0 ]
    export_as jsonl none
    [ ! -s jsonl ]
    "$BUILD/tests/mktrace" odd odd=1 names=0
    both_hold_the_same odd
}

@test "export: lines of JSON say what --csv says" {
    "$BUILD/tests/mktrace" a replay=3 withdraw=0 microbatches=2 sampled=1 lost=2
    export_as jsonl a
    for rank in 0 1; do
        "$BUILD/reprise" show a --rank $rank --csv --step all --all-ops | tail -n "+$((rank + 1))"
    done > csv
    python3 - << 'END'
import csv, json
rows = list(csv.DictReader(line for i, line in enumerate(open("csv")) if i == 0 or not line.startswith("rank,")))
lines = [json.loads(line) for line in open("jsonl")]
assert len(rows) == len(lines) > 200, (len(rows), len(lines))
for row, line in zip(rows, lines):
    assert line.pop("wall_ns") == 1767225600000000000 + line["begin_ns"], line
    line["flags"] = hex(line["flags"])
    assert {k: "" if v is None else str(v) for k, v in line.items()} == row, (line, row)
END
}

@test "export: to standard output, too" {
    "$BUILD/tests/mktrace" a
    for format in perfetto chrome jsonl; do
        export_as $format a
        "$BUILD/reprise" export a -f $format | cmp - $format
    done
}

@test "export: text of a trace is made safe" {
    "$BUILD/tests/mktrace" a replay=2
    both_hold_the_same a
    grep -qF '\x1b[31mnothing repeats' checked
    [ "$(grep -c $'\x1b' checked)" = 0 ] && [ "$(grep -c $'\x1b' chrome)" = 0 ]
}

@test "export: wrong use" {
    "$BUILD/tests/mktrace" a
    refused "no trace given" --format chrome
    refused "no format given; --format wants perfetto, chrome or jsonl" a
    refused "--format wants perfetto, chrome or jsonl, not 'json'" a --format json
    refused "takes one trace" a a --format chrome
    refused "a: has no rank 2" a --format chrome --rank 2
    refused "there is no step 7; the trace has steps 1 to 6" a --format chrome --steps 7:9
    refused "there is no step 9; the trace has steps 1 to 6" a --format chrome --steps 5:9
    refused "none/x: cannot be opened: No such file or directory" a --format chrome --output none/x
    refused "/dev/full: No space left on device" a --format perfetto --output /dev/full
}

@test "export: a rank that cannot be read is left out, which is said" {
    "$BUILD/tests/mktrace" a ranks=3
    printf '\x63' | dd of=a/rank-1.rpt bs=1 seek=8 conv=notrunc status=none
    local status=0
    "$BUILD/reprise" export a --format chrome --output chrome 2> err || status=$?
    cat err
    [ "$status" = 1 ]
    [ "$(wc -l < err)" = 2 ]
    [ "$(tail -1 err)" = "reprise export: 1 of 3 ranks could not be read, and are not in what was written" ]
    python3 "$check" chrome chrome > checked
    [ "$(grep -o '^process [0-9]* rank [0-9]' checked | cut -d' ' -f4 | tr '\n' ' ')" = "0 2 " ]
    status=0
    "$BUILD/reprise" export a --format jsonl --rank 2 > out 2> err || status=$?
    [ "$status" = 0 ]
    [ -s out ]
    status=0
    "$BUILD/reprise" export a --format jsonl --rank 1 > out 2> err || status=$?
    [ "$status" = 2 ]
    [ ! -s out ]
    [ "$(tail -1 err)" = "reprise export: a: the trace of rank 1 cannot be read" ]
}

@test "export: a perfetto trace is not written to a terminal" {
    command -v script
    "$BUILD/tests/mktrace" a
    run script -qec "$BUILD/reprise export a --format perfetto" /dev/null
    echo "$output"
    [ "$status" = 2 ]
    [[ $output == "reprise export: perfetto is no text for a terminal; give --output=FILE"* ]]
}

# The trace says of each gather that replay issued ahead where it was served, if anywhere.
@test "export: gathers ahead, and flows to their calls" {
    "$BUILD/tests/mktrace" a ranks=1 replay=2 ahead=1 unused=0 live=1
    both_hold_the_same a
    # three steps, forward and backward
    [ "$(grep -c "^slice (1, 'gathered ahead, communicator 0 (issued by the host)') .* ahead all-gather ahead 2.0 MiB" checked)" = 12 ]
    [ "$(grep -c '^flow ' checked)" = 6 ]
    [ "$(grep -c "('use', 'unused')" checked)" = 6 ]
    has "slice (1, 'gathered ahead, communicator 0 (issued by the host)') 36500000 to 36520000 ahead all-gather ahead \
2.0 MiB [('ahead_ns', 1500000), ('behind', 26), ('bytes', 2097152), ('communicator', 0), ('expected', 28), ('number', 2), \
('op', 37), ('position', 28), ('sends', 'live')]"
    has "flow (1, 'gathered ahead, communicator 0 (issued by the host)') 36500000 all-gather ahead 2.0 MiB \
to (1, 'thread 0') 38000000 all-gather 2.0 MiB bfloat16"
    grep -q "call all-gather 2.0 MiB bfloat16 \[('ahead_ns', 1500000), .*('source', 'prefetch')" checked
    grep "^count .*'gathers ahead, issued and not yet used'" checked | awk '{ print $NF }' | sort | uniq -c |
        diff - <(printf '      6 0\n      6 1\n')
    [ "$(awk '/^count .*gathered ahead from the network/ { sum += $NF } END { print sum }' checked)" = $((12 * 2097152)) ]
    # A step that it does not begin in has the call, and no flow.
    both_hold_the_same a --steps 1:2
    [ "$(grep -c '^flow ' checked)" = 0 ]
    export_as jsonl a
    python3 - << 'END'
import json
lines = [json.loads(line) for line in open("jsonl")]
ops = {line["op"]: line for line in lines if "op" in line}
ahead = [line for line in lines if "ahead" in line]
assert len(ops) + len(ahead) == len(lines) and [line["ahead"] for line in ahead] == list(range(1, 13)), ahead
assert [line["begin_ns"] for line in lines] == sorted(line["begin_ns"] for line in lines)
used = [line for line in ahead if line["used_by"] is not None]
assert len(used) == 6 == sum(op["source"] == "prefetch" for op in ops.values())
for line in used:
    op = ops[line["used_by"]]
    assert op["source"] == "prefetch" and op["position"] == line["position"] == line["expected"]
    assert op["begin_ns"] - line["begin_ns"] == 1500000 and line["wall_ns"] == op["wall_ns"] - 1500000
END
}

# Every call that was served from a gather ahead has a flow from it, and ranks alike.
@test "export: a real replay with gathers ahead" {
    export FAKE_GRANULE_KB=4 FAKE_LINK_LATENCY_US=10 FAKE_LINK_GBPS=0.0123 # as in ahead.bats
    REPRISE_TRIAL=0 REPRISE_PREFETCH=1 REPRISE_BUDGET=128K REPRISE_LOG=none "$BUILD/reprise" run --replay run -- \
        "$BUILD/minitrain" --ranks 4 --layers 8 --dim 90 --tokens 1 --microbatches 4 --steps 20 --compute-us 1500 \
        --timeout 60 > /dev/null
    both_hold_the_same run
    [ "$(grep -c '^flow ' checked)" -gt 80 ]
    [ "$(grep -c '^flow ' checked)" = "$(grep -c "('source', 'prefetch')" checked)" ]
    for rank in 0 1 2 3; do
        "$BUILD/reprise" export run --format jsonl --rank $rank | grep '"ahead":' |
            sed 's/"rank":[0-9]*,//; s/"step":[0-9]*,//; s/,"begin_ns".*//; s/"used_by":[0-9]*,//' > ahead.$rank
    done
    [ -s ahead.0 ]
    cmp ahead.0 ahead.1 && cmp ahead.0 ahead.2 && cmp ahead.0 ahead.3
}

@test "export: real recordings on the stand-in" {
    export FAKE_REALTIME=0
    LD_PRELOAD=./libreprise.so REPRISE_MODE=record REPRISE_TRACE=run REPRISE_DETAIL=launches REPRISE_LOG=none \
        "$BUILD/minitrain" --ranks 2 --steps 8 > /dev/null
    both_hold_the_same run
    [ "$(grep -c '^process ' checked)" = 2 ]
    [ "$(grep -c '^slice .* call all-gather ' checked)" -gt 100 ]
}

@test "export: no trace is written over" {
    "$BUILD/tests/mktrace" a
    cp a/rank-1.rpt b
    ln -s a/rank-0.rpt link
    for output in a/rank-0.rpt a/rank-1.rpt b link; do
        refused "$output: is a trace, which would be lost; give another file to --output" a --format chrome -o "$output"
        refused "$output: is a trace, which would be lost; give another file to --output" a/rank-0.rpt --format jsonl -o "$output"
    done
    cmp a/rank-1.rpt b
    printf '\x63' | dd of=b bs=1 seek=8 conv=notrunc status=none
    refused "b: is a trace, which would be lost; give another file to --output" a --format chrome -o b
}
