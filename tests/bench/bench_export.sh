#!/bin/bash
# What reading and exporting 1,000,000 ops takes: seconds by the clock and of the processor, the most memory, and the size
# of the file. The trace is mktrace's: one rank, 10,102 steps of 32 layers. BUILD: the build folder.
set -eu
cd "$(dirname "$0")/../.."

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$build/tests/mktrace" "$work/run" ranks=1 layers=32 steps=10102
printf '%-10s %9s %9s %9s %9s\n' 'export' 'seconds' 'cpu' 'MiB used' 'MB file'
for format in perfetto chrome jsonl; do
    python3 - "$build/reprise" "$format" "$work" << 'END'
import os, resource, subprocess, sys, time
command, form, work = sys.argv[1:]
out = os.path.join(work, form)
began = time.monotonic()
subprocess.run([command, "export", os.path.join(work, "run"), "--format", form, "--output", out], check=True)
took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{form:10} {took:9.2f} {used.ru_utime + used.ru_stime:9.2f} {used.ru_maxrss / 1024:9.0f} {os.path.getsize(out) / 1e6:9.0f}")
os.remove(out)
END
done
