#!/usr/bin/env bats
# Recording, end to end: minitrain on the stand-in behind the library. Whatever stands in the way of the trace, the
# program prints and returns what it does alone, and one line of the whole job names the cause.

load place

setup() {
    place
    library=$PWD/libreprise.so
    train=("$BUILD/minitrain" --timeout 100 --steps 2 --dim 16)
}

teardown() {
    if [ -d small ]; then umount small || true; fi
}

# result NAME COMMAND...: what it prints, but for the measured time, and returns, into NAME.out, .err and .status of the
# test's directory.
result() {
    local name=$BATS_TEST_TMPDIR/$1 status=0
    shift
    "$@" > "$name.raw" 2> "$name.err" || status=$?
    sed 's/, "step_ms_median.*//' "$name.raw" > "$name.out"
    echo $status > "$name.status"
}

# Takes the lines of ours out of with.err, into `lines`.
take_lines() {
    grep '^reprise: ' "$BATS_TEST_TMPDIR/with.err" > "$BATS_TEST_TMPDIR/lines" || true
    sed -i '/^reprise: /d' "$BATS_TEST_TMPDIR/with.err"
}

# Records the training; variables and limits are the caller's.
record() {
    result with env LD_PRELOAD="$library" REPRISE_MODE=record "$@"
    take_lines
}

# The same as alone, and these lines of ours: $1, a pattern for grep -x; $2: how many more lines about the start.
unharmed() {
    cat lines with.err
    cmp plain.out with.out
    diff plain.err with.err
    diff plain.status with.status
    [ "$(grep -cxE -- "$1" lines)" = 1 ]
    [ "$(wc -l < lines)" = $((1 + ${2:-0})) ]
}

recording_to() {
    [ "$(grep -cxE "reprise: \[rank 0\] info trace: recording to $1" lines)" = 1 ]
}

# ranks_of DIR: the ranks in it, and that their traces are complete.
ranks_of() {
    "$BUILD/reprise" show "$1" --step all > shown
    [ "$(grep -c '  complete$' shown)" = "$(sed -n 's/.*, \([0-9]*\) ranks\?.*/\1/p;q' shown)" ]
    awk '/  complete$/ { printf "%s%s", separator, $1; separator = " " }' shown
}

error() {
    printf 'reprise: \\[rank 0\\] error trace: %s' "$1"
}

# ---------------------------------------------------------------- where nothing can be recorded

@test "a directory that may not be written to" {
    result plain "${train[@]}"
    local place=$PWD/closed
    mkdir closed
    chmod 555 closed
    [ "$(id -u)" != 0 ] || place=/sys # closed to root too
    REPRISE_TRACE=$place/trace record "${train[@]}"
    unharmed "$(error "$place/trace: cannot be made: .*(denied|not permitted|Read-only file system); nothing is recorded")"
}

@test "a parent that does not exist" {
    result plain "${train[@]}"
    REPRISE_TRACE=no/parent record "${train[@]}"
    unharmed "$(error ".*/no/parent: cannot be made: No such file or directory; nothing is recorded")"
    [ ! -e no ]
}

@test "a directory that is there, empty or not" {
    result plain "${train[@]}"
    mkdir empty full
    echo mine > full/notes
    for name in empty full; do
        REPRISE_TRACE=$name record "${train[@]}"
        unharmed "$(error ".*/$name: exists and is not of this run; nothing is recorded, it is left as it is")"
    done
    [ "$(ls empty full)" = "empty:

full:
notes" ]
}

@test "a file in the way, and one in the place of the parent" {
    result plain "${train[@]}"
    echo mine > file
    REPRISE_TRACE="file" record "${train[@]}"
    unharmed "$(error ".*/file: exists and is not of this run; nothing is recorded, it is left as it is")"
    REPRISE_TRACE=file/trace record "${train[@]}"
    unharmed "$(error ".*/file/trace: cannot be made: Not a directory; nothing is recorded")"
    [ "$(cat file)" = mine ]
}

@test "a path that is too long" {
    result plain "${train[@]}"
    REPRISE_TRACE=$(printf 'n%.0s' {1..4090}) record "${train[@]}"
    unharmed "$(error "the directory's path is too long; nothing is recorded")"
}

@test "a working directory that was removed" {
    mkdir gone
    cd gone
    rmdir ../gone
    result plain "${train[@]}"
    record "${train[@]}"
    cd "$BATS_TEST_TMPDIR"
    unharmed "$(error ".*reprise-[0-9]+-[0-9]+-[0-9]+: cannot be made: No such file or directory; nothing is recorded")"
}

# ---------------------------------------------------------------- where it ends early

# Several megabytes of trace on each rank; little output, which the limit is for too.
long=(--steps 700)

@test "a limit on the size of files" {
    result plain "${train[@]}" "${long[@]}"
    # What the stand-in shares between ranks is a file too: the limit lies above it, and below the traces.
    (ulimit -f 2500 && REPRISE_TRACE=trace record "${train[@]}" "${long[@]}")
    unharmed "reprise: \[rank [01]\] error trace: .*/trace/rank-[01].rpt: write failed: File too large; recording ends" 1
    recording_to ".*/trace"
    [[ $(readlink trace/failed) == "rank "[01]": File too large" ]]
    "$BUILD/reprise" show trace > shown
    [ "$(grep -Ec '  cut short(, lost .*)?$' shown)" = 2 ]
}

@test "a full disk" {
    mkdir small
    if ! mount -t tmpfs -o size=1m none small 2> /dev/null; then
        rmdir small
        skip "no file system can be mounted here"
    fi
    result plain "${train[@]}" "${long[@]}"
    REPRISE_TRACE=small/trace record "${train[@]}" "${long[@]}"
    unharmed "reprise: \[rank [01]\] error trace: .*/small/trace/rank-[01].rpt: write failed: No space left on device; recording ends" 1
    "$BUILD/reprise" show small/trace > shown
    [ "$(grep -Ec '  cut short(, lost .*)?$' shown)" = 2 ]
}

@test "a file system without inodes left" {
    mkdir small
    if ! mount -t tmpfs -o size=1m,nr_inodes=5 none small 2> /dev/null; then
        rmdir small
        skip "no file system can be mounted here"
    fi
    result plain "${train[@]}" --ranks 4
    REPRISE_TRACE=small/trace record "${train[@]}" --ranks 4
    [ "$(grep -c ' error trace: ' lines)" = 1 ]
    grep -qE ' error trace: .*/small/trace/rank-[0-3].rpt: cannot be made: No space left on device; recording ends$' lines
    diff plain.out with.out
    diff plain.err with.err
}

@test "a disk that is full before the start" {
    mkdir small
    if ! mount -t tmpfs -o size=4k none small 2> /dev/null; then
        rmdir small
        skip "no file system can be mounted here"
    fi
    head -c 4096 /dev/zero > small/filler
    result plain "${train[@]}"
    REPRISE_TRACE=small/trace record "${train[@]}"
    unharmed "$(error ".*/small/trace: cannot be made: No space left on device; nothing is recorded")"
    [ "$(ls small)" = filler ]
}

@test "a run's directory that is removed meanwhile" {
    result plain "${train[@]}" --log-every 100 --steps 1500
    (
        until [ -s trace/rank-0.rpt ] && [ -s trace/rank-1.rpt ]; do sleep 0.05; done
        rm -r trace
    ) &
    REPRISE_TRACE=trace record "${train[@]}" --log-every 100 --steps 1500
    wait $!
    [ ! -e trace ]
    grep -qE 'error trace: .*/trace/rank-[01].rpt: write failed: No such file or directory; recording ends' lines
    [ "$(grep -c ' error trace: ' lines)" = 1 ] # though no rank can leave a mark for the other
    diff plain.out with.out
    diff plain.err with.err
}

# ---------------------------------------------------------------- options

@test "an unknown variable" {
    result plain "${train[@]}"
    REPRISE_TRACES=x REPRISE_TRACE=trace record "${train[@]}"
    unharmed "reprise: \[rank 0\] warn options: REPRISE_TRACES is unknown; did you mean REPRISE_TRACE\?" 1
    recording_to ".*/trace"
}

@test "malformed values" {
    result plain "${train[@]}"
    REPRISE_LOG=loud REPRISE_TRACE=trace record "${train[@]}"
    unharmed 'reprise: \[rank 0\] warn options: REPRISE_LOG is "loud", expected: none, error, warn, info, debug, .*; using info' 1
    recording_to ".*/trace"
    REPRISE_TRACE=$(printf 'n%.0s' {1..4100}) record "${train[@]}"
    unharmed 'reprise: \[rank 0\] warn options: REPRISE_TRACE is "n{60}\.\.\.", expected: .*; using reprise-<time>-<pid of rank 0>' 1
    recording_to ".*/reprise-[0-9]{8}-[0-9]{6}-[0-9]+"
}

@test "a mode in capital letters records, also the names of NVTX ranges" {
    REPRISE_MODE=Record REPRISE_TRACE=trace LD_PRELOAD="$library" "${train[@]}"
    "$BUILD/reprise" show trace --csv --step all | awk -F, 'NR > 1 && $7 == "all-gather"' > gathers
    [ -s gathers ]
    awk -F, '$5 == "-" || $6 == "-" { bad = 1 } END { exit bad }' gathers
}

# Nothing is hooked then, so the rank is the one that a launcher names.
@test "a malformed mode" {
    export WORLD_SIZE=2
    two_ranks() {
        rm -rf "$PWD"/id*
        MINITRAIN_ID_FILE=$PWD/id RANK=1 LOCAL_RANK=1 "${train[@]}" &
        MINITRAIN_ID_FILE=$PWD/id RANK=0 LOCAL_RANK=0 "${train[@]}"
        wait $!
    }
    result plain two_ranks
    LD_PRELOAD=$library REPRISE_MODE=recrod result with two_ranks
    take_lines
    unharmed 'reprise: \[rank 0\] warn options: REPRISE_MODE is "recrod", expected: off, record, replay; using off'
}

@test "a log file that cannot be written" {
    result plain "${train[@]}"
    REPRISE_LOG=info:no/where REPRISE_TRACE=trace record "${train[@]}"
    unharmed "reprise: \[rank 0\] warn log: no/where cannot be opened: No such file or directory; lines go to standard error" 1
    recording_to ".*/trace"
    REPRISE_LOG=info:/dev/full REPRISE_TRACE=other record "${train[@]}"
    [ ! -s lines ]
    diff plain.out with.out
    diff plain.err with.err
    [ "$(ranks_of other)" = "0 1" ]
}

# ---------------------------------------------------------------- where the trace goes

@test "without a name two ranks meet in one directory" {
    result plain "${train[@]}"
    record "${train[@]}"
    unharmed "reprise: \[rank 0\] info trace: recording to .*/reprise-[0-9]{8}-[0-9]{6}-[0-9]+"
    [ "$(compgen -G 'reprise-*' | wc -l)" = 1 ]
    [ "$(ranks_of reprise-*)" = "0 1" ]
}

@test "the same under a launcher like torchrun, and with a job id" {
    launch() {
        rm -rf "$PWD"/id*
        (cd "$1" && MINITRAIN_ID_FILE=../id RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 "${train[@]}") &
        (cd "$1" && MINITRAIN_ID_FILE=../id RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "${train[@]}")
        wait $!
    }
    mkdir a b
    result plain launch a
    for place in a b; do
        [ $place = a ] || export TORCHELASTIC_RUN_ID=1234 TORCHELASTIC_RESTART_COUNT=0
        LD_PRELOAD=$library REPRISE_MODE=record result with launch $place
        take_lines
        unharmed "reprise: \[rank 0\] info trace: recording to .*/$place/reprise-[0-9]{8}-[0-9]{6}-[0-9]+"
        [ "$(compgen -G "$place/reprise-*" | wc -l)" = 1 ]
        [ "$(ranks_of $place/reprise-*)" = "0 1" ]
    done
}

@test "two jobs at the same moment get a directory each" {
    (result first env LD_PRELOAD="$library" REPRISE_MODE=record "${train[@]}") &
    result second env LD_PRELOAD="$library" REPRISE_MODE=record "${train[@]}"
    wait $!
    diff first.out second.out
    [ "$(compgen -G 'reprise-*' | wc -l)" = 2 ]
    for directory in reprise-*; do [ "$(ranks_of "$directory")" = "0 1" ]; done
}

@test "two jobs at the same moment with one name: one records, the other says why it does not" {
    export REPRISE_TRACE=trace
    (result first env LD_PRELOAD="$library" REPRISE_MODE=record "${train[@]}") &
    result second env LD_PRELOAD="$library" REPRISE_MODE=record "${train[@]}"
    wait $!
    cat first.err second.err
    diff first.out second.out
    [ "$(cat first.err second.err | grep -c 'recording to ')" = 1 ]
    [ "$(cat first.err second.err | grep -c 'exists and is not of this run')" = 1 ]
    [ "$(cat first.err second.err | wc -l)" = 2 ]
    [ "$(ranks_of trace)" = "0 1" ]
}

@test "a job that is started again leaves the first trace alone" {
    result plain "${train[@]}"
    export REPRISE_TRACE=trace
    record "${train[@]}"
    cksum trace/* > before
    record "${train[@]}"
    unharmed "$(error ".*/trace: exists and is not of this run; nothing is recorded, it is left as it is")"
    diff before <(cksum trace/*)
}

@test "eight ranks" {
    REPRISE_TRACE=trace/ record "${train[@]}" --ranks 8
    [ "$(wc -l < lines)" = 1 ]
    recording_to ".*/trace"
    [ "$(ranks_of trace)" = "0 1 2 3 4 5 6 7" ]
    [ "$(find trace | wc -l)" = 10 ]
}

# ---------------------------------------------------------------- other ends

@test "ranks that are killed leave what is older than a second" {
    REPRISE_TRACE=trace LD_PRELOAD=$library REPRISE_MODE=record "$BUILD/minitrain" --timeout 100 --steps 1000000 --dim 16 \
        --log-every 10 > /dev/null 2> log 3>&- &
    parent=$!
    until grep -q 'step 50 ' log; do
        kill -0 $parent
        sleep 0.05
    done
    steps=$(sed -n 's/^minitrain: step \([0-9]*\) .*/\1/p' log | tail -1)
    sleep 1
    kill -KILL $(pgrep -P $parent)
    wait $parent || true
    "$BUILD/reprise" show trace > shown
    cat shown
    [ "$(grep -c '  cut short' shown)" = 2 ]
    for rank in 0 1; do
        "$BUILD/reprise" show trace --rank $rank --csv --step all > ops
        [ "$(grep -c ',all-gather,' ops)" -ge $((steps * 19)) ]
        [ "$(grep -c ',reduce-scatter,' ops)" -ge $((steps * 10)) ]
    done
}

@test "a rank that kills itself: the exit code, and both traces" {
    result plain "${train[@]}" --steps 300 --kill 1:250 --timeout 2
    REPRISE_TRACE=trace record "${train[@]}" --steps 300 --kill 1:250 --timeout 2
    diff plain.status with.status
    [ "$(cat plain.status)" != 0 ]
    "$BUILD/reprise" show trace > shown
    cat shown
    grep -q '^   0 ' shown
    grep -q '^   1 .* cut short' shown
}

@test "programs without a communicator print nothing and leave nothing" {
    mkdir here
    cd here
    result plain "$BUILD/tests/test_fake_stream"
    REPRISE_TRACE=$PWD/trace REPRISE_NONSENSE=1 REPRISE_LOG=loud \
        result with env LD_PRELOAD="$library" REPRISE_MODE=record "$BUILD/tests/test_fake_stream"
    cd "$BATS_TEST_TMPDIR"
    diff plain.out with.out
    diff plain.err with.err
    diff plain.status with.status
    [ -z "$(ls here)" ]
}

@test "reprise run passes on how the training ended" {
    result plain "${train[@]}"
    result with "$BUILD/reprise" run --record trace -- "${train[@]}"
    diff plain.out with.out
    diff plain.status with.status
    [ "$(ranks_of trace)" = "0 1" ]
    result with "$BUILD/reprise" run --record other -- "${train[@]}" --no-such-option
    [ "$(cat with.status)" = 2 ]
    [ ! -e other ]
}
