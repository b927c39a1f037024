"""Asks for the site of places that look like those of DeepSpeed ZeRO-3 and Megatron-FSDP, and prints what is said.

Started with libsite_probe.so preloaded, as: sites_frameworks.py LIBRARY_WITH_ENGINE CASE. The classes and functions of
frameworks/*.py have the names, locals and attributes of those frameworks, in files of their names; the rules know
nothing else of them. A collective is issued by calling `say`.
"""

import ctypes
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
probe = ctypes.CDLL(None)  # without the GIL
probe.probe_here.restype = ctypes.c_char_p
engine = ctypes.CDLL(sys.argv[1])


def say():
    print(probe.probe_here().decode())


def in_backward(function, *arguments):
    run = ctypes.CFUNCTYPE(None)(lambda: function(*arguments))
    engine._ZN5torch8autograd6Engine4testEv(run)


def load(name, file, say=say):
    """What is in frameworks/NAME, as if it were installed as `file`."""
    scope = {"say": say}
    exec(compile((HERE / "frameworks" / name).read_text(), f"/installed/{file}", "exec"), scope)
    return type("Loaded", (), scope)


class Parameter:
    """May be in a dictionary, but is neither hashed nor compared by those who only look."""

    asked = 0

    def __hash__(self):
        Parameter.asked += 1
        return id(self)

    def __eq__(self, other):
        Parameter.asked += 1
        return self is other


class Module:
    """As torch.nn.Module: children are in a dictionary, not attributes; `None` is no child."""

    def __init__(self, *parameters, **children):
        self._parameters = {name: Parameter() for name in parameters}
        self._modules = dict(children, nothing=None)

    def __getattr__(self, name):
        print("asked for", name)
        raise AttributeError(name)

    def named_parameters(self, prefix=""):
        for name, parameter in self._parameters.items():
            yield prefix + name, parameter
        for name, child in self._modules.items():
            yield from child.named_parameters(f"{prefix}{name}.") if child else ()


def model(layers):
    block = lambda: Module(norm=Module("weight"), mlp=Module(up=Module("weight", "bias"), down=Module("weight")))
    numbered = Module(**{str(i): block() for i in range(layers)})
    return Module(embedding=Module("weight"), layers=numbered, head=Module("weight"))


def beneath(root, path):
    for name in path.split(".") if path else ():
        root = root._modules[name]
    return root


def of_module(root, path):
    return [p for _, p in beneath(root, path).named_parameters()]


def deepspeed():
    root = model(3)
    names = {parameter: name for name, parameter in root.named_parameters()}
    zero = load("deepspeed_zero.py", "deepspeed/runtime/zero/stage3.py")
    offload = zero.DeepSpeedZeRoOffload(root)
    asked = Parameter.asked
    for path in "", "embedding", "layers.2", "layers.2.mlp.up":
        offload.pre_sub_module_forward_function(beneath(root, path))
    in_backward(offload.pre_sub_module_forward_function, beneath(root, "layers.1"))
    in_backward(offload.pre_sub_module_backward_function, beneath(root, "layers.1.mlp"))
    offload.pre_sub_module_forward_function(Module())  # of another model
    offload.pre_sub_module_forward_function(None)

    optimizer = zero.DeepSpeedZeroOptimizer_Stage3(root, names, persistent=of_module(root, "layers"))
    of_buckets = ["layers.1"], ["layers.1.mlp.up"], ["layers.0.norm"], ["layers.1", "layers.2"], ["layers.1.mlp", "head"]
    for paths in of_buckets:
        in_backward(optimizer.reduce, [p for path in paths for p in of_module(root, path)])
    in_backward(optimizer.reduce, [Parameter()])
    in_backward(optimizer.reduce, [])
    optimizer.step()
    engine = load("deepspeed_engine.py", "deepspeed/runtime/engine.py")
    engine.DeepSpeedEngine(optimizer, of_module(root, "head"))
    print(Parameter.asked - asked)


def deepspeed_elsewhere():
    """The same names in other files are another's."""
    other = load("deepspeed_zero.py", "mine/zero.py")
    other.DeepSpeedZeRoOffload(model(1)).pre_sub_module_forward_function(None)


def megatron_v1():
    root = model(3)
    v1 = load("megatron_v1.py", "megatron_fsdp/megatron_fsdp.py")
    units = "embedding", "layers.0", "layers.1", "layers.2", "head"
    names = {parameter: name for name, parameter in root.named_parameters()}
    groups = [of_module(root, path) for path in units] + [of_module(root, "layers.0.norm")]
    framework = v1.MegatronFSDP(groups, names)
    asked = Parameter.asked
    for module, bucket in ("layers.1", 2), ("head", 4), ("layers.0.norm", 5):
        framework.before_forward(of_module(root, module), [bucket])
    framework.before_forward(of_module(root, "layers.0"), [1, 2])  # the next one is gathered with it
    in_backward(framework.before_forward, of_module(root, "layers.2"), [3])
    in_backward(framework.before_backward, of_module(root, "layers.2"), [3, 2])
    in_backward(framework.after_backward, [1, 5])
    in_backward(framework.after_backward, [0])
    framework.start_param_sync()
    framework.before_forward([], [17])
    print(Parameter.asked - asked)


def megatron_v2():
    v2 = load("megatron_v2.py", "megatron/core/distributed/fsdp/src/megatron_fsdp/experimental/module.py")
    root, first, second = (v2.FsdpModule(name) for name in ("", "layers.0", "layers.1"))
    root.pre_forward(next_module=first)
    first.pre_forward(next_module=second)
    in_backward(first.pre_forward)
    in_backward(root.pre_backward, second)
    in_backward(second.pre_backward, first)
    in_backward(second.post_backward)
    v2.FsdpModule(None).pre_forward()


def references():
    """Nothing is kept alive and nothing let go."""
    root = model(2)
    names = {parameter: name for name, parameter in root.named_parameters()}
    probe_only = lambda: probe.probe_here()
    zero = load("deepspeed_zero.py", "deepspeed/runtime/zero/stage3.py", probe_only)
    offload, optimizer = zero.DeepSpeedZeRoOffload(root), zero.DeepSpeedZeroOptimizer_Stage3(root, names, [])
    v1 = load("megatron_v1.py", "megatron_fsdp/megatron_fsdp.py", probe_only)
    framework = v1.MegatronFSDP([of_module(root, "layers.0"), of_module(root, "head")], names)
    layer, parameters = beneath(root, "layers.1"), of_module(root, "layers.1")

    def run():
        offload.pre_sub_module_forward_function(layer)
        offload.pre_sub_module_forward_function(Module())
        optimizer.reduce(parameters)
        framework.before_forward(of_module(root, "layers.0"), [0, 1, 2])

    held = root, root._modules, root.__dict__, layer, layer._modules, names, parameters, *parameters, *names.values(), 0, 1
    counts = lambda: [sys.getrefcount(x) for x in held]
    run()
    before = counts()
    for _ in range(1000):
        run()
    print(max(abs(after - count) for after, count in zip(counts(), before)) < 100)


globals()[sys.argv[2]]()
