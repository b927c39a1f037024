"""Runs fsdp_train.py with and without Reprise, several at a time, and reads what was recorded; counts checks.

A run is a name, arguments of fsdp_train.py and how it is started: "plain", "off" (loaded only), "record" or "replay".
Into the folder `out` go NAME.err, what it wrote to standard error, NAME, its trace, and when it has ended well NAME.json:
its line, and what was run. With the folder of an earlier call only those run that did not end well then, or differ now.
"""

import concurrent.futures
import csv
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIRST_PORT = 29600
LIMIT_S = 240  # of one run

counts = dict(passed=0, failed=0)


def check(name, ok, detail=""):
    counts["passed" if ok else "failed"] += 1
    print(f"{'ok    ' if ok else 'FAILED'}  {name}{': ' + str(detail) if detail else ''}", flush=True)


def summary():
    """Prints the counts; the exit code."""
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


class Runner:
    """`runs`: name -> (arguments, how); `common`: arguments and variables of all."""

    def __init__(self, build, out, ranks, runs, common, environment=None):
        self.reprise, self.library = build / "reprise", build / "libreprise.so"
        self.out, self.ranks, self.runs, self.common = out, ranks, runs, common
        self.added = dict(CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="4", **environment or {})
        self.environment = dict(os.environ, **self.added)

    def command(self, name):
        arguments, how = self.runs[name]
        port = FIRST_PORT + list(self.runs).index(name)
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={self.ranks}", f"--master_port={port}"]
        command = [sys.executable, *launcher, str(HERE / "fsdp_train.py"), *self.common, *arguments]
        if how in ("record", "replay"):
            command = [str(self.reprise), "run", f"--{how}", str(self.out / name), "--", *command]
        environment = dict(self.environment, LD_PRELOAD=str(self.library)) if how == "off" else self.environment
        return command, environment

    def what(self, name):
        """What a run's result hangs on."""
        files = [self.library, self.reprise, HERE / "fsdp_train.py"]
        hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
        return [*self.common, *map(str, self.runs[name]), self.ranks, self.added, *hashes]

    def run(self, name):
        """(exit code or "too long", the run's line of JSON or None)."""
        command, environment = self.command(name)
        kept, what = self.out / f"{name}.json", self.what(name)
        if kept.exists() and json.loads(kept.read_text())["what"] == what:
            return 0, json.loads(kept.read_text())["line"]
        kept.unlink(missing_ok=True)
        shutil.rmtree(self.out / name, ignore_errors=True)
        # A launcher that is killed leaves its ranks behind: they get the time to end themselves.
        command = ["timeout", "--kill-after=20", str(LIMIT_S), *command]
        with open(self.out / f"{name}.err", "w") as err:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=err, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        status = "too long" if done.returncode in (124, 137) else done.returncode
        if status == 0 and lines:
            new = kept.with_suffix(".new")
            new.write_text(json.dumps({"what": what, "line": json.loads(lines[-1])}))
            new.rename(kept)
        return status, json.loads(lines[-1]) if lines else None

    def run_all(self, jobs):
        """Name and line of JSON of each run, in their order, each as soon as those before it have ended."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, (status, result) in zip(self.runs, pool.map(self.run, self.runs)):
                ok = status == 0 and result is not None
                check(f"run {name}", ok, "" if ok else f"exit {status}, see {name}.err")
                yield name, result

    def ops(self, name, rank):
        arguments = ["show", str(self.out / name), "--csv", "--step", "all", "--rank", str(rank)]
        done = subprocess.run([str(self.reprise), *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            check(f"show {name}", False, done.stderr.strip())
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def plan(self, name):
        """What `show --plan` prints, line by line."""
        done = subprocess.run([str(self.reprise), "show", "--plan", str(self.out / name)], capture_output=True, text=True)
        return done.stdout.splitlines()

    def lines(self, name):
        """Reprise's own lines of the run."""
        return [line for line in (self.out / f"{name}.err").read_text(errors="replace").splitlines() if line.startswith("reprise: ")]

    def diff(self, a, b):
        done = subprocess.run([str(self.reprise), "diff", str(self.out / a), str(self.out / b)], capture_output=True, text=True)
        (self.out / f"diff-{a}-{b}.txt").write_text(done.stdout + done.stderr)
        return done.returncode, done.stdout
