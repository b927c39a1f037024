"""Runs a program of this folder without a GPU, on the CPU over gloo: what it computes, and in which order, can so be tried
with any number of ranks before GPUs are spent on it. Nothing here is behind Reprise, which sees NCCL only.

    python3 -m torch.distributed.run --nproc_per_node=4 tests/frameworks/on_cpu.py fsdp_train.py --dim 256 --layers 4 ...
"""

import datetime
import importlib
import sys
import time

import torch
import torch.distributed as dist


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, end):
        return 1000 * (end.at - self.at)


def join(a, rank):
    """Of the program, but for the device."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=a.timeout))
    return torch.device("cpu")


def main():
    del sys.argv[0]
    program = importlib.import_module(sys.argv[0].removesuffix(".py"))
    program.join = join
    torch.cuda.Event = Event
    torch.cuda.synchronize = lambda: None
    torch.cuda.max_memory_allocated = lambda: 0
    torch.set_num_threads(1)
    program.main()


if __name__ == "__main__":
    main()
