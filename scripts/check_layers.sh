#!/bin/bash
# The layers, as rules on #include lines. What a layer may include of ours is listed; anything else fails.
# Vendor headers belong to shim/; core/ calls no getenv and knows no dlfcn.
set -u
cd "$(dirname "$0")/.." || exit

failed=0

fail() {
    echo "layers: $1:" >&2
    sed 's/^/    /' >&2
    failed=1
}

# layer FOLDER DEPTH PATTERN: the files of the folder include of ours only what matches.
layer() {
    local found
    found=$(find "$1" -maxdepth "$2" \( -name '*.[ch]' -o -name '*.cu' \) -exec \
        grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' {} + | grep -vE "\"($3)\"")
    [ -z "$found" ] || fail "$1/ includes what it may not" <<< "$found"
}

# without WHY FOLDER DEPTH PATTERN: no line of the files matches.
without() {
    local found
    found=$(find "$2" -maxdepth "$3" -name '*.[ch]' -exec grep -nHE "$4" {} +)
    [ -z "$found" ] || fail "$1" <<< "$found"
}

layer core 1 'core/[a-z0-9_]+\.h'
layer core/tool 1 'core/(tool/)?[a-z0-9_]+\.h|config/options\.(h|def)'
layer config 1 'config/[a-z0-9_]+\.(h|def)|core/(status|log)\.h'
layer shim 1 'shim/[a-z0-9_]+\.(h|def)|config/[a-z0-9_]+\.h|core/[a-z0-9_]+\.h'

vendor='include[[:space:]]*[<"](cuda|driver_types|vector_types|nccl|nvtx|nvToolsExt|libunwind|Python)'
without "vendor headers belong to shim/" core 2 "$vendor"
without "vendor headers belong to shim/" config 1 "$vendor"
without "core/ calls no getenv" core 1 '\b(secure_)?getenv[[:space:]]*\('
without "core/ knows no dlfcn" core 2 '<dlfcn\.h>|\b(dlopen|dlsym|dladdr)[[:space:]]*\('
exit $failed
