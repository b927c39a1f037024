"""A pipeline of stages, each sharded by FSDP2: PyTorch's schedules around the model of fsdp_train.py. It knows nothing of
Reprise. Started as fsdp_train.py.

Of N ranks and S stages rank r is in stage r // (N / S); those of one stage share its parameters. --schedule interleaved
gives each rank --chunks pieces of the model, which take turns. Parameters are resharded after each forward, so that a
module is gathered several times in a step. The rank that has the losses, the first of the last stage, prints one line of
JSON, with what fsdp_train.py's has.
"""

import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

from fsdp_train import VOCABULARY, Model, join


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--schedule", choices=["1f1b", "interleaved"], default="1f1b")
    p.add_argument("--stages", type=int, default=2)
    p.add_argument("--chunks", type=int, default=2, help="interleaved: pieces of the model on each rank")
    p.add_argument("--dim", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--seq", type=int, default=512, help="tokens per sample")
    p.add_argument("--ga", type=int, default=4, help="microbatches per step, of one sample")
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--warmup", type=int, default=5, help="first steps that the median leaves out")
    p.add_argument("--lr", type=float, default=1e-4)
    p.add_argument("--timeout", type=int, default=600, help="seconds that a collective may take")
    p.add_argument("--det", action="store_true", help="deterministic kernels (set CUBLAS_WORKSPACE_CONFIG=:4096:8)")
    p.add_argument("--fakenodes", type=int, metavar="N", help="as of fsdp_train.py")
    return p.parse_args()


class Chunk(nn.Module):
    """Piece `index` of `count` of a model, whose blocks keep their names."""

    def __init__(self, model, index, count):
        super().__init__()
        blocks = len(model.layers)
        own = range(blocks * index // count, blocks * (index + 1) // count)
        self.embedding = model.embedding if index == 0 else None
        self.layers = nn.ModuleDict({str(i): model.layers[i] for i in own})
        self.norm, self.head = (model.norm, model.head) if index == count - 1 else (None, None)

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.layers.values():
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def shard(chunk, mesh):
    how = dict(mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32), reshard_after_forward=True)
    for block in chunk.layers.values():
        fully_shard(block, **how)
    return fully_shard(chunk, **how)


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


def build(a, mesh, device):
    """This rank's pieces of the model, and the schedule that runs them."""
    place, count = mesh["pipeline"].get_local_rank(), a.stages * (a.chunks if a.schedule == "interleaved" else 1)
    torch.manual_seed(0)
    model = Model(a.dim, a.layers, recompute=False, shared_block=False)
    chunks = [shard(Chunk(model, i, count).to(device), mesh["shard"]) for i in range(place, count, a.stages)]
    group = mesh["pipeline"].get_group()
    stages = [PipelineStage(c, place + i * a.stages, count, device, group=group) for i, c in enumerate(chunks)]
    if a.schedule == "1f1b":
        return chunks, Schedule1F1B(stages[0], a.ga, loss_of)
    return chunks, ScheduleInterleaved1F1B(stages, a.ga, loss_of)


def main():
    a = parse_arguments()
    torch.use_deterministic_algorithms(a.det)
    device = join(a, int(os.environ["RANK"]))
    mesh = init_device_mesh(device.type, (a.stages, dist.get_world_size() // a.stages), mesh_dim_names=("pipeline", "shard"))
    place, replica = mesh["pipeline"].get_local_rank(), mesh["shard"].get_local_rank()
    chunks, schedule = build(a, mesh, device)
    optimizer = torch.optim.AdamW([p for c in chunks for p in c.parameters()], lr=a.lr, fused=True)
    data = torch.Generator(device=device).manual_seed(1 + replica)

    times, losses = [], []
    for _ in range(a.steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        batch = torch.randint(0, VOCABULARY, (a.ga, a.seq + 1), device=device, generator=data)
        of_step = []
        torch.cuda.synchronize()
        start.record()
        inputs = (batch[:, :-1],) if place == 0 else ()
        last = dict(target=batch[:, 1:], losses=of_step) if place == a.stages - 1 else {}
        schedule.step(*inputs, **last)
        optimizer.step()
        optimizer.zero_grad()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
        losses.extend(loss.item() for loss in of_step)

    if place == a.stages - 1 and replica == 0:
        steady = times[min(a.warmup, len(times) - 1) :]
        result = dict(
            settings=vars(a),
            step_ms_median=round(statistics.median(steady), 2),
            step_ms=[round(t, 2) for t in times],
            losses=[x.hex() for x in losses],
        )
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
