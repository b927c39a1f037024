# What a trace says of where gathers came from, and runs whose replay gains.

# The environment of a run whose collectives take a millisecond of real time: replay gives up where it is not faster than
# the plain run, so one that is not made shows.
slow() {
    env FAKE_REALTIME=1 FAKE_LINK_LATENCY_US=1000 "$@"
}

# sources TRACE RANK: of each gather its communicator, position, module, and where its bytes came from, as one word.
sources() {
    "$BUILD/reprise" show "$1" --csv --step all --rank "$2" |
        awk -F, '{ sub(/"network, kept"$/, "kept") } $7 == "all-gather" { print $12, $4, $5, $NF }'
}

# count TRACE RANK SOURCE: how many gathers came from there.
count() {
    sources "$1" "$2" | grep -c " $3\$" || true
}
