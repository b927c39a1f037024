#!/usr/bin/env bats
# reprise ranks: what it prints and returns, on ranks that mktrace makes up (the whole text, as in tests/data/golden), and on
# runs on the stand-in.

load place

setup() {
    place
    train=("$BUILD/minitrain" --ranks 2)
}

# Runs reprise ranks; then $status is its exit code, out and err hold what it printed.
ranks() {
    status=0
    "$BUILD/reprise" ranks "$@" > out 2> err || status=$?
    cat out err
}

# The ranks that mktrace makes of the rest have that exit code, and the text of that name.
golden() {
    local name=$1 expected=$2
    shift 2
    "$BUILD/tests/mktrace" "$name" receive=1 "$@"
    same_text "$name" "$expected"
}

same_text() {
    ranks "$1"
    [ "$status" = "$2" ]
    [ ! -s err ]
    diff "$BATS_TEST_DIRNAME/../data/golden/ranks-$1.txt" out
}

record() {
    "$BUILD/reprise" run --record "$@" > train.out 2> train.err
}

# Exit code 2, nothing on standard output, and this is the first line on standard error (a glob).
fails() {
    local expected=$1
    shift
    ranks "$@"
    [ "$status" = 2 ]
    [ ! -s out ]
    # shellcheck disable=SC2053 # a glob is meant
    [[ $(head -1 err) == $expected ]]
}

@test "ranks that agree, with one that comes last" {
    golden agree 0
    golden late 0 ranks=3 only=2 late=250
}

@test "mismatches: type, size, dtype, reduction, several at once" {
    golden type 1 ranks=3 only=1 norm=8
    golden size 1 ranks=4 only=3 resize=1
    golden dtype 1 only=0 retype=1
    golden reduction 1 ranks=3 only=1 norm=2
    golden several 1 ranks=3 only=1 norm=6 resize=2
}

@test "a rank that leaves a layer out" {
    golden skipped 1 ranks=4 only=2 skip=1
    golden skipped-at-the-end 1 ranks=3 only=0 skip=2 at=5
}

@test "a rank that is behind, and messages without the other end" {
    golden behind 1 only=1 end=4
    golden messages 1 receive=0
}

@test "ranks to which an all-reduce delivered other bytes" {
    golden bytes 1 ranks=3 only=1 norm=1
    golden two-bytes 1 only=1 norm=1
}

@test "a rank without a trace, with another run's, with losses" {
    "$BUILD/tests/mktrace" missing ranks=4 receive=1
    rm missing/rank-2.rpt
    same_text missing 1
    golden other-run 1 ranks=3 only=2 alone=1
    golden losses 0 lost=3
}

@test "the file job says which run it is, and the mark failed who could not record" {
    "$BUILD/tests/mktrace" a receive=1
    echo comm=0000000000000001 > a/job
    ranks a
    [ "$status" = 0 ]
    echo comm=0000000000000005 > a/job
    ranks a
    [ "$status" = 1 ]
    [ "$(head -1 out)" = "undecided: the trace of rank 0 is of another run; what can be compared agrees: 0 ranks, 0 communicators, 0 collectives" ]
    ln -s "rank 1: No space left on device" a/failed
    ranks a
    grep -qx 'a recording failed: rank 1: No space left on device' out
}

@test "empty, of one call, cut anywhere" {
    "$BUILD/tests/mktrace" empty steps=0
    ranks empty
    [ "$status" = 0 ]
    [ "$(head -1 out)" = "ranks agree: 2 ranks, 2 communicators, 0 collectives" ]
    "$BUILD/tests/mktrace" one steps=1 layers=0 receive=1
    ranks one
    [ "$status" = 0 ]
    [ "$(head -1 out)" = "ranks agree: 2 ranks, 2 communicators, 1 collective, 2 messages" ]

    "$BUILD/tests/mktrace" a receive=1
    local bytes
    for bytes in 64 100 2000 4000 6000; do
        mkdir "cut$bytes"
        head -c $bytes a/rank-0.rpt > "cut$bytes/rank-0.rpt"
        cp a/rank-1.rpt "cut$bytes/"
        ranks "cut$bytes"
        [ "$status" = 1 ]
        [ ! -s err ]
        grep -q '^   0 .* cut short' out
    done
    mkdir cut10
    head -c 10 a/rank-0.rpt > cut10/rank-0.rpt
    cp a/rank-1.rpt cut10/
    ranks cut10
    [ "$status" = 1 ]
    [ "$(head -1 out)" = "undecided: the trace of rank 0 cannot be read; what can be compared agrees: 1 rank, 2 communicators, 60 collectives" ]
    [ "$(cat err)" = "reprise: error trace: cut10/rank-0.rpt: byte 10: the file ends inside its header" ]

    fails "reprise: error trace: nowhere: cannot be opened: No such file or directory" nowhere
    fails "reprise ranks: no run given"
    fails "reprise ranks: takes one run" a a
    fails "reprise ranks: --json and --csv exclude each other" --json --csv a
}

@test "a rank whose trace is corrupt or of another version is said, and the others are compared" {
    "$BUILD/tests/mktrace" unreadable ranks=4 receive=1
    printf '\xff' | dd of=unreadable/rank-1.rpt bs=1 seek=1000 conv=notrunc status=none
    printf '\x63' | dd of=unreadable/rank-3.rpt bs=1 seek=8 conv=notrunc status=none
    ranks unreadable
    [ "$status" = 1 ]
    [ "$(head -1 out)" = "undecided: the traces of ranks 1, 3 cannot be read; what can be compared agrees: 2 ranks, \
2 communicators, 60 collectives" ]
    grep -q '^   1  - .*  unreadable  -$' out
    grep -qx 'the trace of rank 1 cannot be read: byte [0-9]*: .*' out
    grep -qx 'the trace of rank 3 cannot be read: byte 8: the trace has another version, 99.*' out
    [ "$(grep -c 'no trace of' out)" = 0 ]
    [ "$(grep -c '^reprise: error trace: unreadable/rank-[13].rpt: byte ' err)" = 2 ]
    [ "$(wc -l < err)" = 2 ]
    ranks unreadable --csv
    [ "$status" = 1 ]
    [ "$(cut -d, -f1 out | tr '\n' ' ')" = "rank 0 1 2 3 " ]
    grep -q '^3,,"unreadable: byte 8: .*",,,,,,,,,,$' out
    ranks unreadable --json
    [ "$status" = 1 ]
    grep -q '"verdict": "undecided"' out
    grep -q '{"rank": 1, "host": null, "trace": "unreadable", "cause": "byte [0-9]*: .*", .*"ops": null' out
    ! command -v python3 > /dev/null || python3 -m json.tool out > /dev/null
    # What the others do not agree on is more than that.
    "$BUILD/tests/mktrace" both ranks=4 only=2 skip=1
    printf '\x63' | dd of=both/rank-0.rpt bs=1 seek=8 conv=notrunc status=none
    ranks both
    [ "$status" = 1 ]
    [[ $(head -1 out) == "ranks disagree: "* ]]
    grep -q '^the trace of rank 0 cannot be read: ' out
    cp both/rank-0.rpt both/rank-1.rpt
    cp both/rank-0.rpt both/rank-2.rpt
    cp both/rank-0.rpt both/rank-3.rpt
    fails "reprise: error trace: both/rank-0.rpt: byte 8: the trace has another version*" both
}

@test "for programs: JSON and CSV" {
    "$BUILD/tests/mktrace" a receive=1 ranks=3 only=1 norm=6 resize=2
    ranks --json a
    [ "$status" = 1 ]
    grep -qF '"verdict": "disagree"' out
    grep -qF '{"classes": ["size mismatch", "dtype mismatch", "reduction mismatch"], "communicator": 1, "position": 3,' out
    [ "$(tr -cd '{[' < out | wc -c)" = "$(tr -cd '}]' < out | wc -c)" ]
    ! command -v python3 > /dev/null || python3 -m json.tool out > /dev/null
    grep -qF '"hint": null' out
    "$BUILD/tests/mktrace" shifted ranks=3 only=0 skip=2 at=5 receive=1
    ranks --json shifted
    [ "$status" = 1 ]
    grep -qF '"hint": {"rank": 0, "calls": -3, "position": 47, "text": "rank 0 has 3 calls less from position 47 on; then they fit"}' out
    grep -qF '"names_differ_from": 47,' out
    ranks --csv a
    [ "$(wc -l < out)" = 4 ]
    [ "$(awk -F, '{ print NF }' out | sort -u)" = 13 ]
    [ "$(sed -n 3p out)" = "1,node-a,complete,0,78,60,12,0,0,32,0,0,all-reduce 8 B float64 max (norm optimizer)" ]
}

@test "runs of minitrain agree: plain, with a layer left out, in stages, with messages" {
    local -A runs=([plain]="--ranks 2 --steps 6" [uneven]="--ranks 2 --steps 8 --skip-layer 4"
        [stages]="--ranks 4 --stages 2 --steps 4" [messages]="--ranks 3 --two-comms --sendrecv --log-every 2 --steps 4")
    local name
    for name in "${!runs[@]}"; do
        # shellcheck disable=SC2086 # they are several words
        record "$name" -- "$BUILD/minitrain" ${runs[$name]}
        ranks "$name"
        [ "$status" = 0 ]
        grep -q '^ranks agree: ' out
    done
}

@test "the rank that died is the one that is behind" {
    record killed -- "${train[@]}" --steps 300 --kill 1:250 --timeout 2 || true
    ranks killed
    [ "$status" = 1 ]
    [[ $(head -1 out) == "ranks disagree: communicator 0, position "*": not issued by rank 1: "* ]]
    grep -qx 'behind, and ahead of no other rank: rank 1' out
    grep -q '^   1 .* cut short ' out
}

@test "the rank that lags is the one that comes last" {
    record lag -- "$BUILD/minitrain" --ranks 3 --steps 6 --lag 1:3000
    ranks --csv lag
    [ "$status" = 0 ]
    [ "$(awk -F, 'NR > 1 { print $11, $1 }' out | sort -n | tail -1 | cut -d' ' -f2)" = 1 ]
}
