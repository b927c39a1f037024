"""A plain training loop on Megatron-FSDP, which knows nothing of Reprise. Started as fsdp_train.py, whose model it trains.

--api v1: the model is wrapped (fully_shard_model), its blocks are units. --api v2: megatron_fsdp.experimental, each block
and the root are sharded. --package NAME: the package is there under another name, so that who knows it by its name does
not know it.
"""

import argparse
import importlib
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from fsdp_train import VOCABULARY, Block, Model, loss_of

LEARNING_RATE = 1e-4


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--api", choices=["v1", "v2"], default="v2")
    p.add_argument("--dim", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--seq", type=int, default=512, help="tokens per sample")
    p.add_argument("--ga", type=int, default=2, help="microbatches per step")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--eval-every", type=int, default=0, help="an evaluation forward after every N-th step")
    p.add_argument("--det", action="store_true", help="deterministic kernels (set CUBLAS_WORKSPACE_CONFIG=:4096:8)")
    p.add_argument("--package", default="megatron_fsdp")
    return p.parse_args()


def shard_v1(model, package):
    v1 = importlib.import_module(package)
    model = v1.fully_shard_model(model, fsdp_unit_modules=[Block], sync_model_each_microbatch=False)
    return model, v1.fully_shard_optimizer(torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE))


def shard_v2(model, package):
    v2 = importlib.import_module(package + ".experimental")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    placements = v2.Placements(dp_axes=[0], parameter=[v2.Flat()], gradient=[v2.Flat()], optimizer=[v2.Flat()])
    for block in model.layers:
        v2.fully_shard(block, mesh, placements)
    v2.fully_shard(model, mesh, placements)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    v2.fully_shard_optimizer(optimizer)
    return model, optimizer


def main():
    a = parse_arguments()
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(a.det)
    dist.init_process_group("nccl", device_id=device)

    torch.manual_seed(0)
    plain = Model(a.dim, a.layers, recompute=False, shared_block=False).to(device, torch.bfloat16)
    model, optimizer = {"v1": shard_v1, "v2": shard_v2}[a.api](plain, a.package)
    data = torch.Generator(device=device).manual_seed(1 + rank)
    draw = lambda: torch.randint(0, VOCABULARY, (1, a.seq + 1), device=device, generator=data)

    losses = []
    for step in range(1, a.steps + 1):
        optimizer.zero_grad()
        for _ in range(a.ga):
            loss = loss_of(model, draw()) / a.ga
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        if a.eval_every and step % a.eval_every == 0:
            with torch.no_grad():
                losses.append(loss_of(model, draw()).item())
    torch.cuda.synchronize()
    if rank == 0:
        print(json.dumps(dict(settings=vars(a), losses=[x.hex() for x in losses])), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
