#!/usr/bin/env bats
# reprise show: its views of gathers, of host time and of launches, on traces that mktrace makes up, and on some that runs
# on the stand-in leave.

load place
load command

setup() {
    place
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
    [ "$(grep -c ',repaired$' out)" = 1 ]
    [ "$(grep -c ',withdrawn$' out)" = 1 ]
    [ "$(grep -c ',memory$' out)" = 1 ]
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
    [ "$(grep -c ',prefetch$' out)" = 6 ]
    [ "$(grep -c ',memory$' out)" = 9 ]
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

@test "very many launches behind very many allocations, before any collective" {
    make_trace many ranks=1 steps=2 early=150000 allocations=150000 single=1
    timeout 30 "$BUILD/reprise" show many > shown # going back over all of them for each launch takes minutes
    grep -q '^rank 0: ' shown
}
