# What tests of the command line share: how a command is run, and what it must print and return.

make_trace() {
    "$BUILD/tests/mktrace" "$@"
}

# Runs reprise; then $status is its exit code, out and err hold what it printed.
reprise() {
    status=0
    "$BUILD/reprise" "$@" > out 2> err || status=$?
}

# The exit code, and nothing on standard error.
succeeds() {
    reprise "$@"
    cat err
    [ "$status" = 0 ] && [ ! -s err ]
}

# Exit code 2, nothing on standard output, and one line on standard error: $1 (a glob).
fails() {
    local expected=$1
    shift
    reprise "$@"
    cat out err
    [ "$status" = 2 ]
    [ ! -s out ]
    [ "$(wc -l < err)" = 1 ]
    # shellcheck disable=SC2053 # a glob is meant
    [[ $(cat err) == $expected ]]
}

# Likewise for a wrong argument, where a second line tells how to get help.
refuses() {
    local expected=$1
    shift
    reprise "$@"
    cat out err
    [ "$status" = 2 ] && [ ! -s out ] && [ "$(head -1 err)" = "$expected" ]
}

# Standard input is what was printed, exactly.
printed() {
    diff - out
}

has() {
    grep -qxF -- "$1" out
}

# run NAME OPTION PROGRAM...: behind the library, on the stand-in, where a gather takes a millisecond.
run_behind() {
    local name=$1 option=$2
    shift 2
    REPRISE_TRIAL=0 LD_LIBRARY_PATH=$BUILD/fake FAKE_REALTIME=1 FAKE_LINK_LATENCY_US=1000 timeout 60 \
        "$BUILD/reprise" run "$option" "$name" -- "$@" > "$name.log" 2>&1 || {
        cat "$name.log"
        return 1
    }
}
