#!/usr/bin/env python3
"""Records sharded training behind Reprise on real GPUs and checks what its collectives and launches were named after.
Needs PyTorch and two GPUs; Megatron-FSDP and DeepSpeed where they are installed, else their runs are left out and counted.

    python3 tests/frameworks/check_sites.py --build build --out /tmp/sites --packages /tmp/packages

Every program unmodified, no annotation file of one's own: each gather and reduce-scatter has a module and a phase, and the
right ones in the right order (expected.py); more than 99 of 100 launches of the run belong to an event. Megatron-FSDP v2 also
under another package name, which no rule for Python frames knows: then NVTX ranges alone name it. Prints a line a check,
then "N passed, N failed" and how many were left out.

--packages DIR: more packages, as `pip install --no-deps --target DIR` puts them there.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import expected
import runs
from expected import ROOT
from runs import check

SMALL = dict(layers=4, microbatches=2, steps=24)
SIZE = ["--dim", "1024", "--layers", str(SMALL["layers"]), "--seq", "512", "--ga", str(SMALL["microbatches"])]
SIZE += ["--steps", str(SMALL["steps"])]
EVAL = dict(eval_every=2)
ALIAS = "another_name"  # of megatron_fsdp
LEAST_SHARE = 0.99
NAMED = ("all-gather", "reduce-scatter")

# name: (arguments, package, program, what is expected or None: only names, whether the root's gathers are left aside)
VARIANTS = {
    "fsdp2": (["--eval-every", "2"], None, "fsdp_train.py", expected.run(**SMALL, **EVAL), False),
    "fsdp1": (["--sharding", "fsdp1", "--eval-every", "2"], None, "fsdp_train.py", expected.fsdp1(**SMALL, **EVAL), True),
    "megatron-v2": (
        ["--api", "v2", "--eval-every", "2"],
        "megatron_fsdp",
        "train_megatron_fsdp.py",
        expected.megatron_v2(**SMALL, **EVAL),
        False,
    ),
    "megatron-v2-nvtx": (
        ["--api", "v2", "--eval-every", "2", "--package", ALIAS],
        "megatron_fsdp",
        "train_megatron_fsdp.py",
        expected.megatron_v2(**SMALL, **EVAL, ranges_alone=True),
        False,
    ),
    "megatron-v1": (
        ["--api", "v1", "--eval-every", "2"],
        "megatron_fsdp",
        "train_megatron_fsdp.py",
        expected.megatron_v1(**SMALL, **EVAL),
        True,
    ),
    "zero3-one-by-one": (["--one-by-one"], "deepspeed", "train_deepspeed.py", expected.zero3_one_by_one(**SMALL), False),
    "zero3": ([], "deepspeed", "train_deepspeed.py", None, False),
}


def place_of(package, environment):
    """The folder of a package, or None. Nothing of it is run."""
    ask = f"import importlib.util as u; s = u.find_spec({package!r}); print(s.submodule_search_locations[0] if s else '')"
    done = subprocess.run([sys.executable, "-c", ask], env=dict(os.environ, **environment), capture_output=True, text=True)
    return done.stdout.strip() or None


def check_all_named(name, ops):
    for kind in NAMED:
        of_kind = [op for op in ops if op["kind"] == kind]
        bare = [op for op in of_kind if op["module"] == "-" or op["phase"] == "-"]
        first = f", the first is op {bare[0]['op']}: {bare[0]['module']} {bare[0]['phase']}" if bare else ""
        check(f"{name}: every {kind} is named", of_kind and not bare, f"{len(of_kind) - len(bare)} of {len(of_kind)}{first}")


def check_order(name, ops, wanted, without_root):
    """Not those of phase "other": they are made before training."""
    for kind, order in zip(NAMED, wanted):
        seen = [(op["module"], op["phase"]) for op in ops if op["kind"] == kind and op["phase"] != "other"]
        if without_root and kind == "all-gather":
            seen = [event for event in seen if event[0] != ROOT]
        wrong = runs.first_wrong(seen, order)
        check(f"{name}: every {kind} has the right name", wrong is None, wrong or f"{len(order)} of {len(order)}")


def check_launches(runner, name, rank):
    launches, named = runner.launches(name, rank)
    share = named / launches if launches else 0
    check(f"{name} rank {rank}: launches with an event", share > LEAST_SHARE, f"{named} of {launches} ({100 * share:.2f}%)")


def check_ranges_alone(runner, name, rank):
    rows = runner.sites(name, rank)
    by_python = [row for row in rows if row["source"] == "python" and row["module_rule"]]
    by_ranges = [row for row in rows if row["source"] == "nvtx" and row["module_rule"] and row["phase_rule"]]
    texts = {row["text"] for row in by_ranges}
    missing = [m for m in [ROOT] + [expected.block(i) for i in range(SMALL["layers"])] if f"MFSDP {m} backward" not in texts]
    check(f"{name} rank {rank}: no rule for Python frames gave a module", not by_python, [row["text"] for row in by_python[:3]])
    check(f"{name} rank {rank}: ranges gave them", by_ranges and not missing, f"{len(by_ranges)} ranges, missing {missing}")


def check_variant(runner, name, rank):
    *_, wanted, without_root = VARIANTS[name]
    ops = runner.ops(name, rank)
    check_all_named(f"{name} rank {rank}", ops)
    if wanted:
        check_order(f"{name} rank {rank}", ops, wanted, without_root)
    check_launches(runner, name, rank)
    if ALIAS in VARIANTS[name][0]:
        check_ranges_alone(runner, name, rank)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    p.add_argument("--out", type=pathlib.Path, required=True, help="with the folder of an earlier call only what is missing runs")
    p.add_argument("--packages", type=pathlib.Path)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--jobs", type=int, default=3, help="runs at a time, on the same GPUs")
    p.add_argument("--only", nargs="+", choices=VARIANTS, metavar="VARIANT", default=list(VARIANTS), help=", ".join(VARIANTS))
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    aliases = a.out.resolve() / "aliases"
    paths = [str(aliases)] + ([str(a.packages.resolve())] if a.packages else []) + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = dict(PYTHONPATH=os.pathsep.join(path for path in paths if path))

    places = {package: place_of(package, environment) for package in {VARIANTS[name][1] for name in a.only} if package}
    if places.get("megatron_fsdp"):
        aliases.mkdir(exist_ok=True)
        (aliases / ALIAS).unlink(missing_ok=True)
        (aliases / ALIAS).symlink_to(places["megatron_fsdp"])
    wanted = {}
    for name in a.only:
        arguments, package, program = VARIANTS[name][:3]
        if package and not places[package]:
            runs.leave_out(name, f"{package} is not installed")
        else:
            wanted[name] = (arguments, "record", program)
    runner = runs.Runner(a.build.resolve(), a.out.resolve(), a.ranks, wanted, SIZE, environment)
    for name, result in runner.run_all(a.jobs):
        for rank in range(a.ranks):
            if result:
                check_variant(runner, name, rank)
    sys.exit(runs.summary())


if __name__ == "__main__":
    main()
