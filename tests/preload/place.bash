# Where a test of the library runs: its own folder with a link to the library, the stand-in runtime for programs, and
# nothing of the caller's environment that we or the stand-in read. Sets BUILD.

place() {
    BUILD=$(cd "$BATS_TEST_DIRNAME/../.." && cd "${BUILD:-build}" && pwd)
    export LD_LIBRARY_PATH=$BUILD/fake
    unset RANK WORLD_SIZE LOCAL_RANK LD_PRELOAD NVTX_INJECTION64_PATH CUDA_LAUNCH_BLOCKING NCCL_COMM_ID "${!REPRISE_@}" \
        "${!SLURM_@}" "${!TORCHELASTIC_@}" "${!OMPI_@}" "${!PMI@}" "${!FAKE_@}"
    cd "$BATS_TEST_TMPDIR" || return 1
    # A link, since the loader splits LD_PRELOAD at spaces and this clone may be anywhere.
    ln -s "$BUILD/libreprise.so" libreprise.so
}

# A sanitizer makes programs several times slower: it sees the same code in fewer of them.
sanitized() {
    nm -D "$BUILD/reprise" | grep -qE '__(asan|tsan)_init'
}

# shared_python: sets `python` to the library of python3's interpreter, and PYTHONHOME for who loads it; skips where there is
# none.
shared_python() {
    command -v python3 > /dev/null || skip "no python3"
    python=$(python3 -c 'import sysconfig as s; print(s.get_config_var("LIBDIR") + "/" + s.get_config_var("INSTSONAME"))')
    PYTHONHOME=$(python3 -c 'import sys; print(sys.base_prefix)')
    case $python in
    *.so*) ;;
    *) skip "python3 has no shared library" ;;
    esac
    [ -e "$python" ] || skip "$python is not installed"
    export PYTHONHOME
}

# uninterrupted LINES COMMAND...: runs it until what we print, in the file LINES, does not say that ranks went on without one
# another: on a machine that is busy with other things one waits longer than it may. For tests of what is served where that
# does not happen; at most five times.
uninterrupted() {
    local lines=$1 attempt
    shift
    for attempt in 1 2 3 4 5; do
        "$@"
        grep -qE 'waited longer than the bound|another rank ended the arming' "$lines" || return 0
        echo "attempt $attempt was interrupted"
    done
    return 1
}

# result NAME COMMAND...: what it prints, but for the measured time, and how it ends: NAME.out, .err (of several ranks, so
# sorted) and .status. Lines of ours go to NAME.lines.
result() {
    local name=$1 status=0
    shift
    "$@" > "$name.raw" 2> "$name.all" 3>&- || status=$?
    sed 's/, "step_ms_median.*//' "$name.raw" > "$name.out"
    grep '^reprise: ' "$name.all" > "$name.lines" || true
    grep -v '^reprise: ' "$name.all" | sort > "$name.err" || true
    echo $status > "$name.status"
}
