# What the shipped rules say of places like those of DeepSpeed ZeRO-3 and Megatron-FSDP. PyTorch's are in sites.bats. ", then ...":
# where the launches behind the collective belong, if not with it.

setup() {
    folder=$(realpath "$BATS_TEST_DIRNAME/../../${BUILD:-build}/tests")
    unset "${!REPRISE_@}" NVTX_INJECTION64_PATH
}

# says CASE LINE...: exactly these lines, and nothing on standard error.
says() {
    local case=$1
    shift
    command -v python3 > /dev/null || skip "no python3"
    LD_PRELOAD=$folder/libsite_probe.so timeout 60 python3 "$BATS_TEST_DIRNAME/sites_frameworks.py" \
        "$folder/libsite_engine.so" "$case" > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/err"
    cat "$BATS_TEST_TMPDIR/err"
    [ ! -s "$BATS_TEST_TMPDIR/err" ]
    diff <(printf '%s\n' "$@") "$BATS_TEST_TMPDIR/out"
}

@test "DeepSpeed ZeRO-3: a gather by the module that fetches, a reduction by what its parameters have in common" {
    says deepspeed "forward <root>" "forward embedding" "forward layers.2" "forward layers.2.mlp.up" \
        "recompute layers.1" "backward layers.1.mlp" "forward -" "forward -" \
        "backward layers.1" "backward layers.1.mlp.up" "backward layers.0.norm" "backward layers" "backward <root>" \
        "backward -" "backward -" "optimizer -" "optimizer layers" "other -" "other head.weight" 0
}

@test "names of DeepSpeed's in other files are another's" {
    says deepspeed_elsewhere "- -"
}

@test "Megatron-FSDP v1: buckets by what their parameters have in common" {
    says megatron_v1 "forward layers.1" "forward head" "forward layers.0.norm" "forward layers.0" \
        "forward layers.1, then forward layers.0" "recompute layers.2" "backward layers.2" \
        "backward layers.1, then backward layers.2" "backward layers.0" "backward embedding" "forward layers.0" "forward -" 0
}

@test "Megatron-FSDP v2: what is gathered ahead has its own name" {
    says megatron_v2 "forward <root>" "forward layers.0, then forward <root>" \
        "forward layers.0" "forward layers.1, then forward layers.0" "recompute layers.0" \
        "backward <root>" "backward layers.1, then backward <root>" \
        "backward layers.1" "backward layers.0, then backward layers.1" "backward layers.1" "forward -"
}

@test "no reference is kept or lost" {
    says references True
}
