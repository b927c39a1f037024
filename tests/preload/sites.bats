# What the sites say in Python programs: frames like PyTorch's, and the ways in which an interpreter can be in no state
# to be asked; what a user's annotation files change, and what is said of them. Every case ends by itself within the time
# limit: waiting for the GIL in the wrong place would hang.

setup() {
    folder=$(realpath "$BATS_TEST_DIRNAME/../../${BUILD:-build}/tests")
    unset "${!REPRISE_@}" NVTX_INJECTION64_PATH
}

ask() {
    LD_PRELOAD=$folder/libsite_probe.so timeout 60 python3 "$BATS_TEST_DIRNAME/sites.py" "$folder/libsite_engine.so" "$1"
}

# says CASE LINE...: exactly these lines, and nothing on standard error.
says() {
    local case=$1
    shift
    command -v python3 > /dev/null || skip "no python3"
    ask "$case" > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/err"
    cat "$BATS_TEST_TMPDIR/err"
    [ ! -s "$BATS_TEST_TMPDIR/err" ]
    diff <(printf '%s\n' "$@") "$BATS_TEST_TMPDIR/out"
}

# ", then ...": where the launches behind the collective belong, if not with it.

@test "FSDP2: module and phase of gathers and reduce-scatters, prefetched, recomputed and by hand" {
    says fsdp2 "forward <root>" "forward layers.3" "forward layers.3, then forward <root>" \
        "backward <root>" "backward layers.3, then backward <root>" "backward layers.3" "backward <root>" \
        "backward layers.3, then backward <root>" \
        "recompute layers.3" "- layers.3" "forward sub" "- -" "backward -"
}

@test "FSDP1: names from the root, whichever way parameters are kept, without hashing one" {
    says fsdp1 "forward layers.1" "forward <root>" "backward layers.1" "recompute layers.1" "backward layers.1" \
        "forward layers.0" "forward head.weight" "forward -" "forward -" "forward -" \
        "forward layers.1, then forward layers.0" "recompute layers.1, then recompute layers.0" \
        "backward layers.0, then backward layers.1" "backward layers.0, then backward layers.1" 0
}

@test "names that are none give none, and no property or attribute hook runs" {
    says odd_names "- -" "- -" "- -" "- -" "- -" "- -" "- -" "- -" "- -" "[]"
}

@test "no code of keys or of a class's class runs" {
    if [ "$(python3 -c 'import sys; print(sys.version_info < (3, 11))')" = True ]; then
        says odd_keys "- -" "forward layers.0" "[]" # by class: Odd is in no rule
    else
        says odd_keys "- layers.1" "forward layers.0" "[]"
    fi
}

@test "many parameters among very many names" {
    says many_parameters "{'- layers.1'}" "{'- -'}"
}

@test "modules that move in their tree, and trees that are none" {
    says moved_modules "forward <root>, forward a.c, forward b" "forward <root>, forward d.c, forward a" \
        "forward <root>, forward -, forward a" "forward <root>, forward g.c, forward -"
}

@test "very many modules" {
    says many_modules "{'forward layer59.499.w'} {'forward -'}"
}

@test "an exception that the caller has set stays set" {
    says pending_exception "ValueError('kept')" "forward layers.0"
}

@test "with the GIL, without it, and from a thread that has no Python" {
    says gil "forward layers.0" "forward layers.0" "- -" "- -"
}

@test "each of several Python threads is told its own frames" {
    says threads "layers.0 b'forward layers.0'" "layers.1 b'forward layers.1'" "layers.2 b'forward layers.2'" \
        "layers.3 b'forward layers.3'"
}

@test "inside a subinterpreter nothing is said, and afterwards all is as before" {
    says subinterpreter "- -" "forward layers.0"
}

@test "more functions than are kept in mind" {
    says many_functions 0 "forward layers.0"
}

@test "frames far out are not looked at" {
    says deep "forward near" "- -"
}

@test "no reference is kept or lost" {
    says references "[0, 0, 0, 0, 0, 0]"
}

@test "while the interpreter is finalized, and after it" {
    says finalization "forward layers.0" "late: - -" "after: - -"
}

@test "NVTX ranges of a program, through the injection that is named in the environment" {
    run env LD_PRELOAD="$folder/libsite_probe.so" NVTX_INJECTION64_PATH="$folder/libsite_probe.so" \
        "$folder/site_client" ranges
    [ "$status" = 0 ]
    diff <(printf '%s\n' "- -" "forward layers.3" "backward layers.4" "- -") <(echo "$output")
}

@test "ends of ranges without a beginning do nothing" {
    run env LD_PRELOAD="$folder/libsite_probe.so" NVTX_INJECTION64_PATH="$folder/libsite_probe.so" \
        "$folder/site_client" pops
    [ "$status" = 0 ]
    diff <(printf '%s\n' "- -" "- -" "forward layers.3" "- -") <(echo "$output")
}

@test "a user's file overrides what is shipped, where it says something and nowhere else" {
    cat > "$BATS_TEST_TMPDIR/mine.ini" <<'END'
[all that I know better]
nvtx = forward {what}.{n}
module = "mine {n} of {what}"
[the phase alone]
python = FSDPParamGroup.pre_forward
file = */sites.py
phase = optimizer
[a file that is not there]
python = FSDPParamGroup.*
file = */not_sites.py
module = "wrong"
[a name of the frame's]
python = *.{method}_backward
module = "{method}"
END
    export PROBE_ANNOTATIONS=$BATS_TEST_TMPDIR/mine.ini
    run env LD_PRELOAD="$folder/libsite_probe.so" NVTX_INJECTION64_PATH="$folder/libsite_probe.so" \
        "$folder/site_client" ranges
    [ "$status" = 0 ]
    diff <(printf '%s\n' "- -" "forward mine 3 of layers" "backward layers.4" "- -") <(echo "$output")
    says fsdp2 "optimizer <root>" "optimizer layers.3" "forward layers.3, then forward <root>" \
        "backward <root>, then backward pre" "backward layers.3, then backward <root>" "backward post" "backward post" \
        "backward layers.3, then backward <root>" "backward layers.3" "- layers.3" "optimizer sub" "- -" "backward -"
}

@test "modules that are inside one another, as their rules say" {
    cat > "$BATS_TEST_TMPDIR/mine.ini" <<'END'
[state]
python = FSDPState.*
module = self._fsdp_param_group._module_fqn
nested = yes
[group]
python = FSDPParamGroup.*pre_*
module = "group"
nested = yes
[inside]
python = FSDPParamGroup.unshard
module = "unshard"
nested = yes
[not nested]
python = FSDPParamGroup.post_backward
module = "alone"
END
    export PROBE_ANNOTATIONS=$BATS_TEST_TMPDIR/mine.ini
    says fsdp2 "forward group.unshard" "forward layers.3.group.unshard" "forward unshard" \
        "backward group.unshard" "backward group.unshard" "backward alone" "backward alone" \
        "backward group.unshard" "recompute layers.3.group.unshard" "- unshard" "forward group.unshard" "- -" "backward -"
}

@test "a Python that is loaded late is found, and is gone when it is" {
    local python script
    load place
    shared_python
    script='
import ctypes
ask = ctypes.CDLL(None).probe_here
ask.restype = ctypes.c_char_p
class FSDPParamGroup:
    _module_fqn = "of the class"
    def pre_forward(self):
        print(ask().decode(), flush=True)
group = FSDPParamGroup()
group.pre_forward()
group._module_fqn = "layers.0"
group.pre_forward()
'
    run env LD_PRELOAD="$folder/libsite_probe.so" "$folder/site_client" embed "$python" "$script"
    echo "$output"
    [ "$status" = 0 ]
    diff <(printf '%s\n' "- -" "- -" "forward -" "forward layers.0" "- -") <(echo "$output")
}

# trained NAME: minitrain with REPRISE_ANNOTATIONS, recorded into NAME; what we say is in NAME.lines.
trained() {
    local name=$1
    shift
    result "$name" "$BUILD/reprise" run --record "$name" -- timeout 60 "$BUILD/minitrain" --steps 4 "$@"
    cat "$name.lines"
    [ "$(< "$name.status")" = 0 ]
}

@test "a malformed file is named with its line, once, and the run goes on with all other rules" {
    load place
    place
    printf '%s\n' '; ours' '[by offset]' 'native = minitrain+0x*' 'library = */minitrain' 'module = "the program"' \
        'phase = other' '[bad]' 'nvtx = x' 'phase = forwards' '[bad too]' 'what is this' > mine.ini
    trained plain --sites off
    REPRISE_ANNOTATIONS=$PWD/mine.ini,$PWD/none.ini trained told --sites off
    cmp plain.out told.out
    diff - told.lines <<END
reprise: [rank 0] warn annotations: $PWD/mine.ini:9: "phase" is "forwards"; expected forward, backward, recompute, optimizer or other
reprise: [rank 0] warn annotations: $PWD/mine.ini:11: neither a pair nor a section; expected key = value, [name] or ; comment
reprise: [rank 0] warn annotations: $PWD/none.ini: No such file or directory
reprise: [rank 0] info trace: recording to $PWD/told
END
    "$BUILD/reprise" show --csv --step all told > all.csv
    [ "$(cut -d, -f5,6 all.csv | sort -u | tr '\n' ' ')" = "module,phase the program,other " ]
    "$BUILD/reprise" diff plain told
}

@test "rules of the user's that never matched are named at the end, once" {
    load place
    place
    printf '%s\n' '[never]' 'nvtx = never' 'phase = other' '[often]' 'nvtx = forward *' 'phase = forward' \
        '[nor this]' 'kernel = nobody*' 'phase = other' > mine.ini
    REPRISE_ANNOTATIONS=mine.ini trained told --sites nvtx
    [ "$(grep -c 'never matched' told.lines)" = 1 ]
    grep -qxF 'reprise: [rank 0] info annotations: 2 rules never matched on this rank: mine.ini:1 [never], mine.ini:7 [nor this]' \
        told.lines
    printf '%s\n' '[the last kernel of all]' 'kernel = mt_checksum' 'phase = other' > last.ini
    REPRISE_ANNOTATIONS=last.ini trained last --steps 1 --layers 1
    [ "$(grep -c 'never matched' last.lines)" = 0 ]
    REPRISE_ANNOTATIONS='mine.ini,' trained malformed --sites nvtx
    grep -q 'warn options: REPRISE_ANNOTATIONS is "mine.ini,", expected: ' malformed.lines
}

@test "a frame around every collective begins one step in all, and the end says so" {
    load place
    place
    printf '%s\n' '[all]' 'native = _start' 'library = */minitrain' 'step = yes' > all.ini
    printf '%s\n' '[microbatch]' 'nvtx = forward root' 'step = yes' > mine.ini
    REPRISE_ANNOTATIONS=all.ini trained one --sites nvtx
    grep -qxF 'reprise: [rank 0] info annotations: all.ini:1 [all]: "step" began one step in all; a frame that is around every collective begins no other' \
        one.lines
    "$BUILD/reprise" show one | grep -qx 'order of these ops'
    "$BUILD/reprise" sites one --csv | grep -q '^0,native,[0-9]*,_start,.*,,,all.ini:all$' # a step, and no name
    "$BUILD/reprise" sites one | grep -q '^ *[0-9]* .*  -  *-  *all.ini:all .*  _start$'
    REPRISE_ANNOTATIONS='mine.ini, all.ini' trained two --sites nvtx
    [ "$(grep -c annotations two.lines)" = 0 ]
}

@test "steps begin where a rule says so, also while gathers are replayed" {
    load place
    place
    printf '%s\n' '[microbatch]' 'nvtx = forward root' 'step = yes' > mine.ini
    trained plain --sites nvtx
    REPRISE_ANNOTATIONS=mine.ini trained told --sites nvtx
    "$BUILD/reprise" show plain | grep -q 'ops in 4 steps, 4 of them whole'
    "$BUILD/reprise" show told | grep -q 'ops in 8 steps, 8 of them whole'
    REPRISE_ANNOTATIONS=mine.ini result replayed "$BUILD/reprise" run --replay replayed -- timeout 60 \
        "$BUILD/minitrain" --steps 12 --sites nvtx
    cat replayed.lines
    grep -q 'info replay: rank 0: [1-9][0-9]* hits' replayed.lines
    "$BUILD/reprise" show replayed | grep -q 'ops in 24 steps, 24 of them whole'
}

@test "steps of frames are learned as names are, and taken from a recorded order" {
    load place
    place
    printf '%s\n' '[microbatch]' 'native = root_forward' 'step = yes' > mine.ini
    export REPRISE_ANNOTATIONS=mine.ini REPRISE_TRIAL=0
    "$BUILD/reprise" run --record recorded -- timeout 60 "$BUILD/minitrain" --steps 8 --sites native > first.lines 2>&1
    for order in '' '--order recorded'; do
        rm -rf replayed
        # shellcheck disable=SC2086 # two words, or none
        result replayed "$BUILD/reprise" run --replay replayed $order -- timeout 60 "$BUILD/minitrain" --steps 16 \
            --sites native
        cat replayed.lines
        grep -q 'info replay: rank 0: [1-9][0-9]* hits' replayed.lines
        for rank in 0 1; do
            "$BUILD/reprise" show replayed --rank $rank | grep -q 'ops in 32 steps, 32 of them whole'
            "$BUILD/reprise" show replayed --rank $rank --csv --step all |
                awk -F, '$16 ~ /^0x1...$/ && $7 == "all-gather" { begun++ } END { exit begun != 32 }'
        done
    done
}

# begun DIRECTORY: communicator and position of each op of rank 0 that a step begins with.
begun() {
    "$BUILD/reprise" show "$1" --rank 0 --csv --step all |
        awk -F, '$16 ~ /^0x1...$/ { print $12, $4 }' | sort
}

@test "steps of ranges are those that were opened, also where an evaluation is served as training" {
    load place
    place
    printf '%s\n' '[microbatch]' 'nvtx = forward root' 'step = yes' > mine.ini
    export REPRISE_ANNOTATIONS=mine.ini REPRISE_TRIAL=0
    for mode in record replay; do
        result $mode "$BUILD/reprise" run --$mode $mode -- timeout 60 "$BUILD/minitrain" --steps 24 --eval-every 3 \
            --sites nvtx
        cat $mode.lines
        begun $mode > $mode.begun
    done
    grep -q 'info replay: rank 0: [1-9][0-9]* hits' replay.lines
    [ "$(wc -l < record.begun)" = 48 ]
    diff record.begun replay.begun
}

# retrained ARGUMENTS...: replayed, anew.
retrained() {
    rm -rf replay
    result replay "$BUILD/reprise" run --replay replay -- timeout 60 "$BUILD/minitrain" "$@"
    cat replay.lines
}

@test "a learned step of a frame begins one on each communicator" {
    load place
    place
    printf '%s\n' '[microbatch]' 'native = root_forward' 'step = yes' > mine.ini
    export REPRISE_ANNOTATIONS=mine.ini REPRISE_TRIAL=0
    trained record --steps 24 --two-comms --sites native
    uninterrupted replay.lines retrained --steps 24 --two-comms --sites native # a lane that rests has no names
    begun record > record.begun
    begun replay > replay.begun
    grep -q 'info replay: rank 0: [1-9][0-9]* hits' replay.lines
    [ "$(wc -l < record.begun)" = 96 ]
    diff record.begun replay.begun
}

@test "while gathers are replayed nobody looks at a stack" {
    local asked before
    load place
    place
    export REPRISE_TRIAL=0
    uninterrupted replay.lines retrained --steps 16 --sites nvtx # a lane that rests is asked again
    asked=$("$BUILD/reprise" sites replay --rank 0 --csv |
        awk -F, '$2 == "native" && $3 > most { most = $3 } END { print most + 0 }')
    before=$("$BUILD/reprise" show replay --rank 0 --csv --step all | awk -F, '$NF == "memory" { print NR - 2; exit }')
    echo "$asked stacks, $before collectives before the first from memory"
    [ "$asked" -gt 0 ]
    [ "$asked" -le "$before" ]
}
