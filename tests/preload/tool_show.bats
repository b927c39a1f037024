#!/usr/bin/env bats
# reprise show: the run, its steps, their ops and their order, on traces that mktrace makes up.

load place
load command

setup() {
    place
}

@test "show: a run, a step and its order" {
    make_trace a
    succeeds show a
    printed << 'END'
a: train.py, recorded 2026-01-01 00:00:00 UTC, 2 ranks of 2

rank  host              pid       ops   seconds  trace
   0  node-a           4000        72      0.07  complete
   1  node-a           4001        72      0.07  complete

rank 0: 72 ops in 6 steps, 6 of them whole; 2 communicators

communicator  ranks  own rank  made by  of  name
           0      2         0  init      -  world
           1      2         0  split     0  -

  launches  with an event    share  before any op  behind an unnamed op
        65             65  100.00%              0                     0  step 5
       390            390  100.00%              0                     0  whole run

step 5, ops 48 to 59
position  module    phase      op                                  communicator  launches  fingerprint
      36  layers.0  forward    all-gather 2.0 MiB bfloat16                    0         7  87403132
      37  layers.1  forward    all-gather 2.0 MiB bfloat16                    0         7  df9fd245
      38  layers.2  forward    all-gather 2.0 MiB bfloat16                    0         7  d647f370
      39  layers.2  backward   all-gather 2.0 MiB bfloat16                    0         7  d647f370
      40  layers.2  backward   reduce-scatter 4.0 MiB float32 avg             0         7  4cc524d2
      41  layers.1  backward   all-gather 2.0 MiB bfloat16                    0         7  df9fd245
      42  layers.1  backward   reduce-scatter 4.0 MiB float32 avg             0         7  661fddb3
      43  layers.0  backward   all-gather 2.0 MiB bfloat16                    0         7  87403132
      44  layers.0  backward   reduce-scatter 4.0 MiB float32 avg             0         7  82a6962d
       -  -         other      send 1.0 KiB bfloat16 to 1                     0         0  -
       4  norm      optimizer  all-reduce 4 B float32 sum                     1         2  53b88108

order of step 5
  forward    layers.0 layers.1 layers.2
  backward   layers.2 layers.1 layers.0
  other      -
  optimizer  norm
END
}

@test "show: another rank, one file, another step" {
    make_trace a
    succeeds show a --rank 1 --step 1
    has "rank 1: 72 ops in 6 steps, 6 of them whole; 2 communicators"
    has "step 1, ops 0 to 11"
    cp out by_rank
    succeeds show a/rank-1.rpt --step 1
    diff <(tail -n +5 by_rank | grep -v '^   [01] ') <(tail -n +4 out | grep -v '^   [01] ')
}

@test "show: several steps, or one" {
    make_trace a
    succeeds show a --steps 2:4
    has "steps 2 to 4, ops 12 to 47"
    has "order of steps 2 to 4"
    succeeds show a --steps 5:
    has "steps 5 to 6, ops 48 to 71"
    succeeds show a --steps :6
    has "steps 1 to 6, ops 0 to 71"
    succeeds show a --steps 3
    cp out three
    succeeds show a --step 3
    cmp out three
    succeeds show a --csv --steps 3:4
    [ "$(awk -F, 'NR > 1 { print $2 }' out | uniq | tr '\n' ' ')" = "3 4 " ]
}

@test "show: allocations only with --all-ops" {
    make_trace a
    succeeds show a
    [ "$(grep -c malloc out)" = 0 ]
    succeeds show a --all-ops
    [ "$(grep -c ' malloc 4.0 KiB ' out)" = 1 ]
    succeeds show a --all-ops --step all
    [ "$(grep -c ' malloc 4.0 KiB ' out)" = 6 ]
}

@test "show: the order alone, long lines folded" {
    make_trace a layers=12
    succeeds show a --order
    [ "$(sed -n '/^step 5/,$p' out)" = "step 5, ops 156 to 194
  forward    layers.0 layers.1 layers.2 layers.3 layers.4 layers.5 layers.6 layers.7 layers.8
             layers.9 layers.10 layers.11
  backward   layers.11 layers.10 layers.9 layers.8 layers.7 layers.6 layers.5 layers.4 layers.3
             layers.2 layers.1 layers.0
  other      -
  optimizer  norm" ]
}

@test "show: per module" {
    make_trace a
    succeeds show a --modules --step all
    [ "$(sed -n '/^all steps/,$p' out)" = "all steps, ops 0 to 71
     ops           bytes  launches  phase      module
       6            6144         0  other      -
       6              24        12  optimizer  norm
       6        12582912        42  forward    layers.0
      12        37748736        84  backward   layers.0
       6        12582912        42  forward    layers.1
      12        37748736        84  backward   layers.1
       6        12582912        42  forward    layers.2
      12        37748736        84  backward   layers.2" ]
}

@test "show: comma-separated values have every op and the same number of fields" {
    make_trace a
    succeeds show a --csv --step all --all-ops
    [ "$(wc -l < out)" = 73 ]
    [ "$(awk -F, '{ print NF }' out | sort -u)" = 24 ]
    has "0,5,48,36,layers.0,forward,all-gather,2097152,bfloat16,-,,0,0,0x5500,0,0x21,49000000,49400000,7,9350c6a51d38bda6,0,87403132fdbda90c78bfcecd024256f3,7,network"
    grep -Eq '^0,1,9,,-,-,malloc,4096,uint8,-,,,0,0x5500,0,0x0,10000000,10400000,0,[0-9a-f]{16},0,,0,$' out
}

@test "show: a run without a repeating step is shown from its start" {
    make_trace a steps=1 odd=1
    succeeds show a
    has "no repeating step found, ops 0 to 11"
    make_trace b steps=1 odd=1 layers=200
    succeeds show b
    has "no repeating step found; the first 200 ops (--step all shows all), ops 0 to 199"
}

@test "show: a run without ops" {
    make_trace a steps=0
    succeeds show a
    has "all steps: no ops"
}

@test "show: what is lost or cut short is said" {
    make_trace a finish=0 lost=3
    succeeds show a
    has "   0  node-a           4000        72      0.07  cut short, lost 3 launch records"
    truncate -s -20 a/rank-1.rpt
    succeeds show a
    grep -Eq '^   1  node-a           4001        [0-9]+      0.0[0-9]  cut short \([0-9]+ bytes of an unfinished block\)' out
}

@test "show: a rank that cannot be read is in the table, and the others are shown" {
    make_trace a ranks=3
    printf '\x63' | dd of=a/rank-0.rpt bs=1 seek=8 conv=notrunc status=none
    reprise show a
    [ "$status" = 0 ]
    [ "$(wc -l < err)" = 1 ]
    [ "$(sed -n 1p out)" = "a: train.py, recorded 2026-01-01 00:00:00 UTC, 2 ranks of 3" ]
    grep -q '^   0  - .*  unreadable: byte 8: the trace has another version, 99' out
    grep -q '^rank 1: 7' out
    reprise show a --rank 0
    [ "$status" = 2 ]
    [ ! -s out ]
    [ "$(tail -1 err)" = "reprise show: a: the trace of rank 0 cannot be read" ]
    cp a/rank-0.rpt a/rank-1.rpt
    cp a/rank-0.rpt a/rank-2.rpt
    reprise show a
    [ "$status" = 2 ] && [ ! -s out ]
}

@test "show: states are counted in one line" {
    make_trace a
    succeeds show a
    [ "$(grep -c '^states: ' out)" = 0 ]
    make_trace b replay=3 forks=2
    succeeds show b
    has "states: process forked (2), replay learning, replay armed, replay passive, replay figures"
}

@test "show: without fingerprints it says what a step may be" {
    make_trace a fingerprints=0
    succeeds show a
    has "no fingerprints: steps are cut where calls repeat, and one may be a microbatch"
    make_trace b
    succeeds show b
    [ "$(grep -c 'no fingerprints' out)" = 0 ]
}

@test "show: steps and flags of a trace with samples" {
    make_trace a sampled=1
    succeeds show a
    has "rank 0: 72 ops in 6 steps, 6 of them whole; 2 communicators"
    [ "$(grep all-gather out | grep -vc '  ~[0-9a-f]\{8\}$')" = 0 ]
    [ "$(grep reduce-scatter out | grep -c '~')" = 0 ]
    succeeds show --csv --step 2 a
    [ "$(awk -F, '$7 == "all-gather" { print $16 }' out | sort -u)" = 0x421 ]
    [ "$(awk -F, '$7 == "reduce-scatter" { print $16 }' out | sort -u)" = 0x21 ]
}
