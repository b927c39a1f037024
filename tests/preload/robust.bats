# The library in front of programs that have nothing to do with it, in every mode: same output, same exit code, same
# environment, open files, signals and threads, nothing on standard error, no file left behind.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    # A link, since the loader splits LD_PRELOAD at spaces and this clone may be anywhere.
    library=$PWD/libreprise.so
    ln -s "$(realpath "$BATS_TEST_DIRNAME/../../${BUILD:-build}/libreprise.so")" "$library"
    unset "${!REPRISE_@}" LD_PRELOAD NVTX_INJECTION64_PATH
    mkdir work results
}

# run_plain COMMAND...: what the program does alone, into results/plain.*.
run_plain() {
    rm -rf work
    mkdir work
    local status=0
    (cd work && exec "$@") > results/plain.out 2> results/plain.err < /dev/null || status=$?
    echo $status > results/plain.status
    ls -A work > results/plain.files
}

# run_with MODE COMMAND...: the same behind the library; MODE "unset" sets no mode.
run_with() {
    local mode=$1 status=0
    shift
    rm -rf work
    mkdir work
    (
        cd work || exit 99
        [ "$mode" = unset ] || export REPRISE_MODE=$mode
        export LD_PRELOAD="${beside:+$beside:}$library"
        exec "$@"
    ) > results/with.out 2> results/with.err < /dev/null || status=$?
    echo $status > results/with.status
    ls -A work > results/with.files
}

same_in_every_mode() {
    local mode
    run_plain "$@"
    for mode in unset off record replay; do
        run_with "$mode" "$@"
        echo "mode $mode"
        diff results/plain.out results/with.out
        diff results/plain.err results/with.err
        diff results/plain.status results/with.status
        diff results/plain.files results/with.files
    done
}

@test "the library is loaded at all" {
    run_with record cat /proc/self/maps
    grep -q libreprise.so results/with.out
}

@test "bash: pipes, subshells, exec, exit code" {
    # shellcheck disable=SC2016
    same_in_every_mode bash -c 'seq 1000 | sort -r | head -3; (cd / && pwd); x=$(echo inner); echo "$x"; exec bash -c "exit 7"'
    [ "$(cat results/plain.status)" = 7 ]
}

@test "bash: death by a signal" {
    # shellcheck disable=SC2016
    same_in_every_mode bash -c 'kill -KILL $$'
    [ "$(cat results/plain.status)" = 137 ]
}

@test "programs that fail and write to standard error" {
    same_in_every_mode ls /does/not/exist
    same_in_every_mode false
}

@test "gcc compiles, the result runs" {
    echo '#include <stdio.h>
    int main(void) { puts("compiled"); return 3; }' > program.c
    same_in_every_mode bash -c 'gcc -O2 ../program.c -o program && ./program'
    [ "$(cat results/plain.status)" = 3 ]
    [ "$(cat results/plain.out)" = compiled ]
}

@test "make with parallel jobs" {
    printf 'all: %s\n\techo all\n%%.made:\n\t@touch $@\n' "$(seq -s ' ' -f '%g.made' 30)" > rules.mk
    same_in_every_mode make -s -j2 -f ../rules.mk
    [ "$(wc -l < results/with.files)" = 30 ]
}

@test "python3: threads, subprocesses, fork" {
    command -v python3 > /dev/null || skip "no python3"
    cat > program.py << 'END'
import os, subprocess, sys, threading
threads = [threading.Thread(target=lambda n=n: results.append(n * n)) for n in range(8)]
results = []
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results), subprocess.check_output(["echo", "child"]), flush=True)
child = os.fork()
if child == 0:
    print("forked", flush=True)
    os._exit(5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
END
    same_in_every_mode python3 ../program.py
    [ "$(cat results/plain.status)" = 5 ]
}

@test "node" {
    command -v node > /dev/null || skip "no node"
    same_in_every_mode node -e 'setTimeout(() => { console.log([3, 1, 2].sort()); process.exitCode = 4 }, 1)'
    [ "$(cat results/plain.status)" = 4 ]
}

@test "jemalloc preloaded before and after it" {
    jemalloc=$(compgen -G '/usr/lib/*/libjemalloc.so.2' || compgen -G '/usr/lib*/libjemalloc.so.2') || skip "no jemalloc"
    beside=$jemalloc
    same_in_every_mode bash -c 'seq 1000 | sort -r | tail -2'
    beside=
    library=$library:$jemalloc
    same_in_every_mode bash -c 'seq 1000 | sort -r | tail -2'
}

@test "environment: unchanged but for the NVTX variable, and that only when recording" {
    # What a child of the program sees, without what this test itself sets.
    seen() {
        grep -zvE '^(LD_PRELOAD|REPRISE_MODE|PWD|_|SHLVL)=' results/"$1".out | sort -z | tr '\0' '\n'
    }
    run_plain bash -c 'env -0'
    plain=$(seen plain)
    for mode in unset off; do
        run_with $mode bash -c 'env -0'
        diff <(echo "$plain") <(seen with)
    done
    run_with record bash -c 'env -0'
    diff <(echo "$plain") <(seen with | grep -v '^NVTX_INJECTION64_PATH=')
}

@test "an NVTX variable that the user set is left alone" {
    export NVTX_INJECTION64_PATH=/somewhere/tool.so
    # shellcheck disable=SC2016
    same_in_every_mode bash -c 'echo "$NVTX_INJECTION64_PATH"; env | grep NVTX'
}

# SigQ is left out: it counts signals and timers of all processes of the user.
@test "open files, signal handling, timers and threads are as without it" {
    same_in_every_mode ls /proc/self/fd
    same_in_every_mode grep -E '^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Threads)' /proc/self/status
    [ "$(wc -l < results/plain.out)" = 6 ]
    same_in_every_mode cat /proc/self/timers
}

@test "standard error closed" {
    same_in_every_mode bash -c 'exec 2>&-; ls /proc/self/fd; exit 6'
}

@test "unknown variables and bad values of ours print nothing in such a program" {
    export REPRISE_NONSENSE=1 REPRISE_LOG=loudest REPRISE_TRACE=
    same_in_every_mode bash -c 'echo quiet'
    run_with nonsense bash -c 'echo quiet'
    [ "$(cat results/with.out)" = quiet ]
    [ ! -s results/with.err ]
}

@test "a folder with spaces in its name" {
    # Again a link leads there; the library's own path has spaces.
    mkdir "a folder"
    cp "$library" "a folder/libreprise.so"
    ln -s "a folder" link
    library=$PWD/link/libreprise.so
    same_in_every_mode bash -c 'seq 10 | wc -l'
}
