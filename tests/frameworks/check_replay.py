#!/usr/bin/env python3
"""Runs fsdp_train.py behind Reprise, off, recording and replaying, and checks what replay served. Needs PyTorch and GPUs.

    python3 tests/frameworks/check_replay.py --build build --out /tmp/replay
    python3 tests/frameworks/check_replay.py --build build --out /tmp/some --only fsdp2 edit
    python3 tests/frameworks/check_replay.py --build build --out /tmp/ahead --link shm --ahead 100M
    python3 tests/frameworks/check_replay.py --build build --out /tmp/four --gpus 4

Every variant of the program: losses bit-equal; ranks served alike; nothing came from memory whose bytes were new; after
learning at least 95 of 100 gathers that repeat came from memory. What repeats is known from the recorded run, whose
gathers are the same: a gather repeats if all ranks' parts were gathered before. Weights edited inside a step are
repaired and then serve again. A rank that kills itself: all end as without Reprise. Prints a line a check, then "N passed,
N failed"; of variants and checks that need more GPUs than --gpus (2) it says so, and counts them.

--ahead BUDGET: with gathers ahead, within so many bytes a device. Where the plan has any, some must have been served;
what they send from live buffers may be new, and what share of the repeated gathers comes from memory is not judged.

Replay goes on whatever it gains (REPRISE_TRIAL=0), so runs may disturb one another. NCCL's own variables choose the link:
--link shm (shared memory of the host), tcp (two nodes of half the ranks: two ranks can share a GPU), or nvlink (left alone).
"""

import argparse
import pathlib
import signal
import sys
import typing

import runs
from runs import check

STEPS = 24
LAYERS = 4
SIZE = ["--dim", "1024", "--layers", str(LAYERS), "--seq", "512", "--ga", "2", "--steps", str(STEPS), "--det"]
LEAST_RATE = 0.95
SERVED = ("memory", "prefetch")
MODES = ("off", "record", "replay")
KILLED_SLACK_S = 30  # the bound of a wait for others, 2 s, and what two runs take more or less


class Variant(typing.NamedTuple):
    arguments: list
    first: int = 9  # the first hit is in this step at the latest
    learned: int = 12  # judged from the step behind this one on
    gpus: int = 2  # needs at least so many
    parts: int = 1  # the ranks, in equal parts, of which each gathers on a communicator of its own
    program: str = "fsdp_train.py"

    def groups(self, ranks):
        size = ranks // self.parts
        return [range(i * size, (i + 1) * size) for i in range(self.parts)]


VARIANTS = {
    "fsdp2": Variant([]),
    "fsdp1-fp32": Variant(["--sharding", "fsdp1", "--fp32"]),
    "fsdp1": Variant(["--sharding", "fsdp1"]),
    "recompute": Variant(["--recompute"]),
    "shared-block": Variant(["--shared-block"]),
    "skip-layer": Variant(["--skip-layer", "10"]),
    "eval": Variant(["--eval-every", "2"], 13, 14),  # its cycle is two steps
    "edit": Variant(["--edit-weights", "9"], 8),
    "edit-one-rank": Variant(["--edit-weights", "9", "--edit-rank", "1"], 8),
    # What was gathered ahead of it from a live buffer (FSDP1 sends the shard itself) is old by then.
    "edit-in-forward": Variant(["--sharding", "fsdp1", "--fp32", "--edit-in-forward", "18"]),
    "zero-lr": Variant(["--zero-lr-steps", "3"], 12, 14),
    "log": Variant(["--log-every", "3"]),
    # Rank 0 receives as often as there are other ranks, which send once: on the gathers' communicator.
    "gather": Variant(["--gather-every", "1"]),
    "gather-some": Variant(["--gather-every", "3"]),
    "hybrid": Variant(["--replicate", "2"], gpus=4, parts=2),
    "hybrid-fsdp1": Variant(["--sharding", "fsdp1", "--replicate", "2"], gpus=4, parts=2),
    "pipeline": Variant(["--ga", "4"], parts=2, program="train_pipeline.py"),
    "pipeline-interleaved": Variant(["--ga", "4", "--schedule", "interleaved"], parts=2, program="train_pipeline.py"),
    "killed": Variant(["--kill", "14", "1", "--timeout", "30"]),
}
LINKS = {  # arguments, variables
    "shm": ([], {"NCCL_P2P_DISABLE": "1"}),
    "tcp": (["--fakenodes", "2"], {}),
    "nvlink": ([], {}),
}


def gathers(runner, name, ranks):
    """Of each rank its all-gathers in order, each a row of the table that `show --csv` prints."""
    return [[op for op in runner.ops(name, rank) if op["kind"] == "all-gather"] for rank in ranks]


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


def check_sources(runner, name, variant, replayed, repeated, latest, learned, memory_for):
    sources = [op["source"] for op in replayed[0]]
    memory = [i for i, source in enumerate(sources) if source in SERVED]
    totals = ", ".join(f"{sources.count(s)} {s}" for s in sorted(set(sources)))
    check(f"{variant}: ranks are served alike", all([op["source"] for op in ops] == sources for ops in replayed), totals)

    early = sources.count("prefetch")
    new = sum(1 for i in memory if not repeated[i] and (sources[i] == "memory" or not memory_for.ahead))
    check(f"{variant}: nothing new comes from memory", not new, f"{new} of {len(memory)} hits")

    first = memory[0] * STEPS // len(sources) + 1 if memory else None
    if memory_for.ahead:
        fresh = sum(1 for i in memory if not repeated[i])
        good = early > 0 or not any("gathered ahead" in line for line in runner.lines(name))
        check(f"{variant}: gathers ahead are served", good, f"{early}, {fresh} of them new, the first hit in step {first}")
    elif memory_for.budget:
        packed = any(line.endswith(", packed") for line in runner.plan(name))
        wanted = "--fp32" not in VARIANTS[name.removesuffix("-replay")].arguments
        good = len(memory) > 0 and packed == wanted
        check(f"{variant}: gathers are kept, bfloat16 packed", good, f"{len(memory)} hits, the first in step {first}")
    else:
        check(f"{variant}: the first hit is in step {latest} or before", first and first <= latest, f"step {first}")
        due = [i for i in range(behind(len(sources), learned), len(sources)) if repeated[i]]
        hits = sum(1 for i in due if sources[i] in SERVED)
        good = len(due) > 0 and hits >= LEAST_RATE * len(due)
        check(f"{variant}: repeated gathers after step {learned} come from memory", good, share(hits, len(due)))
    if not good:
        for line in runner.plan(name):
            if "replay " in line:
                print(f"        | {line}")


def check_repair(variant, ops):
    """The repaired units serve again."""
    repaired = [i for i, op in enumerate(ops) if op["source"] == "repaired"]
    check(f"{variant}: repairs are counted", repaired, len(repaired))
    modules = {ops[i]["module"] for i in repaired}
    after = sum(1 for op in ops[repaired[-1] :] if op["source"] in SERVED and op["module"] in modules) if repaired else 0
    check(f"{variant}: what was repaired serves again", after, f"{after} hits of {', '.join(sorted(modules)) or 'nothing'}")


def check_gathers(runner, variant, ranks, memory_for):
    """Of the ranks that gather together."""
    arguments, first, learned = VARIANTS[variant][:3]
    recorded, replayed = gathers(runner, f"{variant}-record", ranks), gathers(runner, f"{variant}-replay", ranks)
    name = variant if len(ranks) == runner.ranks else f"{variant}, ranks {ranks[0]} to {ranks[-1]}"
    sizes = [[op["bytes"] for op in ops] for ops in recorded + replayed]
    same = len(sizes[0]) > 0 and all(s == sizes[0] for s in sizes)
    check(f"{name}: the same gathers on all ranks, recorded and replayed", same, [len(s) for s in sizes])
    bare = sum(1 for ops in recorded for op in ops if not op["fingerprint"])
    check(f"{name}: every recorded gather has a fingerprint", not bare, f"{bare} have none" if bare else "")
    if same and not bare:
        check_sources(runner, f"{variant}-replay", name, replayed, repeats(recorded), first, learned, memory_for)
    if "--edit-in-forward" in arguments and memory_for.ahead:
        op = next(op for op in replayed[0] if op["step"] == "18" and op["module"] == f"layers.{LAYERS - 1}")
        check(f"{name}: what was gathered ahead of the edit is not used", op["source"] not in SERVED, op["source"])
    if "--edit-weights" in arguments and not memory_for.ahead and not memory_for.budget:
        check_repair(name, replayed[0])


def check_variant(runner, variant, results, memory_for):
    losses = [(results[f"{variant}-{mode}"] or {}).get("losses") for mode in MODES]
    check(f"{variant}: losses off = record = replay", losses[0] and all(x == losses[0] for x in losses), f"{len(losses[0] or [])} losses")
    groups = VARIANTS[variant].groups(runner.ranks)
    if len(groups[0]) == 1:
        runs.leave_out(f"{variant}: gathers", f"none where a part is one rank: needs {2 * len(groups)} GPUs")
        return
    for ranks in groups:
        check_gathers(runner, variant, ranks, memory_for)
    said = [line for line in runner.lines(f"{variant}-replay") if " hits" in line]
    check(f"{variant}: one line of figures", len(said) == 1, said[0] if said else "none")


def check_killed(runner):
    """No launcher is there to end the others: their own time limit does, with and without us."""
    plain, plain_s = runner.run_by_hand("killed-plain")
    replayed, replayed_s = runner.run_by_hand("killed-replay")
    check("killed: every rank ends", "too long" not in plain + replayed, f"{replayed}, plain {plain}")
    check("killed: the ranks that fail are those of a plain run", [c != 0 for c in replayed] == [c != 0 for c in plain])
    check("killed: as soon as a plain run", replayed_s <= plain_s + KILLED_SLACK_S, f"{replayed_s:.0f} s, plain {plain_s:.0f} s")
    survivors = [rank for rank in range(runner.ranks) if replayed[rank] != -signal.SIGKILL]
    hits = [sum(1 for op in ops if op["source"] in SERVED) for ops in gathers(runner, "killed-replay", survivors)]
    check("killed: gathers came from memory before", hits and all(hits), hits)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    p.add_argument("--out", type=pathlib.Path, required=True, help="with the folder of an earlier call only what is missing runs")
    p.add_argument("--gpus", "--ranks", dest="ranks", type=int, default=2, metavar="N", help="how many ranks, each on a GPU of its own")
    p.add_argument("--jobs", type=int, default=4, help="runs at a time, on the same GPUs")
    p.add_argument("--link", choices=LINKS, default="nvlink")
    p.add_argument("--only", nargs="+", choices=VARIANTS, metavar="VARIANT", default=list(VARIANTS), help=", ".join(VARIANTS))
    p.add_argument("--ahead", metavar="BUDGET", help="with gathers ahead, in so many bytes (REPRISE_BUDGET)")
    p.add_argument("--budget", metavar="BUDGET", help="without, but with memory for some: bfloat16 is kept packed")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    arguments, environment = LINKS[a.link]
    environment = dict(environment, REPRISE_TRIAL="0")
    if a.ahead:
        environment.update(REPRISE_PREFETCH="1", REPRISE_BUDGET=a.ahead)
    elif a.budget:
        environment.update(REPRISE_BUDGET=a.budget)
    missing = [variant for variant in a.only if VARIANTS[variant].gpus > a.ranks]
    chosen = [variant for variant in a.only if variant not in missing and variant != "killed"]
    wanted = {f"{v}-{mode}": (VARIANTS[v].arguments, mode, VARIANTS[v].program) for v in chosen for mode in MODES}
    by_hand = {f"killed-{how}": (VARIANTS["killed"].arguments, how) for how in ("plain", "replay")} if "killed" in a.only else {}
    runner = runs.Runner(a.build.resolve(), a.out.resolve(), a.ranks, {**wanted, **by_hand}, SIZE + arguments, environment)

    results = {}
    for name, result in runner.run_all(a.jobs, list(wanted)):
        results[name] = result
        variant = name.rsplit("-", 1)[0]
        if all(f"{variant}-{mode}" in results for mode in MODES):
            check_variant(runner, variant, results, a)
    if by_hand:
        check_killed(runner)
    for variant in missing:
        runs.leave_out(variant, f"not run: needs {VARIANTS[variant].gpus} GPUs")
    sys.exit(runs.summary())


if __name__ == "__main__":
    main()
