"""A plain training loop on Megatron-FSDP, which knows nothing of Reprise. Started as fsdp_train.py, whose model it trains.

--api v1: the model is wrapped (fully_shard_model), its blocks are units. --api v2: megatron_fsdp.experimental, each block
and the root are sharded. --hide-python makes a second interpreter, in which nothing runs: whoever looks at Python frames
cannot tell then whose they are.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from fsdp_train import VOCABULARY, Block, Model, loss_of


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
    p.add_argument("--hide-python", action="store_true")
    return p.parse_args()


def shard_v1(model, learning_rate):
    from megatron_fsdp import fully_shard_model, fully_shard_optimizer

    model = fully_shard_model(model, fsdp_unit_modules=[Block], sync_model_each_microbatch=False)
    return model, fully_shard_optimizer(torch.optim.AdamW(model.parameters(), lr=learning_rate))


def shard_v2(model, learning_rate):
    from megatron_fsdp.experimental import Flat, Placements, fully_shard, fully_shard_optimizer

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    placements = Placements(dp_axes=[0], parameter=[Flat()], gradient=[Flat()], optimizer=[Flat()])
    for block in model.layers:
        fully_shard(block, mesh, placements)
    fully_shard(model, mesh, placements)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    fully_shard_optimizer(optimizer)
    return model, optimizer


def second_interpreter():
    try:
        import _interpreters as interpreters  # 3.13 and later
    except ImportError:
        import _xxsubinterpreters as interpreters
    return interpreters.create()


def main():
    a = parse_arguments()
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(a.det)
    dist.init_process_group("nccl", device_id=device)

    torch.manual_seed(0)
    plain = Model(a.dim, a.layers, recompute=False, shared_block=False).to(device, torch.bfloat16)
    model, optimizer = {"v1": shard_v1, "v2": shard_v2}[a.api](plain, 1e-4)
    kept = second_interpreter() if a.hide_python else None
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
        print(json.dumps(dict(settings=vars(a), losses=[x.hex() for x in losses], interpreter=str(kept))), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
