#!/bin/bash
# The layers, as rules on #include lines. What a layer may include of ours is listed; anything else fails.
# Vendor headers belong to shim/; core/ calls no getenv and knows no dlfcn; the example programs and the stand-in do
# not know Reprise.
set -u
cd "$(dirname "$0")/.." || exit

failed=0
include='^[[:space:]]*#[[:space:]]*include[[:space:]]*'
# In <> too: every compilation has -I. (the folder of this repository).
ours='("|<(core|config|shim|tests)/)'

fail() {
    echo "layers: $1:" >&2
    sed 's/^/    /' >&2
    failed=1
}

# sources FOLDER...: every file of a folder that the compiler reads; a folder inside core/ is a layer of its own.
sources() {
    local folder depth
    for folder in "$@"; do
        depth=9
        [ "$folder" = core ] && depth=1
        find "$folder" -maxdepth "$depth" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \)
    done
}

# layer FOLDER PATTERN: the files of the folder include of ours only what matches.
layer() {
    local found
    found=$(sources "$1" | xargs -r grep -nHE "${include}${ours}" | grep -vE "[\"<]($2)[\">]")
    [ -z "$found" ] || fail "$1/ includes what it may not" <<< "$found"
}

# without WHY PATTERN FOLDER...: no line of the files matches.
without() {
    local why=$1 pattern=$2 found
    shift 2
    found=$(sources "$@" | xargs -r grep -nHE "$pattern")
    [ -z "$found" ] || fail "$why" <<< "$found"
}

# The doors of core/ that shim/ may use.
doors='clock|event|lane|log|op|quiet_thread|status|rules/(rule|rule_file|path)|record/(recorder|ring|seen)|trace/(trace|trace_lane)|agree/agree|plan/(plan|pack)|replay/(learn|replay)'

layer core 'core/[a-z0-9_]+\.h'
layer core/rules 'core/(rules/)?[a-z0-9_]+\.h'
layer core/trace 'core/(trace/)?[a-z0-9_]+\.h'
layer core/record 'core/((rules|trace|record)/)?[a-z0-9_]+\.h'
layer core/steps 'core/(steps/)?[a-z0-9_]+\.h'
layer core/compare 'core/((trace|steps|compare)/)?[a-z0-9_]+\.h'
layer core/order 'core/(order/)?[a-z0-9_]+\.h'
layer core/agree 'core/(agree/)?[a-z0-9_]+\.h'
layer core/plan 'core/((steps|plan)/)?[a-z0-9_]+\.h'
layer core/replay 'core/((agree|steps|order|plan|replay)/)?[a-z0-9_]+\.h'
layer core/tool 'core/([a-z]+/)?[a-z0-9_]+\.h|config/options\.(h|def)'
layer config 'config/[a-z0-9_]+\.(h|def)|core/(status|log)\.h'
layer shim "shim/[a-z0-9_]+\.(h|cuh|def)|config/options\.h|core/($doors)\.h"
layer tests/apps 'minitrain[a-z_]*\.h'
layer tests/fake '[a-z_]+\.h|tests/fake/(gate|ranks)\.h|shim/(fingerprint|compare|pack)\.h'

folders=(core core/rules core/trace core/record core/steps core/compare core/order core/agree core/plan core/replay core/tool)
unknown=$(find core config shim -mindepth 1 -type d | grep -vxF -f <(printf '%s\n' "${folders[@]}" config/annotations))
[ -z "$unknown" ] || fail "a folder without a rule here" <<< "$unknown"

vendor="${include}[<\"](cuda|cooperative_groups|crt/|cupti|driver_types|libunwind|nccl|nvml|nvToolsExt|nvtx|Python|vector_types)"
without "vendor headers belong to shim/" "$vendor" "${folders[@]}" config
without "core/ calls no getenv" '\b((secure_)?getenv[[:space:]]*\(|environ\b)' "${folders[@]:0:10}"
without "core/ and config/ know no dlfcn" '<dlfcn\.h>|\b(dlopen|dlsym|dladdr)[[:space:]]*\(' "${folders[@]}" config
exit $failed
