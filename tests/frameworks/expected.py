"""What frameworks must be seen to do: the modules and phases of their collectives, in order, for the model of fsdp_train.py.

First PyTorch FSDP2; the others, with what each does differently, are below.

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


# Other frameworks, with the same model. Each gives (gathers, reductions) of a whole run. ----------------------------------

LEAVES = ("norm1", "qkv", "out", "norm2", "up", "down")  # of a block, in the order in which they run


def repeat(microbatch, evaluation, microbatches, steps, eval_every):
    gathers, reductions = [], []
    for step in range(1, steps + 1):
        for _ in range(microbatches):
            gathers += microbatch[0]
            reductions += microbatch[1]
        if eval_every and step % eval_every == 0:
            gathers += evaluation
    return gathers, reductions


def blocks_in(phase, order):
    return [(block(i), phase) for i in order]


def fsdp1(layers, microbatches, steps, eval_every=0):
    """Without the root's gathers. (torch/distributed/fsdp/_runtime_utils.py)"""
    forward, backward = blocks_in("forward", range(layers)), blocks_in("backward", reversed(range(layers)))
    reductions = backward + [(ROOT, "backward")]
    return repeat((forward + backward, reductions), forward, microbatches, steps, eval_every)


def megatron_v2(layers, microbatches, steps, eval_every=0, ranges_alone=False):
    """
    Each module gathers the next one too, inside its own range; so by ranges alone a gather has the name of the module
    before it. Backward begins with the root. (megatron_fsdp/experimental/module.py)
    """

    def gathers(phase, order):
        modules = [ROOT] + [block(i) for i in order]
        names = modules[:1] + modules[:-1] if ranges_alone else modules
        return [(module, phase) for module in names]

    forward, back = gathers("forward", range(layers)), list(reversed(range(layers)))
    reductions = blocks_in("backward", back) + [(ROOT, "backward")]
    return repeat((forward + gathers("backward", back), reductions), forward, microbatches, steps, eval_every)


def megatron_v1(layers, microbatches, steps, eval_every=0):
    """
    Without the root's gathers. The whole model is small enough to be gathered ahead by the first module, in the order of
    buckets, also in backward. In the first microbatch a module behind the blocks gathers them again while forward still
    runs; later ones no longer gather ahead. (megatron_fsdp/megatron_fsdp.py, param_and_grad_buffer.py)
    """
    forward = blocks_in("forward", range(layers))
    reductions = blocks_in("backward", reversed(range(layers))) + [(ROOT, "backward")]
    gathers, reductions = repeat((forward + blocks_in("backward", range(layers)), reductions), forward, microbatches, steps, eval_every)
    return forward + forward + gathers[2 * layers :], reductions


def zero3_one_by_one(layers, microbatches, steps):
    """Every module with parameters gathers them, and each parameter is reduced. (deepspeed/runtime/zero)"""
    modules = ["embedding"] + [f"{block(i)}.{leaf}" for i in range(layers) for leaf in LEAVES] + ["norm", "head"]
    backward = [(module, "backward") for module in reversed(modules)]
    return repeat(([(module, "forward") for module in modules] + backward, backward), [], microbatches, steps, 0)
