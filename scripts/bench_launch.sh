#!/usr/bin/env bash
# What the launch hook adds, in ns per launch: not preloaded, loaded but off, recording. Needs no GPU.
set -eu
build=${BUILD:-build}
program=$build/bench/bench_launch
library=$PWD/$build/libreprise.so

printf '%-8s %8s %9s %9s %9s %9s %9s %9s\n' mode launches bare p99 hooked p99 added p99
for round in 1 2 3; do
    printf '%-8s ' none && "$program"
    printf '%-8s ' off && LD_PRELOAD=$library "$program"
    printf '%-8s ' record && LD_PRELOAD=$library REPRISE_MODE=record "$program"
    [ "$round" = 3 ] || echo
done
echo 'ns per launch; median and 99th percentile over batches of 64; bare and hooked are measured in turn'
