#!/usr/bin/env bats
# reprise show: events as a tree, and filters, on traces that mktrace makes up.

load place
load command

setup() {
    place
}

# The lines of the step in out, from its heading on.
step_is() {
    diff <(sed -n '/^steps\? [0-9]/,$p' out) -
}

@test "show: the events of a step as a tree" {
    make_trace a adam=5
    succeeds show a --tree
    step_is << 'END'
step 5, ops 48 to 59
     ops       bytes  launches     host ms  event
      11    24.0 MiB        70      12.000  step 5
       3     6.0 MiB        21       3.000    forward
       3     6.0 MiB        21       3.000      layers
       1     2.0 MiB         7       1.000        0
       1     2.0 MiB         7       1.000        1
       1     2.0 MiB         7       1.000        2
       6    18.0 MiB        42       7.000    backward
       6    18.0 MiB        42       7.000      layers
       2     6.0 MiB        14       2.000        2
       2     6.0 MiB        14       2.000        1
       2     6.0 MiB        14       3.000        0
       1     1.0 KiB         0       1.000    other
       1         4 B         7       1.000    optimizer
       1         4 B         2       1.000      norm
       0         0 B         5           -      layers.0
END
    refuses "reprise show: --tree and --csv exclude each other" show a --tree --csv
}

@test "show: microbatches, and steps, that are alike are folded" {
    make_trace a microbatches=2 layers=1 steps=5 bytes=0 at=3
    succeeds show a --tree --steps 2:5
    step_is << 'END'
steps 2 to 5, ops 9 to 44
     ops       bytes  launches     host ms  event
      32    64.0 MiB       176      35.400  steps 2 to 5, 4 alike
      24    64.0 MiB       168      28.000    2 times
       8    16.0 MiB        56       8.000      forward
       8    16.0 MiB        56       8.000        layers.0
      16    48.0 MiB       112      20.000      backward
      16    48.0 MiB       112      20.000        layers.0
       4     4.0 KiB         0       4.000    other
       4        16 B         8       3.400    optimizer
       4        16 B         8       3.400      norm
END
    make_trace b layers=1 steps=5 resize=0 at=3
    succeeds show b --tree --step all
    [ "$(grep -o '  steps\? [0-9].*' out)" = "  steps 1 to 3, 3 alike
  steps 4 to 5, 2 alike (not whole)" ]
}

@test "show: what is not whole, and allocations, in a tree" {
    make_trace a steps=3 odd=1 layers=1
    succeeds show a --tree --step all
    grep -q '  step 1 (not whole)$' out
    succeeds show a --tree --all-ops --step 2
    [ "$(awk '/  step 2/ { print $1 }' out)" = 6 ]
    make_trace none steps=0
    succeeds show none --tree
    has "all steps: no ops"
}

# positions LIST OPTION...: of the ops that `show --csv` has of them.
positions() {
    local expected=$1
    shift
    succeeds show a --csv "$@"
    [ "$(awk -F, 'NR > 1 { printf "%s%s", (NR > 2 ? " " : ""), $4 }' out)" = "$expected" ]
}

@test "show: only ops of a module, a phase, a kind, a communicator" {
    make_trace a
    positions "37 41 42" --module layers.1
    positions "36 37 41 42 43 44" --module 'layers.[01]'
    positions "36 37 38" --phase forward
    positions "40 42 44" --kind reduce-scatter
    positions "4" --comm 1
    positions "42" --module 'layers.1' --phase backward --kind reduce-scatter --comm 0
    positions "" --module 'layers.1' --comm 1
    succeeds show a --csv --kind malloc --step all
    [ "$(wc -l < out)" = 7 ]
}

@test "show: filters go with every view" {
    make_trace a steps=7 replay=3 at=4 single=1 adam=5
    succeeds show a --module 'layers.1' --phase backward
    step_is << 'END'
step 6, ops 60 to 71; only module layers.1, phase backward
position  module    phase     op                                  communicator  launches  fingerprint
      50  layers.1  backward  all-gather 2.0 MiB bfloat16                    0         7  -
      51  layers.1  backward  reduce-scatter 4.0 MiB float32 avg             0         7  faaa3588

order of step 6
  backward   layers.1
END
    succeeds show a --order --module 'layers.[!1]'
    [ "$(tail -2 out)" = "  forward    layers.0 layers.2
  backward   layers.2 layers.0" ]
    succeeds show a --modules --phase optimizer
    step_is << 'END'
step 6, ops 60 to 71; only phase optimizer
     ops           bytes  launches  phase      module
       1               4         2  optimizer  norm
       0               0         5  optimizer  layers.0
END
    succeeds show a --tree --kind all-gather --module layers.0
    step_is << 'END'
step 6, ops 60 to 71; only module layers.0, kind all-gather
     ops       bytes  launches     host ms  event
       2     4.0 MiB        14       2.000  step 6
       1     2.0 MiB         7       1.000    forward
       1     2.0 MiB         7       1.000      layers.0
       1     2.0 MiB         7       1.000    backward
       1     2.0 MiB         7       1.000      layers.0
END
    succeeds show a --plan --phase backward
    [ "$(grep -c '^ .*  all-gather 2.0 MiB' out)" = 3 ]
    has "       3         0              0         3         0         0          0         6.0 MiB  step 6"
    has "      21         9              0        12         0         0          0        24.0 MiB  whole run"
    succeeds show a --timeline --comm 1
    [ "$(grep -c '  \.*==\.*  norm  .*  all-reduce ' out)" = 1 ]
    [ "$(grep -c '  all-gather ' out)" = 0 ]
    has "       0        0.000         0.0%  all gathers"
}

@test "show: launches of an event, though the op before them is of another" {
    make_trace a single=1 adam=5
    succeeds show a --launches --phase optimizer --module 'layers.*'
    [ "$(grep -c ' all-reduce ' out)" = 1 ]
    [ "$(grep -c '  all-gather \|  reduce-scatter ' out)" = 0 ]
    [ "$(grep -c '  void apex::adam<float>(float\*, float)  (layers.0 optimizer)$' out)" = 5 ]
    [ "$(grep -c '  gemm(' out)" = 0 ]
    succeeds show a --launches --kind reduce-scatter
    [ "$(grep -c ' ms  thread ' out)" = 21 ]
}

@test "show: names that there are not" {
    make_trace a
    fails "reprise show: rank 0 has no module 'layer.0'; it has norm, layers.0, layers.1, layers.2, *" show a --module layer.0
    fails "reprise show: rank 0 has no communicator 2; it has 0, 1" show a --comm 2 --csv
    refuses "reprise show: --phase wants one of forward, backward, recompute, optimizer, other, or - for none, not 'fwd'" \
        show a --phase fwd
    refuses "reprise show: --kind wants one of all-gather, reduce-scatter, all-reduce, broadcast, reduce, all-to-all, \
gather, scatter, send, recv, graph-launch, malloc, free, not 'gathers'" show a --kind gathers
    refuses "reprise show: --module wants a pattern, as layers.*, not '[a': a \"[\" without its \"]\"" show a --module '[a'
    refuses "reprise show: --comm wants a number from 0, not 'world'" show a --comm world
    make_trace many layers=200
    reprise show many --module nosuch
    [ "$status" = 2 ]
    [ "$(wc -l < err)" = 1 ]
    [ "$(wc -c < err)" -lt 800 ]
    grep -Eq ' and [0-9]+ more$' err
    succeeds show a --module layers.0 --phase recompute
    [ "$(tail -1 out)" = "none here" ]
}
