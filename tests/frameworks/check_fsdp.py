#!/usr/bin/env python3
"""Runs fsdp_train.py unmodified behind Reprise on real GPUs and checks what is recorded. Needs PyTorch and two GPUs.

    python3 tests/frameworks/check_fsdp.py --build build --out /tmp/check

Checks: losses bit-equal with and without; module and phase of every gather and reduce-scatter of FSDP2, in order, also
with recompute, a shared block and evaluation between steps; two equal runs are the same by bytes; a skipped layer and
one more layer are found where they are. Prints a line a check, then "N passed, N failed".
"""

import argparse
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import subprocess
import sys

import expected

HERE = pathlib.Path(__file__).resolve().parent
SMALL = dict(layers=4, microbatches=2, steps=6)
RUNS = {  # name: arguments of fsdp_train.py, how it is started
    "plain": ([], "plain"),
    "off": ([], "off"),
    "first": ([], "record"),
    "second": ([], "record"),
    "recompute": (["--recompute"], "record"),
    "shared": (["--shared-block"], "record"),
    "eval": (["--eval-every", "2"], "record"),
    "skip": (["--skip-layer", "4"], "record"),
    "more": (["--layers", "5"], "record"),
    "fsdp1-fp32": (["--sharding", "fsdp1", "--fp32"], "record"),
    "fsdp1": (["--sharding", "fsdp1"], "record"),
}
counts = dict(passed=0, failed=0)


def check(name, ok, detail=""):
    counts["passed" if ok else "failed"] += 1
    print(f"{'ok    ' if ok else 'FAILED'}  {name}{': ' + str(detail) if detail else ''}", flush=True)


class Runner:
    def __init__(self, build, out, ranks):
        self.reprise, self.library = build / "reprise", build / "libreprise.so"
        self.out, self.ranks = out, ranks
        self.environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="4")

    def command(self, name):
        arguments, how = RUNS[name]
        port = 29600 + list(RUNS).index(name)
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={self.ranks}", f"--master_port={port}"]
        size = ["--dim", "1024", "--layers", str(SMALL["layers"]), "--seq", "512", "--ga", str(SMALL["microbatches"])]
        size += ["--steps", str(SMALL["steps"]), "--det"]
        command = [sys.executable, *launcher, str(HERE / "fsdp_train.py"), *size, *arguments]
        if how == "record":
            command = [str(self.reprise), "run", "--record", str(self.out / name), "--", *command]
        environment = dict(self.environment, LD_PRELOAD=str(self.library)) if how == "off" else self.environment
        return command, environment

    def run(self, name):
        """(exit code, the run's line of JSON or None)."""
        command, environment = self.command(name)
        with open(self.out / f"{name}.err", "w") as err:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=err, text=True, timeout=240)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return done.returncode, json.loads(lines[-1]) if lines else None

    def run_all(self, jobs):
        """The line of JSON of each run, by name."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            done = dict(zip(RUNS, pool.map(self.run, RUNS)))
        for name, (status, result) in done.items():
            check(f"run {name}", status == 0 and result, "" if result else f"exit {status}, see {name}.err")
        return {name: result for name, (_, result) in done.items()}

    def ops(self, name, rank):
        arguments = ["show", str(self.out / name), "--csv", "--step", "all", "--rank", str(rank)]
        done = subprocess.run([str(self.reprise), *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            check(f"show {name}", False, done.stderr.strip())
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def diff(self, a, b):
        done = subprocess.run([str(self.reprise), "diff", str(self.out / a), str(self.out / b)], capture_output=True, text=True)
        (self.out / f"diff-{a}-{b}.txt").write_text(done.stdout + done.stderr)
        return done.returncode, done.stdout


def events(ops, kind):
    """(module, phase) of the ops of a kind, in order."""
    return [(op["module"], op["phase"]) for op in ops if op["kind"] == kind]


def first_wrong(seen, wanted):
    for i in range(max(len(seen), len(wanted))):
        s = seen[i] if i < len(seen) else None
        w = wanted[i] if i < len(wanted) else None
        if s != w:
            return f"number {i} is {s}, expected {w} ({len(seen)} seen, {len(wanted)} expected)"
    return None


def check_names(runner, name, **schedule):
    gathers, reductions = expected.run(**dict(SMALL, **schedule))
    for rank in range(runner.ranks):
        ops = runner.ops(name, rank)
        for kind, wanted in (("all-gather", gathers), ("reduce-scatter", reductions)):
            wrong = first_wrong(events(ops, kind), wanted)
            check(f"names {name} rank {rank} {kind}", wrong is None, wrong or f"{len(wanted)} of {len(wanted)}")
        whole = [op for op in ops if op["kind"] in ("all-gather", "reduce-scatter", "all-reduce")]
        printed = sum(1 for op in whole if op["fingerprint"])
        check(f"fingerprints {name} rank {rank}", printed == len(whole), f"{printed} of {len(whole)}")


def named(runner, name):
    ops = [op for op in runner.ops(name, 0) if op["kind"] in ("all-gather", "reduce-scatter")]
    with_module = sum(1 for op in ops if op["module"] != "-")
    with_phase = sum(1 for op in ops if op["phase"] != "-")
    modules = sorted({op["module"] for op in ops})
    return len(ops), with_module, with_phase, modules


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--jobs", type=int, default=3, help="runs at a time, on the same GPUs")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    runner = Runner(a.build.resolve(), a.out.resolve(), a.ranks)

    results = runner.run_all(a.jobs)
    losses = [results[name] and results[name]["losses"] for name in ("plain", "off", "first")]
    check("losses plain = off = record", losses[0] and losses[0] == losses[1] == losses[2])
    check_names(runner, "first")
    check_names(runner, "recompute")
    check_names(runner, "shared", shared_block=True)
    check_names(runner, "eval", eval_every=2)
    check_names(runner, "skip", skip_step=4)
    for name in ("fsdp1-fp32", "fsdp1"):
        total, modules, phases, names = named(runner, name)
        check(f"names {name}", total > 0 and phases == total, f"{modules} modules, {phases} phases of {total}: {names}")

    status, text = runner.diff("first", "second")
    check("diff of equal runs", status == 0 and "bytes" in text.splitlines()[0], text.splitlines()[:1])
    status, text = runner.diff("first", "skip")
    skipped = f"layers.{SMALL['layers'] // 2} forward"
    check("diff with a skipped layer", status == 1 and skipped in text.splitlines()[0], text.splitlines()[:1])
    status, text = runner.diff("first", "more")
    check("diff with one more layer", status == 1 and "layers.4 forward" in text.splitlines()[0], text.splitlines()[:1])
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    sys.exit(counts["failed"] != 0)


if __name__ == "__main__":
    main()
