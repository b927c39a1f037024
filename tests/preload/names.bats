#!/usr/bin/env bats
# The names in /dev/shm by which ranks meet: none is left, also by ranks that are killed, and what was left is removed.
# Other runs of this machine have names for a moment, and remove what was left:
# runs alone

load place

setup() {
    place
}

names_of_ours() {
    find /dev/shm -maxdepth 1 -name 'reprise-*' | sort
}
nothing_new() {
    [ -z "$(comm -13 before <(names_of_ours))" ]
}

@test "nothing is left in /dev/shm, also of ranks that are killed" {
    names_of_ours > before
    "$BUILD/reprise" run --replay trace -- "$BUILD/minitrain" --timeout 60 --checksums --steps 100000 --log-every 1 \
        > /dev/null 2> log 3>&- &
    parent=$!
    until grep -q 'step 12 ' log; do
        kill -0 $parent
        sleep 0.05
    done
    kill -KILL $(pgrep -P $parent) $parent
    wait $parent || true
    for _ in {1..50}; do
        if nothing_new; then break; fi
        sleep 0.1
    done
    nothing_new
    "$BUILD/reprise" show trace > shown
    [ "$(grep -c '  cut short' shown)" = 2 ]
}

# A run of several communicators, which finds what was left.
trains() {
    rm -rf trace
    REPRISE_TRACE=$PWD/trace REPRISE_MODE=replay LD_PRELOAD=$PWD/libreprise.so timeout 60 "$BUILD/tests/replay_life" plain
}

# What a killed rank leaves in /dev/shm a later run removes; not what somebody waits with.
@test "names that killed ranks leave are removed" {
    local name='' pid
    names_of_ours > before
    REPRISE_TRACE=$PWD/alone REPRISE_MODE=replay LD_PRELOAD=$PWD/libreprise.so timeout 60 "$BUILD/tests/replay_life" alone 3>&- &
    until [ -n "$name" ]; do
        sleep 0.05
        for name in $(comm -13 before <(names_of_ours)); do
            pid=$(grep -ls "$name" /proc/[0-9]*/maps | head -n 1 | cut -d / -f 3)
            [ -n "$pid" ] && grep -q alone "/proc/$pid/cmdline" && break
            name=''
        done
    done
    touch -d '10 minutes ago' "$name"
    trains
    [ -e "$name" ]
    kill -KILL "$pid"
    wait $!
    [ -e "$name" ]
    trains
    [ ! -e "$name" ]
}
