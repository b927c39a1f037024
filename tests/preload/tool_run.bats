#!/usr/bin/env bats
# reprise run: what the command finds in its environment, and how it ends.

load place
load command

setup() {
    place
}

@test "run: the environment of the command" {
    # shellcheck disable=SC2016 # the command's shell expands them
    succeeds run -- sh -c 'echo "$LD_PRELOAD|$REPRISE_MODE|${REPRISE_TRACE-unset}"'
    has "$BUILD/libreprise.so|record|unset"
    # shellcheck disable=SC2016
    LD_PRELOAD="" REPRISE_MODE=off succeeds run --record d/e sh -c 'echo "$LD_PRELOAD|$REPRISE_MODE|$REPRISE_TRACE"'
    has "$BUILD/libreprise.so|record|$PWD/d/e"
    # shellcheck disable=SC2016
    succeeds run --record /somewhere/else -- sh -c 'echo "$REPRISE_TRACE"'
    has "/somewhere/else"
    [ ! -e d ]
}

@test "run: replay" {
    # shellcheck disable=SC2016 # the command's shell expands them
    succeeds run --replay d/e -- sh -c 'echo "$LD_PRELOAD|$REPRISE_MODE|$REPRISE_TRACE"'
    has "$BUILD/libreprise.so|replay|$PWD/d/e"
    # shellcheck disable=SC2016
    REPRISE_MODE=replay succeeds run -- sh -c 'echo "$REPRISE_MODE"'
    has "replay"
    # shellcheck disable=SC2016
    REPRISE_MODE=Replay succeeds run --replay x -- sh -c 'echo "$REPRISE_MODE"'
    has "replay"
}

@test "run: a mode in the environment gives way to an option, which is said" {
    # shellcheck disable=SC2016 # the command's shell expands them
    REPRISE_MODE=replay reprise run --record x -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ]
    has "record"
    [ "$(cat err)" = "reprise run: --record takes the place of REPRISE_MODE=replay" ]
    # shellcheck disable=SC2016
    REPRISE_MODE=record reprise run --replay x -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ]
    has "replay"
    [ "$(cat err)" = "reprise run: --replay takes the place of REPRISE_MODE=record" ]
}

@test "run: a malformed mode in the environment is said" {
    # shellcheck disable=SC2016 # the command's shell expands them
    REPRISE_MODE=replya reprise run -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ]
    has "record"
    [ "$(cat err)" = 'reprise run: REPRISE_MODE is "replya", expected: off, record, replay; recording' ]
    # shellcheck disable=SC2016
    REPRISE_MODE=$'\e[1m' reprise run --replay x -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ]
    has "replay"
    [ "$(cat err)" = 'reprise run: REPRISE_MODE is "\x1b[1m", expected: off, record, replay; replaying' ]
    # shellcheck disable=SC2016
    REPRISE_MODE='' succeeds run -- sh -c 'echo "$REPRISE_MODE"'
    has "record"
}

@test "run: the library takes what replay can be told" {
    local train=("$BUILD/minitrain" --timeout 100 --steps 2 --dim 16 --ranks 1)
    export LD_LIBRARY_PATH=$BUILD/fake
    reprise run --replay trace -- env RANK=0 REPRISE_BUDGET=6G REPRISE_TIMEOUT=1.5s REPRISE_VERIFY=inline REPRISE_STRICT=0 \
        "${train[@]}"
    cat err
    [ "$status" = 0 ]
    [ "$(grep -c ' options: ' err)" = 0 ]
    reprise run --replay other -- env RANK=0 REPRISE_BUDGET=0 "${train[@]}"
    cat err
    [ "$status" = 0 ]
    [ "$(grep ' options: ' err | sort -u)" = \
        'reprise: [rank 0] warn options: REPRISE_BUDGET is "0", expected: auto, or bytes above 0, with K, M or G (times 1024); using auto' ]
}

@test "run: an LD_PRELOAD that is there is kept behind ours" {
    cp "$BUILD/libreprise.so" other.so
    # shellcheck disable=SC2016
    LD_PRELOAD=$PWD/other.so "$BUILD/reprise" run --lib "$BUILD/libreprise.so" sh -c 'echo "$LD_PRELOAD"' > out
    has "$BUILD/libreprise.so:$PWD/other.so"
}

@test "run: options behind the command are the command's, and so is the exit code" {
    succeeds run echo --record x -- --lib
    has "--record x -- --lib"
    reprise run -- sh -c 'exit 7'
    [ "$status" = 7 ]
    # shellcheck disable=SC2016
    reprise run -- sh -c 'kill -TERM $$'
    [ "$status" = 143 ]
}

@test "run: a command that cannot be run" {
    reprise run -- ./nowhere
    [ "$status" = 127 ]
    [ "$(cat err)" = "reprise run: ./nowhere: No such file or directory" ]
    touch plain
    reprise run -- ./plain
    [ "$status" = 126 ] && [ "$(cat err)" = "reprise run: ./plain: Permission denied" ]
}

@test "run: the library is found beside the command, in ../lib, or said to be missing" {
    mkdir -p installed/bin installed/lib "with space"
    cp "$BUILD/reprise" installed/bin/
    status=0
    installed/bin/reprise run -- true 2> err || status=$?
    [ "$status" = 2 ]
    [ "$(cat err)" = "reprise run: libreprise.so is neither in $PWD/installed/bin nor in $PWD/installed/bin/../lib; name it with --lib" ]
    cp "$BUILD/libreprise.so" installed/lib/
    # shellcheck disable=SC2016
    installed/bin/reprise run -- sh -c 'echo "$LD_PRELOAD"' > out
    has "$PWD/installed/lib/libreprise.so"
    fails "reprise run: ./nowhere.so: No such file or directory" run --lib ./nowhere.so -- true
    cp "$BUILD/libreprise.so" "with space/"
    fails "reprise run: */with space/libreprise.so: the loader cannot preload from a path with a space or a colon" \
        run --lib "with space/libreprise.so" -- true
}
