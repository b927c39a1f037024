"""What PyTorch FSDP2 must be seen to do: the modules and phases of its collectives, in order, for fsdp_train.py.

Each block and the root are sharded groups. Forward gathers the root, then the blocks in the order in which they run;
backward gathers them the other way round, and reduces gradients block by block, the root last. A block that runs twice
is gathered for each run, but reduced once: its gradients are whole only after its first run's backward.
(PyTorch 2.11: torch/distributed/fsdp/_fully_shard.)
"""

ROOT = "<root>"


def block(i):
    return f"layers.{i}"


def forward_blocks(layers, shared_block=False, skip=None):
    blocks = [i for i in range(layers) if i != skip]
    return blocks + blocks[-1:] if shared_block else blocks


def microbatch(layers, shared_block=False, skip=None):
    """(gathers, reductions) of one microbatch, each a list of (module, phase)."""
    blocks = forward_blocks(layers, shared_block, skip)
    forward = [(ROOT, "forward")] + [(block(i), "forward") for i in blocks]
    backward = [block(i) for i in reversed(blocks)]
    gathers = forward + [(ROOT, "backward")] + [(module, "backward") for module in backward]
    reductions = [(module, "backward") for module in dict.fromkeys(backward)] + [(ROOT, "backward")]
    return gathers, reductions


def run(layers, microbatches, steps, shared_block=False, eval_every=0, skip_step=0):
    """(gathers, reductions) of a whole run."""
    gathers, reductions = [], []
    for step in range(1, steps + 1):
        skip = layers // 2 if step == skip_step else None
        for _ in range(microbatches):
            g, r = microbatch(layers, shared_block, skip)
            gathers += g
            reductions += r
        if eval_every and step % eval_every == 0:
            gathers += [(ROOT, "forward")] + [(block(i), "forward") for i in forward_blocks(layers, shared_block)]
    return gathers, reductions
