#!/usr/bin/env python3
"""Tables of what scripts/bench_gpu.sh has measured, from its OUT folders.

    scripts/bench_table.py OUT...           a row for each workload, number of GPUs and mode; then the calls of served gathers
    scripts/bench_table.py --side OUT...    a row for each workload and mode, numbers of GPUs side by side: ratio to plain, step

The call of a gather that comes from memory waits for its own device to compare, then for all ranks' votes. Of each gather the
rank that was in it most briefly came last, so it waited for no other host; how its time grows with the ranks is how the verdict's
does. Times are medians over the gathers of all runs, in us. Exit code 1: losses of W5 differ.
"""

import argparse
import json
import pathlib
import statistics
import sys

ORDER = ["plain", "off", "record", "replay"]


class Runs:
    """By (workload, GPUs, mode)."""

    def __init__(self, folders):
        self.lines, self.sources, self.calls = {}, {}, {}
        for path in sorted(path for folder in folders for path in folder.glob("W*.json")):
            workload, gpus, mode, _ = path.name.removesuffix(".json").split(".")
            key = workload, int(gpus), mode
            self.lines.setdefault(key, []).append(json.loads(path.read_text()))
            for kept, suffix, separator in (self.sources, ".sources", None), (self.calls, ".calls", ","):
                if path.with_suffix(suffix).exists():
                    rows = [row.split(separator) for row in path.with_suffix(suffix).read_text().splitlines()]
                    kept.setdefault(key, []).extend([int(x) for x in row] for row in rows if all(row))

    def keys(self):
        return sorted(self.lines, key=lambda key: (key[0], key[1], ORDER.index(key[2].split("-")[0]), key[2]))

    def step_ms(self, key):
        return statistics.median(line["step_ms_median"] for line in self.lines[key])

    def early_ms(self, key):
        """Of the steps that are left out above, but for the very first."""
        return statistics.median(statistics.median(line["step_ms"][1 : line["settings"]["warmup"]]) for line in self.lines[key])

    def ratio(self, key, figure):
        """To the plain run of the workload; "-" without one."""
        plain = (*key[:2], "plain")
        return f"{figure(key) / figure(plain):.3f}" if plain in self.lines else "-"

    def served(self, key):
        counts = self.sources.get(key)
        return " / ".join(f"{statistics.median(c[i] for c in counts):.0f}" for i in range(3)) if counts else "-"

    def call_us(self, key, of_ranks):
        return statistics.median(of_ranks(row) for row in self.calls[key]) / 1000


def print_runs(runs):
    print("| workload | GPUs | mode | runs | step ms | of plain | steps 2 to 5 | hits / repaired / withdrawn |")
    print("|---|---|---|---|---|---|---|---|")
    for key in runs.keys():
        ratios = f"{runs.ratio(key, runs.step_ms)} | {runs.ratio(key, runs.early_ms)}"
        print(f"| {' | '.join(map(str, key))} | {len(runs.lines[key])} | {runs.step_ms(key):.1f} | {ratios} | {runs.served(key)} |")


def print_calls(runs):
    keys = [key for key in runs.keys() if runs.calls.get(key)]
    if not keys:
        return
    print("\n| workload | GPUs | mode | gathers from memory | us in the call: least of the ranks | most |")
    print("|---|---|---|---|---|---|")
    for key in keys:
        least, most = runs.call_us(key, min), runs.call_us(key, max)
        print(f"| {' | '.join(map(str, key))} | {len(runs.calls[key])} | {least:.1f} | {most:.1f} |")


def print_side(runs):
    numbers = sorted({gpus for _, gpus, _ in runs.lines})
    print("| workload | mode | " + " | ".join(f"{gpus} GPUs" for gpus in numbers) + " |")
    print("|---|---|" + "---|" * len(numbers))
    rows = dict.fromkeys((workload, mode) for workload, _, mode in runs.keys())
    for workload, mode in rows:
        keys = [(workload, gpus, mode) for gpus in numbers]
        cells = [f"{runs.ratio(k, runs.step_ms)} ({runs.step_ms(k):.0f} ms)" if k in runs.lines else "-" for k in keys]
        print(f"| {workload} | {mode} | {' | '.join(cells)} |")


def print_losses(runs):
    """True if those of W5 are equal where they must be."""
    unlike = 0
    for gpus in sorted({gpus for workload, gpus, _ in runs.lines if workload == "W5"}):
        losses = {key[2]: [line["losses"] for line in runs.lines[key]] for key in runs.keys() if key[:2] == ("W5", gpus)}
        every = [x for lists in losses.values() for x in lists]
        equal = all(x == every[0] for x in every)
        unlike += not equal
        verdict = "losses differ" if not equal else "losses are equal in every bit" if len(losses) > 1 else "nothing to compare"
        print(f"W5, {gpus} GPUs: {len(every)} runs ({', '.join(losses)}): {verdict}")
    return unlike == 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", type=pathlib.Path, nargs="+", metavar="OUT")
    p.add_argument("--side", action="store_true", help="numbers of GPUs side by side")
    a = p.parse_args()
    runs = Runs(a.folders)
    if a.side:
        print_side(runs)
    else:
        print_runs(runs)
        print_calls(runs)
    sys.exit(not print_losses(runs))


if __name__ == "__main__":
    main()
