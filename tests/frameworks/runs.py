"""Runs training programs with and without Reprise, several at a time, and reads what was recorded; counts checks.

A run is a name, arguments, how it is started ("plain", "off": loaded only, "record" or "replay") and perhaps which program
of this folder it is, if not fsdp_train.py.
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
import random
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 240  # of one run

counts = {"passed": 0, "failed": 0, "left out": 0}


def check(name, ok, detail=""):
    counts["passed" if ok else "failed"] += 1
    print(f"{'ok    ' if ok else 'FAILED'}  {name}{': ' + str(detail) if detail else ''}", flush=True)


def first_wrong(seen, wanted):
    """What the first element is that two lists do not share, in words; None: they are equal."""
    for i in range(max(len(seen), len(wanted))):
        s, w = seen[i] if i < len(seen) else None, wanted[i] if i < len(wanted) else None
        if s != w:
            return f"number {i} is {s}, expected {w} ({len(seen)} seen, {len(wanted)} expected)"
    return None


def leave_out(name, why):
    counts["left out"] += 1
    print(f"left out  {name}: {why}", flush=True)


def summary():
    """Prints the counts; the exit code."""
    print(", ".join(f"{n} {what}" for what, n in counts.items() if n or what != "left out"))
    return 1 if counts["failed"] else 0


def free_port():
    """A port of this host that nobody listened on when asked, as text: checks may run beside one another, and beside other jobs.

    Below those that the system hands out by itself, which NCCL's and PyTorch's own connections get.
    """
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                continue
        return str(port)


def ended(process, until):
    """Its exit code; "too long", and it is killed, if it has not ended by then."""
    try:
        return process.wait(max(0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "too long"


class Runner:
    """`runs`: name -> (arguments, how) or (arguments, how, program); `common`: arguments and variables of all."""

    def __init__(self, build, out, ranks, runs, common, environment=None):
        self.reprise, self.library = build / "reprise", build / "libreprise.so"
        self.out, self.ranks, self.runs, self.common = out, ranks, runs, common
        self.added = dict(CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="4", **environment or {})
        self.environment = dict(os.environ, **self.added)

    def program(self, name):
        return HERE / (*self.runs[name], "fsdp_train.py")[2]

    def command(self, name):
        arguments, how = self.runs[name][:2]
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={self.ranks}", f"--master_port={free_port()}"]
        command = [sys.executable, *launcher, str(self.program(name)), *self.common, *arguments]
        if how in ("record", "replay"):
            command = [str(self.reprise), "run", f"--{how}", str(self.out / name), "--", *command]
        environment = dict(self.environment, LD_PRELOAD=str(self.library)) if how == "off" else self.environment
        return command, environment

    def what(self, name):
        """What a run's result hangs on."""
        files = [self.library, self.reprise, HERE / "fsdp_train.py", self.program(name)]
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

    def run_by_hand(self, name):
        """Without a launcher, which would end all ranks when one has ended, "plain" or "replay": exit codes by rank, and seconds."""
        arguments, how = self.runs[name][:2]
        common = dict(self.environment, WORLD_SIZE=str(self.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        if how == "replay":
            common.update(LD_PRELOAD=str(self.library), REPRISE_MODE="replay", REPRISE_TRACE=str(self.out / name))
        shutil.rmtree(self.out / name, ignore_errors=True)
        command = [sys.executable, str(self.program(name)), *self.common, *arguments]
        begin = time.monotonic()
        with open(self.out / f"{name}.err", "w") as err:
            environments = [dict(common, RANK=str(r), LOCAL_RANK=str(r)) for r in range(self.ranks)]
            started = [subprocess.Popen(command, env=e, stdout=subprocess.DEVNULL, stderr=err) for e in environments]
            return [ended(process, begin + LIMIT_S) for process in started], time.monotonic() - begin

    def run_all(self, jobs, names=None):
        """Name and line of JSON of each run, in their order, each as soon as those before it have ended."""
        names = list(self.runs) if names is None else names
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, (status, result) in zip(names, pool.map(self.run, names)):
                ok = status == 0 and result is not None
                check(f"run {name}", ok, "" if ok else f"exit {status}, see {name}.err")
                yield name, result

    def table(self, name, command, *arguments):
        """What a command prints of a run as CSV, a dictionary a row."""
        done = subprocess.run([str(self.reprise), command, str(self.out / name), "--csv", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            check(f"{command} {name}", False, done.stderr.strip())
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def ops(self, name, rank):
        return self.table(name, "show", "--step", "all", "--rank", str(rank))

    def sites(self, name, rank):
        return self.table(name, "sites", "--rank", str(rank))

    def launches(self, name, rank):
        """Of the whole run: all launches, and those that belong to an event."""
        done = subprocess.run([str(self.reprise), "show", str(self.out / name), "--rank", str(rank)], capture_output=True, text=True)
        rows = [line.split() for line in done.stdout.splitlines() if line.endswith("whole run")]
        return tuple(map(int, rows[0][:2])) if rows else (0, 0)

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
