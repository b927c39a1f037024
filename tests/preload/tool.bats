#!/usr/bin/env bats
# The command line as a whole: help, bad input and wrong arguments of all its commands.

load place
load command

setup() {
    place
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
    reprise show a
    [ "$status" = 0 ]
    [ "$(cat err)" = "reprise: error trace: a/rank-2.rpt: cannot be opened: Too many levels of symbolic links" ]
    grep -q "^   2  - .*  unreadable: cannot be opened: Too many levels" out
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
    fails "reprise show: there is no step 7; the trace has steps 1 to 6" show a --steps 7:
    fails "reprise show: there is no step 8; the trace has steps 1 to 6" show a --steps 2:8
    refuses "reprise show: --step and --steps exclude each other" show a --step 2 --steps 2
    refuses "reprise show: --steps and --step exclude each other" show a --steps 2 --step all
    fails "reprise diff: rank 7 is not in both runs" diff a a --rank 7
    fails "reprise diff: the runs have no rank in common" diff a/rank-0.rpt a/rank-1.rpt
}

@test "wrong --steps: the same words from every command that has it" {
    make_trace a
    for steps in 0 0:2 3:2 a 1:b : 1:2:3 -1 "" " 1" +1 1x 99999999999999999999; do
        for command in "diff a a" "export a --format jsonl" "show a"; do
            # shellcheck disable=SC2086 # they are several words
            refuses "reprise ${command%% *}: --steps wants K, A:B, A: or :B, counted from 1, not '$steps'" $command "--steps=$steps"
        done
    done
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
