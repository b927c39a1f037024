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
