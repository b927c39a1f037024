#!/usr/bin/env bats
# What gathers ahead are planned by: the compute of a step that the engine has measured is the one that minitrain has
# timed itself on its compute stream, though hosts run ahead and the link is busy.

load place

setup() {
    place
    export FAKE_GRANULE_KB=4 FAKE_LINK_LATENCY_US=10 FAKE_LINK_GBPS=0.0165 REPRISE_TRIAL=0 REPRISE_LOG=debug \
        REPRISE_PREFETCH=1
}

# times_of OPTION...: what was planned with first, in ms, and what minitrain timed.
times_of() {
    "$BUILD/reprise" run --replay trace -- "$BUILD/minitrain" --ranks 2 --layers 4 --microbatches 2 --dim 128 --steps 16 \
        --compute-us 1000 --times "$@" > out 2> err || return
    measured=$(sed -n 's/.* planned with: .* compute \([0-9.]*\) ms a cycle.*/\1/p' err | head -n 1)
    timed=$(sed -n 's/^times of rank 0.* compute_ms \([0-9.]*\).*/\1/p' out)
    echo "measured ${measured:-nothing}, timed ${timed:-nothing}"
    [ -n "$measured" ] && [ -n "$timed" ]
}

# Less than one in two hundred apart: of device times that are modelled.
as_timed() {
    times_of "$@"
    awk -v a="$measured" -v b="$timed" 'BEGIN { exit !(a > b * 0.995 && a < b * 1.005) }'
}

@test "gathers from a copy-in" { as_timed; }
@test "gathers from a persistent shard" { as_timed --gather persistent; }
@test "groups, waited for as one" { as_timed --group; }
@test "recompute as FSDP1" { as_timed --recompute fsdp1; }
@test "backward on a second thread" { as_timed --threads; }
@test "the legacy default stream" { as_timed --default-stream; }

# Their waits are not left out: the plan does not have them on its link.
@test "reductions on another communicator are compute" {
    times_of --two-comms
    reductions=$(sed -n 's/^times of rank 0.* reduction_ms \([0-9.]*\).*/\1/p' out)
    awk -v a="$measured" -v b="$timed" -v r="$reductions" 'BEGIN { exit !(r > 1 && a > (b + r) * 0.995 && a < (b + r) * 1.005) }'
}

# Ranks plan with what rank 0 has measured.
@test "rank 0 alone says what it has planned with" {
    times_of
    grep 'planned with: ' err > said
    [ "$(grep -c '\[rank 0\]' said)" = "$(wc -l < said)" ]
}
