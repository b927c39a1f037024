#!/usr/bin/env python3
"""Runs fsdp_train.py behind Reprise, off, recording and replaying, and checks what replay served. Needs PyTorch, two GPUs.

    python3 tests/frameworks/check_replay.py --build build --out /tmp/replay
    python3 tests/frameworks/check_replay.py --build build --out /tmp/some --only fsdp2 edit
    python3 tests/frameworks/check_replay.py --build build --out /tmp/ahead --link shm --ahead 100M

Every variant of the program: losses bit-equal; ranks served alike; nothing came from memory whose bytes were new; after
learning at least 95 of 100 gathers that repeat came from memory. What repeats is known from the recorded run, whose
gathers are the same: a gather repeats if all ranks' parts were gathered before. Weights edited inside a step are
repaired and then serve again. Prints a line a check, then "N passed, N failed".

--ahead BUDGET: with gathers ahead, within so many bytes a device. Where the plan has any, some must have been served;
what they send from live buffers may be new, and what share of the repeated gathers comes from memory is not judged.

Replay goes on whatever it gains (REPRISE_TRIAL=0), so runs may disturb one another. NCCL's own variables choose the link:
--link shm (shared memory of the host), tcp (each rank a node of its own: two ranks can share a GPU), or nvlink (left alone).
"""

import argparse
import pathlib
import sys

import runs
from runs import check

STEPS = 24
LAYERS = 4
SIZE = ["--dim", "1024", "--layers", str(LAYERS), "--seq", "512", "--ga", "2", "--steps", str(STEPS), "--det"]
LEAST_RATE = 0.95
SERVED = ("memory", "prefetch")
MODES = ("off", "record", "replay")
# name: (arguments, first hit in this step at the latest, judged from the step behind this one on)
VARIANTS = {
    "fsdp2": ([], 9, 12),
    "fsdp1-fp32": (["--sharding", "fsdp1", "--fp32"], 9, 12),
    "fsdp1": (["--sharding", "fsdp1"], 9, 12),
    "recompute": (["--recompute"], 9, 12),
    "shared-block": (["--shared-block"], 9, 12),
    "skip-layer": (["--skip-layer", "10"], 9, 12),
    "eval": (["--eval-every", "2"], 13, 14),  # its cycle is two steps
    "edit": (["--edit-weights", "9"], 8, 12),
    "edit-one-rank": (["--edit-weights", "9", "--edit-rank", "1"], 8, 12),
    # What was gathered ahead of it from a live buffer (FSDP1 sends the shard itself) is old by then.
    "edit-in-forward": (["--sharding", "fsdp1", "--fp32", "--edit-in-forward", "18"], 9, 12),
    "zero-lr": (["--zero-lr-steps", "3"], 12, 14),
    "log": (["--log-every", "3"], 9, 12),
}
LINKS = {  # arguments, variables
    "shm": ([], {"NCCL_P2P_DISABLE": "1"}),
    "tcp": (["--fakenodes"], {}),
    "nvlink": ([], {}),
}


def gathers(runner, name):
    """Of each rank its all-gathers in order, each a row of the table that `show --csv` prints."""
    return [[op for op in runner.ops(name, rank) if op["kind"] == "all-gather"] for rank in range(runner.ranks)]


def repeats(recorded):
    """For each gather: was the same gathered before, as all ranks' fingerprints and the size say?"""
    seen, result = set(), []
    for parts in zip(*recorded):
        content = (parts[0]["bytes"], *(op["fingerprint"] for op in parts))
        result.append(content in seen)
        seen.add(content)
    return result


def behind(count, step):
    """Index of the first gather behind this step. Steps are alike but for a few gathers."""
    return count * step // STEPS


def share(part, whole):
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f}%)" if whole else "")


def check_sources(runner, variant, replayed, repeated, latest, learned, ahead):
    sources = [op["source"] for op in replayed[0]]
    memory = [i for i, source in enumerate(sources) if source in SERVED]
    totals = ", ".join(f"{sources.count(s)} {s}" for s in sorted(set(sources)))
    check(f"{variant}: ranks are served alike", all([op["source"] for op in ops] == sources for ops in replayed), totals)

    early = sources.count("prefetch")
    new = sum(1 for i in memory if not repeated[i] and (sources[i] == "memory" or not ahead))
    check(f"{variant}: nothing new comes from memory", not new, f"{new} of {len(memory)} hits")

    first = memory[0] * STEPS // len(sources) + 1 if memory else None
    if ahead:
        fresh = sum(1 for i in memory if not repeated[i])
        good = early > 0 or not any("gathered ahead" in line for line in runner.lines(f"{variant}-replay"))
        check(f"{variant}: gathers ahead are served", good, f"{early}, {fresh} of them new, the first hit in step {first}")
    else:
        check(f"{variant}: the first hit is in step {latest} or before", first and first <= latest, f"step {first}")
        due = [i for i in range(behind(len(sources), learned), len(sources)) if repeated[i]]
        hits = sum(1 for i in due if sources[i] in SERVED)
        good = len(due) > 0 and hits >= LEAST_RATE * len(due)
        check(f"{variant}: repeated gathers after step {learned} come from memory", good, share(hits, len(due)))
    if not good:
        for line in runner.plan(f"{variant}-replay"):
            if "replay " in line:
                print(f"        | {line}")


def check_repair(variant, ops):
    """The repaired units serve again."""
    repaired = [i for i, op in enumerate(ops) if op["source"] == "repaired"]
    check(f"{variant}: repairs are counted", repaired, len(repaired))
    modules = {ops[i]["module"] for i in repaired}
    after = sum(1 for op in ops[repaired[-1] :] if op["source"] in SERVED and op["module"] in modules) if repaired else 0
    check(f"{variant}: what was repaired serves again", after, f"{after} hits of {', '.join(sorted(modules)) or 'nothing'}")


def check_variant(runner, variant, results, ahead):
    arguments, latest, learned = VARIANTS[variant]
    losses = [(results[f"{variant}-{mode}"] or {}).get("losses") for mode in MODES]
    check(f"{variant}: losses off = record = replay", losses[0] and all(x == losses[0] for x in losses), f"{len(losses[0] or [])} losses")

    recorded, replayed = gathers(runner, f"{variant}-record"), gathers(runner, f"{variant}-replay")
    sizes = [[op["bytes"] for op in ops] for ops in recorded + replayed]
    same = len(sizes[0]) > 0 and all(s == sizes[0] for s in sizes)
    check(f"{variant}: the same gathers on all ranks, recorded and replayed", same, [len(s) for s in sizes])
    bare = sum(1 for ops in recorded for op in ops if not op["fingerprint"])
    check(f"{variant}: every recorded gather has a fingerprint", not bare, f"{bare} have none" if bare else "")
    if same and not bare:
        check_sources(runner, variant, replayed, repeats(recorded), latest, learned, ahead)
    if "--edit-in-forward" in arguments and ahead:
        first = next(op for op in replayed[0] if op["step"] == "18" and op["module"] == f"layers.{LAYERS - 1}")
        check(f"{variant}: what was gathered ahead of the edit is not used", first["source"] not in SERVED, first["source"])
    if "--edit-weights" in arguments and not ahead:
        check_repair(variant, replayed[0])
    said = [line for line in runner.lines(f"{variant}-replay") if " hits" in line]
    check(f"{variant}: one line of figures", len(said) == 1, said[0] if said else "none")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    p.add_argument("--out", type=pathlib.Path, required=True, help="with the folder of an earlier call only what is missing runs")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--jobs", type=int, default=4, help="runs at a time, on the same GPUs")
    p.add_argument("--link", choices=LINKS, default="nvlink")
    p.add_argument("--only", nargs="+", choices=VARIANTS, metavar="VARIANT", default=list(VARIANTS), help=", ".join(VARIANTS))
    p.add_argument("--ahead", metavar="BUDGET", help="with gathers ahead, in so many bytes (REPRISE_BUDGET)")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    arguments, environment = LINKS[a.link]
    environment = dict(environment, REPRISE_TRIAL="0")
    if a.ahead:
        environment.update(REPRISE_PREFETCH="1", REPRISE_BUDGET=a.ahead)
    wanted = {f"{variant}-{mode}": (VARIANTS[variant][0], mode) for variant in a.only for mode in MODES}
    runner = runs.Runner(a.build.resolve(), a.out.resolve(), a.ranks, wanted, SIZE + arguments, environment)

    results = {}
    for name, result in runner.run_all(a.jobs):
        results[name] = result
        variant = name.rsplit("-", 1)[0]
        if all(f"{variant}-{mode}" in results for mode in MODES):
            check_variant(runner, variant, results, a.ahead)
    sys.exit(runs.summary())


if __name__ == "__main__":
    main()
