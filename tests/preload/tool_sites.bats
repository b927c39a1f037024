#!/usr/bin/env bats
# reprise sites: what was seen, and which rules named it.

load place
load command

setup() {
    place
}

@test "sites: tables, rules, and a rule to write" {
    make_trace a sites=1
    succeeds sites a
    printed << 'END'
a: rank 0: 7 places of collectives, 3 of them without a rule; 2 kernels, 1 of them without

Python frames
collectives  module by     phase by      file               text
         60  -             -             /home/me/train.py  Trainer.train_step
         24  my.ini:block  my.ini:block  /home/me/model.py  Block.forward

NVTX ranges
collectives  module by    phase by  step by               domain  text
         72  -            -         -                     mine    step; [1] {x}, "a"
         12  -            -         my.ini:a whole batch  mine    batch 1
          -  my.ini:nvtx  -         -                     -       never counted

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
    [ "$(head -1 out)" = "a: rank 1: 7 places of collectives, 3 of them without a rule; 2 kernels, 1 of them without" ]
    [ "$(grep -c 'Block.forward\|never counted\|apex\|batch 1' out)" = 0 ]
    has "         60  -          -         /home/me/train.py  Trainer.train_step"
    succeeds sites a/rank-1.rpt --unmatched --csv
    printed << 'END'
rank,source,count,text,demangled,where,module_rule,phase_rule,step_rule
1,python,60,Trainer.train_step,Trainer.train_step,/home/me/train.py,,,
1,nvtx,72,"step; [1] {x}, ""a""","step; [1] {x}, ""a""",mine,,,
1,native,60,libmine.so+0x1c40,libmine.so+0x1c40,/opt/lib/libmine.so,,,
1,kernel,400,_Z4gemmPKfS0_Pfi,"gemm(float const*, float const*, float*, int)",,,,
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
