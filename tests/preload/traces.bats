#!/usr/bin/env bats
# Traces of every version of the format (tests/data/traces): those of this major version are read and shown as they
# always were, others are refused.

load place

setup() {
    place
    traces=$BATS_TEST_DIRNAME/../data/traces
    format=$BATS_TEST_DIRNAME/../../core/trace
}

# defined NAME FILE: the number that the header gives a macro.
defined() {
    sed -n "s/^#define $1 \([0-9]*\)u\$/\1/p" "$format/$2"
}

@test "every version has its trace" {
    local version current
    current=$(defined RP_TRACE_VERSION trace.h).$(defined RP_FILE_MINOR trace_format.h)
    [ -f "$traces/$current/rank-0.rpt" ]
    grep -qx "# The trace format, version $current" "$format/README.md"
    mapfile -t versions < <(sed -n 's/^| \([0-9]*\.[0-9]*\) | .*/\1/p' "$format/README.md")
    [ ${#versions[@]} -ge 3 ]
    for version in "${versions[@]}"; do
        echo "$version"
        [ -f "$traces/$version/rank-0.rpt" ]
    done
    for version in "$traces"/[0-9]*; do # and is of it
        [ "$(od -A n -t u2 -j 8 -N 4 "$version/rank-0.rpt" | awk '{ print $1 "." $2 }')" = "${version##*/}" ]
    done
}

@test "those of this major version are shown as ever" {
    local version rank read=0
    for version in "$traces/$(defined RP_TRACE_VERSION trace.h)".*; do
        for rank in 0 1; do
            "$BUILD/reprise" show "$version" --rank "$rank" --csv --step all --all-ops
        done | diff "$version/ops.csv" -
        "$BUILD/reprise" sites "$version" --csv | diff "$version/sites.csv" -
        if [ -f "$version/ahead.jsonl" ]; then
            "$BUILD/reprise" export "$version" --format jsonl | grep '"ahead":' | diff "$version/ahead.jsonl" -
        fi
        "$BUILD/reprise" diff "$version" "$version"
        read=$((read + 1))
    done
    [ "$read" -ge 2 ]
}

@test "those of another are refused, with both versions" {
    local version major refused=0
    major=$(defined RP_TRACE_VERSION trace.h)
    for version in "$traces"/[0-9]*; do
        [[ $version != */$major.* ]] || continue
        run "$BUILD/reprise" show "$version"
        echo "$output"
        [ "$status" = 2 ]
        [ "$output" = "reprise: error trace: $version/rank-0.rpt: byte 8: the trace has another version, ${version##*/}, \
than this reprise, which reads $major.x; read it with the reprise that wrote it" ]
        refused=$((refused + 1))
    done
    [ "$refused" -ge 3 ]
}
