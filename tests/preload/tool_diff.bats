#!/usr/bin/env bats
# reprise diff: what it prints, byte by byte, for every class of difference alone and together (tests/data/golden/diff-*.txt),
# its options, and its JSON. The traces are made up by mktrace.

load place
load command

setup() {
    place
    golden=$BATS_TEST_DIRNAME/../data/golden
}

# The runs differ, and the first line says so: $1.
differs() {
    local expected=$1
    shift
    reprise diff "$@"
    cat out err
    [ "$status" = 1 ] && [ ! -s err ] && [ "$(head -1 out)" = "different: $expected" ]
}

# makes A: a trace of that name, with the settings behind.
makes() {
    local name=$1
    shift
    rm -rf "${name:?}"
    "$BUILD/tests/mktrace" "$name" "$@"
}

# golden NAME STATUS [OPTION...]: reprise diff a b prints exactly what diff-NAME.txt has, and nothing else. GOLDEN=write
# writes the file instead.
is_golden() {
    local file=$golden/diff-$1.txt expected=$2
    shift 2
    reprise diff a b "$@"
    cat err
    [ "$status" = "$expected" ]
    [ ! -s err ]
    [ "${GOLDEN:-}" != write ] || cp out "$file"
    diff "$file" out
}

# case NAME STATUS SETTING...: b differs from a in these settings.
case_of() {
    local name=$1 expected=$2
    shift 2
    makes a
    makes b "$@"
    is_golden "$name" "$expected"
}

@test "diff: golden: nothing differs" {
    case_of same 0
    is_golden same-all 0 --all
}

@test "diff: golden: each class alone" {
    case_of only-a 1 skip=1
    case_of moved 1 move=0 at=2
    case_of size 1 resize=1
    case_of dtype 1 retype=0
    case_of reduction 1 reduction=2
    case_of name 1 rename=2 at=0
    case_of launches 1 launches=0
    case_of bytes 1 bytes=2 only=1
    case_of retimed 0 slow=1 at=0
    case_of ends 1 steps=4
}

@test "diff: golden: another shape of the program" {
    case_of microbatches 1 microbatches=2
    case_of layers 1 layers=4
    case_of recompute 1 recompute=1
    case_of seed 1 seed=7
}

@test "diff: golden: classes together" {
    case_of moved-and-size 1 move=0 resize=2 at=2
    case_of dtype-reduction-bytes 1 retype=0 reduction=0 bytes=1
    case_of only-a-launches-retimed 1 skip=2 launches=0 slow=1 at=2
    case_of microbatches-and-name 1 microbatches=2 rename=1 at=0
}

@test "diff: golden: launches behind a gather ahead are those of the layer that goes on" {
    makes a prefetch=1
    makes b prefetch=1 again=1
    is_golden launches-ahead 1
    [[ $(head -1 out) == "different: step 4, layers.1 backward, launches behind all-gather 2.0 MiB bfloat16 of layers.0 backward, rank 0: other kernel launches, 7 in A, 14 in B (communicator 0, position 33)" ]]
    makes b prefetch=1 again=1 bytes=0 # named by the op, whose bytes differ too
    reprise diff a b
    grep -q '^  step 4, layers.0 backward, all-gather .*: other kernel launches of layers.1 backward, 7 in A, 14 in B, other bytes (' out
}

@test "diff: golden: what is missing is said" {
    case_of cut 0 finish=0 lost=2
    makes a ranks=3
    makes b fingerprints=0
    is_golden ranks 1
}

# ---------------------------------------------------------------- verdicts

@test "diff: the same" {
    make_trace a
    make_trace b
    succeeds diff a b
    printed << 'END'
same: 2 ranks, 132 ops, also by bytes
A: a
B: b
END
    succeeds diff a b --rank 1
    has "same: 1 rank, 66 ops, also by bytes"
    succeeds diff a/rank-0.rpt b/rank-0.rpt
    [ "$(head -1 out)" = "same: 1 rank, 66 ops, also by bytes" ]
}

@test "diff: a replayed run and a recorded one are the same in order" {
    make_trace a steps=7
    make_trace b steps=7 replay=3 miss=1 withdraw=2 at=4
    succeeds diff a b
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint"
    succeeds diff b a
    succeeds diff b b
    make_trace c steps=7 replay=3 skip=1 at=5
    differs "step 6, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 46)" a c
}

@test "diff: names that a replayed run did not look up are no difference" {
    make_trace a steps=7
    make_trace b steps=7 replay=3 names=0
    succeeds show b --plan
    grep -Eq '^ +48  - +- +all-gather 2.0 MiB bfloat16 +0  memory$' out
    succeeds diff a b
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint"
    succeeds diff b a
    make_trace c steps=7 replay=3 names=0 rename=1 at=0
    differs "step 1, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other module or phase, in B blocks.1 forward (communicator 0, position 1)" a c
}

@test "diff: a rank that only one run has" {
    make_trace a
    differs "the runs have different ranks" a a/rank-0.rpt
    has "1 rank only in A"
    differs "the runs have different ranks" a/rank-1.rpt a
    has "1 rank only in B"
}

@test "diff: a skipped layer" {
    make_trace a
    make_trace b skip=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)" a b
}

@test "diff: more layers" {
    make_trace a
    make_trace b layers=5
    differs "step 1, layers.3 forward, all-gather 2.0 MiB bfloat16, rank 0: only in B (communicator 0, position 3)" a b
    has "        72  only in B"
    has "         0  only in A"
}

@test "diff: size, data type, name, launches, bytes" {
    make_trace a
    make_trace size resize=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other size (communicator 0, position 28)" a size
    has "        18  other size"
    has "bytes compared for 102 of 120 ops with a fingerprint"
    make_trace type retype=0
    differs "step 4, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0: other data type (communicator 0, position 27)" a type
    make_trace name rename=2 at=0
    differs "step 1, layers.2 forward, all-gather 2.0 MiB bfloat16, rank 0: other module or phase, in B blocks.2 forward (communicator 0, position 2)" a name
    grep -q '^  B>        2  blocks.2  forward ' out
    make_trace launches launches=0
    differs "step 4, layers.0 forward, launches behind all-gather 2.0 MiB bfloat16, rank 0: other kernel launches, 7 in A, 8 in B (communicator 0, position 27)" a launches
    has "first difference of kernel launches"
}

@test "diff: other bytes, on one rank" {
    make_trace a
    make_trace b bytes=2 only=1
    differs "step 4, layers.2 forward, all-gather 2.0 MiB bfloat16, rank 1: other bytes (communicator 0, position 29)" a b
    has "first difference of bytes"
    has "         9  other bytes"
    succeeds diff a b --rank 0
}

@test "diff: structure and bytes are both named" {
    make_trace a
    make_trace b bytes=2 skip=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)" a b
    has "first difference"
    has "first difference of bytes"
    has "  step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)"
}

@test "diff: a run that ends early" {
    make_trace a
    make_trace b steps=4
    local where="layers.0 backward, reduce-scatter 4.0 MiB float32 avg; A goes on with step 5, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0 (communicator 0, position 36)"
    differs "B ends after $where" a b
    differs "A ends after ${where/; A/; B}" b a
    make_trace none steps=0
    differs "B ends before step 1, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0 (communicator 0, position 0)" a none
}

@test "diff: traces that are cut short or have losses are compared as far as they go" {
    make_trace a
    make_trace b finish=0 lost=1
    succeeds diff a b
    printed << 'END'
same: 2 ranks, 132 ops, also by bytes
A: a
B: b
B, rank 0: cut short, lost 1 launch record
B, rank 1: cut short, lost 1 launch record
END
}

@test "diff: no fingerprints" {
    make_trace a
    make_trace b fingerprints=0
    make_trace c fingerprints=0
    succeeds diff a b
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in B"
    succeeds diff b c
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in A and B"
}

@test "diff: fingerprints of samples" {
    make_trace a sampled=1
    make_trace b sampled=1
    make_trace full
    make_trace none fingerprints=0
    make_trace other sampled=1 bytes=1
    succeeds diff a b
    has "same: 2 ranks, 132 ops, bytes compared for 120 ops, 72 of them by samples"
    succeeds diff a full
    has "same: 2 ranks, 132 ops, bytes compared for 48 of 120 ops with a fingerprint; 72 not comparable: one run hashed all bytes, the other a sample"
    succeeds diff full a
    succeeds diff none a
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in A"
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other bytes (communicator 0, position 28)" a other
    has "bytes compared for 120 ops, 72 of them by samples"
    has "        18  other bytes"
    make_trace unlike bytes=1
    reprise diff a unlike
    [ "$status" = 1 ]
    grep -q '^first difference of bytes among the ops that can be compared' out
    make_trace replayed steps=7 replay=3 sampled=1
    make_trace recorded steps=7 sampled=1
    succeeds diff recorded replayed
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint, 36 of them by samples"
}

@test "diff: a rank that one run cannot read is said, and the others are compared" {
    make_trace a ranks=3
    make_trace b ranks=3
    printf '\x63' | dd of=b/rank-1.rpt bs=1 seek=8 conv=notrunc status=none
    reprise diff a b
    [ "$status" = 1 ]
    [ "$(wc -l < err)" = 1 ]
    [ "$(head -1 out)" = "undecided: rank 1 of B cannot be read; the others are the same: 2 ranks, 132 ops, also by bytes" ]
    grep -q '^B, rank 1: unreadable: byte 8: the trace has another version, 99' out
    reprise diff b a --json
    [ "$status" = 1 ]
    grep -q '"verdict": "undecided"' out
    grep -q '"same": false' out
    grep -q '"unreadable_a": 1' out
    succeeds diff a b --rank 2
    fails "reprise: error trace: b/rank-1.rpt: byte 8: *" diff a b --rank 1
    make_trace c ranks=3 resize=1
    reprise diff c b
    [ "$status" = 1 ]
    [[ $(head -1 out) == "different: step 4, layers.1 forward, "* ]]
    grep -q '^B, rank 1: unreadable: byte 8: ' out
    head -c 10 a/rank-0.rpt > a/rank-0.rpt.cut
    mv a/rank-0.rpt.cut a/rank-0.rpt
    reprise diff a b
    [ "$status" = 1 ]
    [ "$(head -1 out)" = "undecided: rank 0 of A and 1 more cannot be read; the others are the same: 1 rank, 66 ops, also by bytes" ]
    cp b/rank-1.rpt b/rank-2.rpt
    reprise diff a b
    [ "$status" = 2 ] && [ ! -s out ]
}

# ---------------------------------------------------------------- retimed

@test "diff: a time within the noise is no difference, one beyond it makes no runs different" {
    makes a jitter=900
    makes b jitter=901 slow=1 at=5 # one step of six
    reprise diff a b
    [ "$status" = 0 ]
    [[ $(head -1 out) == "same: 2 ranks, 132 ops, also by bytes" ]]
    makes b jitter=901 slow=1 at=0
    reprise diff a b
    [ "$status" = 0 ]
    [[ $(head -1 out) == "the same, but retimed: 2 ranks, 132 ops, also by bytes; a step takes "*" ms in A, "*" ms in B (host time, median of 10 and 10 steps)" ]]
    [ "$(grep -c ' retimed$' out)" = 3 ] # layers.1 forward, backward, and all
}

@test "diff: one step has no noise: its time is not compared" {
    makes a steps=2
    makes b steps=2 slow=1 at=0
    reprise diff a b --rank 0
    [ "$status" = 0 ]
    [[ $(head -1 out) == "same: "* ]]
}

# ---------------------------------------------------------------- options

@test "diff: --steps compares only these" {
    makes a
    makes b bytes=1 at=3
    for steps in 1:3 :3 2 1; do
        reprise diff a b --steps $steps
        [ "$status" = 0 ]
    done
    [ "$(head -1 out)" = "same: 2 ranks, 22 ops, also by bytes" ]
    for steps in 4 3:4 4: 5:6 :6; do
        reprise diff a b --steps $steps
        [ "$status" = 1 ]
    done
    reprise diff a b --steps 5:6
    [ "$(head -1 out)" = "different: step 5, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other bytes (communicator 0, position 37)" ]
}

@test "diff: steps that are not there, wrong --top" {
    makes a
    makes b steps=4
    reprise diff a b --steps 5:6
    [ "$status" = 2 ]
    [ ! -s out ]
    [ "$(cat err)" = "reprise diff: there is no step 5: B, rank 0 has steps 1 to 4" ]
    reprise diff b a --steps 7:
    [ "$status" = 2 ]
    [ ! -s out ]
    [ "$(cat err)" = "reprise diff: there is no step 7: A, rank 0 has steps 1 to 4" ]
    reprise diff a a --top x
    [ "$status" = 2 ]
}

@test "diff: --top" {
    makes a
    makes b layers=4
    reprise diff a b --top 2
    grep -q '^differences, the first 2 of 36$' out
    [ "$(grep -c '^  step ' out)" = 3 ] # and the first by itself
    reprise diff a b --top 0
    [ "$status" = 1 ]
    [ "$(grep -c '^differences' out)" = 0 ]
    reprise diff a b --top 1000
    [ "$(grep -c '^  step ' out)" = 37 ]
}

# ---------------------------------------------------------------- JSON

# json EXPRESSION: a value of out, which is called d.
json() {
    python3 -c 'import json, sys; d = json.load(open("out")); print(json.dumps(eval(sys.argv[1])))' "$1"
}

@test "diff: --json of launches that belong elsewhere" {
    command -v python3 > /dev/null || skip "no python3"
    makes a prefetch=1
    makes b prefetch=1 again=1
    reprise diff a b --json
    [ "$(json 'd["first"]["launches"]')" = '{"module": "layers.1", "phase": "backward", "a": 7, "b": 14}' ]
    [ "$(json '[d["first"]["a"]["module"], d["first_bytes"]]')" = '["layers.0", null]' ]
    [ "$(json '[e["launches"] for e in d["events"] if (e["module"], e["phase"]) == ("layers.1", "backward")]')" = \
        '[{"a": 168, "b": 210}]' ]
    reprise diff a b --json --steps 4 # two ranks, in each 14 behind two calls, and 7 again
    [ "$(json '[e["launches"] for e in d["events"] if (e["module"], e["phase"]) == ("layers.1", "backward")]')" = \
        '[{"a": 28, "b": 42}]' ]
}

@test "diff: --json" {
    command -v python3 > /dev/null || skip "no python3"
    makes a
    makes b resize=1 at=3 finish=0
    reprise diff a b --json --top 2
    [ "$status" = 1 ]
    [ ! -s err ]
    [ "$(json '[d["format"], d["verdict"], d["same"]]')" = '[1, "different", false]' ]
    [ "$(json '[d["classes"][c] for c in ("same", "size", "only_a", "moved")]')" = '[114, 18, 0, 0]' ]
    [ "$(json '[d["places"], len(d["differences"])]')" = '[18, 2]' ]
    [ "$(json '[d["first"]["rank"], d["first"]["classes"], d["first"]["b"]["bytes"]]')" = '[0, ["size"], 4194304]' ]
    [ "$(json '[d["first"]["a"][k] for k in ("step", "module", "phase", "kind", "bytes", "position")]')" = \
        '[4, "layers.1", "forward", "all-gather", 2097152, 28]' ]
    [ "$(json '[d["first"] == d["first_structure"], d["first_bytes"]]')" = '[true, null]' ]
    [ "$(json '[[g["rank"], g["state"]] for g in d["b"]["incomplete"]]')" = '[[0, "cut short"], [1, "cut short"]]' ]
    [ "$(json '[d["events"][0]["module"], d["events"][0]["ops"]["a"], d["events"][0]["host_ns"]["a"]["median"]]')" = \
        '["layers.0", 12, 1000000]' ]
    reprise diff a a --json
    [ "$status" = 0 ]
    [ "$(json '[d["verdict"], d["first"], d["differences"], d["step"]["host_ns"]["a"]["steps"]]')" = '["same", null, [], 10]' ]
    makes b slow=1 at=0
    reprise diff a b --json
    [ "$status" = 0 ]
    [ "$(json '[d["verdict"], d["same"], d["classes"]["retimed"], d["step"]["retimed"]]')" = '["retimed", true, 2, true]' ]
}

# A copy under a name that no recording has is no second file of that rank.
@test "diff: each rank once" {
    make_trace a
    make_trace b resize=1
    for run in a b; do
        cp $run/rank-0.rpt $run/rank-00.rpt
        cp $run/rank-0.rpt $run/rank-4294967296.rpt
        cp $run/rank-1.rpt $run/rank-99999999999999999999.rpt
    done
    reprise diff --json a b
    [ "$status" = 1 ]
    python3 -c 'import json; found = json.load(open("out")); assert found["ranks"]["compared"] == 2 and found["ops"]["a"] == 132, found'
}
