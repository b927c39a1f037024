"""A plain training loop on DeepSpeed ZeRO-3, which knows nothing of Reprise. Started as fsdp_train.py, whose model it trains.

Every parameter is partitioned and let go after its use. --one-by-one: each module gathers its own parameters and none
ahead, and each gradient is reduced by itself; else DeepSpeed's sizes hold.
"""

import argparse
import json
import os

import deepspeed
import torch
import torch.distributed as dist

from fsdp_train import VOCABULARY, Model, loss_of


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dim", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--seq", type=int, default=512, help="tokens per sample")
    p.add_argument("--ga", type=int, default=2, help="microbatches per step")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--eval-every", type=int, default=0, help="an evaluation forward after every N-th step")
    p.add_argument("--recompute", action="store_true", help="activation checkpointing of every block")
    p.add_argument("--one-by-one", action="store_true")
    p.add_argument("--det", action="store_true", help="deterministic kernels (set CUBLAS_WORKSPACE_CONFIG=:4096:8)")
    return p.parse_args()


def configuration(a):
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0}
    if a.one_by_one:
        zero.update({"stage3_prefetch_bucket_size": 0, "reduce_bucket_size": 1})
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": a.ga,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    }


def main():
    a = parse_arguments()
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(a.det)
    dist.init_process_group("nccl", device_id=device)

    torch.manual_seed(0)
    plain = Model(a.dim, a.layers, a.recompute, shared_block=False)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=plain, optimizer=optimizer, config=configuration(a))
    data = torch.Generator(device=device).manual_seed(1 + rank)
    draw = lambda: torch.randint(0, VOCABULARY, (1, a.seq + 1), device=device, generator=data)

    losses = []
    for step in range(1, a.steps + 1):
        for _ in range(a.ga):
            loss = loss_of(engine, draw())
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        if a.eval_every and step % a.eval_every == 0:
            with torch.no_grad():
                losses.append(loss_of(engine, draw()).item())
    torch.cuda.synchronize()
    if rank == 0:
        print(json.dumps(dict(settings=vars(a), losses=[x.hex() for x in losses])), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
