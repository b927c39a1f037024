# What the sites say in Python programs: frames like PyTorch's, and the ways in which an interpreter can be in no state
# to be asked. Every case ends by itself within the time limit: waiting for the GIL in the wrong place would hang.

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

@test "FSDP2: module and phase of gathers and reduce-scatters, prefetched, recomputed and by hand" {
    says fsdp2 "forward <root>" "forward layers.3" "forward layers.3" \
        "backward <root>" "backward layers.3" "backward layers.3" "backward <root>" "backward layers.3" \
        "recompute layers.3" "- layers.3" "forward sub" "- -" "backward -"
}

@test "FSDP1: names from the root, whichever way parameters are kept, without hashing one" {
    says fsdp1 "forward layers.1" "forward <root>" "backward layers.1" "recompute layers.1" "backward layers.1" \
        "forward layers.0" "forward head.weight" "forward -" "forward -" "forward -" 0
}

@test "names that are none give none, and no property or attribute hook runs" {
    says odd_names "- -" "- -" "- -" "- -" "- -" "- -" "- -" "- -" "- -" "[]"
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

@test "a Python that is loaded late is found, and is gone when it is" {
    local python home script
    command -v python3 > /dev/null || skip "no python3"
    python=$(python3 -c 'import sysconfig as s; print(s.get_config_var("LIBDIR") + "/" + s.get_config_var("INSTSONAME"))')
    home=$(python3 -c 'import sys; print(sys.base_prefix)')
    case $python in
    *.so*) ;;
    *) skip "python3 has no shared library" ;;
    esac
    [ -e "$python" ] || skip "$python is not installed"
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
    run env LD_PRELOAD="$folder/libsite_probe.so" PYTHONHOME="$home" "$folder/site_client" embed "$python" "$script"
    echo "$output"
    [ "$status" = 0 ]
    diff <(printf '%s\n' "- -" "- -" "forward -" "forward layers.0" "- -") <(echo "$output")
}
