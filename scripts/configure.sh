#!/bin/bash
# Finds the CUDA toolkit, NCCL's header, the static libunwind, inih and the demangler of C++ names; prints them as Make
# variables. What is missing is named in one line with the command that installs it.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "reprise: $*" >&2
    exit 1
}

# The first of the given folders that has the file $1.
first_with() {
    local file=$1 folder
    shift
    for folder in "$@"; do
        if [ -e "$folder/$file" ]; then
            echo "$folder"
            return
        fi
    done
}

python_folders() {
    local python
    python=$(command -v python3) || return 0
    "$python" - 2>/dev/null <<'END' || true
import site, sys
for folder in dict.fromkeys(site.getsitepackages() + [site.getusersitepackages()] + sys.path):
    if folder:
        print(folder + "/nvidia")
END
}

mapfile -t pip < <(python_folders)
nvcc_on_path=$(command -v nvcc || true)
toolkits=()
# What is named must be there: going on to another one would only surprise.
if [ -n "${CUDA_HOME:-}" ]; then
    [ -e "$CUDA_HOME/bin/nvcc" ] || fail "CUDA_HOME is $CUDA_HOME, which has no bin/nvcc; correct it or unset it"
    toolkits+=("$CUDA_HOME")
fi
toolkits+=(/usr/local/cuda)
[ -n "$nvcc_on_path" ] && toolkits+=("$(dirname "$(dirname "$(readlink -f "$nvcc_on_path")")")")
for folder in $(printf '%s\n' /usr/local/cuda-* | sort -rV) /opt/cuda /usr/lib/nvidia-cuda-toolkit /usr; do
    toolkits+=("$folder")
done

cuda=$(first_with bin/nvcc "${toolkits[@]}")
[ -n "$cuda" ] || fail "no CUDA toolkit found (nvcc); set CUDA_HOME, or install one from NVIDIA's repository:" \
    "apt-get install cuda-toolkit-13-0"
include=$(first_with cuda_runtime_api.h "$cuda/include" "$cuda"/targets/*/include /usr/include)
lib=$(first_with libcudart.so "$cuda/lib64" "$cuda/lib" "$cuda"/targets/*/lib "/usr/lib/$(uname -m)-linux-gnu")
if [ -z "$include" ] || [ -z "$lib" ]; then
    fail "no cuda_runtime_api.h or libcudart.so for $cuda; install them: apt-get install cuda-cudart-dev-13-0"
fi
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$include/cuda.h")
[ "${version:-0}" -ge 12040 ] || fail "the CUDA toolkit in $cuda is older than 12.4; set CUDA_HOME, or" \
    "install a newer one: apt-get install cuda-toolkit-13-0"

nccl_folders=()
if [ -n "${NCCL_HOME:-}" ]; then
    [ -e "$NCCL_HOME/include/nccl.h" ] || fail "NCCL_HOME is $NCCL_HOME, which has no include/nccl.h; correct it or unset it"
    nccl_folders+=("$NCCL_HOME/include")
fi
nccl_folders+=("$include" /usr/include /usr/local/include)
for folder in "${pip[@]}"; do
    nccl_folders+=("$folder/nccl/include" "$folder/cu13/include")
done
nccl=$(first_with nccl.h "${nccl_folders[@]}")
[ -n "$nccl" ] || fail "no nccl.h found; set NCCL_HOME, or install it from NVIDIA's repository or PyPI:" \
    "apt-get install libnccl-dev, or pip install nvidia-nccl-cu13"

# Machine code for what the toolkit knows of these, and the PTX of the oldest for everything newer.
known=$("$cuda/bin/nvcc" --list-gpu-code)
targets="-gencode arch=compute_80,code=compute_80"
for arch in 80 90 100; do
    if grep -qx "sm_$arch" <<<"$known"; then
        targets+=" -gencode arch=compute_$arch,code=sm_$arch"
    fi
done

# A toolkit's own headers come first on the compiler's list when they are NCCL's too; system folders stay unnamed.
[ "$nccl" = "$include" ] && nccl=
[ "$nccl" = /usr/include ] && nccl=
[ "$include" = /usr/include ] && include=
cat <<END
CUDA_HOME := $cuda
CUDA_INCLUDE := $include
CUDA_LIB := $lib
NCCL_INCLUDE := $nccl
NVCC := $cuda/bin/nvcc
NVCC_TARGETS := $targets
END
if [ -e build-deps/libunwind/lib/libunwind.a ]; then
    echo "UNWIND_CPPFLAGS := -isystem build-deps/libunwind/include"
    echo "UNWIND_LIBS := build-deps/libunwind/lib/libunwind.a"
else
    echo "UNWIND_CPPFLAGS := -DRP_UNWIND_DLOPEN"
    echo "UNWIND_LIBS :="
fi
# A static inih goes into the library, if it is position-independent (Debian's and Ubuntu's is); else the shared one.
inih=$(realpath -m "$(${CC:-cc} -print-file-name=libinih.a)")
if [ -e "$inih" ] && echo 'extern int ini_parse_stream; int *rp_probe(void) { return &ini_parse_stream; }' |
    ${CC:-cc} -shared -fPIC -x c - -x none "$inih" -Wl,-z,text -o /dev/null 2> /dev/null; then
    echo "INIH_LIBS := $inih"
else
    echo "INIH_LIBS := -linih"
fi
# The demangler is for the command alone; a static one needs nothing of C++ where it runs.
demangler=$(${CC:-cc} -print-file-name=libsupc++.a)
[ -e "$demangler" ] || demangler=-lstdc++
echo "DEMANGLE_LIBS := $demangler"
