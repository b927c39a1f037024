#!/usr/bin/env bats
# The command line: what run, show, sites, diff and help print and return, on traces that mktrace makes up, and on some
# that runs on the stand-in leave.

load place

setup() {
    place
}

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
    [ "$status" = 2 ] && [ ! -s out ] && [ "$(wc -l < err)" = 1 ]
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

# The runs differ, and the first line says so: $1.
differs() {
    local expected=$1
    shift
    reprise diff "$@"
    cat out err
    [ "$status" = 1 ] && [ ! -s err ] && [ "$(head -1 out)" = "different: $expected" ]
}

# Standard input is what was printed, exactly.
printed() {
    diff - out
}

has() {
    grep -qxF -- "$1" out
}

# ---------------------------------------------------------------- show

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

@test "show: where the bytes of gathers came from" {
    make_trace a steps=7 replay=3 miss=1 withdraw=2 at=4
    succeeds show a --plan
    [ "$(sed -n '/^step /,$p' out)" = "step 6, ops 60 to 71
position  module    phase     op                           communicator  source
      45  layers.0  forward   all-gather 2.0 MiB bfloat16             0  network, kept
      46  layers.1  forward   all-gather 2.0 MiB bfloat16             0  network, kept
      47  layers.2  forward   all-gather 2.0 MiB bfloat16             0  network, kept
      48  layers.2  backward  all-gather 2.0 MiB bfloat16             0  withdrawn
      50  layers.1  backward  all-gather 2.0 MiB bfloat16             0  repaired
      52  layers.0  backward  all-gather 2.0 MiB bfloat16             0  memory

 gathers   network  network, kept    memory  prefetch  repaired  withdrawn  bytes not sent
       6         0              3         1         0         1          1         2.0 MiB  step 6
      42        18             12         6         0         3          3        12.0 MiB  whole run

  seconds  communicator  what became of replay
    0.000             0  replay learning
    0.036             0  armed: from position 27
    0.083             0  resting: a rank waited longer than the bound
    0.083             1  passive: \x1b[31mnothing repeats
    0.084             0  figures: 6 hits" ]
    succeeds show a --plan --step all
    [ "$(grep -c '  memory$' out)" = 6 ]
    [ "$(grep -c '^ .* \(step 6\|all steps\|whole run\)$' out)" = 1 ]
    succeeds show a --csv --step 6
    [ "$(awk -F'"' '/all-gather/ { print NF == 3 ? $2 : "" }' out | sort | uniq -c | tr -s ' \n' ' ')" = " 3 3 network, kept " ]
    [ "$(grep all-gather out | grep -vc '"')" = 3 ]
    [ "$(grep -c ',repaired$' out)" = 1 ] && [ "$(grep -c ',withdrawn$' out)" = 1 ] && [ "$(grep -c ',memory$' out)" = 1 ]
    [ "$(grep -c '^0.*,$' out)" = 5 ] # no gather, no source
}

@test "show: what was gathered ahead is told from what was kept" {
    make_trace a steps=7 replay=3 ahead=0 at=4
    succeeds show a --plan
    grep -Eq '^ +45  layers.0  forward   .*  prefetch$' out
    grep -Eq '^ +50  layers.1  backward  .*  memory$' out
    grep -Eq '^ +52  layers.0  backward  .*  prefetch$' out
    has " gathers   network  network, kept    memory  prefetch  repaired  withdrawn  bytes not sent"
    has "       6         0              2         2         2         0          0         4.0 MiB  step 6"
    has "      42        18              9         9         6         0          0        18.0 MiB  whole run"
    succeeds show a --csv --step all
    [ "$(grep -c ',prefetch$' out)" = 6 ] && [ "$(grep -c ',memory$' out)" = 9 ]
    make_trace b steps=7
    succeeds diff b a
}

@test "show: one step over host time, and the time in its gathers" {
    make_trace a steps=7 replay=3 miss=1 withdraw=2 ahead=0 at=4
    succeeds show a --timeline
    [ "$(sed -n '/^step /,$p' out)" = "step 6, ops 60 to 71
host time: when a call came in and how long until it returned (# a gather, = another call).
A real gather returns before it runs; a served one when the device has come there and compared,
and all have voted. How long the device waits is not in the trace: of two runs compare how long
the step takes.

     at ms  in call ms  0 to 12.000 ms                    module    phase      op                                  source
     0.000       0.400  ##..............................  layers.0  forward    all-gather 2.0 MiB bfloat16         prefetch, issued 1.500 ms before
     1.000       0.400  ..##............................  layers.1  forward    all-gather 2.0 MiB bfloat16         network, kept
     2.000       0.400  .....##.........................  layers.2  forward    all-gather 2.0 MiB bfloat16         network, kept
     3.000       0.400  ........##......................  layers.2  backward   all-gather 2.0 MiB bfloat16         withdrawn
     4.000       0.400  ..........==....................  layers.2  backward   reduce-scatter 4.0 MiB float32 avg  -
     5.000       0.400  .............##.................  layers.1  backward   all-gather 2.0 MiB bfloat16         repaired
     6.000       0.400  ................==..............  layers.1  backward   reduce-scatter 4.0 MiB float32 avg  -
     7.000       0.400  ..................##............  layers.0  backward   all-gather 2.0 MiB bfloat16         prefetch, issued 1.500 ms before
     8.000       0.400  .....................==.........  layers.0  backward   reduce-scatter 4.0 MiB float32 avg  -
    10.000       0.400  ..........................==....  -         other      send 1.0 KiB bfloat16 to 1          -
    11.000       0.400  .............................==.  norm      optimizer  all-reduce 4 B float32 sum          -

 gathers  in calls ms  of the time  source
       2        0.800         6.7%  network, kept
       2        0.800         6.7%  prefetch
       1        0.400         3.3%  repaired
       1        0.400         3.3%  withdrawn
       6        2.400        20.0%  all gathers" ]
    succeeds show a --timeline --all-ops
    has "     9.000       0.400  ........................==......  -         -          malloc 4.0 KiB                      -"
    succeeds show a --timeline --step 7 # the last: there is no step behind it
    has "     at ms  in call ms  0 to 11.400 ms                    module    phase      op                                  source"
    succeeds show a --timeline --step all
    has "      42       16.800        20.1%  all gathers"
    refuses "reprise show: --timeline and --plan exclude each other" show --timeline --plan a
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

@test "show: a recorded and a replayed step over host time" {
    local train=("$BUILD/minitrain" --timeout 60 --steps 16 --ranks 2)
    run_behind a --record "${train[@]}"
    succeeds show a --timeline --rank 1
    [ "$(grep -c '  network$' out)" = "$(($(grep -c ' all-gather ' out) + 1))" ] # and the line of the total
    [ "$(grep -c ' [.]*#[.#]*  .* all-gather ' out)" = "$(grep -c ' all-gather ' out)" ]
    grep ' all-gather \| reduce-scatter ' out | awk '$1 < last || $2 !~ /^[0-9.]+$/ { exit 1 } { last = $1 }'
    run_behind b --replay "${train[@]}"
    succeeds show b --timeline
    grep -Eq '^ +[0-9]+  +[0-9.]+  +[0-9.]+%  memory$' out
    succeeds show b --plan
    grep -Eq '  figures: [1-9][0-9]* hits, [0-9]+ repaired, [0-9]+ withdrawn, [0-9]+ of the hits prefetched, ' out
}

@test "show: a plan on one rank, and where nothing was replayed" {
    make_trace a steps=7 replay=3 miss=0 at=5 only=1
    succeeds show a --plan --rank 1
    has "      42        18             12        10         0         2          0        20.0 MiB  whole run"
    succeeds show a --plan --rank 0
    has "      42        18             12        12         0         0          0        24.0 MiB  whole run"
    make_trace b
    succeeds show b --plan
    has "      36        36              0         0         0         0          0             0 B  whole run"
    [ "$(tail -1 out)" = "no replay in this trace" ]
}

@test "show: steps of a replayed run are whole batches, though its gathers have no fingerprints" {
    make_trace a steps=9 microbatches=2 replay=4
    succeeds show a --plan
    has "rank 0: 189 ops in 9 steps, 9 of them whole; 2 communicators"
    has "      12         0              3         9         0         0          0        18.0 MiB  step 8"
}

@test "show: states are counted in one line" {
    make_trace a
    succeeds show a
    [ "$(grep -c '^states: ' out)" = 0 ]
    make_trace b replay=3 forks=2
    succeeds show b
    has "states: process forked (2), replay learning, replay armed, replay passive, replay figures"
}

@test "show: how many launches belong to an event" {
    make_trace a replay=3 names=0 early=11 adam=5
    succeeds show a
    has "  launches  with an event    share  before any op  behind an unnamed op"
    has "        70             49   70.00%              0                    21  step 5"
    has "       431            357   82.83%             11                    63  whole run"
    succeeds show a --launches
    has "        70             49   70.00%              0                    21  step 5"
    has "no launches one by one in this trace: REPRISE_DETAIL=launches records them"
    succeeds show a --csv --step 5
    [ "$(awk -F, 'NR > 1 { all += $19; named += $23 } END { print all, named }' out)" = "70 49" ]
    succeeds show a --modules --step all
    has "       431            357   82.83%             11                    63  all steps"
    has "       0               0        30  optimizer  layers.0"
    [ "$(awk '/^     ops/ { table = 1 } table && NR > 1 { sum += $3 } END { print sum }' out)" = 357 ]
}

@test "show: launches one by one, under their ops" {
    make_trace a single=1 early=2 adam=1
    succeeds show a --launches --step 1
    [ "$(grep -c '  gemm(float const\*, float const\*, float\*, int)$' out)" = 65 ]
    has "        +0.010 ms  thread 0  stream 0x5500  grid 1x2x1  block 128x1x1  shared 48  gemm(float const*, float const*, float*, int)"
    [ "$(grep -c '  void apex::adam<float>(float\*, float)  (layers.0 optimizer)$' out)" = 1 ]
    [ "$(grep -c 'recorded one by one' out)" = 0 ]
    succeeds show a --launches --step all
    [ "$(grep -c '^before the first op of their thread' out)" = 1 ]
    [ "$(grep -c ' thread 0 ' out)" = 398 ]
    refuses "reprise show: --csv and --launches exclude each other" show a --csv --launches
}

# ---------------------------------------------------------------- sites

@test "sites: tables, rules, and a rule to write" {
    make_trace a sites=1
    succeeds sites a
    printed << 'END'
a: rank 0: 6 places of collectives, 3 of them without a rule; 2 kernels, 1 of them without

Python frames
collectives  module by     phase by      file               text
         60  -             -             /home/me/train.py  Trainer.train_step
         24  my.ini:block  my.ini:block  /home/me/model.py  Block.forward

NVTX ranges
collectives  module by    phase by  domain  text
         72  -            -         mine    step; [1] {x}, "a"
          -  my.ini:nvtx  -         -       never counted

native frames (a pattern matches the mangled name, which --csv prints)
collectives  module by  phase by      library                   text
         60  -          -             /opt/lib/libmine.so       libmine.so+0x1c40
         36  -          native.ini:b  /opt/lib/libtorch_cpu.so  torch::autograd::Engine::run()

kernels (a pattern matches the mangled name, which --csv prints)
launches  module by  phase by     text
     400  -          -            gemm(float const*, float const*, float*, int)
       6  -          my.ini:adam  void apex::adam<float>(float*, float)

A rule gives module and phase to what its pattern matches (forward, backward, recompute, optimizer, other).
Of the places around a collective the innermost that has one counts. Module and phase below are guesses.
For what was counted most and has none, as a section of a file that REPRISE_ANNOTATIONS names:

[step- -1- -x-, -a-]
nvtx = step[;] [[]1] [{]x}, "a["]
domain = mine
module = "step- -1- -x-, -a-"
phase = forward
END
}

@test "sites: only what has no rule, one rank, one file, values" {
    make_trace a sites=1
    succeeds sites a --unmatched --rank 1
    [ "$(head -1 out)" = "a: rank 1: 6 places of collectives, 3 of them without a rule; 2 kernels, 1 of them without" ]
    [ "$(grep -c 'Block.forward\|never counted\|apex' out)" = 0 ]
    has "         60  -          -         /home/me/train.py  Trainer.train_step"
    succeeds sites a/rank-1.rpt --unmatched --csv
    printed << 'END'
rank,source,count,text,demangled,where,module_rule,phase_rule
1,python,60,Trainer.train_step,Trainer.train_step,/home/me/train.py,,
1,nvtx,72,"step; [1] {x}, ""a""","step; [1] {x}, ""a""",mine,,
1,native,60,libmine.so+0x1c40,libmine.so+0x1c40,/opt/lib/libmine.so,,
1,kernel,400,_Z4gemmPKfS0_Pfi,"gemm(float const*, float const*, float*, int)",,,
END
    fails "reprise sites: a: has no rank 7" sites a --rank 7
    refuses "reprise sites: no trace given" sites
    refuses "reprise sites: takes one trace" sites a a
    fails "reprise: error trace: nowhere: cannot be opened: No such file or directory" sites nowhere
}

@test "sites: a trace without any" {
    make_trace a
    succeeds sites a
    printed << 'END'
a: rank 0: nothing was seen: no rule can be written from this trace
END
    succeeds sites a --csv
    [ "$(wc -l < out)" = 1 ]
}

@test "sites: kernels of a recorded run, and their launches one by one" {
    REPRISE_DETAIL=launches run_behind a --record "$BUILD/minitrain" --timeout 60 --steps 4 --ranks 2
    succeeds sites a --csv
    counted=$(awk -F, '$2 == "kernel" { sum += $3 } END { print sum }' out)
    succeeds show a
    [ "$(awk '/  whole run$/ { print $1 }' out)" = "$counted" ]
    succeeds show a --launches --step all
    [ "$(grep -c ' ms  thread [0-9]*  stream 0x[0-9a-f]*  grid [0-9x]*  block [0-9x]*  shared ' out)" = "$counted" ]
    [ "$(grep -c 'recorded one by one' out)" = 0 ]
    run_behind b --record "$BUILD/minitrain" --timeout 60 --steps 4 --ranks 2
    succeeds diff a b
    succeeds show b --launches
    has "no launches one by one in this trace: REPRISE_DETAIL=launches records them"
}

# ---------------------------------------------------------------- diff

@test "diff: the same" {
    make_trace a
    make_trace b
    succeeds diff a b
    printed << 'END'
same: 2 ranks, 132 ops, also by bytes
A: a
B: b
END
    succeeds diff a b --rank 1
    has "same: 1 rank, 66 ops, also by bytes"
    succeeds diff a/rank-0.rpt b/rank-0.rpt
    [ "$(head -1 out)" = "same: 1 rank, 66 ops, also by bytes" ]
}

@test "diff: a replayed run and a recorded one are the same in order" {
    make_trace a steps=7
    make_trace b steps=7 replay=3 miss=1 withdraw=2 at=4
    succeeds diff a b
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint"
    succeeds diff b a
    succeeds diff b b
    make_trace c steps=7 replay=3 skip=1 at=5
    differs "step 6, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 46)" a c
}

@test "diff: names that a replayed run did not look up are no difference" {
    make_trace a steps=7
    make_trace b steps=7 replay=3 names=0
    succeeds show b --plan
    grep -Eq '^ +48  - +- +all-gather 2.0 MiB bfloat16 +0  memory$' out
    succeeds diff a b
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint"
    succeeds diff b a
    make_trace c steps=7 replay=3 names=0 rename=1 at=0
    differs "step 1, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other module or phase, in B blocks.1 forward (communicator 0, position 1)" a c
}

@test "diff: a rank that only one run has" {
    make_trace a
    differs "the runs have different ranks" a a/rank-0.rpt
    has "1 rank only in A"
    differs "the runs have different ranks" a/rank-1.rpt a
    has "1 rank only in B"
}

@test "diff: a skipped layer" {
    make_trace a
    make_trace b skip=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)" a b
}

@test "diff: more layers" {
    make_trace a
    make_trace b layers=5
    differs "step 1, layers.3 forward, all-gather 2.0 MiB bfloat16, rank 0: only in B (communicator 0, position 3)" a b
    has "        72  only in B"
    has "         0  only in A"
}

@test "diff: size, data type, name, launches, bytes" {
    make_trace a
    make_trace size resize=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other size (communicator 0, position 28)" a size
    has "        18  other size"
    has "bytes compared for 102 of 120 ops with a fingerprint"
    make_trace type retype=0
    differs "step 4, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0: other data type (communicator 0, position 27)" a type
    make_trace name rename=2 at=0
    differs "step 1, layers.2 forward, all-gather 2.0 MiB bfloat16, rank 0: other module or phase, in B blocks.2 forward (communicator 0, position 2)" a name
    grep -q '^  B>        2  blocks.2  forward ' out
    make_trace launches launches=0
    differs "step 4, layers.0 forward, launches behind all-gather 2.0 MiB bfloat16, rank 0: other kernel launches, 7 in A, 8 in B (communicator 0, position 27)" a launches
    has "first difference of kernel launches"
}

@test "diff: other bytes, on one rank" {
    make_trace a
    make_trace b bytes=2 only=1
    differs "step 4, layers.2 forward, all-gather 2.0 MiB bfloat16, rank 1: other bytes (communicator 0, position 29)" a b
    has "first difference of bytes"
    has "         9  other bytes"
    succeeds diff a b --rank 0
}

@test "diff: structure and bytes are both named" {
    make_trace a
    make_trace b bytes=2 skip=1
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)" a b
    has "first difference"
    has "first difference of bytes"
    has "  step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: only in A (communicator 0, position 28)"
}

@test "diff: a run that ends early" {
    make_trace a
    make_trace b steps=4
    local where="layers.0 backward, reduce-scatter 4.0 MiB float32 avg; A goes on with step 5, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0 (communicator 0, position 36)"
    differs "B ends after $where" a b
    differs "A ends after ${where/; A/; B}" b a
    make_trace none steps=0
    differs "B ends before step 1, layers.0 forward, all-gather 2.0 MiB bfloat16, rank 0 (communicator 0, position 0)" a none
}

@test "diff: traces that are cut short or have losses are compared as far as they go" {
    make_trace a
    make_trace b finish=0 lost=1
    succeeds diff a b
    printed << 'END'
same: 2 ranks, 132 ops, also by bytes
A: a
B: b
B, rank 0: cut short, lost 1 launch record
B, rank 1: cut short, lost 1 launch record
END
}

@test "show: without fingerprints it says what a step may be" {
    make_trace a fingerprints=0
    succeeds show a
    has "no fingerprints: steps are cut where calls repeat, and one may be a microbatch"
    make_trace b
    succeeds show b
    [ "$(grep -c 'no fingerprints' out)" = 0 ]
}

@test "diff: no fingerprints" {
    make_trace a
    make_trace b fingerprints=0
    make_trace c fingerprints=0
    succeeds diff a b
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in B"
    succeeds diff b c
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in A and B"
}

@test "diff: fingerprints of samples" {
    make_trace a sampled=1
    make_trace b sampled=1
    make_trace full
    make_trace none fingerprints=0
    make_trace other sampled=1 bytes=1
    succeeds diff a b
    has "same: 2 ranks, 132 ops, bytes compared for 120 ops, 72 of them by samples"
    succeeds diff a full
    has "same: 2 ranks, 132 ops, bytes compared for 48 of 120 ops with a fingerprint; 72 not comparable: one run hashed all bytes, the other a sample"
    succeeds diff full a
    succeeds diff none a
    has "same: 2 ranks, 132 ops, bytes not comparable: no fingerprints in A"
    differs "step 4, layers.1 forward, all-gather 2.0 MiB bfloat16, rank 0: other bytes (communicator 0, position 28)" a other
    has "bytes compared for 120 ops, 72 of them by samples"
    has "        18  other bytes"
    make_trace unlike bytes=1
    reprise diff a unlike
    [ "$status" = 1 ]
    grep -q '^first difference of bytes among the ops that can be compared' out
    make_trace replayed steps=7 replay=3 sampled=1
    make_trace recorded steps=7 sampled=1
    succeeds diff recorded replayed
    has "same: 2 ranks, 154 ops, bytes compared for 92 of 140 ops with a fingerprint, 36 of them by samples"
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

# ---------------------------------------------------------------- bad input

@test "bad input: nothing there, nothing in it, no permission" {
    fails "reprise: error trace: nowhere: cannot be opened: No such file or directory" show nowhere
    mkdir empty
    fails "reprise: error trace: empty: holds no trace (no rank-\*.rpt)" show empty
    make_trace a
    fails "reprise: error trace: nowhere: cannot be opened: *" diff a nowhere
    fails "reprise: error trace: nowhere: cannot be opened: *" diff nowhere a
    ln -s loop a/loop # root may read everything, but not this
    ln -s loop a/rank-2.rpt
    fails "reprise: error trace: a/rank-2.rpt: cannot be opened: Too many levels of symbolic links" show a
}

@test "bad input: no trace, corrupt, another version, shorter than a header" {
    make_trace a
    mkdir b
    head -c 100 /dev/zero > b/rank-0.rpt
    fails "reprise: error trace: b/rank-0.rpt: byte 0: not a trace" show b
    cp a/rank-0.rpt b/
    printf '\xff' | dd of=b/rank-0.rpt bs=1 seek=1000 conv=notrunc status=none
    fails "reprise: error trace: b/rank-0.rpt: byte *: *" show b
    cp a/rank-0.rpt b/
    printf '\x63' | dd of=b/rank-0.rpt bs=1 seek=8 conv=notrunc status=none
    fails "reprise: error trace: b/rank-0.rpt: byte *: the trace has another version*" show b
    head -c 10 a/rank-0.rpt > b/rank-0.rpt
    fails "reprise: error trace: b/rank-0.rpt: byte 10: the file ends inside its header" show b
}

@test "wrong arguments" {
    make_trace a
    refuses "reprise: no command given; 'reprise help' lists them"
    refuses "reprise: 'record' is no command; 'reprise help' lists them" record
    refuses "reprise run: --record wants a directory, not '--'" run --record -- true
    refuses "reprise run: --replay wants a directory, not '--'" run --replay -- true
    refuses "reprise run: --record and --replay exclude each other" run --record x --replay y -- true
    refuses "reprise run: --record and --replay exclude each other" run --replay y --record x -- true
    refuses "reprise run: no command given" run --replay x
    refuses "reprise show: no trace given" show
    refuses "reprise show: takes one trace" show a a
    refuses "reprise show: unrecognized option '--ranks'" show --ranks a
    refuses "reprise show: --plan and --order exclude each other" show --plan --order a
    refuses "reprise show: --modules and --plan exclude each other" show a --modules --plan
    refuses "reprise show: --csv and --plan exclude each other" show a --csv --plan
    succeeds show a --plan --plan
    refuses "reprise help: 'record' is no command; 'reprise help' lists them" help record
    refuses "reprise show: --rank wants a number from 0, not '1x'" show --rank 1x a
    refuses "reprise show: --step wants a number from 1, not '0'" show --step 0 a
    refuses "reprise diff: two traces are needed" diff a
    refuses "reprise diff: takes two traces" diff a a a
    refuses "reprise run: no command given" run
    refuses "reprise run: no command given" run --record x --
    fails "reprise show: a: has no rank 7" show a --rank 7
    fails "reprise show: there is no step 7; the trace has steps 1 to 6" show a --step 7
    fails "reprise diff: rank 7 is not in both runs" diff a a --rank 7
    fails "reprise diff: the runs have no rank in common" diff a/rank-0.rpt a/rank-1.rpt
}

@test "output that does not arrive is an error" {
    make_trace a
    status=0
    "$BUILD/reprise" show a --step all > /dev/full 2> err || status=$?
    [ "$status" = 2 ]
    [ "$(cat err)" = "reprise show: standard output: No space left on device" ]
}

# ---------------------------------------------------------------- help

@test "help: every command and every variable" {
    succeeds help
    for name in run show sites diff ranks help; do grep -Eq "^  reprise $name +" out; done
    for name in MODE TRACE LOG BUDGET TIMEOUT VERIFY STRICT; do grep -q "^  REPRISE_$name " out; done
    cp out long
    succeeds --help
    cmp out long
    succeeds help --markdown
    [ "$(head -2 out)" = "| variable | values | default | meaning |
|---|---|---|---|" ]
    [ "$(grep -c '^| `REPRISE_' out)" = "$(grep -c '^OPTION(' "$BATS_TEST_DIRNAME/../../config/options.def")" ]
    succeeds show --help
    grep -q '^Usage: reprise show \[OPTION...\] DIR|FILE$' out
}

@test "help: of one command" {
    for name in run show sites diff ranks help; do
        succeeds $name --help
        cp out long
        succeeds help $name
        cmp out long
    done
    succeeds help run
    [ "$(head -1 out)" = 'Usage: reprise run [--record=DIR|--replay=DIR [--order=DIR]] [--] COMMAND...' ]
    has "With neither: REPRISE_MODE=replay if it is set, else record."
    cp out long
    succeeds run '-?'
    cmp out long
    succeeds run --usage
    cmp out long
    succeeds run -- printf '%s\n' --help
    has "--help"
}

# ---------------------------------------------------------------- run

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
    [ "$status" = 0 ] && has "record"
    [ "$(cat err)" = "reprise run: --record takes the place of REPRISE_MODE=replay" ]
    # shellcheck disable=SC2016
    REPRISE_MODE=record reprise run --replay x -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ] && has "replay"
    [ "$(cat err)" = "reprise run: --replay takes the place of REPRISE_MODE=record" ]
}

@test "run: a malformed mode in the environment is said" {
    # shellcheck disable=SC2016 # the command's shell expands them
    REPRISE_MODE=replya reprise run -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ] && has "record"
    [ "$(cat err)" = 'reprise run: REPRISE_MODE is "replya", expected: off, record, replay; recording' ]
    # shellcheck disable=SC2016
    REPRISE_MODE=$'\e[1m' reprise run --replay x -- sh -c 'echo "$REPRISE_MODE"'
    [ "$status" = 0 ] && has "replay"
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
    [ "$status" = 0 ] && [ "$(grep -c ' options: ' err)" = 0 ]
    reprise run --replay other -- env RANK=0 REPRISE_BUDGET=0 "${train[@]}"
    cat err
    [ "$status" = 0 ] && [ "$(grep ' options: ' err | sort -u)" = \
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
    [ "$status" = 127 ] && [ "$(cat err)" = "reprise run: ./nowhere: No such file or directory" ]
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

@test "very many launches behind very many allocations, before any collective" {
    make_trace many ranks=1 steps=2 early=150000 allocations=150000 single=1
    timeout 30 "$BUILD/reprise" show many > shown # going back over all of them for each launch takes minutes
    grep -q '^rank 0: ' shown
}
