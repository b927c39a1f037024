#!/usr/bin/env python3
"""Runs fsdp_train.py unmodified behind Reprise on real GPUs and checks what is recorded. Needs PyTorch and two GPUs.

    python3 tests/frameworks/check_fsdp.py --build build --out /tmp/check

Checks: losses bit-equal with and without; module and phase of every gather and reduce-scatter of FSDP2, in order, also
with recompute, a shared block and evaluation between steps; two equal runs are the same by bytes; what other runs do
otherwise first is named. Prints a line a check, then "N passed, N failed".
"""

import argparse
import pathlib
import re
import sys

import expected
import runs
from runs import check

SMALL = dict(layers=4, microbatches=2, steps=6)
SIZE = ["--dim", "1024", "--layers", str(SMALL["layers"]), "--seq", "512", "--ga", str(SMALL["microbatches"])]
SIZE += ["--steps", str(SMALL["steps"]), "--det"]
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
    "seed": (["--seed", "1"], "record"),
    "rate": (["--lr-from", "3", "2e-4"], "record"),
    "microbatches": (["--ga", "3"], "record"),
    "long": (["--steps", "16"], "record"),
    "long-replayed": (["--steps", "16"], "replay"),
}
# (left, right): exit code, what the first line of `reprise diff` is. A step's new learning rate is in the weights behind it.
DIFFS = {
    ("first", "second"): (0, r"(the )?same\b.* bytes"),
    ("first", "skip"): (1, rf"different: .*layers\.{SMALL['layers'] // 2} forward.*all-gather"),
    ("first", "more"): (1, r"different: step 1, layers\.4 forward, all-gather"),
    ("first", "seed"): (1, r"different: step 1, <root> forward, all-gather .*: other bytes"),
    ("first", "rate"): (1, r"different: step 4, <root> forward, all-gather .*: other bytes"),
    ("first", "microbatches"): (1, r"different: step 1, <root> forward, all-gather .*: only in B"),
    ("first", "recompute"): (1, r"different: step 1, layers\.3 (backward|recompute)"),
    ("long", "long-replayed"): (0, r"(the )?same\b"),
}


def events(ops, kind):
    """(module, phase) of the ops of a kind, in order."""
    return [(op["module"], op["phase"]) for op in ops if op["kind"] == kind]


def check_names(runner, name, **schedule):
    gathers, reductions = expected.run(**dict(SMALL, **schedule))
    for rank in range(runner.ranks):
        ops = runner.ops(name, rank)
        for kind, wanted in (("all-gather", gathers), ("reduce-scatter", reductions)):
            wrong = runs.first_wrong(events(ops, kind), wanted)
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
    runner = runs.Runner(a.build.resolve(), a.out.resolve(), a.ranks, RUNS, SIZE)

    results = dict(runner.run_all(a.jobs))
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

    for (left, right), (code, wanted) in DIFFS.items():
        status, text = runner.diff(left, right)
        line = (text.splitlines() or [""])[0]
        check(f"diff {left} {right}", status == code and re.match(wanted, line), line)
    sys.exit(runs.summary())


if __name__ == "__main__":
    main()
